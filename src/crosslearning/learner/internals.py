"""Functions on a learner that other packages of the library need and users do not."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from crosslearning.errors import InputError
from crosslearning.learner.deployment import MissingController, describe_loop
from crosslearning.learner.preparation import ObservationSizeError
from crosslearning.learner.settings import LearnerSettings
from crosslearning.rkhs import Family
from crosslearning.rkhs.checks import Floats
from crosslearning.tasks import Task

if TYPE_CHECKING:
    from crosslearning.learner.cross_learner import CrossLearner
    from crosslearning.learner.policy import Policy


def choose_method(learner: CrossLearner, steps: int | None) -> CrossLearner:
    """Choose the method, if none was given, by the number of steps; return the learner.

    Too few steps are refused before any is taken, and before a run has a folder.
    """
    if not learner._is_made:
        learner.settings = learner._resolved(steps)
        learner._most_steps = math.inf if steps is None else steps
        if steps:
            learner._refuse_too_few()
    return learner


def radii_of(learner: CrossLearner) -> Floats:
    """Return how far from g each policy may be while g and the others stay, shape (N,)."""
    return learner._core.iterate.radii()


def kept_line(learner: CrossLearner) -> str:
    """Return the sentence on tasks whose first or earlier policies are kept; empty if none are."""
    if learner.settings.keep == "last":
        return ""
    kept = learner._core.kept.iterations
    if learner.settings.keep == "expected":
        earlier = int(np.sum(kept < learner.iteration))
        what = f"Kept earlier policies of {earlier} of {len(kept)} tasks: the models expect"
        return f"{what} less of the last ones." if earlier else ""
    names = [repr(task.name) for task, at in zip(learner.tasks, kept, strict=True) if at == 0]
    if not names:
        return ""
    what = "controller" if learner._around else "policy at the start"
    where = ", ".join(names) if len(names) < len(kept) else "every task"
    return f"Kept the {what} on {where}: no policy was better by its lower bound."


def first_policies(learner: CrossLearner) -> Family | None:
    """Return the policies h_1 … h_N and g that learning started from; None if they were zero."""
    keeper = learner._core.keeper
    first = learner._start if keeper is None else keeper.start.family
    if first is None or not len(first.knots):
        return None
    return first.select(*[0] * (len(learner.tasks) + 1)) if first.functions == 1 else first


def worker_status(learner: CrossLearner) -> str:
    """Return how many workers are alive, for a progress bar; empty without workers."""
    alive, wanted = learner._executor.workers
    return f"{alive} of {wanted} workers" if alive else ""


def worker_events(learner: CrossLearner) -> list[str]:
    """Return the events of workers since the last call, as sentences."""
    events = learner._executor.events
    return [events.popleft() for _ in range(len(events))]


def starting_policy(learner: CrossLearner, start: int | str | None = None) -> Policy:
    """Return the policy to adapt from, by default the central one; warn if it is zero."""
    policy = learner.central if start in (None, "central") else learner.policy(start)
    # Around a controller zero is the controller.
    if not learner._around and not np.any(policy.function.norms()):
        remedy = "learn longer"
        if policy.name == "central" and math.isfinite(learner.settings.epsilon):
            remedy += ", take a smaller epsilon, or start from the policy of a task"
        warnings.warn(
            f"the {policy.name} policy is still zero: adapting starts from nothing. To start "
            f"from what was learned, {remedy}",
            stacklevel=3,
        )
    return policy


def behind_controller(learner: CrossLearner, tasks: Sequence[Task]) -> list[Task]:
    """Return other tasks around the controller of the learner's, unless they have one.

    Where the learner has chosen the lags, they have as many.
    """
    lags = loop.lags if (loop := learner.tasks[0].loop) else 0
    chosen = learner.lag_evidence is not None
    tasks = [
        one.with_lags(lags) if one.lags == "auto" or (chosen and not one.lags) else one
        for one in tasks
    ]
    controllers = {id(task.controller): task.controller for task in learner.tasks}
    common = next(iter(controllers.values()))
    if isinstance(common, MissingController) and any(task.controller is None for task in tasks):
        raise InputError(common.why)
    if all(one is None for one in controllers.values()):
        return list(tasks)
    if len(controllers) > 1 and any(task.controller is None for task in tasks):
        raise InputError(
            "the tasks of this learner have controllers of their own; give these tasks theirs: "
            "task.around(controller)"
        )
    return [task if task.controller is not None else task.around(common) for task in tasks]


@contextmanager
def explaining_observations(what: str, tasks: Callable[[], Sequence[Task]]) -> Iterator[None]:
    """Say, where tasks show more or fewer numbers than policies read, what was learned on."""
    try:
        yield
    except ObservationSizeError as problem:
        first = tasks()[0]
        names, loop = ", ".join(first.observation_names), first.loop
        fields = [] if loop is None else describe_loop(loop)
        remedy = f"give the tasks the same fields: {'; '.join(fields)}" if fields else ""
        seen = f"{what} was learned on {names or f'{first.observation_size} numbers'}"
        raise InputError("; ".join(filter(None, [f"{problem}. {seen}", remedy]))) from problem


def transfer_settings(learner: CrossLearner, **changes: Any) -> dict[str, Any]:
    """Return this learner's settings with ``changes``, for other tasks that each learn alone.

    If the changes name another ``method``, only the settings that all methods share are kept.
    """
    values = {**msgspec.structs.asdict(learner.settings), **learner.method.transfer_settings()}
    # The stationarity gap of tasks that learn alone is infinite, so nothing stops.
    values.pop("alpha", None)
    if changes.get("method", learner.settings.method) != learner.settings.method:
        del values["method"]
        values = {k: v for k, v in values.items() if k in LearnerSettings.__struct_fields__}
    # The kernel is the start's; and the units of the policy's actions must not change.
    fixed = {"epsilon": math.inf, "kernel": None, "action_units": learner.action_units}
    return {**values, **fixed, **changes}


#: Names that CrossLearner had in public up to version 0.2: what stands for them, and a function.
_MOVED: dict[str, tuple[str, Callable[..., Any]]] = {
    "inherit": ("learner.method.use_data_of", lambda a, b: a.method.use_data_of(b.method)),
    "news": (f"{__name__}.worker_events", worker_events),
    "onward": (f"{__name__}.transfer_settings", transfer_settings),
    "radii": (f"{__name__}.radii_of", radii_of),
    "sampling": ("learner.method.sampling", lambda learner: learner.method.sampling),
    "start_of": (f"{__name__}.starting_policy", starting_policy),
    "workers": (f"{__name__}.worker_status", worker_status),
}


def deprecate(learner: type[CrossLearner]) -> None:
    """Give the class the names that moved, each with a DeprecationWarning, for one version."""
    for name, (instead, function) in _MOVED.items():
        call = _warning(f"CrossLearner.{name} is deprecated; use {instead}", function)
        setattr(learner, name, property(call) if name in ("sampling", "workers") else call)


def _warning(message: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any, **keywords: Any) -> Any:
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return function(*given, **keywords)

    return call
