"""How well the central policy drives after 10,000 iterations, seed by seed.

``python -m benchmarks.learning``: five runs on the paper's three tasks, 500 random starts each.
Runs are kept in a folder and resumed if they are there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from crosslearning.learner.evaluation import evaluate
from crosslearning.runs import RunFolder, make_config
from crosslearning.runs.study import Run


def main() -> None:
    """Train, evaluate and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("runs/learning"))
    parser.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="another setting"
    )
    arguments = parser.parse_args()
    console = Console()
    changes = dict(change.split("=", 1) for change in arguments.set)
    rows = []
    for seed in range(arguments.seeds):
        path = arguments.out / f"seed-{seed}"
        config = make_config({"seed": seed, "iterations": arguments.iterations, **changes})
        if not Run(path, config).go():
            console.print("Interrupted. The same command goes on from here.")
            return
        learner = RunFolder(path).load()
        rows.append(evaluate([learner.central], learner.tasks, trials=500))
        console.print(f"seed {seed}: {learner.iteration} iterations")
    table = Table(title=f"The central policy after {arguments.iterations} iterations")
    table.add_column("seed")
    for result in rows[0]:
        table.add_column(f"{result.task}: arrived / crashed / return")
    for seed, results in enumerate(rows):
        table.add_row(str(seed), *(_cell(r) for r in results))
    for label, reduce in (("worst", min), ("mean", np.mean)):
        cells = []
        for column in zip(*rows, strict=True):
            arrived = reduce([r.rates["arrived"].value for r in column])
            crashed = -reduce([-r.rates["crashed"].value for r in column])
            value = reduce([r.discounted_return.value for r in column])
            cells.append(f"{100 * arrived:.1f} % / {100 * crashed:.1f} % / {value:.1f}")
        table.add_row(label, *cells)
    console.print(table)


def _cell(result) -> str:
    arrived, crashed = result.rates["arrived"].value, result.rates["crashed"].value
    return f"{100 * arrived:.1f} % / {100 * crashed:.1f} % / {result.discounted_return.value:.1f}"


if __name__ == "__main__":
    main()
