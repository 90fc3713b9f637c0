"""Which executor runs which tasks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from crosslearning.errors import InputError
from crosslearning.rollouts.compiled_executor import CompiledExecutor
from crosslearning.rollouts.data import ActionScale
from crosslearning.rollouts.executor import Executor
from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor
from crosslearning.tasks import Task


def executor_for(
    tasks: Sequence[Task], workers: int = 1, scale: ActionScale | None = None
) -> Executor:
    """Return the fastest executor that can run these tasks.

    Parameters
    ----------
    tasks : sequence of Task
    workers : int
        Threads for tasks with compiled dynamics. Environments of Python are stepped by one;
        a warning says so if more were asked for.
    scale : ActionScale, optional
        From the policies' actions to the tasks' units; by default they are the same.
    """
    if isinstance(workers, bool) or int(workers) != workers or workers < 1:
        raise InputError(f"workers must be a whole number of at least 1, got {workers!r}")
    slow = [task.name for task in tasks if task.dynamics is None]
    if not slow:
        return CompiledExecutor(tasks, int(workers), scale)
    if workers > 1:
        warnings.warn(
            f"workers = {workers} has no effect: {', '.join(slow[:3])} have no compiled dynamics, "
            "and one thread steps all environments",
            stacklevel=3,
        )
    return GymnasiumExecutor(tasks, scale)
