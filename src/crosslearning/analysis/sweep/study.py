"""Sweeps: families learned along a path of radii and measured, in memory or in folders.

A sweep in a folder can be resumed: every stage is a run, ``OUT/seed-0/epsilon-0.5/``.
``request.json`` has the request, ``sweep.json`` and ``sweep.md`` the results.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from crosslearning._base.files import write_atomically
from crosslearning._base.plain_data import expecting
from crosslearning.analysis.sweep.stages import (
    EpsilonPath,
    Origin,
    Stage,
    plain_epsilon,
    read_epsilons,
)
from crosslearning.analysis.sweep.summary import Sweep, summarise
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner, IterationReport, Policy
from crosslearning.learner.evaluation import EpisodeOptions, measure_episodes
from crosslearning.rkhs import Family
from crosslearning.runs import RunConfig, RunFolder
from crosslearning.runs.config import EXECUTION_FIELDS
from crosslearning.runs.metrics import LATE, late_multipliers
from crosslearning.runs.study import Measurement, Run, claim, naming, run_study
from crosslearning.tasks import Task
from crosslearning.tasks.sources import load_tasks, read_source

#: Raised when the same request gets another result: stored results are then made again.
VERSION = 1
#: The seed of the measurements' starts, different from those of training.
MEASURE_SEED = 40_000
#: The fewest episodes on a held-out task.
FEWEST = 10
#: The default held-out tasks of task sets.
DEFAULT_HELD_OUT = {"paper": "random:unseen:50"}
#: Fields that a sweep sets itself; its stages are counted in iterations.
OWN_FIELDS = ("epsilon", "seed", "workers", "on", "steps")


def epsilon_path(
    tasks: str | Sequence[Task],
    epsilons: str | Iterable[float],
    iterations: int,
    *,
    held_out: Sequence[Task] = (),
    stage_iterations: int | None = None,
    origin: Origin = "previous",
    seeds: int | Sequence[int] = 3,
    trials: int = 200,
    horizon: int | None = None,
    **settings: Any,
) -> Sweep:
    """Learn families along a path of radii, by default each from the previous one.

    Nothing is written. :func:`crosslearning.analysis.sweep.run_sweep` gives the same numbers for
    named task sets, with many processes and files to resume from.

    Parameters
    ----------
    tasks : str or sequence of Task
        As for :class:`crosslearning.CrossLearner`.
    epsilons : str or iterable of float
        In ascending order, such as ``[0, 0.5, 1]`` or ``"0,0.5,1,inf"``.
    iterations, stage_iterations : int
        Of the first stage and of every later one, by default half as many.
    held_out : sequence of Task
        Tasks on which the central policy is measured, and by which a radius is recommended.
    origin : {"previous", "common", "zero"}
        Where a stage starts, as in :class:`EpsilonPath`.
    seeds : int or sequence of int
        How many paths, or their seeds.
    trials, horizon : int
        Episodes on each training task in a measurement, and their length; None: the tasks' own.
    **settings
        Of the learner.
    """
    for name in {"epsilon", "seed", "start"} & set(settings):
        raise InputError(f"a path sets {name} itself; leave it out")
    later = max(1, iterations // 2) if stage_iterations is None else stage_iterations
    path = EpsilonPath(read_epsilons(epsilons), iterations, later, origin)
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not numbers or trials < 1:
        raise InputError(f"give at least 1 seed and trial, got {len(numbers)} and {trials}")
    first = CrossLearner(tasks, path.epsilons[0], **settings)
    first.close()
    check_held_out(first.tasks, held_out)
    records: dict[tuple[int, float], dict[str, Any]] = {}
    families: dict[tuple[int, float], Family] = {}
    for seed in numbers:
        learned: dict[str | None, Family | None] = {None: None}
        for stage in path.stages(first.settings, seed):
            changed = {**settings, **stage.changes, "start": learned[stage.start]}
            learner = CrossLearner(first.tasks, stage.epsilon, **changed)
            reports: list[IterationReport] = []
            learner.learn(stage.iterations, reports.append, progress=False)
            learner.close()
            learned[stage.name] = learner.family
            if stage.measured:
                late = reports[int((1.0 - LATE) * len(reports)) :]
                means = np.mean([report.projection.multipliers for report in late], axis=0)
                at = seed, stage.epsilon
                records[at] = measure_family(learner, means, held_out, trials, horizon)
                families[at] = learner.family
    return summarise(path.epsilons, numbers, records, families)


# In folders -------------------------------------------------------------------------------


@dataclass(frozen=True)
class SweepRequest:
    """The request of a sweep in a folder."""

    config: RunConfig  #: of all stages; its ``epsilon``, ``seed``, ``iterations`` are not used
    path: EpsilonPath
    held_out: str | None = None  #: the name of a task set, such as ``random:unseen:50``
    trials: int = 200  #: episodes on each training task in a measurement
    horizon: int | None = None  #: their length; None: the tasks' own

    def __post_init__(self) -> None:
        EpisodeOptions(trials=self.trials, horizon=self.horizon)  # checks them
        if self.held_out is not None and self.held_out == self.config.tasks:
            text = f"the tasks held out are those trained on, {self.held_out!r}; name others"
            raise InputError(text)

    def stages(self, seed: int) -> list[tuple[Stage, RunConfig]]:
        """Return the stages of a seed's path, each with the configuration of its run."""
        replace = self.config.replace
        return [
            (s, replace(epsilon=s.epsilon, iterations=s.iterations, **s.changes))
            for s in self.path.stages(self.config.settings, seed)
        ]

    def steps(self, folder: Path, seed: int) -> list[Run | Measurement]:
        """Return the runs of a seed's path and their measurements, in order."""
        asked, steps = {**self.measuring(), "version": VERSION}, list[Run | Measurement]()
        for stage, config in self.stages(seed):
            run = folder / f"seed-{seed}" / stage.name
            start = None if stage.start is None else run.parent / stage.start
            steps.append(Run(run, config, start))
            if stage.measured:
                file = run / "measurements.json"
                steps.append(Measurement(file, asked, _measure_run, (run, self)))
        return steps

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
    learner: CrossLearner | None = None,
) -> Sweep | None:
    """Learn, measure and summarise a sweep in a folder, seeds in parallel.

    An existing sweep is resumed: more seeds, other held-out tasks and other trials may be requested
    later, and the runs stay. The seeds are 0 … seeds − 1. ``workers`` and ``on`` are those of
    :func:`crosslearning.runs.study.run_study`, ``learner`` that of the configuration at the first
    radius, if it is made already. Return None if it was interrupted.
    """
    if seeds < 1 or (workers is not None and workers < 1):
        raise InputError(f"seeds is {seeds} and workers {workers}; give at least 1 of each")
    # Wrong options are refused before anything is written.
    learner = learner or request.config.replace(epsilon=request.path.epsilons[0]).learner()
    learner.close()
    config = request.config.chosen(learner.settings.method)
    check_held_out(learner.tasks, held_out_tasks(request.held_out, config))
    # Settings that the learner chose are the same for all stages.
    opened = [k for k, v in msgspec.structs.asdict(config.settings).items() if v is None]
    if any(task.controller is not None for task in learner.tasks):
        opened = []  # noise and steps follow from each stage's ε, which bounds the corrections
    config = config.replace(**{name: getattr(learner.settings, name) for name in opened})
    request, folder = dataclasses.replace(request, config=config), Path(path)
    claim(folder, request.learning(), "a sweep")
    chains = [request.steps(folder, seed) for seed in range(seeds)]
    if not run_study([chains], workers, console or Console(quiet=True), on):
        return None
    measured = [step for chain in chains for step in chain if isinstance(step, Measurement)]
    places = itertools.product(range(seeds), request.path.epsilons)
    records = {at: one.answer() for at, one in zip(places, measured, strict=True)}
    with expecting(f"a measurements.json in {folder}"):
        sweep = summarise(request.path.epsilons, range(seeds), records)
    content = {**request.learning(), **request.measuring(), **sweep.to_dict()}
    write_atomically(folder / "sweep.json", json.dumps(content, indent=1).encode())
    write_atomically(folder / "sweep.md", _report(request, sweep).encode())
    return sweep


