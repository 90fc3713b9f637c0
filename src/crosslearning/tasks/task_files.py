"""Task files: Gymnasium environments with parameters, in TOML.

A table ``[[task]]`` is one task, or a whole grid of them::

    [[task]]
    id = "Pendulum-v1"               # what gymnasium.make takes; "module:Id-v0" imports a module
    grid = { g = [8.0, 10.0, 12.0] } # one task for each value, or for each combination
    set = { m = 1.2, l = 0.9 }       # attributes of the environment, set after make
    wrappers = ["FlattenObservation", { wrapper = "TimeLimit", max_episode_steps = 100 }]
                                     # of gymnasium.wrappers, or "package.module:Class"
    horizon = 200                    # by default the environment's own time limit
    outcomes = ["reward_dist"]       # numbers in the last info that evaluations report
    name = "light"                   # by default made of the id and what varies

All other keys are passed to ``gymnasium.make``. A table ``[common]`` holds shared keys.
"""

from __future__ import annotations

import difflib
import importlib
import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from crosslearning.errors import InputError, unknown_name
from crosslearning.tasks.task import MOST_TASKS, Task

_KEYS = ("id", "name", "set", "grid", "wrappers", "horizon", "outcomes")
_LONGEST = 1_000_000_000
#: Python's message for an argument that a function does not have.
_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")


def named_modules(data: Mapping[str, Any], source: str) -> list[str]:
    """Return the user modules that a task file names, in order."""
    modules = []
    for table in _tables(data, source):
        names = [table["id"], *(_wrapper(w, source)[0] for w in table.get("wrappers", []))]
        modules += [name.partition(":")[0] for name in names if ":" in name]
    return list(dict.fromkeys(modules))


def tasks_of_file(data: Mapping[str, Any], source: str) -> tuple[Task, ...]:
    """Return the tasks of a parsed task file."""
    tasks = []
    for table in _tables(data, source):
        grid = _grid(table, source)
        if math.prod(map(len, grid.values())) > MOST_TASKS:
            raise InputError(
                f"{source}: a grid has more than {MOST_TASKS} tasks; give fewer values"
            )
        for values in itertools.product(*grid.values()):
            tasks.append(_task(table, dict(zip(grid, values, strict=True)), source))
    return tuple(tasks)


def _tables(data: Mapping[str, Any], source: str) -> list[dict[str, Any]]:
    """Return the task tables, with the common keys filled in."""
    for name in data:
        if name not in ("task", "common"):
            raise InputError(f"{source}: {unknown_name('table', name, ('task', 'common'))}")
    common, tables = data.get("common", {}), data.get("task", [])
    if not isinstance(common, Mapping) or not isinstance(tables, list) or not tables:
        raise InputError(f"{source} holds no tasks; give at least one table [[task]] with an id")
    complete = []
    for table in tables:
        whole = {**common, **table} if isinstance(table, Mapping) else {}
        if not isinstance(whole.get("id"), str):
            raise InputError(
                f"{source}: a task has no id among its keys {list(whole)}; give one, such as "
                "id = 'Pendulum-v1'"
            )
        for name, kind, form in (
            ("set", Mapping, "a table, such as { m = 1.2 }"),
            ("grid", Mapping, "a table of lists, such as { g = [8.0, 12.0] }"),
            ("wrappers", list, "a list, such as ['FlattenObservation']"),
            ("outcomes", list, "a list, such as ['reward_dist']"),
            ("name", str, "a text"),
            ("horizon", int, "a whole number"),
        ):
            if name in whole and not isinstance(whole[name], kind):
                raise InputError(f"{source}: {name} is {whole[name]!r}; give {form}")
        if not 0 < whole.get("horizon", 1) <= _LONGEST:
            raise InputError(
                f"{source}: horizon is {whole['horizon']}; give a number of steps, 1 to {_LONGEST}"
            )
        complete.append(whole)
    return complete


