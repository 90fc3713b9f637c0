"""Other readings of what the paper leaves open, and the claims that depend on them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from crosslearning._base.files import write_atomically
from crosslearning.reproduction.paper.claims import CLAIMS, judge, plain_verdict, write_verdicts
from crosslearning.reproduction.paper.experiment import (
    CROSS,
    DEFAULT_READING,
    RADII,
    Experiment,
    Reading,
    Scale,
)
from crosslearning.reproduction.paper.measure import (
    Measurements,
    load_measurements,
    rates_table,
    rounds_of,
)
from crosslearning.runs.study import markdown, run_study

_OTHERS = files("crosslearning.reproduction.paper").joinpath("readings.toml")
READINGS = (
    DEFAULT_READING,
    *(Reading(name, **row) for name, row in tomllib.loads(_OTHERS.read_text("utf-8")).items()),
)

#: The size of a reading's runs: the paper's with fewer iterations, and a quick one.
FULL = Scale(iterations=6_000, snapshots=1, trials=200, maps=100)
QUICK = Scale(iterations=1000, snapshots=1, trials=50, maps=10)


def compare_readings(
    path: Path,
    seeds: int,
    scale: Scale,
    workers: int | None,
    console: Console,
    readings: Sequence[Reading] = READINGS,
    *,
    on: str = "processes",
) -> list[dict[str, Any]] | None:
    """Run the experiment under every reading; return the results, or None if interrupted.

    All are compared with the first. ``path`` gets one folder per reading, and the tables.
    """
    experiments = [Experiment(path / r.name, seeds, scale, r) for r in readings]
    if not run_study(rounds_of(experiments), workers, console, on):
        return None
    rows = []
    for experiment in experiments:
        reading, results = experiment.reading, load_measurements(experiment)
        write_atomically(experiment.path / "rates.md", rates_table(results).encode())
        # JSON has no infinity.
        settings = {k: "inf" if v == math.inf else v for k, v in reading.settings.items()}
        row = {**asdict(reading), "settings": settings, "worst_arrival": worst_arrival(results)}
        rows.append({**row, "claims": [plain_verdict(judge(claim, results)) for claim in CLAIMS]})
    text = scale.describe(seeds) + readings_table(rows)
    write_verdicts(path / "readings", scale, text, seeds=seeds, readings=rows)
    return rows


def worst_arrival(results: Mapping[int, Measurements]) -> float:
    """Return the cross-learned policy's rate in the worst training task, over seeds."""
    rates = [[m[CROSS]["final"]["training"][r]["arrived"] for r in RADII] for m in results.values()]
    return float(np.min(np.mean(rates, axis=0)))


def changed(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the claims that two readings decide differently."""
    both = zip(before, after, strict=True)
    decided = {"holds", "does not hold"}
    return [b["key"] for a, b in both if {a["verdict"], b["verdict"]} == decided]


def readings_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of ``readings.json`` as Markdown, compared with the first."""
    headings = ("reading", "what it changes", "arrivals", "hold", "do not", "undecided")
    table = []
    for row in rows:
        verdicts = [claim["verdict"] for claim in row["claims"]]
        counts = [str(verdicts.count(v)) for v in ("holds", "does not hold", "undecided")]
        flips = ", ".join(f"`{key}`" for key in changed(rows[0]["claims"], row["claims"])) or "–"
        arrived = f"{row['worst_arrival']:.0%}"
        table.append([f"`{row['name']}`", row["says"], arrived, *counts, flips])
    return markdown([*headings, "decided the other way"], table)
