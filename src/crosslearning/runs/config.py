"""The configuration of a run, for TOML files, flags and documentation."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_origin

import msgspec
import tomli_w
from msgspec import Meta, field

from crosslearning._base.files import MALFORMED, read_file
from crosslearning.errors import InputError
from crosslearning.learner.settings import METHODS, LearnerSettings, MethodName
from crosslearning.learner.user_input import (
    Length,
    check_names,
    convert_fields,
    current_names,
    default_method,
    implied_method,
    make_settings,
    method_settings,
)
from crosslearning.rollouts.backends import read_backend

if TYPE_CHECKING:
    from crosslearning.learner import CrossLearner
    from crosslearning.rkhs import Family
    from crosslearning.tasks.sources import TaskSource


Positive = Annotated[int, Meta(ge=1)]


class RunConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All options of a run."""

    settings: LearnerSettings = field(default_factory=lambda: make_settings({}))
    tasks: Annotated[
        str,
        Meta(
            description="The tasks: a named set ('paper:r=1' is one task of a set), "
            "package.module:function, or a file tasks.toml."
        ),
    ] = "paper"
    task_options: Annotated[
        dict[str, Any],
        Meta(description="Options of the task set as a table, such as {crash = 'terminate'}."),
    ] = {}
    iterations: Annotated[
        int | None,
        Meta(
            description="Iterations of Algorithm 2; none: as many as take the steps. For "
            "trust-region the default is 100."
        ),
    ] = 2000
    steps: Annotated[
        int | None,
        Meta(
            description="In the place of iterations: environment steps over all tasks. The run "
            "ends with the iteration that reaches them."
        ),
    ] = None
    workers: Annotated[
        Positive | None,
        Meta(
            description="Threads for the rollouts, or processes; none: one thread, or a process "
            "for every processor. The result does not depend on it."
        ),
    ] = None
    on: Annotated[
        str,
        Meta(
            description="Where rollouts run: threads of this process, processes of this machine, "
            "ray or ray://host:port, a Ray cluster (needs the extra 'ray'). auto: threads for "
            "compiled tasks; for environments of Python processes, once they have proved faster. "
            "The result does not depend on it."
        ),
    ] = "auto"
    step_seconds: Annotated[
        float | None,
        Meta(
            description="The most seconds that a step of a Python environment may take before its "
            "worker, and with it the run, is ended; not on threads. None: no limit."
        ),
    ] = None
    checkpoint_every: Annotated[
        Positive,
        Meta(description="Iterations between checkpoints; for trust-region the default is 20."),
    ] = 1000
    snapshot_every: Annotated[
        int | None,
        Meta(
            description="Iterations between snapshots: the policies alone, kept for ever, to "
            "evaluate how they developed; none: no snapshots."
        ),
    ] = None
    log_every: Annotated[
        Positive,
        Meta(description="Iterations between lines of metrics; for trust-region the default is 1."),
    ] = 10
    evaluate_every: Annotated[
        int,
        Meta(
            ge=0,
            description="Iterations between evaluations of the task policies, each on its own "
            "task; the best policies are kept. 0: none. The result does not depend on it.",
        ),
    ] = 0
    evaluation_trials: Annotated[
        Positive, Meta(description="Episodes of each task in such an evaluation.")
    ] = 20
    tensorboard: Annotated[
        bool, Meta(description="Also write TensorBoard events (needs the extra 'log').")
    ] = False
    #: The given values, while the tasks are to decide the method; see :meth:`chosen`.
    left_open: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        _ = self.length, read_backend(self.on)  # both raise InputError
        if self.snapshot_every is not None and self.snapshot_every < 1:
            raise InputError(f"snapshot_every must be at least 1, got {self.snapshot_every}")

    @property
    def length(self) -> Length:
        """The length of the whole run."""
        return Length.of(self.iterations, self.steps, least=1)

    def how(self) -> dict[str, Any]:
        """Return how rollouts are run."""
        return {name: getattr(self, name) for name in EXECUTION_FIELDS}

    def chosen(self, method: MethodName | None = None) -> RunConfig:
        """Return a configuration that names its method, by default the one that suits its tasks.

        Only this builds the tasks: until then no code that the configuration names is imported.
        """
        if self.left_open is None:
            return self
        if method is None:
            from crosslearning.tasks.sources import load_tasks, read_source

            tasks = load_tasks(read_source(self.tasks), self.task_options)
            method = default_method(tasks, self.steps)
        return make_config({**self.left_open, "method": method})

    def learner(self, start: Family | None = None, tasks: TaskSource | None = None) -> CrossLearner:
        """Return the new learner of the run, optionally with the tasks of its folder."""
        from crosslearning.learner import CrossLearner
        from crosslearning.learner.internals import choose_method

        settings = msgspec.structs.asdict(self.settings)
        if self.left_open is not None:
            others = (*RUN_FIELDS, "method")
            settings = {k: v for k, v in self.left_open.items() if k not in others}
        learner = CrossLearner(
            tasks or self.tasks,
            task_options=self.task_options,
            start=start,
            **self.how(),
            **settings,
        )
        return choose_method(learner, self.steps)

    def replace(self, **changes: Any) -> RunConfig:
        """Return a copy with some fields changed, of the run or of the learner."""
        if self.left_open is not None:
            return make_config({**self.left_open, **one_length(changes)})
        run, learning = _split(changes)
        settings = make_settings({**msgspec.structs.asdict(self.settings), **learning})
        return msgspec.structs.replace(self, settings=settings, **run)

    def to_plain(self) -> dict[str, Any]:
        """Return all fields by name, those of the learner among them, as plain data."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        settings = plain.pop("settings")
        if plain.pop("left_open") is not None:
            settings["method"] = None
        return {**settings, **plain}


#: Fields that say how rollouts are run; the result does not depend on them.
EXECUTION_FIELDS = ("workers", "on", "step_seconds")
#: The fields of a run that are not the learner's.
RUN_FIELDS = tuple(
    name for name in RunConfig.__struct_fields__ if name not in ("settings", "left_open")
)


def _split(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of the run, and those of the learner."""
    run = {name: value for name, value in values.items() if name in RUN_FIELDS}
    return one_length(run), {k: v for k, v in values.items() if k not in RUN_FIELDS}