def _measure_run(path: Path, request: SweepRequest) -> dict[str, Any]:
    run = RunFolder.open(path, *naming(RunFolder(path), request.config))
    learner = run.load()
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
    if sweep.rates:
        text += f"\nShares of episodes, means over seeds.\n\n{sweep.table(sweep.rates)}"
    return text


# Measurements -----------------------------------------------------------------------------


def measure_family(
    learner: CrossLearner,
    multipliers: NDArray[np.float64] | None,
    held_out: Sequence[Task],
    trials: int,
    horizon: int | None = None,
) -> dict[str, Any]:
    """Return the measurements of a trained family as plain data.

    They are ``own[task]``, ``central[task]`` and ``held_out[task]``, each with ``return`` and the
    rates of the task's outcomes; ``distance[task]``; ``multiplier[task]``, the given means of the
    last part of learning, shape (N,); and ``knots``. All policies have the same starts. The
    held-out tasks share about as many episodes as the training tasks have together.
    """
    names = [task.name for task in learner.tasks]
    centre = learner.central
    each = max(FEWEST, trials * len(names) // max(1, len(held_out)))

    def measured(policy: Policy, task: Task, trials: int) -> dict[str, float]:
        options = EpisodeOptions(trials=trials, horizon=horizon, seed=MEASURE_SEED)
        columns = measure_episodes(policy, task, options, learner.settings.gamma)
        rates = {name: float(np.mean(values)) for name, values in columns.shares.items()}
        return {"return": float(np.mean(columns.returns)), **rates}

    bounded = multipliers is not None and np.all(np.isfinite(multipliers))
    means = np.asarray(multipliers).tolist() if bounded else [None] * len(names)
    return {
        "own": {t.name: measured(learner.policy(t.name), t, trials) for t in learner.tasks},
        "central": {t.name: measured(centre, t, trials) for t in learner.tasks},
        "held_out": {t.name: measured(centre, t, each) for t in held_out},
        "distance": dict(zip(names, learner.family.distances().tolist(), strict=True)),
        "multiplier": dict(zip(names, means, strict=True)),
        "knots": len(learner.family.knots),
        "steps": learner.steps,
    }


def held_out_tasks(name: str | None, config: RunConfig) -> tuple[Task, ...]:
    """Return held-out tasks of a named set, with the options of the training tasks."""
    if name is None:
        return ()
    # Seed and count draw the training maps.
    options = {k: v for k, v in config.task_options.items() if k not in ("seed", "count")}
    return load_tasks(read_source(name, config.around), options)


def check_held_out(training: Sequence[Task], held_out: Sequence[Task]) -> None:
    """Refuse held-out tasks that were trained on, or that have other spaces."""
    trained = {task.name: task.dynamics for task in training}
    for task in held_out:
        for kind in ("observation_space", "action_space"):
            given, expected = getattr(task, kind).shape, getattr(training[0], kind).shape
            if given != expected:
                raise InputError(
                    f"the {kind} of the held-out task {task.name!r} has shape {given}, but the "
                    f"policies are learned with {expected}; hold out tasks of the same kind"
                )
        mine, other = task.dynamics, trained.get(task.name)
        if mine and other and np.array_equal(mine.parameters, other.parameters):
            raise InputError(
                f"the held-out task {task.name!r} is one of those trained on; hold out others, "
                "such as random:unseen:50"
            )
