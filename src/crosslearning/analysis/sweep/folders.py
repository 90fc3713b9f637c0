"""A sweep in a folder that can be resumed: every stage is a run, ``OUT/seed-0/epsilon-0.5/``.

``request.json`` has the request, ``sweep.json`` and ``sweep.md`` the results.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from crosslearning._base.files import write_atomically
from crosslearning._base.plain_data import expecting
from crosslearning.analysis.sweep.measure import (
    VERSION,
    check_held_out,
    held_out_tasks,
    measure_family,
)
from crosslearning.analysis.sweep.stages import EpsilonPath, Stage, plain_epsilon
from crosslearning.analysis.sweep.summary import Sweep, summarise
from crosslearning.errors import InputError
from crosslearning.learner.evaluation import EpisodeOptions
from crosslearning.runs import RunConfig, RunFolder
from crosslearning.runs.config import EXECUTION_FIELDS
from crosslearning.runs.metrics import late_multipliers
from crosslearning.runs.study import Chain, Measurement, Run, claim, run_study

#: The default held-out tasks of task sets.
DEFAULT_HELD_OUT = {"paper": "random:unseen:50"}
#: Fields that a sweep sets itself; its stages are counted in iterations.
OWN_FIELDS = ("epsilon", "seed", "workers", "on", "steps")


@dataclass(frozen=True)
class SweepRequest:
    """The request of a sweep in a folder.

    Attributes
    ----------
    config : RunConfig
        Of all stages; its ``epsilon``, ``seed`` and ``iterations`` are not used.
    path : EpsilonPath
    held_out : str, optional
        The name of a task set, such as ``random:unseen:50``.
    trials, horizon : int
        Episodes on each training task in a measurement, and their length; None: the tasks' own.
    """

    config: RunConfig
    path: EpsilonPath
    held_out: str | None = None
    trials: int = 200
    horizon: int | None = None

    def __post_init__(self) -> None:
        EpisodeOptions(trials=self.trials, horizon=self.horizon)  # checks them
        if self.held_out is not None and self.held_out == self.config.tasks:
            text = f"the tasks held out are those trained on, {self.held_out!r}; name others"
            raise InputError(text)

    def stages(self, seed: int) -> list[tuple[Stage, RunConfig]]:
        """Return the stages of a seed's path, each with the configuration of its run."""
        configs = []
        for stage in self.path.stages(self.config.settings, seed):
            own = {"epsilon": stage.epsilon, "iterations": stage.iterations, **stage.changes}
            configs.append((stage, self.config.replace(**own)))
        return configs

    def learning(self) -> dict[str, Any]:
        """Return the plain data that determine the runs; they may not change within a folder."""
        values = {**self.config.to_plain(), "iterations": self.path.iterations}
        without = {*OWN_FIELDS, *EXECUTION_FIELDS}
        return {
            "epsilons": [plain_epsilon(epsilon) for epsilon in self.path.epsilons],
            "stage_iterations": self.path.stage_iterations,
            "origin": self.path.origin,
            "config": {k: plain_epsilon(v) for k, v in values.items() if k not in without},
        }

    def measuring(self) -> dict[str, Any]:
        """Return the plain data that determine the measurements."""
        return {"held_out": self.held_out, "trials": self.trials, "horizon": self.horizon}


def run_sweep(
    path: str | Path,
    request: SweepRequest,
    seeds: int,
    workers: int | None,
    console: Console | None = None,
    on: str = "processes",
) -> Sweep | None:
    """Learn, measure and summarise a sweep in a folder, seeds in parallel.

    An existing sweep is resumed: more seeds, other held-out tasks and other trials may be requested
    later, and the runs stay. The seeds are 0 … seeds − 1. ``workers`` and ``on`` are those of
    :func:`crosslearning.runs.study.run_study`. Return None if it was interrupted.
    """
    if seeds < 1 or (workers is not None and workers < 1):
        raise InputError(f"seeds is {seeds} and workers {workers}; give at least 1 of each")
    request = dataclasses.replace(request, config=request.config.chosen())
    # Wrong options are refused before anything is written.
    learner = request.config.replace(epsilon=request.path.epsilons[0]).learner()
    learner.close()
    check_held_out(learner.tasks, held_out_tasks(request.held_out, request.config))
    # Settings that the learner chose are the same for all stages.
    settings = request.config.settings
    opened = [name for name in settings.__struct_fields__ if getattr(settings, name) is None]
    filled = {name: getattr(learner.settings, name) for name in opened}
    request = dataclasses.replace(request, config=request.config.replace(**filled))
    folder = Path(path)
    claim(folder, request.learning(), "a sweep")
    chains = [_chain(folder, request, seed) for seed in range(seeds)]
    if not run_study([chains], workers, console or Console(quiet=True), on):
        return None
    records = {
        (seed, stage.epsilon): _measurement(folder, request, seed, stage).answer()
        for seed in range(seeds)
        for stage, _ in request.stages(seed)
        if stage.measured
    }
    with expecting(f"a measurements.json in {folder}"):
        sweep = summarise(request.path.epsilons, range(seeds), records)
    content = {**request.learning(), **request.measuring(), **sweep.to_dict()}
    write_atomically(folder / "sweep.json", json.dumps(content, indent=1).encode())
    write_atomically(folder / "sweep.md", _report(request, sweep).encode())
    return sweep


def _chain(folder: Path, request: SweepRequest, seed: int) -> Chain:
    """Return the steps of one seed's path: stage after stage, each learned and measured."""
    steps: list[Run | Measurement] = []
    own = folder / f"seed-{seed}"
    for stage, config in request.stages(seed):
        start = None if stage.start is None else own / stage.start
        steps.append(Run(own / stage.name, config, start))
        if stage.measured:
            steps.append(_measurement(folder, request, seed, stage))
    return steps


def _measurement(folder: Path, request: SweepRequest, seed: int, stage: Stage) -> Measurement:
    path = folder / f"seed-{seed}" / stage.name
    measuring = {**request.measuring(), "version": VERSION}
    return Measurement(path / "measurements.json", measuring, _measure_run, (path, request))


def _measure_run(path: Path, request: SweepRequest) -> dict[str, Any]:
    run = RunFolder(path)
    learner = run.load(tasks=None if run.is_own() else request.config.tasks)
    multipliers = late_multipliers(run.read_metrics(), [task.name for task in learner.tasks])
    held_out = held_out_tasks(request.held_out, request.config)
    return measure_family(learner, multipliers, held_out, request.trials, request.horizon)


def _report(request: SweepRequest, sweep: Sweep) -> str:
    """Return the results as Markdown."""
    path = request.path
    kind = {
        "previous": "each stage from the one before",
        "common": "each stage from one start",
        "zero": "each from zero",
    }[path.origin]
    counts, warning, last = f"{path.iterations} iterations", "", len(path.epsilons) - 1
    if path.origin != "zero":
        counts += f", then {path.stage_iterations} a stage, {path.learned(last)} in all at the last"
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
