"""The ε-path in one process, for tasks of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from crosslearning.analysis.sweep.measure import check_held_out, measure_family
from crosslearning.analysis.sweep.stages import EpsilonPath, Origin, read_epsilons
from crosslearning.analysis.sweep.summary import Sweep, summarise
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner, IterationReport
from crosslearning.rkhs import Family
from crosslearning.runs.metrics import LATE
from crosslearning.tasks import Task


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
    """Learn families along a path of radii, by default each from the one before.

    Nothing is written; for named task sets, many processes and files to go on from there is
    :func:`crosslearning.analysis.sweep.run_sweep`, which gives the same numbers.

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
    for name in ("epsilon", "seed", "start"):
        if name in settings:
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
            own = {**settings, **stage.changes, "start": learned[stage.start]}
            learner = CrossLearner(first.tasks, stage.epsilon, **own)
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
