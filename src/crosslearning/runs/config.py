"""The configuration of a run: one list of fields for TOML files, flags and documentation."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
import tomli_w
from msgspec import Meta

from crosslearning.errors import InputError, unknown_name
from crosslearning.files import write_atomically
from crosslearning.learner import LearnerSettings
from crosslearning.learner.settings import convert_fields


class RunConfig(LearnerSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a run was asked for."""

    tasks: Annotated[
        str, Meta(description="Name of the task set; 'paper:r=1' is one task of a set.")
    ] = "paper"
    task_options: Annotated[
        dict[str, Any],
        Meta(description="Options of the task set as a table, such as {crash = 'terminate'}."),
    ] = {}  # noqa: RUF012  (msgspec gives every configuration a copy)
    iterations: Annotated[int, Meta(ge=1, description="Iterations of Algorithm 2.")] = 2000
    workers: Annotated[
        int, Meta(ge=1, description="Threads for the rollouts; the result does not depend on it.")
    ] = 1
    checkpoint_every: Annotated[int, Meta(ge=1, description="Iterations between checkpoints.")] = (
        1000
    )
    snapshot_every: Annotated[
        int | None,
        Meta(
            description="Iterations between snapshots: the policies alone, kept for ever, to "
            "evaluate how they developed; none: no snapshots."
        ),
    ] = None
    log_every: Annotated[int, Meta(ge=1, description="Iterations between lines of metrics.")] = 10
    tensorboard: Annotated[
        bool, Meta(description="Also write TensorBoard events (needs the extra 'log').")
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.snapshot_every is not None and self.snapshot_every < 1:
            raise InputError(f"snapshot_every must be at least 1, got {self.snapshot_every}")

    def learner_settings(self) -> dict[str, Any]:
        """Return the fields that the learner takes."""
        return {name: getattr(self, name) for name in LearnerSettings.__struct_fields__}


def make_config(values: dict[str, Any], source: str = "the configuration") -> RunConfig:
    """Return a checked configuration, or name the field that is wrong.

    Parameters
    ----------
    values : dict
        Fields by name; what is missing takes its default.
    source : str
        Where they come from, for the message.
    """
    names = RunConfig.__struct_fields__
    for name in values:
        if name not in names:
            raise InputError(f"{source}: {unknown_name('field', name, names)}")
    if isinstance(values.get("action_variance"), int | float):
        values = {**values, "action_variance": [values["action_variance"]]}
    try:
        return convert_fields(values, RunConfig)
    except InputError as problem:
        raise InputError(f"{source}: {problem}") from problem


def read_config(path: str | Path) -> dict[str, Any]:
    """Return the fields that a TOML file sets, unchecked."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InputError(f"{path} is not a TOML file: {problem}") from problem


def write_config(path: str | Path, config: RunConfig) -> None:
    """Write a configuration, defaults filled in, as TOML."""
    values = msgspec.to_builtins(config)
    lines = {name: value for name, value in values.items() if value is not None}
    write_atomically(path, tomli_w.dumps(lines).encode())


def describe_fields() -> list[tuple[str, str, str, str]]:
    """Return (name, type, default, description) of every field, for help and documentation."""
    rows = []
    for field in msgspec.structs.fields(RunConfig):
        information = msgspec.inspect.type_info(field.type)
        description = ""
        if isinstance(information, msgspec.inspect.Metadata):
            description = (information.extra_json_schema or {}).get("description", "")
        default = field.default
        if default is msgspec.NODEFAULT:
            default = field.default_factory()
        rows.append((field.name, _type_name(field.type), _default_text(default), description))
    return rows


def _type_name(annotation: Any) -> str:
    """Return a type in words: ``"exact | relaxed"``, ``"float or none"``, ``"list of float"``."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_name(arguments[0])
    if origin is Literal:
        return " | ".join(str(choice) for choice in arguments)
    if origin is tuple:
        return f"list of {_type_name(arguments[0])}"
    if origin is dict:
        return "table"
    if arguments:
        return " or ".join(_type_name(argument) for argument in arguments)
    return "none" if annotation is type(None) else str(annotation.__name__)


def _default_text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return str(list(value)) if isinstance(value, tuple) else str(value)
