"""The ε-path in one process, for tasks of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError, unknown_name
from crosslearning.learner import CrossLearner, IterationReport, make_settings
from crosslearning.rkhs import Family, Kernel
from crosslearning.runs.metrics import LATE
from crosslearning.sweep.measure import measure_family
from crosslearning.sweep.request import (
    ORIGINS,
    Origin,
    check_held_out,
    read_epsilons,
    stage_settings,
)
from crosslearning.sweep.summary import Sweep, summarise
from crosslearning.tasks import Task, task_set

#: ``progress(seed, epsilon)`` is called before every stage.
Progress = Callable[[int, float], None]


def epsilon_path(
    tasks: str | Sequence[Task],
    epsilons: str | Iterable[float],
    iterations: int,
    *,
    held_out: Sequence[Task] = (),
    stage_iterations: int | None = None,
    seeds: int | Sequence[int] = 3,
    origin: Origin = "previous",
    trials: int = 200,
    steps: int = 50,
    progress: Progress | None = None,
    kernel: Kernel | Mapping[str, Any] | None = None,
    **settings: Any,
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
    stage_iterations : int, optional
        Of every later stage; by default half of ``iterations``.
    seeds : int or sequence of int
        How many paths, or their seeds.
    origin : {"previous", "common", "zero"}
        Where a stage starts: from the one before; from one run at the smallest radius that all
        of them share; or from zero, with the iterations of the first.
    trials, steps : int
        Episodes on each training task in a measurement, and their length.
    progress : callable, optional
        ``progress(seed, epsilon)`` is called before every stage.
    kernel, **settings
        Of the learner.

    Returns
    -------
    Sweep
    """
    radii = read_epsilons(epsilons)
    if origin not in ORIGINS:
        raise unknown_name("origin", origin, ORIGINS)
    for name in ("epsilon", "seed", "start"):
        if name in settings:
            raise InputError(f"a path sets {name} itself; leave it out")
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    later = max(1, iterations // 2) if stage_iterations is None else stage_iterations
    if not numbers or min(iterations, later, trials, steps) < 1:
        raise InputError("seeds, iterations, stage_iterations, trials, steps: at least 1 each")
    training = task_set(tasks) if isinstance(tasks, str) else tuple(tasks)
    checked = make_settings(dict(settings))
    records: dict[tuple[int, float], dict[str, Any]] = {}
    families: dict[tuple[int, float], Family] = {}
    for seed in numbers:
        start: Family | None = None
        if origin == "common":
            common = CrossLearner(training, radii[0], kernel=kernel, seed=seed, **settings)
            start = common.learn(iterations).family
            common.close()
        for stage, epsilon in enumerate(radii):
            if progress is not None:
                progress(seed, epsilon)
            changes = stage_settings(checked, iterations, seed, stage, origin)
            learner = CrossLearner(
                training, epsilon, kernel=kernel, start=start, **{**settings, **changes}
            )
            check_held_out(learner.tasks, held_out)
            short = origin == "common" or (origin == "previous" and stage > 0)
            multipliers = _Multipliers()
            learner.learn(later if short else iterations, multipliers)
            learner.close()
            records[seed, epsilon] = measure_family(
                learner, multipliers.mean(), held_out, trials, steps
            )
            families[seed, epsilon] = learner.family
            if origin == "previous":
                start = learner.family
    return summarise(radii, numbers, records, families)


class _Multipliers:
    """Gathers the multipliers of the last part of learning; a learner's callback."""

    def __init__(self) -> None:
        self._rows: list[NDArray[np.float64]] = []

    def __call__(self, report: IterationReport) -> None:
        self._rows.append(report.projection.multipliers)

    def mean(self) -> NDArray[np.float64]:
        """Return their mean, shape (N,); infinite where they have no bound."""
        last = self._rows[int((1.0 - LATE) * len(self._rows)) :]
        return np.asarray(np.mean(last, axis=0))
