"""Settings that all methods share; a field's description is its documentation.

Each method's package extends them; :data:`METHODS` names the classes. NumPy is not imported here,
so that help is shown at once.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar, cast

import msgspec
from msgspec import Meta

from crosslearning.errors import InputError, refuse_huge, unknown_name

MethodName = Literal["policy-gradient", "trust-region", "models"]
#: The methods, each with its package in ``crosslearning.learner`` and the class of its settings.
METHODS: dict[MethodName, tuple[str, str]] = {
    "policy-gradient": ("policy_gradient", "PolicyGradient"),
    "trust-region": ("trust_region", "TrustRegion"),
    "models": ("model_based", "ModelBased"),
}
#: The method of the paper.
PAPER_METHOD: MethodName = "policy-gradient"
#: Names of settings in earlier versions, and today's.
RENAMED = {"bout": "updates_per_round"}
#: The largest count in a configuration.
LARGEST_COUNT = 10**15
#: Settings with a number for each action.
EACH = ("action_variance", "action_std")


class Pace(NamedTuple):
    """Defaults of a run that suit a method's iterations, which may be long or short."""

    iterations: int
    log_every: int
    checkpoint_every: int


class InitialExploration(NamedTuple):
    """Episodes with random actions of every task, and their most steps, for the kernel's widths."""

    episodes: int
    steps: int


class LearnerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that all methods share: the constraint, the dictionary, the objective.

    Examples
    --------
    >>> from crosslearning import LearnerSettings, TrustRegion
    >>> isinstance(TrustRegion(epsilon=1.0), LearnerSettings)
    True
    """

    method: Annotated[
        MethodName,
        Meta(
            description="How the policies are improved: policy-gradient is the paper's method; "
            "trust-region learns from whole episodes, in any environment; models is model-based: "
            "it learns in cross-learned dynamics models, from few steps. Default: the method that "
            "a setting implies; else policy-gradient for tasks that state their kernel, as the "
            "paper's do, models for at most 1,000 steps a task, and trust-region otherwise."
        ),
    ] = "policy-gradient"
    epsilon: Annotated[
        float,
        Meta(
            description="Centrality radius ε: the largest distance, in RKHS norm, of a task policy "
            "from the central one. 0 forces consensus; inf lets every task learn alone."
        ),
    ] = 3.0
    projection: Annotated[
        Literal["exact", "relaxed"],
        Meta(description="exact bounds every distance by ε; relaxed bounds their mean square."),
    ] = "exact"
    discount: Annotated[
        Annotated[float, Meta(gt=0.0, lt=1.0)] | None,
        Meta(
            description="Discount factor γ. None: 0.9 for the paper's method; else, for episodes "
            "of at most H steps and between 0.9 and 0.99, 1 − 5/H, for models 1 − 3/H."
        ),
    ] = None
    budget: Annotated[
        float,
        Meta(ge=0.0, description="Pruning budget β: error per policy and iteration, in RKHS norm."),
    ] = 1e-3
    max_knots: Annotated[
        int, Meta(ge=1, description="Largest number of knots, which all policies share.")
    ] = 400
    action_units: Annotated[
        Literal["auto", "box", "own"],
        Meta(
            description="Units of the policies' actions: own are the tasks' units; box maps "
            "[-1, 1] to the bounds of the action space; auto is box, but own for tasks that state "
            "their kernel, as the paper's do."
        ),
    ] = "auto"
    kernel: Annotated[
        dict[str, Any] | None,
        Meta(
            description="The kernel as a table, such as {kernel = 'gaussian', std = [1.0, 0.8]}. "
            "None: the kernel that the tasks state, as the paper's do, else a Gaussian with "
            "widths from episodes with random actions."
        ),
    ] = None
    seed: Annotated[int, Meta(ge=0, description="Seed of the run's one random generator.")] = 0

    #: Defaults of a run's length and of its logs.
    pace: ClassVar[Pace] = Pace(iterations=2000, log_every=10, checkpoint_every=1000)
    #: Whether the kernel and the units that tasks state are used.
    as_stated: ClassVar[bool] = False

    @property
    def initial_exploration(self) -> InitialExploration:
        """The episodes from which kernel widths are estimated."""
        return InitialExploration(4, 100)

    def resolved(self, scaled: bool, horizon: int) -> Self:
        """Return the settings with nothing left open, for tasks whose episodes have ``horizon``.

        ``scaled`` says whether actions are of order one.
        """
        return self

    def aims(self, iteration: int) -> Mapping[str, float]:
        """Return target values of an iteration's reported numbers, by name; k from 1."""
        return {}

    @property
    def gamma(self) -> float:
        """γ of settings that are resolved."""
        assert self.discount is not None, "these settings were not resolved"
        return self.discount

    def __post_init__(self) -> None:
        kind = METHODS[self.method][1]
        if type(self).__name__ not in (kind, "LearnerSettings"):
            raise InputError(f"method is {self.method!r} in {type(self).__name__}; take {kind}(…)")
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise InputError(f"epsilon must be at least 0 (inf allowed), got {self.epsilon}")
        refuse_huge("epsilon", self.epsilon)
        refuse_huge("budget", self.budget)

    def _suiting_discount(self, horizon: int, share: float) -> float:
        """Return γ, by default 1 − share/H for horizon H, but between 0.9 and 0.99."""
        return self.discount or min(max(1.0 - share / horizon, 0.9), 0.99)

    def _check_finite(self, *names: str) -> None:
        for name in names:
            if not math.isfinite(getattr(self, name)):
                raise InputError(f"{name} must be finite, got {getattr(self, name)}")

    def _check_each(self, name: str) -> None:
        """Refuse numbers, or one for all actions, that are not positive or too extreme."""
        values = getattr(self, name)
        values = (values,) if isinstance(values, int | float) else values
        if not all(0.0 < value < math.inf for value in values):
            raise InputError(f"{name} must be positive, got {values}")
        if not all(1e-70 <= value <= 1e70 for value in values):
            raise InputError(f"{name} must be from 1e-70 to 1e70, got {values}")


