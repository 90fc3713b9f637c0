"""Sources of tasks: a named set, a function in a module, or a TOML file.

A run stores the source and digests of the code that it names, never code itself. Code runs only if
the user names it, or if the user's signed folder does; see :mod:`crosslearning.runs.signature`. If
the code has changed or moved since, nothing is imported.

In a TOML file a table ``[[task]]`` is one task, or a whole grid of them::

    [[task]]
    id = "Pendulum-v1"               # what gymnasium.make takes; "module:Id-v0" imports a module
    grid = { g = [8.0, 10.0, 12.0] } # one task for each value, or for each combination
    set = { m = 1.2, l = 0.9 }       # attributes of the environment, set after make
    wrappers = ["FlattenObservation", { wrapper = "TimeLimit", max_episode_steps = 100 }]
                                     # of gymnasium.wrappers, or "package.module:Class"
    horizon = 200                    # by default the environment's own time limit
    outcomes = ["reward_dist"]       # numbers in the last info that evaluations report
    lags = 2                         # or "auto"; lags, past_actions, setpoints, limits, rates,
    limits = { pressure = ["none", 8.0] }    # chance and disturbances are fields of a task
    name = "light"                   # by default made of the id and what varies

All other keys are passed to ``gymnasium.make``. A table ``[common]`` holds shared keys.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import itertools
import math
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from crosslearning._base.ordinary_files import read_bytes
from crosslearning.errors import CrossLearningError, InputError, describe_exception, unknown_name
from crosslearning.tasks.controllers import read_controller
from crosslearning.tasks.task import MOST_TASKS, Task
from crosslearning.tasks.task_sets import made_by, task_set, task_set_names

_FUNCTION = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<function>[A-Za-z_]\w*)")
#: The keys of a task, and what they should hold.
_FORMS: dict[str, tuple[Any, str]] = {
    "id": (str, "one, such as 'Pendulum-v1'"),
    "name": (str, "a text"),
    "set": (Mapping, "a table, such as { m = 1.2 }"),
    "grid": (Mapping, "a table of lists, such as { g = [8.0, 12.0] }"),
    "wrappers": (list, "a list, such as ['FlattenObservation']"),
    "horizon": (int, "a whole number"),
    "outcomes": (list, "a list, such as ['reward_dist']"),
    "lags": ((int, str), "a whole number, or 'auto'"),
    "past_actions": (int, "a whole number"),
    "setpoints": (Mapping, "a table, such as { level = 1.0 }"),
    "limits": (Mapping, "a table of pairs, such as { pressure = ['none', 8.0] }"),
    "rates": (Mapping, "a table, such as { valve = 0.1 }"),
    "chance": (float, "a probability, such as 0.95"),
    "disturbances": (list, "a list, such as ['outdoors']"),
}
#: Those that are fields of a task.
_TASK_FIELDS = [*_FORMS][5:]
_LONGEST = 1_000_000_000
#: Python's message for an argument that a function does not have.
_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")


@dataclass(frozen=True)
class TaskSource:
    """A source of tasks as stored in files."""

    given: str  #: ``"paper"``, ``"package.module:function"`` or the path of a TOML file
    content: str = ""  #: the text of the TOML file
    code: Mapping[str, str] = field(default_factory=dict)  #: the SHA-256 of each named module
    #: The controller that the tasks are learned around: module:name, or a file and its content.
    around: str = ""
    around_content: str = ""
    #: The required paths of these modules on this machine; not saved with a learner.
    paths: Mapping[str, str] = field(default_factory=dict, compare=False)
    #: The options of a signed folder; a learner's file may name no others.
    options: Mapping[str, Any] | None = field(default=None, compare=False)
    #: Whether the user named it now, and must be told what is wrong with it.
    by_user: bool = field(default=False, compare=False)

    def to_plain(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        plain = {"given": self.given, "content": self.content, "code": dict(self.code)}
        more = {"around": self.around, "around_content": self.around_content}
        return plain | (more if self.around else {})

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> TaskSource:
        """Return the source that :meth:`to_plain` described."""
        code = {str(name): str(digest) for name, digest in data["code"].items()}
        around, text = (str(data.get(key, "")) for key in ("around", "around_content"))
        return cls(str(data["given"]), str(data["content"]), code, around, text)


def read_source(given: str, around: str | None = None) -> TaskSource:
    """Return the source for a name, a function or a file; nothing is imported.

    ``around`` names a controller: ``package.module:name``, or the JSON file of one.
    """
    if not isinstance(given, str) or not given:
        raise InputError(f"tasks is {given!r}; give a name, package.module:function or a TOML file")
    content, modules = "", []
    if given.endswith(".toml"):
        content = _text(given, "tasks")
        modules = named_modules(_parsed(given, content), given)
    elif given.partition(":")[0] not in task_set_names() and (match := _FUNCTION.fullmatch(given)):
        modules = [match["module"]]
    around, controller = around or "", ""
    if match := _FUNCTION.fullmatch(around):
        modules.append(match["module"])
    elif around and not around.endswith(".json") and not Path(around).exists():
        raise InputError(
            f"around is {around!r}; give package.module:name, such as my_module:pid, or the JSON "
            "file of a controller"
        )
    elif around:
        controller = _text(around, "controller")
    files = {name: _find(name) for name in modules}
    code = {name: _digest(file) for name, file in files.items()}
    paths = {name: str(file.resolve()) for name, file in files.items()}
    return TaskSource(given, content, code, around, controller, paths, by_user=True)


def _text(path: str, what: str) -> str:
    try:
        return read_bytes(Path(path)).decode()
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"cannot read the {what} of {path}: {problem}") from problem


def tasks_from(given: str, **options: Any) -> tuple[Task, ...]:
    """Return the tasks that a user named; naming them is to trust them.

    Examples
    --------
    >>> from crosslearning.tasks import tasks_from
    >>> len(tasks_from("pendulums:4"))
    4
    """
    return load_tasks(read_source(given), options)


def load_tasks(source: TaskSource, options: Mapping[str, Any]) -> tuple[Task, ...]:
    """Return the tasks of a source with some options, if the code that it names is unchanged."""
    check_code(source)
    tasks = _load(source, options)
    if not source.around:
        return tasks
    if source.around_content:
        return around_controllers(tasks, read_controller(source.around_content, source.around))
    module, _, name = source.around.partition(":")
    home = _import(module) if module in source.code else None
    if not hasattr(home, name):
        raise InputError(f"the module {module} has no controller {name!r}")
    return around_controllers(tasks, getattr(home, name))


def around_controllers(tasks: Sequence[Task], given: Any) -> tuple[Task, ...]:
    """Return tasks around one controller, or around one each: a mapping by name, or a sequence."""
    names = [task.name for task in tasks]
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise InputError(f"there are controllers for {sorted(given)}, but tasks {names}")
        given = [given[name] for name in names]
    if isinstance(given, list | tuple):
        if len(given) != len(names):
            raise InputError(
                f"there are {len(given)} controllers for {len(names)} tasks; give one, or one each"
            )
    else:
        given = [given] * len(names)
    return tuple(task.around(one) for task, one in zip(tasks, given, strict=True))


def _load(source: TaskSource, options: Mapping[str, Any]) -> tuple[Task, ...]:
    if source.content:
        if options:
            raise InputError(f"task_options are for named sets and functions, not {source.given}")
        for module in source.code:
            _import(module)
        return tasks_of_file(_parsed(source.given, source.content), source.given)
    module, _, function = source.given.partition(":")
    if not source.code or module in task_set_names():
        return task_set(source.given, **options)
    maker = getattr(_import(module), function, None)
    if not callable(maker):
        raise InputError(f"the module {module} has no function {function!r}")
    return made_by(maker, options, source.given)


def check_code(source: TaskSource) -> None:
    """Raise an error if modules of a source have changed or moved; nothing is imported."""
    for module, digest in source.code.items():
        file = _find(module)
        moved = source.paths.get(module, str(file.resolve())) != str(file.resolve())
        if moved or _digest(file) != digest:
            raise InputError(
                f"{_defined_by(source)}, but the module {module} here, {file}, is not the one "
                "that they were trained with; nothing was imported. Restore it, or say that you "
                f"mean this one: {_naming(source)}"
            )


def is_named(source: TaskSource) -> bool:
    """Return whether a source is the name of a registered set."""
    named = source.given.partition(":")[0] in task_set_names()
    code = source.content or source.code or (source.around and not source.around_content)
    return named and not code


def not_yours(source: TaskSource) -> InputError:
    """Return the error for tasks that untrusted files name."""
    return InputError(
        f"{_defined_by(source)}, and these files are not a run of yours in its place: they come "
        "from someone else, or were copied, moved or edited. Nothing was imported. If you trust "
        f"that code, name it: {_naming(source)}"
    )


def _defined_by(source: TaskSource) -> str:
    controller = f" around the controller {source.around}" if source.around else ""
    return f"the tasks are defined by {source.given}{controller}"


def _naming(source: TaskSource) -> str:
    """Return the options that name a source, for any command that reads a run."""
    flags, words = f"--tasks {shlex.quote(source.given)}", "tasks=..."
    if source.around and not source.around_content:
        flags, words = f"{flags} --around {shlex.quote(source.around)}", "tasks=..., around=..."
    return f"{flags}, once for all commands with crosslearning resume, or {words} in Python"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _parsed(given: str, content: str) -> dict[str, Any]:
    try:
        return tomllib.loads(content)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise InputError(f"{given} is not a TOML file: {problem}") from problem


def _find(module: str) -> Path:
    """Return the file of a module, without importing it; the working folder is searched first."""
    places = [str(Path.cwd()), *sys.path]
    for name in itertools.accumulate(module.split("."), "{}.{}".format):
        spec = PathFinder.find_spec(name, places)
        places = list(spec.submodule_search_locations or []) if spec else []
    origin = spec.origin if spec else None
    if origin is None or not origin.endswith(".py"):
        raise InputError(
            f"there is no module {module!r} of Python source on this machine; give "
            "package.module:function of a module that is installed or in the working folder"
        )
    return Path(origin)


def _import(module: str) -> Any:
    """Import a module, and check that it is the one of :func:`_find`."""
    file = _find(module)
    top = file.parents[len(module.split(".")) - (file.name != "__init__.py")]
    if str(top) not in sys.path:
        sys.path.insert(0, str(top))
    try:
        imported = importlib.import_module(module)
    except CrossLearningError:
        raise
    except (Exception, SystemExit) as problem:  # a script may exit
        why = describe_exception(problem)
        raise InputError(f"the module {module} cannot be imported: {why}") from problem
    if Path(imported.__file__ or "").resolve() != file.resolve():
        raise InputError(
            f"a module {module!r} is loaded already from {imported.__file__}, but {file} was "
            "meant; rename yours"
        )
    return imported


# Task files -------------------------------------------------------------------------------


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
        grid = table.get("grid", {})
        if math.prod(map(len, grid.values())) > MOST_TASKS:
            raise InputError(f"{source}: a grid has over {MOST_TASKS} tasks; give fewer values")
        for values in itertools.product(*grid.values()):
            tasks.append(_task(table, dict(zip(grid, values, strict=True)), source))
    return tuple(tasks)


def _tables(data: Mapping[str, Any], source: str) -> list[dict[str, Any]]:
    """Return the task tables, checked, with the common keys filled in."""
    for name in data.keys() - {"task", "common"}:
        raise InputError(f"{source}: {unknown_name('table', name, ('task', 'common'))}")
    common, tables = data.get("common", {}), data.get("task", [])
    if not isinstance(common, Mapping) or not isinstance(tables, list) or not tables:
        raise InputError(f"{source} holds no tasks; give at least one table [[task]] with an id")
    complete = [{**common, **table} if isinstance(table, Mapping) else {} for table in tables]
    for table in complete:
        if "id" not in table:
            raise InputError(f"{source}: a task has no id in {list(table)}; give {_FORMS['id'][1]}")
        for name, (kind, form) in _FORMS.items():
            if name in table and not isinstance(table[name], kind):
                raise InputError(f"{source}: {name} is {table[name]!r}; give {form}")
        for name, values in table.get("grid", {}).items():
            if not isinstance(values, list) or not values:
                raise InputError(f"{source}: grid.{name} is {values!r}; give a list of values")
        steps = table.get("horizon", 1)
        if not 0 < steps <= _LONGEST:
            raise InputError(f"{source}: horizon is {steps}; give 1 to {_LONGEST} steps")
    return complete


def _task(table: Mapping[str, Any], varied: Mapping[str, Any], source: str) -> Task:
    options = {name: value for name, value in table.items() if name not in _FORMS}
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
    make = functools.partial(_make, name, table["id"], options, attributes, wrappers)
    fields = {key: table[key] for key in _TASK_FIELDS if key in table}
    if "limits" in fields:  # TOML has no word for nothing
        fields["limits"] = {
            key: tuple(None if end == "none" else end for end in ends)
            for key, ends in fields["limits"].items()
        }
    return Task(name, make, context=context, **fields)


def _wrapper(given: Any, source: str) -> tuple[str, dict[str, Any]]:
    """Return a wrapper's name and its arguments."""
    table = {"wrapper": given} if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not isinstance(table.get("wrapper"), str):
        form = "its name, or a table { wrapper = 'TimeLimit', … } with its arguments"
        raise InputError(f"{source}: a wrapper is {given!r}; give {form}")
    return table["wrapper"], {k: v for k, v in table.items() if k != "wrapper"}