def one_length(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields in which a given length resets the other unit."""
    others = {"iterations": "steps", "steps": "iterations"}
    aside = {other: None for name, other in others.items() if given.get(name) is not None}
    return {**aside, **given}


def make_config(values: Mapping[str, Any], source: str = "the configuration") -> RunConfig:
    """Return a checked configuration; raise InputError that names a wrong field.

    Parameters
    ----------
    values : mapping
        Fields by name, of the run and of the learner; others take their defaults. A method that
        is neither named nor implied stays open, see :meth:`RunConfig.chosen`.
    source : str
        The name of the source, for messages.
    """
    run, learning = _split(values)
    learning = current_names(learning)
    try:
        known = {name for method in METHODS for name in method_settings(method).__struct_fields__}
        check_names(learning, (*known, *RUN_FIELDS), "field")
        method = implied_method(learning)
        if method is None:
            learning.pop("method", None)
            shared = make_settings(learning, LearnerSettings)
            config = convert_fields(run, RunConfig)
            return msgspec.structs.replace(config, settings=shared, left_open=dict(values))
        learning["method"] = method
        kind = method_settings(method)
        check_names(learning, (*kind.__struct_fields__, *RUN_FIELDS), "field")
        pace = kind.pace._asdict()
        if run.get("steps") is not None:
            del pace["iterations"]
        config = convert_fields({**pace, **run}, RunConfig)
        return msgspec.structs.replace(config, settings=make_settings(learning))
    except InputError as problem:
        raise InputError(f"{source}: {problem}") from problem


def read_config(path: str | Path) -> dict[str, Any]:
    """Return the fields that a TOML file sets, unchecked."""
    try:
        return tomllib.loads(read_file(Path(path)).decode())
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem.strerror or problem}") from problem
    except MALFORMED as problem:
        raise InputError(f"{path} is not a TOML file: {problem}") from problem


def config_text(config: RunConfig) -> str:
    """Return a configuration with its defaults as TOML, without the execution fields."""
    values = config.to_plain().items()
    lines = {k: v for k, v in values if v is not None and k not in EXECUTION_FIELDS}
    return tomli_w.dumps(lines)


class FieldDescription(NamedTuple):
    """One field of a configuration, for help and documentation."""

    name: str
    annotation: Any
    default: str
    description: str
    group: str  #: ``"run"``, ``"learner"`` for what all methods share, or the name of a method

    @property
    def type_name(self) -> str:
        """The type as text: ``"exact | relaxed"``, ``"float or none"``, ``"list of float"``."""
        return _type_name(self.annotation)


def describe_fields() -> list[FieldDescription]:
    """Return every field: those that all methods share, then of each method, then of the run."""
    shared = set(LearnerSettings.__struct_fields__)
    groups: list[tuple[str, type[msgspec.Struct], set[str]]] = [
        ("learner", LearnerSettings, shared),
    ]
    for method in METHODS:
        kind = method_settings(method)
        groups.append((method, kind, set(kind.__struct_fields__) - shared))
    groups.append(("run", RunConfig, set(RUN_FIELDS)))
    return [
        _describe(described, group)
        for group, kind, names in groups
        for described in msgspec.structs.fields(kind)
        if described.name in names
    ]


def _describe(described: msgspec.structs.FieldInfo, group: str) -> FieldDescription:
    notes = getattr(described.type, "__metadata__", ())
    texts = [getattr(note, "description", note) for note in notes]
    text = next((text for text in reversed(texts) if isinstance(text, str)), "")
    default = described.default
    if default is msgspec.NODEFAULT:
        default = described.default_factory()
    shown = "by tasks and steps" if described.name == "method" else _default_text(default)
    return FieldDescription(described.name, described.type, shown, text, group)


def _type_name(annotation: Any) -> str:
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
