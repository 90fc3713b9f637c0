"""What the projections are worth: returns of the task policies and of the central one.

    python -m benchmarks.projections [method ...] --seeds 5

Each method learns eight pendulums that differ, drawn by the seed, with every projection at several
radii ε: trust-region from 80,000 steps in all, models from 100 steps of each machine. The mean
over the machines is reported for the task policies, each on its own machine, and for the central
policy on all of them. Numbers are interquartile means over seeds with their 95 % intervals;
differences are paired by the seed. Every seed is kept in a file, and the same question is not
measured twice.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.intervals import Floats, over_seeds
from benchmarks.table import Row, show
from benchmarks.trust_region import returns_of
from crosslearning import CrossLearner
from crosslearning.runs.study import Measurement
from crosslearning.tasks import task_set

Answer = dict[str, Any]

OUT = Path("runs/projections")
VERSION = 1
FAMILY, SEEDS, TRIALS = "pendulums:8", 5, 50
#: Steps over all eight machines.
STEPS = {"trust-region": 80_000, "models": 800}
PROJECTIONS = ("exact", "free", "relaxed")
RADII = (0.3, 1.0, 3.0)


def measure(method: str, projection: str, epsilon: float, seed: int) -> Answer:
    """Return what one seed gives, as plain data."""
    tasks = task_set(FAMILY, seed=seed)
    learner = CrossLearner(tasks, epsilon, method=method, projection=projection, seed=seed)
    learner.learn(steps=STEPS[method])
    policies = [learner.policy(i) for i in range(len(tasks))]
    return {
        "own": returns_of(policies, tasks, TRIALS)["totals"],
        "central": returns_of([learner.central] * len(tasks), tasks, TRIALS)["totals"],
        "steps": learner.steps,
        "distances": learner.family.distances().tolist(),
    }


def means_of(
    method: str, projection: str, epsilon: float, seeds: int, out: Path = OUT
) -> dict[str, Floats]:
    """Return the means over the machines of every seed, ``own`` and ``central``, shape (seeds,)."""
    answers = []
    for seed in range(seeds):
        asked = {"version": VERSION, "steps": STEPS[method], "family": FAMILY, "trials": TRIALS}
        arguments = (method, projection, epsilon, seed)
        path = out / f"{method}-{projection}-{epsilon:g}-{seed}.json"
        answers.append(Measurement(path, asked, measure, arguments).answer())
    return {
        policy: np.array([np.mean(one[policy]) for one in answers]) for policy in ("own", "central")
    }


def compared(method: str, epsilon: float, seeds: int, out: Path = OUT) -> list[Row]:
    """Return every projection's returns at a radius, and what it gains over the exact one."""
    result = {name: means_of(method, name, epsilon, seeds, out) for name in PROJECTIONS}
    rows = []
    for policy, what in (("own", "task policies"), ("central", "central policy")):
        for name in PROJECTIONS:
            mean = over_seeds(result[name][policy])
            measured = str(mean)
            if name != "exact":
                gain = over_seeds(result[name][policy] - result["exact"][policy])
                measured += f"; less exact {gain}"
            title = f"{method}, ε = {epsilon:g}, {what}, {name}"
            rows.append(Row(title, measured, mean.value, "", None))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", default=list(STEPS), help="which methods")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args(arguments)
    with threadpool_limits(1):
        # Seeds first: a sweep that is cut short has all radii.
        for seeds in range(1, asked.seeds + 1):
            for method in asked.methods:
                for epsilon in RADII:
                    compared(method, epsilon, seeds, asked.out)
        rows = [
            row
            for method in asked.methods
            for epsilon in RADII
            for row in compared(method, epsilon, asked.seeds, asked.out)
        ]
    show(rows, Console())


if __name__ == "__main__":
    main()
