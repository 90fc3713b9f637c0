"""A sweep in a folder: every stage is a run, so that all of it can be stopped and gone on with.

``OUT/seed-0/epsilon-0.5/`` is an ordinary run. ``request.json`` says what was asked,
``sweep.json`` and ``sweep.md`` what came out.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from rich.console import Console

from crosslearning.errors import InputError
from crosslearning.files import write_atomically
from crosslearning.runs.study import Measurement, Run, claim, run_study
from crosslearning.sweep.measure import VERSION, measure_run
from crosslearning.sweep.request import SweepRequest, check_held_out, held_out_tasks
from crosslearning.sweep.summary import Sweep, summarise


def run_sweep(
    path: str | Path,
    request: SweepRequest,
    seeds: int,
    workers: int,
    console: Console | None = None,
) -> Sweep | None:
    """Learn, measure and summarise a sweep in a folder, seeds in parallel.

    Parameters
    ----------
    path : str or Path
        Everything goes there, and is gone on from if it is there already. More seeds, other
        held-out tasks and other trials may be asked for later; the runs stay as they are.
    request : SweepRequest
    seeds : int
        How many paths: the seeds 0 … seeds − 1.
    workers : int
        Processes.
    console : Console, optional
        Shows progress.

    Returns
    -------
    Sweep or None
        None if it was interrupted; the same call goes on from there.
    """
    if seeds < 1 or workers < 1:
        raise InputError(f"seeds is {seeds} and workers {workers}; give at least 1 of each")
    request = _checked(request)
    folder = Path(path)
    claim(folder, request.learning(), "a sweep")
    chains = [steps_of(folder, request, seed) for seed in range(seeds)]
    if not run_study([chains], workers, console or Console(quiet=True)):
        return None
    records = {}
    for seed, chain in enumerate(chains):
        measurements = [step for step in chain if isinstance(step, Measurement)]
        for epsilon, measurement in zip(request.path.epsilons, measurements, strict=True):
            records[seed, epsilon] = measurement.answer()
    sweep = summarise(request.path.epsilons, range(seeds), records)
    content = {**request.learning(), **request.measuring(), **sweep.to_dict()}
    write_atomically(folder / "sweep.json", json.dumps(content, indent=1).encode())
    write_atomically(folder / "sweep.md", report(request, sweep).encode())
    return sweep


def _checked(request: SweepRequest) -> SweepRequest:
    """Find what is wrong with the options before anything is written; fill in what is open."""
    learner = request.config.replace(epsilon=request.path.epsilons[0]).learner()
    learner.close()
    check_held_out(learner.tasks, held_out_tasks(request.held_out, request.config))
    asked = request.config.settings
    opened = [name for name in asked.__struct_fields__ if getattr(asked, name) is None]
    filled = {name: getattr(learner.settings, name) for name in opened}
    request = dataclasses.replace(request, config=request.config.replace(**filled))
    request.stages(0)
    return request


def steps_of(folder: Path, request: SweepRequest, seed: int) -> list[Run | Measurement]:
    """Return the steps of one seed's path: stage after stage, each learned and measured."""
    steps: list[Run | Measurement] = []
    own = folder / f"seed-{seed}"
    asked = {**request.measuring(), "version": VERSION}
    for stage, config in request.stages(seed):
        path = own / stage.name
        steps.append(Run(path, config, None if stage.start is None else own / stage.start))
        if stage.measured:
            file = path / "measurements.json"
            steps.append(Measurement(file, asked, measure_run, (path, request)))
    return steps


def report(request: SweepRequest, sweep: Sweep) -> str:
    """Return what came out as Markdown."""
    path = request.path
    kind = {
        "previous": "each stage from the one before",
        "common": "each stage from one start",
        "zero": "each from zero",
    }[path.origin]
    counts, warning, last = f"{path.iterations} iterations", "", len(path.epsilons) - 1
    if path.origin != "zero":
        total = path.learned(last)
        counts += f", then {path.stage_iterations} a stage, {total} in all at the last"
    if path.origin == "previous" and last > 0:
        warning = (
            " A larger radius has also learned longer: where returns still rise with learning, "
            "compare with a sweep whose radii have all learned equally long (origin common)."
        )
    text = (
        f"Tasks {request.config.tasks}, {len(sweep.seeds)} seeds, {kind}; {counts}. Held out: "
        f"{request.held_out or 'none'}. Discounted returns, means over seeds with 95 % Student "
        f"intervals.\n\n{sweep.table()}\nRecommended: {sweep.recommendation.sentence}{warning}\n"
    )
    if sweep.rates_table():
        text += f"\nShares of episodes, means over seeds.\n\n{sweep.rates_table()}"
    return text
