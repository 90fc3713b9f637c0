"""The configuration of a run, for TOML files, flags and documentation."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import tomli_w
from msgspec import Meta, field

from crosslearning._base.files import MALFORMED, read_file
from crosslearning.errors import InputError
from crosslearning.learner import user_input as learning
from crosslearning.learner.settings import METHODS, Count, LearnerSettings, MethodName
from crosslearning.learner.user_input import Length, make_settings
from crosslearning.rollouts.backends import read_backend

if TYPE_CHECKING:
    from crosslearning.learner import CrossLearner
    from crosslearning.rkhs import Family
    from crosslearning.tasks.sources import TaskSource


#: The tasks of a run that learns from log files: nothing can be run.
LOGGED = "logs"


class RunConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All options of a run."""

    settings: LearnerSettings = field(default_factory=lambda: make_settings({}))
    tasks: Annotated[
        str,
        "The tasks: a named set ('paper:r=1' is one task of a set), package.module:function, or a "
        "file tasks.toml.",
    ] = "paper"
    task_options: Annotated[
        dict[str, Any], "Options of the task set as a table, such as {crash = 'terminate'}."
    ] = {}
    around: Annotated[
        str | None,
        "The controller that runs the machines today, which the policies then correct: "
        "package.module:name, or a JSON file (crosslearning export --to json). Say how far with "
        "epsilon.",
    ] = None
    iterations: Annotated[
        int | None, "Iterations of Algorithm 2; for trust-region the default is 100."
    ] = 2000
    steps: Annotated[int | None, "Environment steps over all tasks, instead of iterations."] = None
    workers: Annotated[
        Count | None, "Threads for the rollouts (default: 1), or processes (all processors)."
    ] = None
    on: Annotated[
        str,
        "Where rollouts run: threads, processes, ray or ray://host:port, a cluster (needs the "
        "extra 'ray'). auto: threads for compiled tasks, and for environments of Python processes, "
        "once they have proved faster. The result does not depend on it.",
    ] = "auto"
    step_seconds: Annotated[
        float | None,
        "Seconds after which a step of a Python environment, its worker and the run are ended; not "
        "on threads. None: no limit.",
    ] = None
    checkpoint_every: Annotated[
        Count, "Iterations between checkpoints; for trust-region the default is 20."
    ] = 1000
    snapshot_every: Annotated[
        Count | None, "Iterations between snapshots, the policies alone, which are all kept."
    ] = None
    log_every: Annotated[
        Count, "Iterations between lines of metrics; for trust-region the default is 1."
    ] = 10
    evaluate_every: Annotated[
        int,
        Meta(ge=0),
        "Iterations between evaluations of the task policies, each on its own task; those of "
        "the best evaluation are saved, too (--best-evaluated). 0: none. The result does not "
        "depend on it.",
    ] = 0
    evaluation_trials: Annotated[Count, "Episodes of each task in such an evaluation."] = 20
    tensorboard: Annotated[bool, "Also write TensorBoard events (needs the extra 'log')."] = False
    #: The given values, while the tasks are to decide the method; see :meth:`chosen`.
    left_open: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        _ = self.length, read_backend(self.on)  # both raise InputError

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
        return make_config({**self.left_open, "method": method or self.learner().settings.method})

    def learner(self, start: Family | None = None, tasks: TaskSource | None = None) -> CrossLearner:
        """Return the new learner of the run, optionally with the tasks of its folder."""
        from crosslearning.learner import CrossLearner
        from crosslearning.learner.internals import choose_method

        settings, others = msgspec.structs.asdict(self.settings), set()
        if self.left_open is not None:
            settings, others = self.left_open, {*RUN_FIELDS, "method"}
        learner = CrossLearner(
            tasks or self.tasks,
            around=self.around,
            task_options=self.task_options,
            start=start,
            **self.how(),
            **{name: value for name, value in settings.items() if name not in others},
        )
        return choose_method(learner, self.steps)

    def replace(self, **changes: Any) -> RunConfig:
        """Return a copy with some fields changed, of the run or of the learner."""
        values = self.to_plain() if self.left_open is None else self.left_open
        return make_config({**values, **one_length(changes)})

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
    given = learning.current_names(values)
    run = one_length({name: value for name, value in given.items() if name in RUN_FIELDS})
    others = {name: value for name, value in given.items() if name not in RUN_FIELDS}
    try:
        having = learning.methods_with(others)
        method = having[0] if len(having) == 1 else None
        kinds = [learning.method_settings(one) for one in having or METHODS]
        known = {name for kind in kinds for name in kind.__struct_fields__}
        learning.check_names(others, (*known, *RUN_FIELDS), "field")
        kind = LearnerSettings if len(having) in (0, len(METHODS)) else kinds[0]
        others = {name: value for name, value in others.items() if name != "method"}
        config = learning.convert_fields({**kind.pace._asdict(), **run}, RunConfig)
        settings, left_open = make_settings(others, kind), dict(values) if method is None else None
        return msgspec.structs.replace(config, settings=settings, left_open=left_open)
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
    return tomli_w.dumps({k: v for k, v in values if v is not None and k not in EXECUTION_FIELDS})


class FieldDescription(NamedTuple):
    """One field of a configuration, for help and documentation."""

    name: str
    annotation: Any
    default: str
    description: str
    group: str  #: ``"run"``, ``"learner"`` for what all methods share, or the name of a method


def describe_fields() -> list[FieldDescription]:
    """Return every field: those that all methods share, then of each method, then of the run."""
    shared = LearnerSettings.__struct_fields__
    groups: list[tuple[str, Any, tuple[str, ...]]] = [
        ("learner", LearnerSettings, ()),
        *((method, learning.method_settings(method), shared) for method in METHODS),
        ("run", RunConfig, ("settings", "left_open")),
    ]
    return [
        _describe(one, group)
        for group, kind, hidden in groups
        for one in msgspec.structs.fields(kind)
        if one.name not in hidden
    ]


def _describe(one: msgspec.structs.FieldInfo, group: str) -> FieldDescription:
    default = one.default_factory() if one.default is msgspec.NODEFAULT else one.default
    shown = "none" if default is None else str([*default] if type(default) is tuple else default)
    shown = "by tasks and steps" if one.name == "method" else shown
    text = one.type.__metadata__[-1]
    return FieldDescription(one.name, one.type, shown, text, group)
