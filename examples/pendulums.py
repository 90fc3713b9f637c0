"""Three pendulums of Gymnasium learn together: ``python examples/pendulums.py [steps]``."""

import sys

import gymnasium

from crosslearning import CrossLearner, Task, TrustRegion, evaluate


def pendulum(g: float) -> Task:
    return Task(f"g={g}", lambda render_mode=None: gymnasium.make("Pendulum-v1", g=g))


if __name__ == "__main__":
    tasks = [pendulum(g) for g in (8.0, 10.0, 12.0)]
    learner = CrossLearner(tasks, TrustRegion(epsilon=3.0))
    learner.learn(steps=int(sys.argv[1]) if len(sys.argv) > 1 else 60_000)  # some ten seconds
    for result in evaluate([learner.central, learner.policy("g=8.0")], tasks, trials=20):
        print(f"{result.task}: the policy {result.policy} returns {result.total_return}")
