"""Three pendulums of Gymnasium learn together: ``python examples/pendulums.py [iterations]``."""

import sys

import gymnasium

from crosslearning import CrossLearner, Task
from crosslearning.evaluation import evaluate

METHOD = "policy-gradient"


def pendulum(g: float) -> Task:
    return Task(f"g={g}", lambda render_mode=None: gymnasium.make("Pendulum-v1", g=g))


if __name__ == "__main__":
    tasks = [pendulum(g) for g in (8.0, 10.0, 12.0)]
    learner = CrossLearner(tasks, epsilon=3.0, method=METHOD, discount=0.95)
    learner.learn(
        int(sys.argv[1]) if len(sys.argv) > 1 else 500
    )  # half a minute; more, to become good
    for result in evaluate([learner.central, learner.policy("g=8.0")], tasks, trials=20):
        print(f"{result.task}: the policy {result.policy} returns {result.total_return}")
