"""Options that commands share, and a flag for every field of the configuration."""

from __future__ import annotations

import inspect
import json
import shlex
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from crosslearning.errors import InputError
from crosslearning.learner.settings import EACH, METHODS
from crosslearning.runs import RunConfig, describe_fields, make_config, read_config
from crosslearning.runs.config import FieldDescription, one_length

#: The largest number of trials, steps or samples; a larger one is a typing error.
MOST = 1_000_000_000


def whole(text: str, least: int = 1, most: int = MOST) -> Any:
    """Return the option of a whole number, with its help."""
    return typer.Option(min=least, max=most, help=text)


def folder(text: str) -> Any:
    """Return the option of a folder to write to, with its help; an empty name is refused."""

    def read(given: str | Path) -> Path:  # a default is a Path already
        if not str(given).strip():  # Path would take it for the current folder
            raise typer.BadParameter("it is empty; name a folder, such as runs/first")
        return Path(given)

    return typer.Option(parser=read, metavar="FOLDER", help=text)


Run = Annotated[Path, typer.Argument(help="The run's folder.")]
Horizon = Annotated[int | None, whole("Most steps of an episode; default: the task's own.")]
StartSeed = Annotated[int, typer.Option(min=0, help="Seed of the starts.")]
NoiseSeed = Annotated[int, typer.Option(min=0, help="Seed of the starts and the noise.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Best = Annotated[bool, typer.Option(help="The best policies of a run with evaluations on the way.")]
RunTasks = Annotated[
    str | None, typer.Option(help="The run's tasks, if they are not found: as for training.")
]
Config = Annotated[Path | None, typer.Option(help="TOML file with fields; flags win over it.")]
_TABLE = 'a table, such as {{{0} = \'{1}\', …}} or JSON: {{"{0}": "{1}", …}}'
#: Flags that are given as text, and their format.
_FORMS = {
    **dict.fromkeys(EACH, "numbers with commas"),
    "kernel": _TABLE.format("kernel", "gaussian"),
    "task_options": _TABLE.format("crash", "terminate"),
}


def add_flags(
    command: Callable[..., None], flags: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """Add flags to a command that takes them as its ``**keywords``."""
    before = inspect.signature(command, eval_str=True).parameters.values()
    named = [parameter for parameter in before if parameter.kind is not parameter.VAR_KEYWORD]
    added = [flag.replace(kind=flag.KEYWORD_ONLY) for flag in flags]
    command.__signature__ = inspect.Signature([*named, *added])  # type: ignore[attr-defined]
    return command


def with_config_options(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a flag for every configuration field but some."""
    known: dict[str, list[FieldDescription]] = {}
    for field in describe_fields():
        if field.name not in without:
            known.setdefault(field.name, []).append(field)
    return lambda command: add_flags(command, map(_field_option, known.values()))


def _field_option(fields: list[FieldDescription]) -> inspect.Parameter:
    """Return the command-line parameter of a field, which several methods may have."""
    # The type without its bounds, which make_config checks.
    described = SimpleNamespace(__annotations__={"field": fields[0].annotation})
    inner = get_type_hints(described)["field"]
    # Lists and tables are given as text; see read_flag.
    as_text = any(get_origin(part) in (tuple, dict) for part in (inner, *get_args(inner)))
    kind: Any = str if as_text else inner
    texts = [
        (f"({field.group}) " if field.group in METHODS and len(METHODS) > 1 else "")
        + f"{field.description} [default: {field.default}]"
        for field in fields
    ]
    option = typer.Option(help=" ".join(texts), show_default=False)
    parameter = inspect.Parameter(fields[0].name, inspect.Parameter.KEYWORD_ONLY, default=None)
    return parameter.replace(annotation=Annotated[kind | None, option])


def config_from(file: Path | None, flags: dict[str, Any], fixed: Sequence[str] = ()) -> RunConfig:
    """Return the configuration of a file and the flags, which win; a sweep sets ``fixed``.

    Code and clusters (whose answers are unpickled) that a file names must be named by flags too.
    """
    values = read_config(file) if file is not None else {}
    named = {name for name, value in flags.items() if value is not None}
    tasks, on = values.get("tasks"), values.get("on")
    if isinstance(tasks, str) and "tasks" not in named and not _is_set(tasks):
        raise InputError(
            f"{file} names the tasks {tasks!r}, which are no set that ships, and a file runs no "
            f"code by itself. If you trust it, say so: --tasks {shlex.quote(tasks)}"
        )
    if isinstance(on, str) and on.startswith("ray") and "on" not in named:
        raise InputError(
            f"{file} asks for the cluster {on!r}, and a file connects to none by itself. If you "
            f"trust it, say so: --on {shlex.quote(on)}"
        )
    for name in fixed:
        if name in values:
            raise InputError(f"{file}: a sweep sets {name} itself; leave it out")
    values |= one_length({name: read_flag(name, v) for name, v in flags.items() if v is not None})
    return make_config(values, source=str(file or "the flags"))


def _is_set(given: str) -> bool:
    from crosslearning.tasks.sources import TaskSource, is_named

    return is_named(TaskSource(given))


def read_flag(name: str, value: Any) -> Any:
    """Return a flag's value as the configuration holds it."""
    if name not in _FORMS:
        return value
    try:
        if name in EACH:
            return [float(part) for part in str(value).split(",")]
        return _read_table(str(value))
    except (ValueError, RecursionError) as problem:
        text = f"--{name.replace('_', '-')} must be {_FORMS[name]}, got {str(value)[:200]!r}"
        raise InputError(text) from problem


def _read_table(text: str) -> dict[str, Any]:
    """Return a table in TOML or JSON."""
    try:
        table = json.loads(text)
    except ValueError:
        table = tomllib.loads(f"table = {text}")["table"]
    if not isinstance(table, dict):
        raise ValueError(f"{text} is no table")
    return table
