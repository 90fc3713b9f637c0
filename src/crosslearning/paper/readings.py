"""Other readings of what the paper leaves unsaid, and which claims depend on them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from crosslearning.files import write_atomically
from crosslearning.paper.claims import Measurements, Verdict, judge_all, plain_verdict
from crosslearning.paper.experiment import CROSS, DEFAULT_READING, RADII, Experiment, Reading, Scale
from crosslearning.paper.measure import chains_of, load_measurements
from crosslearning.paper.rates import rates_table
from crosslearning.runs.study import markdown, run_study


def _tasks(name: str, says: str, **options: Any) -> Reading:
    return Reading(name, says, task_options=options)


def _settings(name: str, says: str, **settings: Any) -> Reading:
    return Reading(name, says, settings=settings)


_GOAL = {"goals": [[9.5, 9.5]]}
_UNBOUNDED = {"speed_bounds": [-20.0, 20.0], "turn_bounds": [-20.0, 20.0]}
#: Every reading differs from the default one in a single point.
READINGS = (
    DEFAULT_READING,
    _tasks(
        "crash-terminate", "A crash ends the episode, with nothing after it.", crash="terminate"
    ),
    _tasks(
        "crash-continue",
        "After a crash the robot drives on, through the obstacle.",
        crash="continue",
    ),
    _tasks("crash-at-ends", "A crash is seen only where a step ends.", swept=False),
    _settings(
        "step-printed", "η = 0.1 multiplies the gradient itself, as printed.", step_rule="constant"
    ),
    _settings(
        "step-unclipped",
        "Normalised steps, but a rare long gradient is not shortened.",
        step_clip=math.inf,
    ),
    _settings(
        "step-decaying",
        "Long steps that shrink: this library's default.",
        step_rule="decaying",
        step_size=2.0,
    ),
    _settings(
        "estimator-geometric",
        "Algorithm 1 as printed, without opposite actions.",
        estimator="geometric",
    ),
    _settings(
        "estimator-baseline",
        "Algorithm 1 with the batch's mean value taken off.",
        estimator="baseline",
    ),
    _tasks(
        "distance-centre",
        "d_o is the distance to the obstacle's centre.",
        obstacle_distance="centre",
    ),
    Reading("goal-corner", "The goal in training is (9.5, 9.5).", training_options=_GOAL),
    _settings(
        "projection-relaxed",
        "The relaxed projection in the place of the exact one.",
        projection="relaxed",
    ),
    _tasks(
        "speed-reverse", "The robot may drive backwards: ż in [−2, 2].", speed_bounds=[-2.0, 2.0]
    ),
    _tasks(
        "actions-unbounded",
        "Actions have no bounds that matter: ż and ψ̇ in [−20, 20].",
        **_UNBOUNDED,
    ),
)

#: The size of a reading's runs: the paper's but for the iterations, and one for a first look.
FULL = Scale(iterations=6_000, snapshots=1, trials=200, maps=100)
QUICK = Scale(iterations=1000, snapshots=1, trials=50, maps=10)


def compare_readings(
    path: Path,
    seeds: int,
    scale: Scale,
    workers: int,
    console: Console,
    readings: Sequence[Reading] = READINGS,
) -> dict[str, list[Verdict]] | None:
    """Run the experiment under every reading; return the verdicts, or None if interrupted.

    Parameters
    ----------
    path : Path
        One folder a reading goes there, and the tables.
    seeds : int
    scale : Scale
    workers : int
        Processes.
    console : Console
    readings : sequence of Reading
        The first is the one that the others are compared with.
    """
    experiments = [Experiment(path / r.name, seeds, scale, r) for r in readings]
    if not run_study([chains_of(experiments)], workers, console):
        return None
    measured = {e.reading.name: load_measurements(e) for e in experiments}
    verdicts = {name: judge_all(results) for name, results in measured.items()}
    arrivals = {name: worst_arrival(results) for name, results in measured.items()}
    for experiment in experiments:
        text = rates_table(measured[experiment.reading.name])
        write_atomically(experiment.path / "rates.md", text.encode())
    text = scale.describe(seeds) + readings_table(readings, verdicts, arrivals)
    write_atomically(path / "readings.md", text.encode())
    content = {
        "scale": asdict(scale),
        "converged": scale.converged,
        "seeds": seeds,
        "readings": [
            {
                "name": r.name,
                "says": r.says,
                # JSON has no infinity.
                "settings": {k: "inf" if v == math.inf else v for k, v in r.settings.items()},
                "task_options": dict(r.task_options),
                "training_options": dict(r.training_options),
                "worst_arrival": arrivals[r.name],
                "claims": [plain_verdict(verdict) for verdict in verdicts[r.name]],
            }
            for r in readings
        ],
    }
    write_atomically(path / "readings.json", json.dumps(content, indent=1).encode())
    return verdicts


def worst_arrival(results: Mapping[int, Measurements]) -> float:
    """Return the cross-learned policy's arrival rate in the worst training task, over seeds.

    It tells whether anything was learned under a reading at all.
    """
    rates = [[m[CROSS]["final"]["training"][r]["arrived"] for r in RADII] for m in results.values()]
    return float(np.min(np.mean(rates, axis=0)))


def changed(before: Sequence[Verdict], after: Sequence[Verdict]) -> list[str]:
    """Return the claims that one reading decides one way and the other the other way."""
    decided = {"holds", "does not hold"}
    return [
        b.key
        for a, b in zip(before, after, strict=True)
        if a.verdict != b.verdict and {a.verdict, b.verdict} == decided
    ]


def readings_table(
    readings: Sequence[Reading],
    verdicts: Mapping[str, Sequence[Verdict]],
    arrivals: Mapping[str, float],
) -> str:
    """Return the readings as a Markdown table, compared with the first of them."""
    reference = verdicts[readings[0].name]
    words = ("holds", "does not hold", "undecided")
    headings = ("reading", "what it changes", "arrivals", "hold", "do not", "undecided")
    rows = []
    for reading in readings:
        found = verdicts[reading.name]
        counts = [str(sum(v.verdict == word for v in found)) for word in words]
        flips = ", ".join(f"`{key}`" for key in changed(reference, found)) or "–"
        arrived = f"{arrivals[reading.name]:.0%}"
        rows.append([f"`{reading.name}`", reading.says, arrived, *counts, flips])
    return markdown([*headings, "decided the other way"], rows)
