"""The tasks of a saved learner: rebuilt if possible, else stand-ins with the same spaces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import gymnasium
import numpy as np

from crosslearning.errors import CrossLearningError, FileFormatError, InputError
from crosslearning.tasks import Task
from crosslearning.tasks.sources import TaskSource, is_named, load_tasks, not_yours


def space_to_plain(space: gymnasium.spaces.Box) -> dict[str, Any]:
    """Return a box for JSON: infinite bounds are strings."""
    ends = {
        name: [float(v) if math.isfinite(v) else str(float(v)) for v in bounds.ravel()]
        for name, bounds in (("low", space.low), ("high", space.high))
    }
    return {**ends, "shape": list(space.shape), "dtype": np.dtype(space.dtype).name}


def space_from_plain(data: Mapping[str, Any]) -> gymnasium.spaces.Box:
    """Return the box of :func:`space_to_plain`."""
    shape, kind = tuple(int(n) for n in data["shape"]), np.dtype(data["dtype"])
    low, high = (
        np.array([float(v) for v in data[name]]).reshape(shape) for name in ("low", "high")
    )
    return gymnasium.spaces.Box(low.astype(kind), high.astype(kind), shape, kind.type)


def tasks_of_file(
    path: str | Path, description: Mapping[str, Any], source: TaskSource | None = None
) -> tuple[tuple[Task, ...], TaskSource | None]:
    """Return the tasks of a learner's file, and their source.

    Without a trusted ``source`` only named sets are built: nothing else that a file names is
    imported. Stand-ins replace tasks that cannot be built: the policies can be used, and learning
    or evaluation says what is missing.
    """
    names = [str(name) for name in description["tasks"]]
    spaces, options = description.get("spaces"), dict(description["task_options"] or {})
    try:
        source = source or _source(path, description, names)
        if source.options is not None and dict(source.options) != options:
            raise InputError(
                f"{path} was learned with the task_options {options}, but its run asks for "
                f"{dict(source.options)}"
            )
        tasks = load_tasks(source, options)
        built = [task.name for task in tasks]
        if built == names or spaces is None:
            return tasks, source
        raise InputError(f"{path} was learned on {names}, but {source.given} gives {built}")
    except CrossLearningError as problem:
        if spaces is None or isinstance(problem, FileFormatError):
            raise
        missing = MissingEnvironment(f"the tasks of this learner are not here: {problem}")
    try:
        observations, actions = (space_from_plain(space) for space in spaces)
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise FileFormatError(f"{path} lacks the spaces of its tasks") from problem
    return tuple(Task(name, missing, spaces=(observations, actions)) for name in names), None


def _source(path: str | Path, description: Mapping[str, Any], names: list[str]) -> TaskSource:
    saved = description.get("task_source")
    if saved is None and description["task_set"] is None:
        raise InputError(
            f"{path} was learned on tasks of its author's ({names}); pass them: "
            "CrossLearner.load(path, tasks=...)"
        )
    given = TaskSource(str(description.get("task_set")))
    source = given if saved is None else TaskSource.from_plain(saved)
    if not is_named(source):
        raise not_yours(source.given)
    return source


def check_actions(path: str | Path, description: Mapping[str, Any], task: Task) -> None:
    """Refuse a task whose action space differs from that of a learner's file."""
    if "spaces" not in description:
        return
    saved, given = space_from_plain(description["spaces"][1]), task.action_space
    before, now = (np.array([space.low, space.high]).ravel() for space in (saved, given))
    if before.shape != now.shape or not np.allclose(before, now):
        raise InputError(
            f"{path} was learned with the action_space {saved}, but that of task {task.name!r} is "
            f"{given}: the policies' actions would mean something else"
        )


class MissingEnvironment:
    """Stands in for the factory of environments, and raises an error with the reason."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __call__(self, render_mode: str | None = None) -> NoReturn:
        """Raise the error."""
        raise InputError(self.why)
