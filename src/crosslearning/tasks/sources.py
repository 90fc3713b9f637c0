"""Sources of tasks: a named set, a function in a module, or a TOML file.

A run stores the source and digests of the code that it names, never code itself. Code runs only if
the user names it, or if the user's signed folder does; see :mod:`crosslearning.runs.signature`. If
the code has changed or moved since, nothing is imported.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from crosslearning._base.ordinary_files import read_bytes
from crosslearning.errors import CrossLearningError, InputError, describe_exception
from crosslearning.tasks.task import Task
from crosslearning.tasks.task_files import named_modules, tasks_of_file
from crosslearning.tasks.task_sets import as_tasks, task_set, task_set_names

_FUNCTION = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<function>[A-Za-z_]\w*)")


@dataclass(frozen=True)
class TaskSource:
    """A source of tasks as stored in files.

    Attributes
    ----------
    given : str
        ``"paper"``, ``"package.module:function"`` or the path of a TOML file.
    content : str
        The text of the TOML file.
    code : mapping of str to str
        The SHA-256 of every module that it names.
    paths : mapping of str to str
        The required paths of these modules on this machine; not saved with a learner.
    options : mapping, optional
        The options of a signed folder; a learner's file may name no others.
    """

    given: str
    content: str = ""
    code: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict, compare=False)
    options: Mapping[str, Any] | None = field(default=None, compare=False)

    def to_plain(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"given": self.given, "content": self.content, "code": dict(self.code)}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> TaskSource:
        """Return the source that :meth:`to_plain` described."""
        code = {str(name): str(digest) for name, digest in data["code"].items()}
        return cls(str(data["given"]), str(data["content"]), code)


def read_source(given: str) -> TaskSource:
    """Return the source for a name, a function or a file; nothing is imported."""
    if not isinstance(given, str) or not given:
        raise InputError(f"tasks is {given!r}; give a name, package.module:function or a TOML file")
    if given.endswith(".toml"):
        try:
            content = read_bytes(Path(given)).decode()
        except (OSError, UnicodeDecodeError) as problem:
            raise InputError(f"cannot read the tasks of {given}: {problem}") from problem
        return _source(given, content, named_modules(_parsed(given, content), given))
    module = _module_of(given)
    return _source(given, "", [module] if module else [])


def _source(given: str, content: str, modules: list[str]) -> TaskSource:
    files = {name: _find(name) for name in modules}
    return TaskSource(
        given,
        content,
        {name: _digest(file) for name, file in files.items()},
        {name: str(file.resolve()) for name, file in files.items()},
    )


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


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
    """Return the tasks of a source, if the code that it names is unchanged.

    ``options`` are those of a named set, or keyword arguments of the function.
    """
    check_code(source)
    if source.content:
        if options:
            raise InputError(f"task_options are for named sets and functions, not {source.given}")
        for module in source.code:
            _import(module)
        return tasks_of_file(_parsed(source.given, source.content), source.given)
    if not source.code:
        return task_set(source.given, **options)
    module, _, function = source.given.partition(":")
    maker = getattr(_import(module), function, None)
    if not callable(maker):
        raise InputError(f"the module {module} has no function {function!r}")
    try:
        return as_tasks(maker(**options), source.given)
    except CrossLearningError:
        raise
    except (Exception, SystemExit) as problem:
        raise InputError(
            f"{source.given}, called with the task_options {dict(options)!r}, raised "
            f"{describe_exception(problem)}"
        ) from problem


def check_code(source: TaskSource) -> None:
    """Raise an error if modules of a source have changed or moved; nothing is imported."""
    for module, digest in source.code.items():
        file = _find(module)
        moved = source.paths.get(module, str(file.resolve())) != str(file.resolve())
        if moved or _digest(file) != digest:
            raise InputError(
                f"the tasks are of {source.given}, but the module {module} that is found here, "
                f"{file}, is not the one that they were trained with; nothing was imported. "
                f"Restore it, or say that you mean this one: --tasks {source.given}, or tasks=..."
            )


def is_named(source: TaskSource) -> bool:
    """Return whether a source is the name of a registered set."""
    name = source.given.partition(":")[0]
    return not source.content and not source.code and name in task_set_names()


def not_yours(given: str) -> InputError:
    """Return the error for tasks that untrusted files name."""
    return InputError(
        f"the tasks are defined by {given}, and these files are not a run of yours in its place: "
        "they come from someone else, or were copied, moved or edited. Nothing was imported. If "
        f"you trust that code, name it: --tasks {given}, once for all commands with crosslearning "
        "resume, or tasks=... in Python"
    )


def _module_of(given: str) -> str | None:
    """Return the module that ``package.module:function`` names; None for a named set."""
    match = _FUNCTION.fullmatch(given)
    if match is None or given.partition(":")[0] in task_set_names():
        return None
    return match["module"]


def _parsed(given: str, content: str) -> dict[str, Any]:
    try:
        return tomllib.loads(content)
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise InputError(f"{given} is not a TOML file: {problem}") from problem


def _find(module: str) -> Path:
    """Return the file of a module, without importing it or its packages.

    The working folder is searched first, as by ``python -m``.
    """
    places: list[str] | None = [str(Path.cwd()), *sys.path]
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = PathFinder.find_spec(name, places)
        if spec is None:
            break
        places = list(spec.submodule_search_locations or [])
    origin = None if spec is None else spec.origin
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
        raise InputError(
            f"the module {module} cannot be imported: {describe_exception(problem)}"
        ) from problem
    if Path(imported.__file__ or "").resolve() != file.resolve():
        raise InputError(
            f"a module {module!r} is loaded already from {imported.__file__}, but {file} was "
            "meant; rename yours"
        )
    return imported
