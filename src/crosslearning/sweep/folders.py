"""A sweep in a folder: every stage is a run, so that all of it can be stopped and gone on with.

``OUT/seed-0/epsilon-0.5/`` is an ordinary run. ``request.json`` says what was asked,
``sweep.json``, ``sweep.md`` and ``sweep.png`` what came out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from crosslearning.errors import FileFormatError, InputError
from crosslearning.figures.style import save_figure
from crosslearning.figures.sweep import sweep_figure
from crosslearning.files import write_atomically
from crosslearning.learner import CrossLearner
from crosslearning.rkhs import Family
from crosslearning.runs import Outcome, RunConfig, RunFolder, resume, train
from crosslearning.runs.metrics import late_multipliers
from crosslearning.runs.parallel import in_processes, iteration_of
from crosslearning.sweep.measure import measure_family
from crosslearning.sweep.request import (
    SweepRequest,
    check_held_out,
    epsilon_name,
    held_out_tasks,
)
from crosslearning.sweep.summary import Sweep, summarise


class SweepFolder:
    """The files of a sweep.

    Parameters
    ----------
    path : Path
    request : SweepRequest
    """

    def __init__(self, path: Path, request: SweepRequest) -> None:
        self.path = Path(path)
        self.request = request

    def run(self, seed: int, stage: int) -> RunFolder:
        """Return the run folder of a stage."""
        name = f"epsilon-{epsilon_name(self.request.epsilons[stage])}"
        return RunFolder(self.path / f"seed-{seed}" / name)

    def common(self, seed: int) -> RunFolder:
        """Return the run folder that stages of a common origin start from."""
        return RunFolder(self.path / f"seed-{seed}" / "start")

    def claim(self) -> None:
        """Write down what is asked, or refuse a folder in which something else was."""
        path = self.path / "request.json"
        asked = self.request.learning()
        if RunFolder(self.path).exists():
            raise InputError(f"{self.path} holds a run; choose another folder with --out")
        if path.exists():
            try:
                before = json.loads(path.read_text())
            except ValueError as problem:
                raise FileFormatError(f"{path} is damaged; choose another folder") from problem
            different = [name for name in asked if before.get(name) != asked[name]]
            if "config" in different:
                different.remove("config")
                fields = before.get("config", {})
                different += [n for n, v in asked["config"].items() if fields.get(n) != v]
            if different:
                raise InputError(
                    f"{self.path} holds a sweep with another choice of {', '.join(different)}; "
                    "choose another folder with --out, or ask for the same"
                )
            return
        write_atomically(path, json.dumps(asked, indent=1).encode())


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
    console = console or Console(quiet=True)
    _check(request)
    folder = SweepFolder(Path(path), request)
    folder.claim()
    stages = range(len(request.epsilons))
    runs = [folder.run(seed, stage).path for seed in range(seeds) for stage in stages]
    total = sum(request.iterations(stage) for stage in stages)
    if request.origin == "common":
        runs += [folder.common(seed).path for seed in range(seeds)]
        total += request.config.iterations
    finished = in_processes(
        learn_path,
        [(folder, seed) for seed in range(seeds)],
        workers,
        console,
        "learning",
        float(seeds * total),
        lambda: float(sum(iteration_of(run) for run in runs)),
    )
    if not finished:
        return None
    records = {
        (seed, request.epsilons[stage]): measure_stage(folder, seed, stage)
        for seed in range(seeds)
        for stage in stages
    }
    sweep = summarise(request.epsilons, range(seeds), records)
    _write(folder, sweep)
    return sweep


def _check(request: SweepRequest) -> None:
    """Find what is wrong with the options before anything is written."""
    for stage in range(len(request.epsilons)):
        request.stage_config(0, stage)
    config = request.stage_config(0, 0)
    learner = CrossLearner(
        config.tasks, task_options=config.task_options, **config.learner_settings()
    )
    learner.close()
    check_held_out(learner.tasks, held_out_tasks(request.held_out, config))


def learn_path(folder: SweepFolder, seed: int) -> bool:
    """Learn and measure all stages of one seed; return False if interrupted."""
    request = folder.request
    start: Family | None = None
    if request.origin == "common":
        outcome = _train_or_resume(folder.common(seed), request.start_config(seed), None)
        if not outcome.finished:
            return False
        start = outcome.learner.family
    for stage in range(len(request.epsilons)):
        config = request.stage_config(seed, stage)
        outcome = _train_or_resume(folder.run(seed, stage), config, start)
        if not outcome.finished:
            return False
        measure_stage(folder, seed, stage)
        if request.origin == "previous":
            start = outcome.learner.family
    return True


def _train_or_resume(run: RunFolder, config: RunConfig, start: Family | None) -> Outcome:
    if run.exists():
        return resume(run.path)
    return train(run.path, config, start=start)


def measure_stage(folder: SweepFolder, seed: int, stage: int) -> dict[str, Any]:
    """Return the measurements of a stage, from its file if they were made before."""
    request, run = folder.request, folder.run(seed, stage)
    path = run.path / "measurements.json"
    asked = request.measuring()
    if path.exists():
        stored: dict[str, Any] = json.loads(path.read_text())
        if stored.get("asked") == asked:
            return stored
    learner = run.load()
    names = [task.name for task in learner.tasks]
    multipliers = late_multipliers(run.read_metrics(), names)
    held_out = held_out_tasks(request.held_out, request.config)
    record = measure_family(learner, multipliers, held_out, request.trials, request.steps)
    result = {"asked": asked, **record}
    write_atomically(path, json.dumps(result, indent=1).encode())
    return result


def _write(folder: SweepFolder, sweep: Sweep) -> None:
    request = folder.request
    content = {**request.learning(), **request.measuring(), **sweep.to_dict()}
    write_atomically(folder.path / "sweep.json", json.dumps(content, indent=1).encode())
    kind = {
        "previous": "each stage from the one before",
        "common": "each stage from one start",
        "zero": "each from zero",
    }[request.origin]
    counts, warning = f"{request.config.iterations} iterations", ""
    last = len(request.epsilons) - 1
    if request.origin != "zero":
        total = request.learned(last)
        counts += f", then {request.stage_iterations} a stage, {total} in all at the last"
    if request.origin == "previous" and last > 0:
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
    write_atomically(folder.path / "sweep.md", text.encode())
    save_figure(sweep_figure(sweep.to_dict()), folder.path / "sweep")
