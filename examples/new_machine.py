"""A new machine joins: what the fleet's policy does on it, whom it is like, how fast it is learned.

Six pendulums are trained together. A seventh arrives, which differs in gravity, mass and length.
Run it with ``python examples/new_machine.py [iterations]``; it takes some ten seconds.
"""

from __future__ import annotations

import sys

from crosslearning import CrossLearner, identify, task_set
from crosslearning.learner.evaluation import evaluate


def main(iterations: int = 40) -> None:
    """Train a fleet; evaluate, identify and adapt to a newcomer."""
    fleet = CrossLearner("pendulums:6", epsilon=3.0).learn(iterations)
    (machine,) = task_set("pendulums:unseen:1")

    # Before anything is learned on it: the central policy, as it is.
    (before,) = evaluate([fleet.central], [machine], trials=100)
    print(f"{machine.name}\nThe central policy returns {before.total_return} on it.")

    # After five episodes: which machine of the fleet is it like?
    found = identify(fleet, machine, episodes=5)
    print(found)
    (likest,) = evaluate([fleet.policy(found.nearest)], [machine], trials=100)
    print(f"That one's policy returns {likest.total_return}.")

    # And after some learning: from the centre, from the likest, and, to compare, from nothing.
    short = iterations // 10
    for words, learner in (
        ("from the centre", fleet.adapt(machine, short)),
        ("from the likest", fleet.adapt(machine, short, start=found.nearest)),
        ("from nothing", CrossLearner([machine], kernel=fleet.kernel).learn(short)),
    ):
        (after,) = evaluate([learner.policy(0)], [machine], trials=100)
        print(f"After {learner.iteration} iterations {words}: {after.total_return}.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
