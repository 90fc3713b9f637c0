"""What it is worth to tell what is paid for, where data are very few.

``python -m benchmarks.models_known_reward`` learns three pendulums with the method ``models`` from
one round of random steps, without and with a formula of the reward (``Task(..., reward=...)``).

A number is the mean over seeds of the undiscounted return, over the three machines and 100
episodes of each, with Student's interval over seeds.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.models_adaptation import mean_return
from benchmarks.table import Row
from crosslearning import CrossLearner
from crosslearning._base.statistics import student
from crosslearning.tasks import task_set

Floats = NDArray[np.float64]

#: Random steps of each machine.
STEPS = (15, 25, 50)
SEEDS = 8


def pay(observations: Floats, actions: Floats, following: Floats) -> Any:
    """Return what a pendulum is paid, from its cosine, sine and speed."""
    angle = np.arctan2(observations[:, 1], observations[:, 0])
    return -(angle**2) - 0.1 * observations[:, 2] ** 2 - 0.001 * actions[:, 0] ** 2


def measure(steps: int, seed: int, known: bool) -> float:
    """Return the mean return of three machines after one round."""
    tasks = task_set("pendulums:3")
    if known:
        tasks = tuple(dataclasses.replace(task, reward=pay) for task in tasks)
    learner = CrossLearner(tasks, method="models", round_steps=steps, seed=seed)
    learner.learn(steps=3 * steps, progress=False)
    return float(np.mean([mean_return(learner.policy(i), task) for i, task in enumerate(tasks)]))


def known_reward(seeds: int = SEEDS) -> list[Row]:
    """Measure each number of steps, without and with the formula."""
    result = []
    for steps in STEPS:
        ways = [[measure(steps, seed, given) for seed in range(seeds)] for given in (False, True)]
        learned, known = (student(values) for values in ways)
        better = sum(b > a for a, b in zip(*ways, strict=True))
        text = f"learned {learned}; known {known}, better on {better} of {seeds} seeds"
        what = f"three pendulums, {steps} random steps each: mean return"
        result.append(Row(what, text, known.value / learned.value, "", None))
    return result


BENCHMARKS = [known_reward]


def main() -> None:
    """Measure, and print the rows."""
    from rich.console import Console

    from benchmarks.table import show

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    show(known_reward(parser.parse_args().seeds), Console(width=140))


if __name__ == "__main__":
    main()
