"""A learner's file: everything needed to continue bit for bit, and the tasks that it names.

Tasks are rebuilt if they are a named set; otherwise stand-ins with the same spaces replace them.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from crosslearning._base.files import MALFORMED, read_tensors, write_tensors
from crosslearning.errors import CrossLearningError, FileFormatError, InputError
from crosslearning.learner.deployment import MissingController
from crosslearning.learner.internals import explaining_observations
from crosslearning.learner.lags import LagEvidence
from crosslearning.learner.settings import FILE_KIND, FILE_VERSION
from crosslearning.learner.user_input import make_settings, settings_to_plain
from crosslearning.rkhs import Kernel, kernel_from_dict
from crosslearning.tasks import Task
from crosslearning.tasks.controllers import controller_from_dict
from crosslearning.tasks.loop_spec import LoopSpec
from crosslearning.tasks.signals import space_from_plain, space_to_plain
from crosslearning.tasks.sources import TaskSource, is_named, load_tasks, not_yours, read_source
from crosslearning.tasks.task_sets import as_tasks

if TYPE_CHECKING:
    from crosslearning.learner.cross_learner import CrossLearner


def write_learner(learner: CrossLearner, path: str | Path) -> None:
    """Write a learner to a file, atomically."""
    arrays, numbers = learner._core.state()
    first, source = learner.tasks[0], learner.source
    described: dict[str, Any] = {
        "settings": settings_to_plain(learner.settings),
        "kernel": learner.kernel.to_dict(),
        "task_set": None if source is None else source.given,
        "task_source": None if source is None else source.to_plain(),
        "task_options": learner.task_options,
        "tasks": [task.name for task in learner.tasks],
        "spaces": [space_to_plain(box) for box in (first.observation_space, first.action_space)],
    }
    if any(task.loop is not None for task in learner.tasks):
        described["loops"] = [
            None if task.loop is None else task.loop.to_dict() for task in learner.tasks
        ]
    if learner.lag_evidence is not None:
        described["lag_evidence"] = list(learner.lag_evidence.evidence)
    write_tensors(path, FILE_KIND, FILE_VERSION, arrays, {**described, **numbers})


def read_learner(
    make: type[CrossLearner],
    path: str | Path,
    tasks: Any,
    kernel: Kernel | None,
    around: Any = None,
    **how: Any,
) -> CrossLearner:
    """Return the learner of a file; ``tasks`` as for :meth:`CrossLearner.load`."""
    if Path(path).is_dir():
        inside = Path(path) / "model.safetensors"
        raise InputError(f"{path} is a folder; load the file {inside}")
    arrays, saved = read_tensors(path, FILE_KIND, FILE_VERSION)
    try:
        if saved["version"] == 1:  # it had one method alone
            arrays["method.mean_square"] = arrays.pop("mean_square")
            saved["method"] = {}
        settings = make_settings(saved["settings"])
        if tasks is None and around is not None:
            tasks = _named_set(path, saved)
        if isinstance(tasks, str):
            tasks = read_source(tasks, around if isinstance(around, str) else None)
        if tasks is None or isinstance(tasks, TaskSource):
            tasks, source = tasks_of_file(path, saved, tasks)
            around = None if isinstance(around, str) else around
        else:
            tasks, source = as_tasks(tasks, "tasks"), None
        if kernel is None:
            kernel = kernel_from_dict(saved["kernel"])
        elif kernel.to_dict() != saved["kernel"]:
            raise InputError(
                f"{path} was learned with the kernel {saved['kernel']}, got {kernel.to_dict()}"
            )
        chosen = settings.kernel or kernel
        tasks = _with_saved_lags(tasks, saved)
        if around is None:
            tasks = _around_saved(path, tasks, saved)
        with explaining_observations(str(path), lambda: _stand_ins(path, saved, "")):
            learner = make(tasks, settings, around=around, kernel=chosen, **how)
        if source is not None:
            learner.source, learner.task_options = source, dict(saved["task_options"] or {})
        names = [task.name for task in learner.tasks]
        if names != saved["tasks"]:
            raise InputError(f"{path} was learned on {saved['tasks']}, got {names}")
        _check_actions(path, saved, learner.tasks[0])
        _check_loops(path, saved, learner.tasks)
        learner._core.restore(arrays, saved)
        if "lag_evidence" in saved:
            evidence = tuple(map(float, saved["lag_evidence"]))
            if not evidence or not np.all(np.isfinite(evidence)):
                raise FileFormatError("its parts do not fit together: lag_evidence")
            learner.lag_evidence = LagEvidence(evidence)
    except FileFormatError as problem:
        raise FileFormatError(f"{path}: {problem}") from problem
    except CrossLearningError:
        raise
    except MALFORMED as problem:
        raise FileFormatError(
            f"{path} lacks a part of a learner, or holds a strange one: {problem}"
        ) from problem
    return learner


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
        named = source is not None and source.by_user
        if named or spaces is None or isinstance(problem, FileFormatError):
            raise
        reason = f"the tasks of this learner are not here: {problem}"
    return _stand_ins(path, description, reason), None


def _stand_ins(path: str | Path, description: Mapping[str, Any], why: str) -> tuple[Task, ...]:
    """Return tasks with the spaces and loops of a learner's file that cannot be run."""
    try:
        observations, actions = (space_from_plain(space) for space in description["spaces"])
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise FileFormatError(f"{path} lacks the spaces of its tasks") from problem
    missing, code = MissingEnvironment(why), _missing_controller(path, description)
    names = [str(name) for name in description["tasks"]]
    tasks = tuple(Task(name, missing, spaces=(observations, actions)) for name in names)
    for task, loop in zip(tasks, description.get("loops", ()), strict=False):
        if loop is not None:
            spec = LoopSpec.from_dict(loop, code)
            seen, acting = spec.names
            # What a controller that is code remembers comes last.
            unnamed = math.prod(observations.shape) - len(seen)
            seen += tuple(f"memory {j} of the controller" for j in range(unnamed))
            task._set(loop=spec, controller=spec.controller, rate=spec.rate)
            task._set(observation_names=seen, action_names=acting)
    return tasks


