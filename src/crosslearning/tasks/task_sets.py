"""The registry of named task sets."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

import gymnasium
from gymnasium.vector import VectorEnv

from crosslearning.errors import CrossLearningError, InputError, describe_exception, unknown_name
from crosslearning.tasks.families import FAMILIES
from crosslearning.tasks.linear_quadratic import linear_quadratic_set
from crosslearning.tasks.navigation.maps import NAVIGATION_SETS
from crosslearning.tasks.task import MOST_TASKS, Task

#: ``maker(**options)`` returns tasks, or a mapping of names to them or to what has ``task(name)``.
Maker: TypeAlias = Callable[..., Mapping[str, Any] | Iterable[Task]]

#: Makers with the horizon of their tasks, or 0.
_SETS: dict[str, tuple[Maker, int]] = {}
#: What a mapping may say of a task beside its name.
_FIELDS = [field.name for field in dataclasses.fields(Task) if field.init and field.name != "name"]
#: Which tasks: ``50``, ``unseen`` or ``unseen:50``.
_SELECTION = re.compile(r"(unseen(?::|$))?(0*[1-9][0-9]*)?")


def register_task_set(name: str, maker: Maker, *, horizon: int = 0) -> None:
    """Register a task set under a name, for :func:`task_set` and the command line.

    Parameters
    ----------
    name : str
        Without a colon; an existing set of this name is replaced.
    maker : callable
        ``maker(**options)`` returns tasks, or a mapping of names to functions that make
        environments, to fields of tasks, such as ``{"make": make, "horizon": 200}``, or to objects
        with a method ``task(name)``, such as compiled environments. ``"name:50"`` calls it with
        ``count=50``, ``"name:unseen:50"`` also with ``unseen=True``, if it has these parameters.
    horizon : int
        The most steps of an evaluated episode; by default that of each task.

    Examples
    --------
    >>> from crosslearning import register_task_set, task_set
    >>> from crosslearning.tasks.linear_quadratic import cart
    >>> register_task_set("example-carts", lambda: {"light": cart(0.5), "heavy": cart(4.0)})
    >>> [task.name for task in task_set("example-carts")]
    ['light', 'heavy']
    """
    if not name or ":" in name:
        raise InputError(f"the name of a task set is {name!r}; give one without a colon")
    _SETS[name] = (maker, horizon)


def task_set_names() -> tuple[str, ...]:
    """Return the names of all task sets.

    Examples
    --------
    >>> from crosslearning.tasks import task_set_names
    >>> "pendulums" in task_set_names()
    True
    """
    return tuple(_SETS)


def task_set(name: str, /, **options: Any) -> tuple[Task, ...]:
    """Return the tasks of a named set, in a fixed order.

    Parameters
    ----------
    name : str
        One of :func:`task_set_names`. ``"paper:r=1"`` is one task of a set; ``"random:200"`` are
        the first 200 random maps of seed 0, and ``"random:unseen:50"`` are 50 of a seed that is
        kept for evaluation. The id of an environment of Gymnasium, such as ``"CartPole-v1"``, is
        a set of one task.
    **options
        Options of the set, or of ``gymnasium.make``. For navigation: parameters of
        :class:`Navigation` to change in every task, such as ``crash="terminate"``; for
        ``"random"`` also those of :func:`random_maps`; for ``"linear-quadratic"`` those of
        :class:`LinearQuadratic`.

    Examples
    --------
    >>> from crosslearning import task_set
    >>> [task.name for task in task_set("paper")]
    ['r=0.5', 'r=1', 'r=2']
    """
    if name in gymnasium.registry:
        return (Task(name, partial(gymnasium.make, name, **options)),)
    name, colon, only = str(name).partition(":")
    if name not in _SETS:
        raise unknown_name("task set", name, _SETS)
    if colon and not only:
        raise InputError(f"{name}: names no tasks; give how many, such as random:50, or a name")
    maker, horizon = _SETS[name]
    signature = inspect.signature(maker)
    counted = "count" in signature.parameters
    if counted and (selection := _SELECTION.fullmatch(only)):
        only = ""
        options |= {"unseen": True} if selection[1] else {}
        if selection[2]:
            options["count"] = int(selection[2].lstrip("0")[:30])  # more is too many
    try:
        signature.bind(**options)
    except TypeError as problem:
        raise InputError(f"the task set {name!r} cannot be made: {problem}") from problem
    count = options.get("count", 0)
    if isinstance(count, int | float) and count > MOST_TASKS:
        raise InputError(f"{name} is asked for {count:.4g} tasks; give at most {MOST_TASKS}")
    described = {task.name: task for task in made_by(maker, options, f"the task set {name!r}")}
    if counted and only not in ("", *described):
        raise InputError(
            f"{name}:{only} names no tasks; give how many, such as {name}:50, or one of the "
            f"names {', '.join(described)}"
        )
    if only and only not in described:
        raise unknown_name(f"task of the set {name!r}", only, described)
    tasks = [described[only]] if only else described.values()
    return tuple(dataclasses.replace(t, horizon=horizon) if horizon else t for t in tasks)


def made_by(maker: Maker, options: Mapping[str, Any], source: str) -> tuple[Task, ...]:
    """Return the tasks of a maker, or an error that names the source and the line."""
    try:
        return as_tasks(maker(**options), source)
    except CrossLearningError:
        raise
    except (Exception, SystemExit) as problem:
        called = f"called with the task_options {dict(options)!r}"
        raise InputError(f"{source}, {called}, raised {describe_exception(problem)}") from problem


def as_tasks(made: Any, source: str) -> tuple[Task, ...]:
    """Return what a maker returned as tasks."""
    if isinstance(made, Mapping):
        return tuple(_as_task(str(name), one, source) for name, one in made.items())
    if isinstance(made, Iterable) and not isinstance(made, str):
        return tuple(_as_task(f"task {i}", one, source) for i, one in enumerate(made, start=1))
    verb = "is" if source == "tasks" else "returned"
    raise InputError(f"{source} {verb} {made!r}; expected tasks, or a mapping of names to them")


def _as_task(name: str, one: Any, source: str) -> Task:
    if isinstance(one, Task):
        return one
    if hasattr(one, "task"):
        task: Task = one.task(name)
        return task
    if callable(one) or isinstance(one, VectorEnv):
        return Task(name, one)
    if isinstance(one, Mapping) and "make" in one:
        for key in one:
            if key not in _FIELDS:
                raise unknown_name(f"field of the task {name!r}", str(key), _FIELDS)
        return Task(name, **one)
    hint = ""
    if isinstance(one, gymnasium.Env):
        hint = "; this is an environment itself, and several are needed: give what makes it"
    raise InputError(
        f"{source} has {one!r} for a task; give Task('a name', make) with a function "
        "make(render_mode=None) of a new Gymnasium environment, or a mapping of names to those, or "
        f"to fields of tasks, such as {{'make': make, 'horizon': 200}}{hint}"
    )


for _name, _maker in NAVIGATION_SETS.items():
    register_task_set(_name, _maker, horizon=120 if _name == "mission" else 0)
for _name, _family in FAMILIES.items():
    register_task_set(_name, _family)
register_task_set("linear-quadratic", linear_quadratic_set)
