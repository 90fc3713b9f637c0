"""Other readings of what the paper leaves open, and the claims that depend on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
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
    chains_of,
    load_measurements,
    rates_table,
)
from crosslearning.runs.study import markdown, run_study


def _settings(says: str, **changes: Any) -> dict[str, Any]:
    return {"says": says, "settings": changes}


def _tasks(says: str, **changes: Any) -> dict[str, Any]:
    return {"says": says, "task_options": changes}


_UNBOUNDED = {"speed_bounds": [-20.0, 20.0], "turn_bounds": [-20.0, 20.0]}
#: The single change of each reading to the default one.
_OTHERS = {
    "crash-terminate": _tasks("A crash ends the episode.", crash="terminate"),
    "crash-continue": _tasks("After a crash the robot drives on.", crash="continue"),
    "crash-at-ends": _tasks("A crash is seen only where a step ends.", swept=False),
    "step-printed": _settings("η = 0.1 multiplies the gradient, as printed.", step_rule="constant"),
    "step-unclipped": _settings("Rare long gradients are not shortened.", step_clip=math.inf),
    "step-decaying": _settings("Long steps that shrink.", step_rule="decaying", step_size=2.0),
    "estimator-geometric": _settings(
        "Algorithm 1, without opposite actions.", estimator="geometric"
    ),
    "estimator-baseline": _settings(
        "Algorithm 1, less the batch's mean value.", estimator="baseline"
    ),
    "distance-centre": _tasks(
        "d_o is measured from the obstacle's centre.", obstacle_distance="centre"
    ),
    "goal-corner": {
        "says": "The goal in training is (9.5, 9.5).",
        "training_options": {"goals": [[9.5, 9.5]]},
    },
    "projection-relaxed": _settings(
        "The relaxed projection, not the exact one.", projection="relaxed"
    ),
    "speed-reverse": _tasks("The robot may reverse: ż in [−2, 2].", speed_bounds=[-2.0, 2.0]),
    "actions-unbounded": _tasks("No bounds that matter: ż and ψ̇ in [−20, 20].", **_UNBOUNDED),
}
READINGS = (DEFAULT_READING, *(Reading(name, **changes) for name, changes in _OTHERS.items()))

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
    if not run_study([chains_of(experiments)], workers, console, on):
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
