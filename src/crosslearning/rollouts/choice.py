"""Which executor runs which tasks, and where."""

from __future__ import annotations

import math
import multiprocessing
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from crosslearning.errors import InputError
from crosslearning.rollouts.backends import Backend, in_a_ray_worker, read_backend
from crosslearning.rollouts.compiled_executor import CompiledExecutor
from crosslearning.rollouts.data import ActionScale
from crosslearning.rollouts.executor import Executor
from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor
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
    backend = read_backend(on)
    slow = [task.name for task in tasks if task.dynamics is None]
    _check_limit(step_seconds, backend, slow)
    if backend.kind == "auto" and step_seconds is not None:
        backend = Backend("processes")
    if backend.kind in ("processes", "ray"):
        return _sharded(tasks, workers, scale, backend, step_seconds)
    if not slow:
        return CompiledExecutor(tasks, workers or 1, scale)
    serial = GymnasiumExecutor(tasks, scale)
    if backend.kind == "auto" and (workers or processors()) > 1 and not _is_worker():
        from crosslearning.rollouts.auto_executor import AutoExecutor

        return AutoExecutor(serial, lambda: _sharded(tasks, workers, scale, Backend("processes")))
    if backend.kind == "threads" and workers is not None and workers > 1:
        warnings.warn(
            f"workers = {workers} has no effect: {', '.join(slow[:3])} have no compiled dynamics, "
            "and one thread steps all environments; take on = 'processes'",
            stacklevel=3,
        )
    return serial


def _check_limit(step_seconds: float | None, backend: Backend, slow: Sequence[str]) -> None:
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
    if backend.kind == "threads":
        raise InputError(
            f"step_seconds is {step_seconds:g}, but a step on a thread cannot be ended from "
            "outside; take on = 'processes'"
        )


def _sharded(
    tasks: Sequence[Task],
    workers: int | None,
    scale: ActionScale | None,
    backend: Backend,
    limit: float | None = None,
) -> ShardedExecutor:
    """Return the executor with workers in other processes."""
    from crosslearning.rollouts.pool import ProcessPool, RayPool
    from crosslearning.rollouts.sharded_executor import ShardedExecutor

    names, count = [task.name for task in tasks], workers or processors()
    if backend.kind == "ray":
        from crosslearning.rollouts.ray_cluster import require_ray

        require_ray()
        return ShardedExecutor(
            tasks, lambda setup: RayPool(setup, names, backend.address, workers, limit), scale
        )

    def start(setup: bytes) -> ProcessPool:
        pool = ProcessPool(setup, names, count, limit)
        pool.start()
        return pool

    return ShardedExecutor(tasks, start, scale)


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _is_worker() -> bool:
    """Tell whether this process is one of many already, as those of a study are."""
    return multiprocessing.parent_process() is not None or in_a_ray_worker()
