"""What users give: settings by name, and the length of learning."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from crosslearning.errors import InputError, unknown_name
from crosslearning.learner.settings import EACH, METHODS, LearnerSettings, MethodName

if TYPE_CHECKING:
    from crosslearning.learner.cross_learner import CrossLearner

#: The method of the paper.
PAPER_METHOD: MethodName = "policy-gradient"
#: Steps of each task up to which the default method is ``models``.
_FEW_STEPS = 1_000
#: Names of settings in earlier versions, and today's.
_RENAMED = {"bout": "updates_per_round"}
#: The largest count in a configuration.
_LARGEST_COUNT = 10**15
_PLACE = re.compile(r" - at `\$\.?([\w\[\].]*)`$")
_Fields = TypeVar("_Fields")
#: Names by which users give a length in the wrong place, and the argument of ``learn``.
_ELSEWHERE = {"iterations": "", "steps": "steps=", "total_timesteps": "steps="}


def method_settings(method: str) -> type[LearnerSettings]:
    """Return the settings class of a method."""
    if method not in METHODS:
        raise unknown_name("method", str(method), METHODS)
    return METHODS[method]


def methods_with(values: Mapping[str, Any]) -> list[MethodName]:
    """Return the named method, or all methods that have these settings."""
    values = current_names(values)
    named = values.get("method")
    if named is not None:
        return [cast("MethodName", named)]
    special = set(values) - set(LearnerSettings.__struct_fields__)
    return [m for m, kind in METHODS.items() if special <= set(kind.__struct_fields__)]


def default_method(
    tasks: Sequence[Any], steps: int | None = None, values: Mapping[str, Any] | None = None
) -> MethodName:
    """Return the method that suits the tasks and the steps, of those that have the settings.

    It is the paper's for tasks that state their kernel, else ``models`` for few steps of actions
    that are real numbers.
    """
    few = steps is not None and steps <= _FEW_STEPS * len(tasks) and tasks[0].choices is None
    order: list[MethodName] = ["models", "trust-region"] if few else ["trust-region", "models"]
    order.insert(0 if tasks[0].kernel_covariance is not None else 2, "policy-gradient")
    having = methods_with(values or {})
    return next((m for m in order if m in having), having[0] if having else order[0])


def make_settings(
    values: Mapping[str, Any], kind: type[LearnerSettings] | None = None
) -> LearnerSettings:
    """Return checked settings of the method that ``values`` name, or refuse a wrong field."""
    values = current_names(values)
    kind = kind or method_settings(values.get("method", PAPER_METHOD))
    check_names(values, kind.__struct_fields__, "setting")
    # Accept NumPy's numbers.
    plain = {k: v.item() if hasattr(v, "item") else v for k, v in values.items()}
    # JSON has no infinity; other numbers must not be strings.
    plain = {k: float(v) if v in ("inf", "-inf") else v for k, v in plain.items()}
    # One number stands for all actions.
    plain = {k: (v,) if k in EACH and isinstance(v, int | float) else v for k, v in plain.items()}
    return convert_fields(plain, kind)


def current_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with names of earlier versions replaced."""
    return {_RENAMED.get(name, name): value for name, value in values.items()}


def check_names(given: Iterable[str], known: Iterable[str], kind: str) -> None:
    """Refuse an unknown name; if another method has it, say which."""
    names = set(known)
    for name in given:
        if name in names:
            continue
        others = [m for m in METHODS if name in method_settings(m).__struct_fields__]
        if others:
            raise InputError(
                f"{name} is a {kind} of the method {', '.join(others)}; take that method, or leave "
                f"{name} out"
            )
        raise unknown_name(kind, name, names)


def settings_to_plain(settings: LearnerSettings) -> dict[str, Any]:
    """Return settings for JSON: infinities as strings."""
    plain: dict[str, Any] = msgspec.to_builtins(settings)
    return {k: str(v) if isinstance(v, float) and math.isinf(v) else v for k, v in plain.items()}


def convert_fields(values: dict[str, Any], kind: type[_Fields]) -> _Fields:
    """Return checked fields from plain values, or refuse a wrong field with its value."""
    for name, value in values.items():
        # A seed may have any size; counts of this size fit into no array.
        if name != "seed" and type(value) is int and abs(value) > _LARGEST_COUNT:
            raise InputError(f"{name} is {value}: give at most {_LARGEST_COUNT}")
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as problem:
        text = str(problem)
        place = _PLACE.search(text)
        if place is None:
            raise InputError(text) from problem
        name = place[1].split("[")[0]
        reason = text[: place.start()].replace("`", "")
        if reason.startswith("Invalid enum value"):
            reason = f"Give one of {', '.join(map(repr, _choices(kind, name)))}"
        raise InputError(
            f"{name} is {values.get(name)!r}: {reason[0].lower()}{reason[1:]}"
        ) from problem


def _choices(kind: Any, field: str) -> list[str]:
    """Return the words that a field can be."""
    parts, words = [get_type_hints(kind)[field]], list[str]()
    for part in parts:
        if get_origin(part) is Literal:
            words += get_args(part)
        else:
            parts += get_args(part)
    return words


def refuse_lengths(given: Mapping[str, Any]) -> None:
    """Refuse a length among other arguments, with the remedy."""
    for name, written in _ELSEWHERE.items():
        if name in given:
            raise InputError(
                f"{name} = {given[name]!r} is not taken here; say how long when it learns: "
                f"learner.learn({written}{given[name]!r})"
            )


class Length(NamedTuple):
    """An amount of iterations, or of environment steps over all tasks."""

    unit: Literal["iterations", "steps"]
    amount: int

    @classmethod
    def of(cls, iterations: Any, steps: Any, least: int = 0) -> Length:
        """Return the length from one of two numbers, checked."""
        if (iterations is None) == (steps is None):
            raise InputError(
                f"iterations is {iterations!r} and steps is {steps!r}; give one of the two"
            )
        unit: Literal["iterations", "steps"] = "iterations" if steps is None else "steps"
        given = iterations if steps is None else steps
        try:
            whole = not isinstance(given, bool) and int(given) == given and given >= least
        except (TypeError, ValueError, OverflowError):
            whole = False
        if not whole:
            raise InputError(f"{unit} must be a whole number of at least {least}, got {given!r}")
        if given > _LARGEST_COUNT:
            raise InputError(
                f"{unit} is {given!r}, which no run comes to; give at most {_LARGEST_COUNT}"
            )
        return cls(unit, int(given))

    @property
    def field(self) -> str:
        """The field of the metrics that counts this unit."""
        return "steps" if self.unit == "steps" else "iteration"

    def made(self, learner: CrossLearner) -> int:
        """Return a learner's count of this unit."""
        return learner.steps if self.unit == "steps" else learner.iteration

    def begun(self, learner: CrossLearner) -> int:
        """Return the count from which ``learn`` counts; initial exploration is part of learning."""
        return self.made(learner) if learner.iteration else 0

    def reached(self, learner: CrossLearner) -> bool:
        """Return whether a learner has this length, or too few steps are left for an iteration."""
        if self.unit == "iterations":
            return learner.iteration >= self.amount
        needed = learner.method.steps_needed(learner._core.iterate)
        return needed > 0 and learner.steps + needed > self.amount

    def left(self, learner: CrossLearner) -> dict[str, int]:
        """Return the arguments of ``learn`` for the rest of this length."""
        return {self.unit: max(0, self.amount - self.begun(learner))}
