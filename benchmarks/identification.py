"""Whether the certainty of an identification is worth what it says.

``python -m benchmarks identification``: trained tasks are met again in other episodes, and
identified. Among those that are named with some certainty, the share that is right should be no
less.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from benchmarks.table import Row
from crosslearning import CrossLearner
from crosslearning._base.statistics import wilson
from crosslearning.analysis.identification import identify_all

#: Tasks, iterations of learning, episodes of each new task, repetitions with other seeds.
CASES = (
    ("linear-quadratic", 100, 2, 10),
    ("pendulums:8", 30, 3, 6),
    ("random:8", 100, 3, 8),
)
#: The edges of the classes of certainty.
EDGES = (0.0, 0.5, 0.8, 1.0)


def rows_of(tasks: str, iterations: int, episodes: int, repetitions: int) -> Iterator[Row]:
    """Identify the tasks of a set among themselves, and judge the certainties."""
    learner = CrossLearner(tasks, 1.0, max_knots=60).learn(iterations)
    result = [
        (one.nearest == task.name, one.certainty, one.familiar)
        for seed in range(1, repetitions + 1)
        for task, one in zip(
            learner.tasks, identify_all(learner, learner.tasks, episodes, seed=seed), strict=True
        )
    ]
    right, certainty, familiar = (np.array(column) for column in zip(*result, strict=True))
    for low, high in itertools.pairwise(EDGES):
        some = (certainty > low) & (certainty <= high)
        if not some.any():
            continue
        share, claimed = wilson(right[some]), float(certainty[some].mean())
        yield Row(
            f"{tasks}, {episodes} episodes: certainty in ({low:g}, {high:g}]",
            f"right {share} ({right[some].sum()} of {some.sum()}); mean certainty {claimed:.2f}; "
            f"familiar {familiar[some].sum()} of {some.sum()}",
            share.value / claimed,
            "high end ≥ certainty",
            share.high >= claimed,
        )


def calibration() -> list[Row]:
    """Judge every case."""
    return [row for case in CASES for row in rows_of(*case)]


BENCHMARKS = [calibration]
