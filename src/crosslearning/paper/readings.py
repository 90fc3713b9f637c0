"""Other readings of what the paper leaves unsaid, and which claims depend on them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.console import Console

from crosslearning.figures.paper.readings import readings_figure
from crosslearning.figures.style import save_figure
from crosslearning.files import write_atomically
from crosslearning.paper.claims import Measurements, Verdict, judge_all
from crosslearning.paper.conductor import run_experiments
from crosslearning.paper.experiment import CROSS, DEFAULT_READING, RADII, Experiment, Reading, Scale
from crosslearning.paper.measure import load_measurements
from crosslearning.paper.rates import rates_table

#: Every reading differs from the default one in a single point.
READINGS = (
    DEFAULT_READING,
    Reading(
        "crash-terminate",
        "A crash ends the episode, with nothing after it.",
        task_options={"crash": "terminate"},
    ),
    Reading(
        "crash-continue",
        "After a crash the robot drives on, through the obstacle.",
        task_options={"crash": "continue"},
    ),
    Reading(
        "crash-at-ends",
        "A crash is seen only where a step ends.",
        task_options={"swept": False},
    ),
    Reading(
        "step-printed",
        "η = 0.1 multiplies the gradient itself, as printed.",
        settings={"step_rule": "constant"},
    ),
    Reading(
        "step-unclipped",
        "Normalised steps, but a rare long gradient is not shortened.",
        settings={"step_clip": float("inf")},
    ),
    Reading(
        "step-decaying",
        "Long steps that shrink: this library's default.",
        settings={"step_rule": "decaying", "step_size": 2.0},
    ),
    Reading(
        "estimator-geometric",
        "Algorithm 1 as printed, without opposite actions.",
        settings={"estimator": "geometric"},
    ),
    Reading(
        "estimator-baseline",
        "Algorithm 1 with the batch's mean value taken off.",
        settings={"estimator": "baseline"},
    ),
    Reading(
        "distance-centre",
        "d_o is the distance to the obstacle's centre.",
        task_options={"obstacle_distance": "centre"},
    ),
    Reading(
        "goal-corner",
        "The goal in training is (9.5, 9.5).",
        training_options={"goals": [[9.5, 9.5]]},
    ),
    Reading(
        "projection-relaxed",
        "The relaxed projection in the place of the exact one.",
        settings={"projection": "relaxed"},
    ),
    Reading(
        "speed-reverse",
        "The robot may drive backwards: ż in [−2, 2].",
        task_options={"speed_bounds": [-2.0, 2.0]},
    ),
    Reading(
        "actions-unbounded",
        "Actions have no bounds that matter: ż and ψ̇ in [−20, 20].",
        task_options={"speed_bounds": [-20.0, 20.0], "turn_bounds": [-20.0, 20.0]},
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
) -> bool:
    """Run the experiment under every reading; return False if interrupted.

    Parameters
    ----------
    path : Path
        One folder a reading goes there, and the tables and the figure.
    seeds : int
    scale : Scale
    workers : int
        Processes.
    console : Console
    readings : sequence of Reading
        The first is the one that the others are compared with.
    """
    experiments = [Experiment(path / r.name, seeds, scale, r) for r in readings]
    if not run_experiments(experiments, workers, console):
        return False
    measured = {e.reading.name: load_measurements(e) for e in experiments}
    verdicts = {name: judge_all(results) for name, results in measured.items()}
    arrivals = {name: worst_arrival(results) for name, results in measured.items()}
    for experiment in experiments:
        text = rates_table(measured[experiment.reading.name])
        write_atomically(experiment.path / "rates.md", text.encode())
    head = (
        f"{seeds} seeds, {scale.iterations} iterations, {scale.max_knots} knots, "
        f"{scale.trials} evaluation trials.\n\n"
    )
    text = head + readings_table(readings, verdicts, arrivals)
    write_atomically(path / "readings.md", text.encode())
    content = {
        "scale": asdict(scale),
        "seeds": seeds,
        "readings": [
            {
                "name": r.name,
                "says": r.says,
                "settings": _plain(r.settings),
                "task_options": dict(r.task_options),
                "training_options": dict(r.training_options),
                "worst_arrival": arrivals[r.name],
                "claims": [asdict(verdict) for verdict in verdicts[r.name]],
            }
            for r in readings
        ],
    }
    write_atomically(path / "readings.json", json.dumps(content, indent=1).encode())
    written = save_figure(readings_figure(content), path / "figures" / "readings")
    console.print(f"  {written[0]}", highlight=False)
    console.print(f"Readings: {path / 'readings.md'}", highlight=False)
    return True


def _plain(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings as JSON can hold them: it has no infinity."""
    return {name: "inf" if value == float("inf") else value for name, value in settings.items()}


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
    lines = [
        "| reading | what it changes | arrivals | hold | do not | undecided | decided the other "
        "way |",
        "|---|---|---|---|---|---|---|",
    ]
    for reading in readings:
        found = verdicts[reading.name]
        counts = [
            sum(v.verdict == word for v in found)
            for word in ("holds", "does not hold", "undecided")
        ]
        flips = ", ".join(f"`{key}`" for key in changed(reference, found)) or "–"
        cells = (
            f"`{reading.name}`",
            reading.says,
            f"{arrivals[reading.name]:.0%}",
            *map(str, counts),
            flips,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
