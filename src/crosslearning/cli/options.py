"""Options that commands share, and a flag for every field of the configuration."""

from __future__ import annotations

import inspect
import json
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, get_type_hints

import typer

from crosslearning.errors import InputError
from crosslearning.learner.settings import EACH, METHODS
from crosslearning.runs import RunConfig, describe_fields, make_config, read_config
from crosslearning.runs.config import FieldDescription, one_length


def option(text: str, *flags: str, **settings: Any) -> Any:
    """Return an option with its help."""
    return typer.Option(*flags, help=text, **settings)


def whole(text: str, least: int = 1, most: int = 1_000_000_000) -> Any:
    """Return the option of a whole number; one beyond ``most`` is a typing error."""
    return typer.Option(min=least, max=most, help=text)


def folder(text: str) -> Any:
    """Return the option of a folder to write to, with its help; an empty name is refused."""

    def read(given: str | Path) -> Path:  # a default is a Path already
        if not str(given).strip():  # Path would take it for the current folder
            raise typer.BadParameter("it is empty; name a folder, such as runs/first")
        return Path(given)

    return typer.Option(parser=read, metavar="FOLDER", help=text)


Run = Annotated[Path, typer.Argument(help="The run's folder.")]
Policy = Annotated[str, option("central, average, or a task by name or number.")]
Horizon = Annotated[int | None, whole("Most steps of an episode; default: the task's own.")]
Samples = Annotated[int, whole("Fresh samples per task.", 2)]
SampleSeed = Annotated[int, option("Seed of the samples.", min=0)]
StartSeed = Annotated[int, option("Seed of the starts.", min=0)]
NoiseSeed = Annotated[int, option("Seed of the starts and the noise.", min=0)]
Alpha = Annotated[float | None, option("Stationarity to ask about; default: the run's.")]
TaskOptions = Annotated[str | None, option("Options of that set, such as '{\"seed\": 7}'.")]
Open = Annotated[bool, option("Show the page in a browser.", "--open/--no-open")]
Json = Annotated[bool, option("Print JSON.", "--json")]
#: ``--best`` is its name up to version 0.3; policies that are kept are best in another sense.
Best = Annotated[
    bool, option("The policies of the best evaluation on the way.", "--best-evaluated", "--best")
]
RunTasks = Annotated[
    str | None,
    option("The run's tasks, as for training: if it is not yours, or was moved or edited."),
]
RunAround = Annotated[
    str | None, option("Its controller likewise, if that is code: module:name.", "--around")
]
Verdict = Annotated[int, whole("Episodes that judge each policy at the end; 0: none.", least=0)]
Workers = Annotated[int | None, whole("Processes; default: one for every processor.")]
On = Annotated[str, option("Where runs go: processes, or a Ray cluster: ray, ray://host:port.")]
Config = Annotated[Path | None, option("TOML file with fields; flags win over it.")]
Command = Callable[..., None]
_TABLE = 'a table, such as {{{0} = \'{1}\', …}} or JSON: {{"{0}": "{1}", …}}'
#: Flags that are given as text, and their format.
_FORMS = {
    **dict.fromkeys(EACH, "numbers with commas"),
    "kernel": _TABLE.format("kernel", "gaussian"),
    "task_options": _TABLE.format("crash", "terminate"),
}
#: The names of fields in Stable-Baselines3.
_ELSEWHERE = {"discount": "gamma", "trace": "gae_lambda", "step_kl": "target_kl"}


def with_flags(flags: Iterable[inspect.Parameter]) -> Callable[[Command], Command]:
    """Add flags to a command that takes them as its ``**keywords``, its last parameter."""
    added = [flag.replace(kind=flag.KEYWORD_ONLY) for flag in flags]

    def add(command: Command) -> Command:
        *named, _ = inspect.signature(command, eval_str=True).parameters.values()
        command.__signature__ = inspect.Signature([*named, *added])  # type: ignore[attr-defined]
        return command

    return add


def with_config_options(
    *without: str, more: Iterable[inspect.Parameter] = ()
) -> Callable[[Command], Command]:
    """Add a flag for every configuration field but some, and further flags."""
    known: dict[str, list[FieldDescription]] = {}
    for field in describe_fields():
        if field.name not in without:
            known.setdefault(field.name, []).append(field)
    return with_flags([*more, *map(_field_option, known.values())])


def _field_option(fields: list[FieldDescription]) -> inspect.Parameter:
    """Return the command-line parameter of a field, which several methods may have."""
    # The type without its bounds, which make_config checks; lists and tables are given as text.
    described = SimpleNamespace(__annotations__={"field": fields[0].annotation})
    kind: Any = str if fields[0].name in _FORMS else get_type_hints(described)["field"]
    text, name = "", fields[0].name
    for field in fields:
        text += f"({field.group}) " if field.group in METHODS else ""
        text += f"{field.description} [default: {field.default}] "
    text += f"In Stable-Baselines3: {_ELSEWHERE[name]}." if name in _ELSEWHERE else ""
    annotation = Annotated[kind | None, option(text, show_default=False)]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=None, annotation=annotation)


def config_from(file: Path | None, flags: dict[str, Any], fixed: Sequence[str] = ()) -> RunConfig:
    """Return the configuration of a file and the flags, which win; a sweep sets ``fixed``.

    Code and clusters (whose answers are unpickled) that a file names must be named by flags too.
    """
    from crosslearning.tasks.sources import TaskSource, is_named

    values = read_config(file) if file is not None else {}
    given = read_flags(flags)
    tasks, around, on = (str(values.get(name, "")) for name in ("tasks", "around", "on"))
    for name, value, trusted, why in (
        ("tasks", tasks, is_named(TaskSource(tasks)), "are no set that ships; a file runs no code"),
        ("around", around, not around, "is a controller; a file runs none"),
        ("on", on, not on.startswith("ray"), "is a cluster; a file connects to none"),
    ):
        if name in values and name not in given and not trusted:
            raise InputError(
                f"{file} has {name} = {value!r}, which {why} by itself. If you trust it, say so: "
                f"--{name} {shlex.quote(value)}"
            )
    for name in fixed:
        if name in values:
            raise InputError(f"{file}: a sweep sets {name} itself; leave it out")
    return make_config({**values, **one_length(given)}, source=str(file or "the flags"))


def read_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the given flags as the configuration holds them."""
    return {name: _read_flag(name, value) for name, value in flags.items() if value is not None}


def _read_flag(name: str, value: Any) -> Any:
    try:
        if name in EACH:
            return [float(part) for part in value.split(",")]
        return _read_table(value) if name in _FORMS else value
    except (ValueError, RecursionError) as problem:
        text = f"--{name.replace('_', '-')} must be {_FORMS[name]}, got {value[:200]!r}"
        raise InputError(text) from problem


def _read_table(text: str) -> dict[str, Any]:
    try:
        table = json.loads(text)
    except ValueError:
        table = tomllib.loads(f"table = {text}")["table"]
    if not isinstance(table, dict):
        raise ValueError(f"{text} is no table")
    return table
