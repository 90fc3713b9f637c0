"""The numerical section as a study: runs, measurements and claims."""

from __future__ import annotations

from collections.abc import Mapping
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
from crosslearning.reproduction.paper.experiment import Experiment, Scale
from crosslearning.reproduction.paper.measure import chains_of, load_measurements, rates_table
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
) -> Reproduction | None:
    """Reproduce the numerical section in a folder; return None if interrupted.

    An existing reproduction is resumed. The folder gets the runs, their measurements,
    ``claims.md``, ``claims.json`` and ``rates.md``. ``workers`` and ``on`` are those of
    :func:`crosslearning.runs.study.run_study`.
    """
    experiment = Experiment(path, seeds, scale)
    adaptations = {seed: adaptation(experiment, seed) for seed in experiment.seeds}
    # Adaptation needs two runs of a seed, so it comes after all runs.
    adapting: list[Chain] = [[step] for step in adaptations.values()]
    if not run_study([chains_of([experiment]), adapting], workers, console, on):
        return None
    measurements = load_measurements(experiment)
    curves = {seed: step.answer() for seed, step in adaptations.items()}
    with expecting(f"a measurements.json or adaptation.json in {path}"):
        verdicts = [judge(claim, measurements) for claim in CLAIMS]
        verdicts += [judge(claim, curves) for claim in ADAPTATION_CLAIMS]
    text = scale.describe(seeds) + claims_table(verdicts, scale.converged)
    write_verdicts(path / "claims", scale, text, claims=[plain_verdict(v) for v in verdicts])
    write_atomically(path / "rates.md", rates_table(measurements).encode())
    return Reproduction(experiment, measurements, curves, verdicts)
