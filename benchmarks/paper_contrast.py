"""What the cross-learned policies cost beside the average one, under the second reading.

``python -m benchmarks.paper_contrast [--folder runs/reproduce/full/redrawn-goals] [--seeds 10]``
reads the runs of ``crosslearning reproduce`` and measures them where that has not been done: g
acts, or each task's own h_i. Costs are those in the training tasks; intervals are Student's over
the seeds, differences are paired by the seed.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.table import Row
from crosslearning._base.statistics import student
from crosslearning.reproduction.paper.experiment import (
    AVERAGE,
    CROSS,
    POLICIES,
    RADII,
    REDRAWN_GOALS,
    Experiment,
)
from crosslearning.reproduction.paper.measure import load_measurements
from crosslearning.reproduction.paper.reproduce import FULL

FOLDER, SEEDS = Path("runs/reproduce/full/redrawn-goals"), 10


def rows_of(folder: Path = FOLDER, seeds: int = SEEDS) -> list[Row]:
    """Return the differences in cost, for either choice of who acts."""
    rows = []
    for acts in ("centre", "own"):
        experiment = Experiment(folder, seeds, FULL, replace(REDRAWN_GOALS, acts=acts))
        found = load_measurements(experiment).values()
        costs = {
            policy: np.array(
                [[one[policy]["final"]["training"][r]["cost"] for r in RADII] for one in found]
            )
            for policy in POLICIES
        }
        excess = costs[AVERAGE] - costs[CROSS]
        means = {policy: cost.mean(axis=1) for policy, cost in costs.items()}
        best = np.min([means[policy] for policy in POLICIES if policy != CROSS], axis=0)
        for what, values in (
            ("average − cross-learned, mean over tasks", excess.mean(axis=1)),
            *((f"the same, {r}", excess[:, i]) for i, r in enumerate(RADII)),
            ("best other policy − cross-learned, mean over tasks", best - means[CROSS]),
        ):
            interval = student(values)
            met = bool(interval.low > 0.0)
            rows.append(Row(f"{acts}: {what}", str(interval), interval.value, "> 0", met))
    return rows


def main() -> None:
    """Print the table."""
    from rich.console import Console

    from benchmarks.table import show

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    asked = parser.parse_args()
    show(rows_of(asked.folder, asked.seeds), Console(width=140))


if __name__ == "__main__":
    main()
