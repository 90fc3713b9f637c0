"""A flag for every field of the configuration, so that files and flags never differ."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from crosslearning.errors import InputError
from crosslearning.learner.settings import METHODS
from crosslearning.runs import describe_fields, read_config
from crosslearning.runs.config import FieldDescription

ConfigOption = Annotated[
    Path | None, typer.Option(help="TOML file with fields; flags win over it.")
]


def _field_option(fields: list[FieldDescription]) -> inspect.Parameter:
    """Return the command-line parameter of a field, which several methods may have."""
    first = fields[0]
    inner = get_args(first.annotation)[0]
    # What the command line cannot hold as it is comes as text; see read_flag.
    as_text = any(get_origin(part) in (tuple, dict) for part in (inner, *get_args(inner)))
    kind: Any = str if as_text else inner
    texts = [
        (f"({field.group}) " if field.group in METHODS and len(METHODS) > 1 else "")
        + f"{field.description} [default: {field.default}]"
        for field in fields
    ]
    option = typer.Option(help=" ".join(texts), show_default=False)
    return inspect.Parameter(
        first.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


def with_config_options(
    *without: str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a flag for every configuration field but some to a command that takes ``**fields``."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        own = [
            p
            for p in inspect.signature(command, eval_str=True).parameters.values()
            if p.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        known = [field for field in describe_fields() if field.name not in without]
        order = list(dict.fromkeys(field.name for field in known))
        known.sort(key=lambda field: order.index(field.name))
        extra = [_field_option(list(same)) for _, same in groupby(known, lambda f: f.name)]
        command.__signature__ = inspect.Signature([*own, *extra])  # type: ignore[attr-defined]
        return command

    return add


def read_fields(config: Path | None, flags: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a file and of the flags, which win."""
    values = read_config(config) if config is not None else {}
    return values | {name: read_flag(name, v) for name, v in flags.items() if v is not None}


def read_flag(name: str, value: Any) -> Any:
    """Return a flag's value as the configuration holds it."""
    try:
        if name == "action_variance":
            return [float(part) for part in str(value).split(",")]
        if name in ("kernel", "task_options"):
            return _read_table(str(value))
    except ValueError as problem:
        key, word = ("kernel", "gaussian") if name == "kernel" else ("crash", "terminate")
        table = f'a table, such as {{{key} = \'{word}\', …}} or JSON: {{"{key}": "{word}", …}}'
        form = "numbers with commas" if name == "action_variance" else table
        raise InputError(f"--{name.replace('_', '-')} must be {form}, got {value!r}") from problem
    return value


def _read_table(text: str) -> dict[str, Any]:
    """Return a table that is written as in a configuration file, or as JSON."""
    try:
        table = json.loads(text)
    except ValueError:
        table = tomllib.loads(f"table = {text}")["table"]
    if not isinstance(table, dict):
        raise ValueError(f"{text} is no table")
    return table