def _missing_controller(path: str | Path, description: Mapping[str, Any]) -> MissingController:
    """Return what stands in for a controller that is code, with a sentence that names it."""
    named = (description.get("task_source") or {}).get("around")
    which = f"the controller {named}" if named else "a controller of its author's"
    flag = f"--around {shlex.quote(named)}" if named else "--around"
    return MissingController(
        f"{path} was learned around {which}, which is code and not in the file; pass it: "
        f"CrossLearner.load(path, tasks=..., around=...), or {flag}"
    )


def _named_set(path: str | Path, description: Mapping[str, Any]) -> str:
    """Return the task set that ships and that a learner's file names, for a given controller."""
    given = (description.get("task_source") or {}).get("given", description.get("task_set"))
    if given is None or not is_named(TaskSource(str(given))):
        raise InputError(
            f"around was given for {path} without its tasks, "
            f"{given or description['tasks']}; pass them, too: tasks=..."
        )
    return str(given)


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
        raise not_yours(source)
    return source


def _with_saved_lags(tasks: Sequence[Task], saved: Mapping[str, Any]) -> Sequence[Task]:
    """Return tasks whose lags were left open with those that were chosen."""
    loops = saved.get("loops", [None] * len(tasks))
    known = [(int(one["lags"]), one.get("circles")) if one else (0, None) for one in loops]
    return [
        task.with_lags(*of_file) if task.lags == "auto" else task
        for task, of_file in zip(tasks, known, strict=False)
    ]


def _check_actions(path: str | Path, description: Mapping[str, Any], task: Task) -> None:
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


def _check_loops(path: str | Path, saved: Mapping[str, Any], tasks: Sequence[Task]) -> None:
    """Refuse tasks behind another controller or loop than those of a learner's file."""
    for task, before in zip(tasks, saved.get("loops", ()), strict=False):
        if before is None or task.loop is None:
            continue
        now = json.loads(json.dumps(task.loop.to_dict()))
        for name, value in before.items():
            # A controller that is code cannot be compared.
            if value != "code" and now.get(name) not in (value, "code"):
                raise InputError(
                    f"{path} was learned with {name} = {value} of task {task.name!r}, got "
                    f"{now.get(name)}: what was learned would mean something else. Give the same, "
                    "or learn anew"
                )


class MissingEnvironment:
    """Stands in for the factory of environments, and raises an error with the reason."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __call__(self, render_mode: str | None = None) -> NoReturn:
        """Raise the error."""
        raise InputError(self.why)


def _around_saved(
    path: str | Path, tasks: Sequence[Task], saved: Mapping[str, Any]
) -> Sequence[Task]:
    """Return tasks around the controllers of a learner's file, if they have none."""
    for number, loop in enumerate(saved.get("loops", ())):
        given = None if loop is None else loop["controller"]
        if given is None or number >= len(tasks) or tasks[number].controller is not None:
            continue
        if given == "code":
            raise InputError(_missing_controller(path, saved).why)
        around = tasks[number].around(controller_from_dict(given))
        tasks = [*tasks[:number], around, *tasks[number + 1 :]]
    return tasks
