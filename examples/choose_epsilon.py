"""How much should the tasks share? A sweep over ε, and how to read it.

Five carts of different mass learn together, and three that were never trained on are the judges.
Run it with ``python examples/choose_epsilon.py [iterations]``; it takes some ten seconds.
"""

from __future__ import annotations

import sys

from crosslearning.analysis.sweep import epsilon_path
from crosslearning.tasks.linear_quadratic import cart

READING = """
How to read it. At ε = 0 all tasks have one policy; at ∞ each has its own and nothing is shared.
"Task policies, own tasks" rises with ε as long as the tasks need to differ. "Central, held-out
tasks" is what a newcomer would get: it falls where the tasks are too far apart to have a common
policy. The advice is by the latter, and names the radii that are not shown to be worse: among
those, take the smallest if you want the tasks to share."""


def main(iterations: int = 600) -> None:
    """Sweep, print the table, and say which radius to take."""
    sweep = epsilon_path(
        [cart(mass).task(f"m={mass}") for mass in (0.3, 0.6, 1.0, 2.0, 4.0)],
        epsilons=[0, 0.1, 0.3, 1.0, float("inf")],
        iterations=iterations,
        held_out=[cart(mass).task(f"m={mass}") for mass in (0.45, 1.5, 3.0)],
        seeds=3,
        trials=100,
        horizon=30,
        step_size=0.1,
        max_knots=40,
    )
    print(sweep.table())
    print(sweep.recommendation.sentence)
    print(READING)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
