"""The numerical section as a study: runs, measurements and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from crosslearning._base.files import write_atomically
from crosslearning._base.plain_data import expecting
from crosslearning.reproduction.paper.adapt import ADAPTATION_CLAIMS, adaptation
from crosslearning.reproduction.paper.claims import (
    CLAIMS,
    Verdict,
    claims_table,
    judge,
    plain_verdict,
    write_verdicts,
)
from crosslearning.reproduction.paper.experiment import (
    DEFAULT_READING,
    REDRAWN_GOALS,
    Experiment,
    Reading,
    Scale,
)
from crosslearning.reproduction.paper.measure import load_measurements, rates_table, rounds_of
from crosslearning.runs.study import Chain, run_study

#: The paper's size, and one that takes about two minutes.
FULL, QUICK = Scale(), Scale(iterations=2000, snapshots=10, trials=100, maps=30)


@dataclass(frozen=True)
class Reproduction:
    """The measurements by seed, and the verdicts on the claims."""

    experiment: Experiment
    measurements: Mapping[int, Mapping[str, Any]]
    adaptation: Mapping[int, Mapping[str, Any]]
    verdicts: list[Verdict]


def reproduce(
    path: Path,
    seeds: int,
    scale: Scale,
    workers: int | None,
    console: Console,
    on: str = "processes",
    readings: Sequence[Reading] = (DEFAULT_READING, REDRAWN_GOALS),
) -> list[Reproduction] | None:
    """Reproduce the numerical section under some readings; return None if interrupted.

    An existing reproduction is resumed. The folder gets the runs, their measurements,
    ``claims.md``, ``claims.json`` and ``rates.md`` of the default reading, and a folder of the same
    kind for each other one. ``workers`` and ``on`` are those of
    :func:`crosslearning.runs.study.run_study`.
    """
    experiments = [
        Experiment(path if r == DEFAULT_READING else path / r.name, seeds, scale, r)
        for r in readings
    ]
    # Adaptation needs two runs of a seed, so it comes after all runs.
    adapting: list[Chain] = [[adaptation(e, seed)] for e in experiments for seed in e.seeds]
    if not run_study([*rounds_of(experiments), adapting], workers, console, on):
        return None
    return [_judged(experiment) for experiment in experiments]


def _judged(experiment: Experiment) -> Reproduction:
    """Judge the claims of a finished experiment, and write its tables."""
    path, scale = experiment.path, experiment.scale
    measurements = load_measurements(experiment)
    curves = {seed: adaptation(experiment, seed).answer() for seed in experiment.seeds}
    with expecting(f"a measurements.json or adaptation.json in {path}"):
        verdicts = [judge(claim, measurements) for claim in CLAIMS]
        verdicts += [judge(claim, curves) for claim in ADAPTATION_CLAIMS]
    text = experiment.describe() + claims_table(verdicts, scale.converged)
    write_verdicts(path / "claims", scale, text, claims=[plain_verdict(v) for v in verdicts])
    write_atomically(path / "rates.md", rates_table(measurements).encode())
    return Reproduction(experiment, measurements, curves, verdicts)
