"""Where rollouts run: threads, processes or a Ray cluster, and by which executor."""

from __future__ import annotations

import math
import multiprocessing
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from crosslearning.errors import InputError, unknown_name

if TYPE_CHECKING:  # settings are read without a compiler
    from crosslearning.rollouts.data import ActionScale
    from crosslearning.rollouts.executor import Executor
    from crosslearning.tasks import Task

KINDS = ("auto", "threads", "processes", "ray")


class Backend(NamedTuple):
    """One of the kinds, and the address of a Ray cluster if one was given."""

    kind: str
    address: str | None = None


def read_backend(on: str) -> Backend:
    """Return the backend that one of the kinds, or ``ray://host:port``, stands for."""
    if not isinstance(on, str):
        raise InputError(f"on is {on!r}; give {', '.join(KINDS)} or ray://host:port")
    if on.startswith("ray://"):
        host, colon, port = on.removeprefix("ray://").rpartition(":")
        if not host or not colon or not port.isdigit():
            raise InputError(
                f"on is {on!r}; give the address of a Ray cluster as 'ray start --head' shows it, "
                "such as ray://192.168.0.1:6379, or ray for the cluster of this machine"
            )
        return Backend("ray", f"{host}:{port}")
    if on not in KINDS:
        raise unknown_name("place to run", on, KINDS)
    return Backend(on)


def executor_for(
    tasks: Sequence[Task],
    workers: int | None = None,
    scale: ActionScale | None = None,
    on: str = "threads",
    step_seconds: float | None = None,
) -> Executor:
    """Return the fastest executor for these tasks on a backend.

    Parameters
    ----------
    tasks : sequence of Task
    workers : int, optional
        Threads for tasks with compiled dynamics, or processes; by default one thread, or a
        process per processor.
    scale : ActionScale, optional
        From the policies' actions to the tasks' units; by default they are the same.
    on : str
        ``"threads"`` of this process (one thread steps all Python environments), ``"processes"``
        of this machine, ``"ray"`` or ``"ray://host:port"``, a Ray cluster. ``"auto"``: threads
        for compiled tasks; for Python environments processes, once they have proved faster.
    step_seconds : float, optional
        Time limit of a step of a Python environment, after which its worker is ended. Not on
        threads, which cannot be ended.
    """
    from loky import cpu_count

    from crosslearning.rollouts.compiled_executor import CompiledExecutor
    from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor
    from crosslearning.rollouts.process_executor import AutoExecutor, ProcessExecutor
    from crosslearning.rollouts.ray_cluster import RayExecutor

    if workers is not None and (workers is True or int(workers) != workers or workers < 1):
        raise InputError(f"workers must be a whole number of at least 1, got {workers!r}")
    backend, processes = read_backend(on), workers or cpu_count()
    slow = [task.name for task in tasks if task.dynamics is None]
    _check_limit(step_seconds, backend, slow)
    if backend.kind == "auto" and step_seconds is not None:
        backend = Backend("processes")
    if backend.kind == "ray":
        return RayExecutor(tasks, workers, scale, step_seconds, address=backend.address)
    if backend.kind == "processes":
        return ProcessExecutor(tasks, processes, scale, step_seconds)
    if not slow:
        return CompiledExecutor(tasks, workers or 1, scale)
    serial = GymnasiumExecutor(tasks, scale)
    if backend.kind == "auto" and processes > 1 and not _is_worker():
        return AutoExecutor(serial, lambda: ProcessExecutor(tasks, processes, scale))
    if backend.kind == "threads" and workers is not None and workers > 1:
        warnings.warn(
            f"workers = {workers} has no effect: {', '.join(slow[:3])} have no compiled dynamics, "
            "and one thread steps all environments; take on = 'processes'",
            stacklevel=3,
        )
    return serial


def _check_limit(step_seconds: float | None, backend: Backend, slow: Sequence[str]) -> None:
    if step_seconds is None:
        return
    if step_seconds is True or not 0.0 < step_seconds < math.inf:
        raise InputError(f"step_seconds must be above 0 and finite, got {step_seconds!r}")
    if not slow:
        raise InputError(
            "step_seconds is for environments of Python; leave it out for compiled tasks"
        )
    if backend.kind == "threads":
        raise InputError(
            "step_seconds: a step on a thread cannot be ended from outside; take on = 'processes'"
        )


def _is_worker() -> bool:
    """Return whether this process is a worker already, such as one of a study."""
    if multiprocessing.parent_process() is not None:
        return True
    ray = sys.modules.get("ray")  # a worker of a cluster has imported it
    if ray is None or not ray.is_initialized():
        return False
    return bool(ray.get_runtime_context().worker.mode == ray.WORKER_MODE)