#: Settings that several methods have.
Ridge = Annotated[
    float, Meta(gt=0.0, description="ρ of the step's regression: larger is smoother.")
]
CriticRidge = Annotated[
    float, Meta(gt=0.0, description="ρ of the critic's regression: larger is smoother.")
]
CriticKnots = Annotated[int, Meta(ge=1, description="Cap on the knots that the critics share.")]
ActionStd = Annotated[
    tuple[float, ...],
    Meta(
        description="Standard deviation of the exploration noise (trust-region: at the start) in "
        "units of the policies' actions: half the range of each action, where it has bounds. One "
        "number stands for all actions."
    ),
]
NewKnots = Annotated[int, Meta(ge=1, description="The most new knots in an iteration.")]
Novelty = Annotated[
    float,
    Meta(
        gt=0.0,
        lt=1.0,
        description="A visited (in models: imagined) state becomes a knot if the knots leave more "
        "than this share of its kernel unexplained.",
    ),
]

#: Steps of each task up to which the default method is ``models``.
FEW_STEPS = 1_000


def method_settings(method: str) -> type[LearnerSettings]:
    """Return the settings class of a method."""
    if method not in METHODS:
        raise unknown_name("method", str(method), METHODS)
    package, name = METHODS[method]
    module = importlib.import_module(f"crosslearning.learner.{package}.settings")
    settings: type[LearnerSettings] = getattr(module, name)
    return settings


def implied_method(values: Mapping[str, Any]) -> MethodName | None:
    """Return the named method, or the first that has all settings; None if all methods do."""
    values = current_names(values)
    named = values.get("method")
    if named is not None:
        return cast("MethodName", named)
    special = set(values) - set(LearnerSettings.__struct_fields__)
    having = [m for m in METHODS if special <= set(method_settings(m).__struct_fields__)]
    return having[0] if special and having else None


def default_method(tasks: Sequence[Any], steps: int | None = None) -> MethodName:
    """Return the default method: the paper's for tasks that state their kernel, as its own do.

    For other tasks ``models`` if ``steps`` are given and few, else ``trust-region``.
    """
    if tasks[0].kernel_covariance is not None:
        return "policy-gradient"
    few = steps is not None and steps <= FEW_STEPS * len(tasks)
    return "models" if few else "trust-region"


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
    return {RENAMED.get(name, name): value for name, value in values.items()}


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


_Fields = TypeVar("_Fields")
_PLACE = re.compile(r" - at `\$\.?([\w\[\].]*)`$")


def convert_fields(values: dict[str, Any], kind: type[_Fields]) -> _Fields:
    """Return checked fields from plain values, or refuse a wrong field with its value."""
    for name, value in values.items():
        # A seed may have any size; counts of this size fit into no array.
        if name != "seed" and type(value) is int and abs(value) > LARGEST_COUNT:
            raise InputError(f"{name} is {value}: give at most {LARGEST_COUNT}")
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as problem:
        text = str(problem)
        place = _PLACE.search(text)
        if place is None:
            raise InputError(text) from problem
        name = place[1].split("[")[0]
        reason = text[: place.start()].replace("`", "")
        raise InputError(
            f"{name} is {values.get(name)!r}: {reason[0].lower()}{reason[1:]}"
        ) from problem
