"""Which task does not belong: six carts learn together, and one of them is wired the wrong way.

Run it with ``python examples/unrelated_task.py``; it takes a few seconds and writes the map of the
policies to ``figures/unrelated_task.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from crosslearning import CrossLearner, PolicyGradient, Task
from crosslearning.analysis.relatedness import Relatedness, relatedness
from crosslearning.figures.relatedness import relatedness_figure
from crosslearning.figures.style import save_figure
from crosslearning.tasks.linear_quadratic import cart

MASSES = (0.8, 0.9, 1.0, 1.1, 1.2)


def carts() -> list[Task]:
    """Return five carts of different mass, and one that a force moves the other way."""
    tasks = [cart(mass).task(f"m={mass:g}") for mass in MASSES]
    normal = cart(1.0)
    reversed_force = tuple((-number,) for (number,) in normal.B)
    return [*tasks, normal.replace(B=reversed_force).task("reversed")]


def find_unrelated(iterations: int = 400, seed: int = 0) -> Relatedness:
    """Train the carts together and return how they are related."""
    settings = PolicyGradient(epsilon=0.5, step_size=0.1, seed=seed)
    return relatedness(CrossLearner(carts(), settings).learn(iterations))


def main() -> None:
    """Learn, say which task stands apart, and draw the map."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--figures", type=Path, default=Path("figures"))
    arguments = parser.parse_args()
    found = find_unrelated(arguments.iterations)
    for task in found.ranked:
        print(task.sentence)
    figure = relatedness_figure(found.to_dict())
    for path in save_figure(figure, arguments.figures / "unrelated_task"):
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
