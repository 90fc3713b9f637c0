"""Checks of a learner's parts: tasks, kernel, and initial policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from crosslearning.errors import FileFormatError, InputError
from crosslearning.learner.settings import LearnerSettings
from crosslearning.rkhs import Family, Gaussian, Kernel, kernel_from_dict
from crosslearning.tasks import Task
from crosslearning.tasks.sources import TaskSource, load_tasks
from crosslearning.tasks.task_sets import as_tasks


def known_kernel(
    given: Kernel | Mapping[str, Any] | None,
    start: Family | None,
    tasks: Sequence[Task],
    settings: LearnerSettings,
) -> Kernel | None:
    """Return the given kernel, the start's or the tasks', checked; None if it needs data."""
    kernel: object = given
    if isinstance(given, Mapping):
        try:
            kernel = kernel_from_dict(given)
        except FileFormatError as problem:
            raise InputError(f"kernel is {dict(given)}: {problem}") from problem
    if start is not None:
        kernel = _kernel_of_start(start, kernel, tasks, settings)
    if kernel is None:
        stated = tasks[0].kernel_covariance if settings.as_stated else None
        if stated is None:
            return None
        kernel = Gaussian(covariance=stated)
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel must be a Kernel or its description, got {kernel!r}")
    size = tasks[0].observation_size
    if kernel.dimension != size:
        raise InputError(
            f"the kernel reads {kernel.dimension} numbers, but the tasks' observations have {size}"
        )
    return kernel


def _kernel_of_start(
    start: Family, kernel: object, tasks: Sequence[Task], settings: LearnerSettings
) -> Kernel:
    """Return the kernel of the initial policies, checked."""
    outputs = tasks[0].action_size
    if start.functions not in (1, len(tasks) + 1) or start.outputs != outputs:
        raise InputError(
            f"start must be one function to R^{outputs}, or {len(tasks) + 1} of them: the policies "
            f"and the central one; got {start.functions} functions to R^{start.outputs}. Take "
            "some with Family.select"
        )
    if kernel is not None and kernel != start.kernel:
        raise InputError("start has a kernel of its own; leave kernel out, or pass the same one")
    if start.functions > 1 and len(start.knots):
        distances = start.distances()
        relaxed = settings.projection == "relaxed"
        farthest = float(np.sqrt(np.mean(distances**2)) if relaxed else np.max(distances))
        # Distances are exact up to rounding, relative to the functions' norms.
        if farthest > settings.epsilon + 1e-9 * (1.0 + float(np.max(start.norms()))):
            raise InputError(
                f"the policies of start are {farthest:.6g} from its centre, but epsilon is "
                f"{settings.epsilon:g}; start from a family that was learned with an epsilon no "
                "larger than this one, or project it first (crosslearning.rkhs.project)"
            )
    return start.kernel


def resolve_tasks(
    tasks: TaskSource | Sequence[Task], options: Mapping[str, Any]
) -> tuple[Task, ...]:
    """Return the tasks, checked to be compatible."""
    if options and not isinstance(tasks, TaskSource):
        raise InputError("task_options are for a named task set; give them to your tasks directly")
    if isinstance(tasks, Task):
        raise InputError(f"tasks is the one task {tasks.name!r}; give a list, such as [task]")
    resolved = (
        load_tasks(tasks, options) if isinstance(tasks, TaskSource) else as_tasks(tasks, "tasks")
    )
    if not resolved:
        raise InputError("no tasks were given; give at least one")
    first = resolved[0]
    seen: set[str] = set()
    for task in resolved:
        if task.name in seen:
            raise InputError(f"two tasks have the name {task.name!r}; names must differ")
        seen.add(task.name)
        for kind in ("observation_space", "action_space"):
            space, expected = getattr(task, kind), getattr(first, kind)
            if not isinstance(space, gymnasium.spaces.Box) or space.shape == ():
                raise InputError(
                    f"the {kind} of task {task.name!r} must be a Box, got {space}; {_remedy(space)}"
                )
            if space.shape != expected.shape:
                raise InputError(
                    f"the {kind} of task {task.name!r} has shape {space.shape}, but that of "
                    f"{first.name!r} has {expected.shape}; tasks that learn together must match"
                )
        actions = task.action_space
        if not np.issubdtype(actions.dtype, np.floating) or not np.all(actions.low < actions.high):
            raise InputError(
                f"the action_space of task {task.name!r} is {actions}; give a Box of floats whose "
                "low ends are below its high ends, or nothing can be learned"
            )
        ends = first.action_space.low, first.action_space.high
        if not np.array_equal([actions.low, actions.high], ends):
            raise InputError(
                f"the action_space of task {task.name!r} has other bounds than that of "
                f"{first.name!r}; tasks that learn together must match"
            )
    return resolved


def _remedy(space: gymnasium.Space[Any]) -> str:
    """Return the remedy for a space that is not a box of numbers."""
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return "gymnasium.wrappers.FlattenObservation makes one of it"
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return (
            "policies here are functions to real numbers: for discrete actions take a continuous "
            "version of the environment (such as continuous=True of LunarLander), for discrete "
            "observations gymnasium.wrappers.FlattenObservation, which makes them one-hot"
        )
    return "gymnasium.wrappers.TransformObservation or TransformAction can make one of it"
