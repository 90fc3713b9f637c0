"""Which executor runs which tasks, and where."""

from __future__ import annotations

import math
import multiprocessing
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from crosslearning.errors import InputError
from crosslearning.rollouts.compiled_executor import CompiledExecutor
from crosslearning.rollouts.data import ActionScale
from crosslearning.rollouts.executor import Executor
from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor
from crosslearning.rollouts.places import Where, in_a_ray_worker, read_where
from crosslearning.tasks import Task

if TYPE_CHECKING:
    from crosslearning.rollouts.sharded_executor import ShardedExecutor


def executor_for(
    tasks: Sequence[Task],
    workers: int | None = None,
    scale: ActionScale | None = None,
    on: str = "threads",
    step_seconds: float | None = None,
) -> Executor:
    """Return the fastest executor that can run these tasks where it is to run them.

    Parameters
    ----------
    tasks : sequence of Task
    workers : int, optional
        Threads for tasks with compiled dynamics, or processes; by default one thread, or a
        process for every processor.
    scale : ActionScale, optional
        From the policies' actions to the tasks' units; by default they are the same.
    on : str
        ``"threads"`` of this process (environments of Python are stepped by one; a warning says
        so if more were asked for), ``"processes"`` of this machine, ``"ray"`` or
        ``"ray://host:port"``, a Ray cluster. ``"auto"``: threads for compiled tasks; for
        environments of Python processes, once that has proved faster.
    step_seconds : float, optional
        How long a step of an environment of Python may take before its worker is ended. Not on
        threads, which nothing can end.
    """
    if workers is not None and (
        isinstance(workers, bool) or int(workers) != workers or workers < 1
    ):
        raise InputError(f"workers must be a whole number of at least 1, got {workers!r}")
    where = read_where(on)
    slow = [task.name for task in tasks if task.dynamics is None]
    _check_limit(step_seconds, where, slow)
    if where.kind == "auto" and step_seconds is not None:
        where = Where("processes")
    if where.kind in ("processes", "ray"):
        return _sharded(tasks, workers, scale, where, step_seconds)
    if not slow:
        return CompiledExecutor(tasks, workers or 1, scale)
    here = GymnasiumExecutor(tasks, scale)
    if where.kind == "auto" and (workers or processors()) > 1 and not _is_worker():
        from crosslearning.rollouts.choosing_executor import ChoosingExecutor

        return ChoosingExecutor(here, lambda: _sharded(tasks, workers, scale, Where("processes")))
    if where.kind == "threads" and workers is not None and workers > 1:
        warnings.warn(
            f"workers = {workers} has no effect: {', '.join(slow[:3])} have no compiled dynamics, "
            "and one thread steps all environments; take on = 'processes'",
            stacklevel=3,
        )
    return here


def _check_limit(step_seconds: float | None, where: Where, slow: Sequence[str]) -> None:
    """Refuse a limit that is no length of time, or that nobody could hold."""
    if step_seconds is None:
        return
    if isinstance(step_seconds, bool) or not 0.0 < step_seconds < math.inf:
        raise InputError(f"step_seconds must be above 0 and finite, got {step_seconds!r}")
    if not slow:
        raise InputError(
            "step_seconds is for environments of Python; the steps of compiled tasks cannot be "
            "watched one by one: leave it out"
        )
    if where.kind == "threads":
        raise InputError(
            f"step_seconds is {step_seconds:g}, but a step on a thread cannot be ended from "
            "outside; take on = 'processes'"
        )


def _sharded(
    tasks: Sequence[Task],
    workers: int | None,
    scale: ActionScale | None,
    where: Where,
    limit: float | None = None,
) -> ShardedExecutor:
    """Return the executor with workers in other processes."""
    from crosslearning.rollouts.crew import Crew
    from crosslearning.rollouts.sharded_executor import ShardedExecutor

    names = [task.name for task in tasks]
    if where.kind == "ray":
        from crosslearning.ray_cluster import require_ray
        from crosslearning.rollouts.ray_hand import ray_crew

        require_ray()
        return ShardedExecutor(
            tasks, lambda kit: ray_crew(kit, names, where.address, workers, limit), scale
        )
    from crosslearning.rollouts.process_hand import ProcessHand

    count = workers or processors()

    def hire(kit: bytes) -> Crew:
        return Crew([ProcessHand(kit, limit) for _ in range(count)], names, limit)

    return ShardedExecutor(tasks, hire, scale)


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _is_worker() -> bool:
    """Tell whether this process is one of many already, as those of a study are."""
    return multiprocessing.parent_process() is not None or in_a_ray_worker()