def _grid(table: Mapping[str, Any], source: str) -> dict[str, list[Any]]:
    grid = {}
    for name, values in table.get("grid", {}).items():
        if not isinstance(values, list) or not values:
            raise InputError(f"{source}: grid.{name} is {values!r}; give a list of values")
        grid[name] = values
    return grid


def _task(table: Mapping[str, Any], varied: Mapping[str, Any], source: str) -> Task:
    options = {name: value for name, value in table.items() if name not in _KEYS}
    attributes = dict(table.get("set", {}))
    for name, value in varied.items():
        (attributes if name in attributes else options)[name] = value
    shown = varied or {**attributes, **options}
    name = table.get("name", table["id"])
    if varied or "name" not in table:
        short = {k: f"{v:.4g}" if isinstance(v, float) else str(v) for k, v in shown.items()}
        name = " ".join(part for part in (name, *(f"{k}={v}" for k, v in short.items())) if part)
    wrappers = [_wrapper(one, source) for one in table.get("wrappers", [])]
    context = {k: float(v) for k, v in shown.items() if isinstance(v, int | float)}
    make = _Maker(name, table["id"], options, attributes, wrappers)
    horizon, outcomes = table.get("horizon", 0), table.get("outcomes")
    return Task(name, make, outcomes=outcomes, horizon=horizon, context=context)


def _wrapper(given: Any, source: str) -> tuple[str, dict[str, Any]]:
    """Return a wrapper's name and its arguments."""
    table = {"wrapper": given} if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not isinstance(table.get("wrapper"), str):
        raise InputError(
            f"{source}: a wrapper is {given!r}; give its name, or a table "
            "{ wrapper = 'TimeLimit', … } with its arguments"
        )
    return table["wrapper"], {k: v for k, v in table.items() if k != "wrapper"}


@dataclass(frozen=True)
class _Maker:
    """Makes the environment of one task; it can be sent to other processes."""

    name: str
    id: str
    options: dict[str, Any]
    attributes: dict[str, Any]
    wrappers: list[tuple[str, dict[str, Any]]]

    def __call__(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        try:
            environment = gymnasium.make(self.id, render_mode=render_mode, **self.options)
            for name, value in self.attributes.items():
                _set(environment.unwrapped, name, value)
            for wrapper, arguments in self.wrappers:
                environment = _wrapper_class(wrapper)(environment, **arguments)
        except (gymnasium.error.Error, TypeError, ValueError, AttributeError) as problem:
            refused, hint = _UNEXPECTED.search(str(problem)), ""
            if refused and refused[1] in self.options:
                close = difflib.get_close_matches(refused[1], _KEYS, n=1)
                meant = f" Did you mean {close[0]!r}?" if close else ""
                hint = f".{meant} A task file itself knows the keys {', '.join(_KEYS)}; all others "
                hint += "go to the environment"
            raise InputError(f"the task {self.name!r} cannot be made: {problem}{hint}") from problem
        return environment


def _set(target: Any, name: str, value: Any) -> None:
    """Set an existing attribute; ``a.b`` is nested, arrays are filled."""
    *path, last = name.split(".")
    for part in path:
        target = getattr(target, part)
    if not hasattr(target, last):
        public = [one for one in vars(target) if not one.startswith("_")] or ["(none)"]
        raise unknown_name(f"attribute of {type(target).__name__}", last, public)
    present = getattr(target, last)
    if isinstance(present, np.ndarray):
        present[...] = value
    else:
        setattr(target, last, value)


def _wrapper_class(name: str) -> Callable[..., gymnasium.Env[Any, Any]]:
    module, colon, attribute = name.partition(":")
    home = importlib.import_module(module) if colon else gymnasium.wrappers
    if not hasattr(home, attribute or module):
        known = [] if colon else gymnasium.wrappers.__all__
        raise unknown_name("wrapper", name, known or ["(see the module)"])
    wrapper: Callable[..., gymnasium.Env[Any, Any]] = getattr(home, attribute or module)
    return wrapper