def _make(
    name: str,
    identifier: str,
    options: dict[str, Any],
    attributes: dict[str, Any],
    wrappers: list[tuple[str, dict[str, Any]]],
    render_mode: str | None = None,
) -> gymnasium.Env[Any, Any]:
    """Return a new environment of one task."""
    try:
        environment = gymnasium.make(identifier, render_mode=render_mode, **options)
        for attribute, value in attributes.items():
            _set(environment.unwrapped, attribute, value)
        for wrapper, arguments in wrappers:
            environment = _wrapper_class(wrapper)(environment, **arguments)
    except (gymnasium.error.Error, TypeError, ValueError, AttributeError) as problem:
        refused, hint = _UNEXPECTED.search(str(problem)), ""
        if refused and refused[1] in options:
            close = difflib.get_close_matches(refused[1], _FORMS, n=1)
            hint = f". Did you mean {close[0]!r}?" if close else "."
            hint += f" All but the keys {', '.join(_FORMS)} go to the environment"
        raise InputError(f"the task {name!r} cannot be made: {problem}{hint}") from problem
    return environment


def _set(target: Any, name: str, value: Any) -> None:
    """Set an existing attribute; ``a.b`` is nested, arrays are filled."""
    *path, last = name.split(".")
    target = functools.reduce(getattr, path, target)
    if not hasattr(target, last):
        public = [one for one in vars(target) if not one.startswith("_")] or ["(none)"]
        raise unknown_name(f"attribute of {type(target).__name__}", last, public)
    present = getattr(target, last)
    if isinstance(present, np.ndarray):
        present[...] = value
    else:
        setattr(target, last, value)


def _wrapper_class(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not colon:
        module, attribute = "gymnasium.wrappers", name
    home = importlib.import_module(module)
    if not hasattr(home, attribute):
        known = ["(see the module)"] if colon else gymnasium.wrappers.__all__
        raise unknown_name("wrapper", name, known)
    return getattr(home, attribute)
