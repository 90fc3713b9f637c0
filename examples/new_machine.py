"""A new task joins a fleet: how good is the central policy, which task is it like, adapt to it.

Six pendulums are trained together. A seventh differs in gravity, mass and length.
Run it with ``python examples/new_machine.py [iterations]``; it takes some ten seconds.
"""

from __future__ import annotations

import sys

from crosslearning import CrossLearner, TrustRegion, evaluate, identify, task_set


def main(iterations: int = 40) -> None:
    """Train a fleet; evaluate, identify and adapt to a new task."""
    fleet = CrossLearner("pendulums:6", TrustRegion(epsilon=3.0)).learn(iterations)
    (task,) = task_set("pendulums:unseen:1")

    # The central policy, without any training on the new task.
    (before,) = evaluate(fleet.central, task, trials=100)
    print(f"{task.name}\nThe central policy returns {before.total_return} on it.")

    # After five episodes: which task of the fleet is it like?
    result = identify(fleet, task, episodes=5)
    print(result)
    (nearest,) = evaluate(fleet.policy(result.nearest), task, trials=100)
    print(f"The policy of that task returns {nearest.total_return}.")

    # After some training, from three starts.
    short = iterations // 10
    for start, learner in (
        ("the central policy", fleet.adapt(task, short)),
        ("the nearest task", fleet.adapt(task, short, start=result.nearest)),
        ("zero", CrossLearner([task], TrustRegion(), kernel=fleet.kernel).learn(short)),
    ):
        (after,) = evaluate(learner.policy(0), task, trials=100)
        print(f"After {learner.iteration} iterations from {start}: {after.total_return}.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
