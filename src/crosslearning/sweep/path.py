"""The ε-path in one process, for tasks of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner, IterationReport
from crosslearning.rkhs import Family
from crosslearning.runs.metrics import LATE
from crosslearning.sweep.measure import measure_family
from crosslearning.sweep.request import check_held_out
from crosslearning.sweep.stages import EpsilonPath, Origin, read_epsilons
from crosslearning.sweep.summary import Sweep, summarise
from crosslearning.tasks import Task


@dataclass(frozen=True, kw_only=True)
class PathOptions:
    """The keywords of :func:`epsilon_path` that are not settings of the learner.

    ``stage_iterations`` (by default half of the first stage's) and ``origin`` are those of
    :class:`EpsilonPath`; ``seeds`` says how many paths, or their seeds; ``trials`` and ``horizon``
    are the episodes on each training task in a measurement, and their length (by default the
    tasks' own).
    """

    stage_iterations: int | None = None
    origin: Origin = "previous"
    seeds: int | Sequence[int] = 3
    trials: int = 200
    horizon: int | None = None


def epsilon_path(
    tasks: str | Sequence[Task],
    epsilons: str | Iterable[float],
    iterations: int,
    *,
    held_out: Sequence[Task] = (),
    **keywords: Any,
) -> Sweep:
    """Learn families along a path of radii, by default each from the one before.

    Nothing is written; for named task sets, many processes and files to go on from there is
    :func:`crosslearning.sweep.run_sweep`, which gives the same numbers.

    Parameters
    ----------
    tasks : str or sequence of Task
        As for :class:`crosslearning.CrossLearner`.
    epsilons : str or iterable of float
        In ascending order, such as ``[0, 0.5, 1]`` or ``"0,0.5,1,inf"``.
    iterations : int
        Of the first stage.
    held_out : sequence of Task
        Tasks on which the central policy is measured, and by which a radius is recommended.
    **keywords
        See :class:`PathOptions`; all others are settings of the learner.
    """
    names = {field.name for field in fields(PathOptions)}
    options = PathOptions(**{name: value for name, value in keywords.items() if name in names})
    settings = {name: value for name, value in keywords.items() if name not in names}
    for name in ("epsilon", "seed", "start"):
        if name in settings:
            raise InputError(f"a path sets {name} itself; leave it out")
    half = max(1, iterations // 2)
    later = half if options.stage_iterations is None else options.stage_iterations
    path = EpsilonPath(read_epsilons(epsilons), iterations, later, options.origin)
    seeds = list(range(options.seeds)) if isinstance(options.seeds, int) else list(options.seeds)
    if not seeds or options.trials < 1:
        raise InputError(f"give at least 1 seed and trial, got {len(seeds)} and {options.trials}")
    first = CrossLearner(tasks, path.epsilons[0], **settings)
    first.close()
    check_held_out(first.tasks, held_out)
    records: dict[tuple[int, float], dict[str, Any]] = {}
    families: dict[tuple[int, float], Family] = {}
    for seed in seeds:
        learned: dict[str | None, Family | None] = {None: None}
        for stage in path.stages(first.settings, seed):
            own = {**settings, **stage.changes, "start": learned[stage.start]}
            learner = CrossLearner(first.tasks, stage.epsilon, **own)
            reports: list[IterationReport] = []
            learner.learn(stage.iterations, reports.append)
            learner.close()
            learned[stage.name] = learner.family
            if stage.measured:
                late = reports[int((1.0 - LATE) * len(reports)) :]
                multipliers = np.mean([r.projection.multipliers for r in late], axis=0)
                at = seed, stage.epsilon
                records[at] = measure_family(
                    learner, multipliers, held_out, options.trials, options.horizon
                )
                families[at] = learner.family
    return summarise(path.epsilons, seeds, records, families)
