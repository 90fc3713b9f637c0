"""``crosslearning reproduce``: all runs, all measurements, all figures, all claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from crosslearning.figures.paper.catalogue import check_names, draw
from crosslearning.files import write_atomically
from crosslearning.paper.adapt import measure_adaptation
from crosslearning.paper.adaptation_claims import adaptation_verdicts
from crosslearning.paper.claims import Verdict, claims_table, judge_all
from crosslearning.paper.conductor import run_experiments
from crosslearning.paper.drives import scene_drives
from crosslearning.paper.experiment import Experiment, Scale
from crosslearning.paper.measure import load_measurements
from crosslearning.paper.rates import rates_table
from crosslearning.runs.parallel import in_processes

#: The full size, the paper's, and one that takes about two minutes.
FULL, QUICK = Scale(), Scale(iterations=2000, snapshots=10, trials=100, maps=30)


def reproduce(
    path: Path,
    seeds: int,
    scale: Scale,
    workers: int,
    console: Console,
    only: Sequence[str] | None = None,
) -> bool:
    """Reproduce the numerical section in a folder; return False if interrupted.

    Parameters
    ----------
    path : Path
        Everything goes there, and is gone on from if it is there already.
    seeds : int
    scale : Scale
    workers : int
        Processes.
    console : Console
        Shows progress.
    only : sequence of str, optional
        Draw only these figures.
    """
    check_names(only)
    experiment = Experiment(path, seeds, scale)
    if not run_experiments([experiment], workers, console):
        return False
    adapted = in_processes(
        measure_adaptation,
        [(experiment, seed) for seed in experiment.seeds],
        workers,
        console,
        "adapting",
    )
    if not adapted:
        return False
    measurements = load_measurements(experiment)
    adaptation = {seed: measure_adaptation(experiment, seed) for seed in experiment.seeds}
    verdicts = [*judge_all(measurements), *adaptation_verdicts(adaptation)]
    write_claims(experiment, verdicts)
    write_atomically(path / "rates.md", rates_table(measurements).encode())
    if seeds == 1:
        console.print("One seed says nothing about others: every claim stays undecided.")
    for written in draw(experiment, measurements, adaptation, scene_drives(experiment), only):
        console.print(f"  {written[0]}", highlight=False)
    console.print(f"Claims: {path / 'claims.md'}", highlight=False)
    return True


def write_claims(experiment: Experiment, verdicts: Sequence[Verdict]) -> None:
    """Write the claims as Markdown and as JSON."""
    scale = experiment.scale
    head = (
        f"{len(experiment.seeds)} seeds, {scale.iterations} iterations, {scale.max_knots} knots, "
        f"{scale.trials} evaluation trials.\n\n"
    )
    write_atomically(experiment.path / "claims.md", (head + claims_table(verdicts)).encode())
    content = {"scale": asdict(scale), "claims": [asdict(verdict) for verdict in verdicts]}
    write_atomically(experiment.path / "claims.json", json.dumps(content, indent=1).encode())
