"""A family of MuJoCo environments: poles on carts that differ in gravity, mass and motor.

Run it with ``python examples/mujoco_family.py [steps]``; it needs the extra ``mujoco``. Four
members are learned together, and the central policy is tried on four that were never seen.
"""

from __future__ import annotations

import sys

from crosslearning import CrossLearner, TrustRegion, task_set
from crosslearning.learner.evaluation import evaluate_across


def main(steps: int = 60_000) -> None:
    """Learn, and compare trained with unseen members."""
    learner = CrossLearner("inverted-pendulums:4", TrustRegion(epsilon=2.0))
    for task in learner.tasks:
        print(task.name)
    learner.learn(steps=steps)
    print(f"{learner}, {learner.steps} steps")
    for words, tasks in (
        ("trained", learner.tasks),
        ("unseen", task_set("inverted-pendulums:unseen:4")),
    ):
        (result,) = evaluate_across([learner.central], tasks, trials=5, horizon=200)
        print(f"{words}: the central policy keeps the pole up for {result.total_return} of 200")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
