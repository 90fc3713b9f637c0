"""The settings that all methods share."""

from __future__ import annotations

import inspect
import math
import textwrap
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, get_type_hints

import msgspec
from msgspec import Meta

from crosslearning.errors import InputError, refuse_huge

#: Kind and version of a learner's file; raise it when an older crosslearning could not read it.
FILE_KIND, FILE_VERSION = "learner", 2

MethodName = Literal["policy-gradient", "trust-region", "models"]
#: Settings with a number for each action.
EACH = ("action_variance", "action_std")
#: Noise around a controller, relative to the largest change of an action: on the machine, where
#: it costs, and imagined.
REAL_SHARE, IMAGINED_SHARE, _NO_NOISE = 0.1, 0.1, 1e-30
USUAL_EPSILON = 3.0


class Pace(NamedTuple):
    """Defaults of a run that suit a method's iterations, which may be long or short."""

    iterations: int
    log_every: int
    checkpoint_every: int


class InitialExploration(NamedTuple):
    """Episodes with random actions of every task, and their most steps, for the kernel's widths."""

    episodes: int
    steps: int
    share: float = 0.25  #: of all steps of a run, at most

    def within(self, most: float) -> InitialExploration:
        """Return what at most so many steps of a task allow, at least one."""
        allowed = max(1.0, self.share * most)
        steps = int(min(self.steps, allowed))
        return InitialExploration(int(min(self.episodes, allowed / steps)), steps, self.share)


Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0.0)]
NotNegative = Annotated[float, Meta(ge=0.0)]
Share = Annotated[float, Meta(ge=0.0, lt=1.0)]
Probability = Annotated[float, Meta(gt=0.0, lt=1.0)]
Mixture = Annotated[float, Meta(ge=0.0, le=1.0)]
#: A number for each action, or one for all; their squares and inverses are finite.
EachAction = tuple[Annotated[float, Meta(ge=1e-70, le=1e70)], ...]

Ridge = Annotated[Positive, "ρ of the step's regression: larger is smoother."]
CriticRidge = Annotated[Positive, "ρ of the critic's regression: larger is smoother."]
CriticKnots = Annotated[Count, "Cap on the knots that the critics share."]
ActionStd = Annotated[
    EachAction | None,
    "Standard deviation of the exploration noise (trust-region: at the start) in units of the "
    "policies' actions: half the range of each action, where it has bounds. One number stands for "
    "all actions. None: 0.5 for trust-region, 0.4 for models, at most a tenth of "
    "controller_epsilon.",
]
NewKnots = Annotated[Count, "The most new knots in an iteration."]
Novelty = Annotated[
    Probability,
    "A visited (in models: imagined) state becomes a knot if the knots leave more than this share "
    "of its kernel unexplained.",
]


class _Documented(msgspec.StructMeta):
    """Settings whose ``help()`` lists their fields, with the texts that stand beside them."""

    @property
    def __signature__(cls) -> inspect.Signature:  # noqa: N805
        """The fields with their types alone."""
        shown: inspect.Signature = msgspec.StructMeta.__signature__.__get__(cls)
        types = get_type_hints(cls)
        fields = shown.parameters.values()
        return shown.replace(parameters=[f.replace(annotation=types[f.name]) for f in fields])

    @property
    def __doc__(cls) -> str:  # type: ignore[override]  # noqa: N805
        """The docstring of the class, and the fields as its parameters."""
        written = inspect.cleandoc(str(cls.__dict__.get("__doc__") or ""))
        types, lines = get_type_hints(cls), ["Parameters", "----------"]
        kind: Any = cls
        for one in msgspec.structs.fields(kind):
            if hasattr(one.type, "__metadata__"):  # all but the method's own name
                lines.append(f"{one.name} : {inspect.formatannotation(types[one.name])}")
                lines += textwrap.wrap(one.type.__metadata__[-1], 96, **_INDENTED)
        summary, examples, rest = written.partition("Examples\n")
        return "\n".join([summary.rstrip(), "", *lines, "", f"{examples}{rest}"])


_INDENTED: dict[str, Any] = {"initial_indent": "    ", "subsequent_indent": "    "}


class LearnerSettings(
    msgspec.Struct,
    metaclass=_Documented,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
):
    """The settings that all methods share: the constraint, the dictionary, the objective.

    Examples
    --------
    >>> from crosslearning import LearnerSettings, TrustRegion
    >>> isinstance(TrustRegion(epsilon=1.0), LearnerSettings)
    True
    """

    method: Annotated[
        MethodName,
        "How the policies are improved: policy-gradient is the paper's method; trust-region learns "
        "from whole episodes, in any environment; models is model-based: it learns in "
        "cross-learned dynamics models, from few steps. Default: the method that a setting "
        "implies; else policy-gradient for tasks that state their kernel, as the paper's do, "
        "models for at most 1,000 steps a task, and trust-region otherwise.",
    ] = "policy-gradient"
    epsilon: Annotated[
        float,
        "Centrality radius ε: the largest distance, in RKHS norm, of a task policy from the "
        "central one. 0 forces consensus; inf lets every task learn alone.",
    ] = USUAL_EPSILON
    controller_epsilon: Annotated[
        float | None,
        "ε₀: the largest distance, in RKHS norm, of every policy from the controller that it "
        "corrects: no action changes by more than ε₀ half ranges. None: epsilon where there is a "
        "controller, no bound elsewhere.",
    ] = None
    projection: Annotated[
        Literal["exact", "relaxed", "free"],
        "exact bounds every distance by ε; relaxed bounds their mean square; free bounds every "
        "distance and does not hold the centre back.",
    ] = "exact"
    discount: Annotated[
        Probability | None,
        "Discount factor γ. None: 0.9 for the paper's method; else, for episodes of at most H "
        "steps and between 0.9 and 0.99, 1 − 5/H, for models 1 − 3/H.",
    ] = None
    budget: Annotated[
        NotNegative, "Pruning budget β: error per policy and iteration, in RKHS norm."
    ] = 1e-3
    max_knots: Annotated[Count, "Largest number of knots, which all policies share."] = 400
    action_units: Annotated[
        Literal["auto", "box", "own"],
        "Units of the policies' actions: own are the tasks' units; box maps [-1, 1] to the bounds "
        "of the action space; auto is box, but own for tasks that state their kernel, as the "
        "paper's do.",
    ] = "auto"
    kernel: Annotated[
        dict[str, Any] | None,
        "The kernel as a table, such as {kernel = 'gaussian', std = [1.0, 0.8]}. None: the kernel "
        "that the tasks state, as the paper's do, else a Gaussian with widths from episodes with "
        "random actions.",
    ] = None
    keep: Annotated[
        Literal["best", "expected", "last"] | None,
        "Which policies a learner gives: best is for each task the one whose gain over the first, "
        "such as the controller, has the highest lower bound (95 %), and the first if none is "
        "above 1 % of its return; expected (models alone) are those of the round that ended last, "
        "unless the newest models expect earlier ones to return more by 1 %; last are those of the "
        "last iteration. None: best around a controller, else expected for models and last for "
        "other methods.",
    ] = None
    seed: Annotated[int, Meta(ge=0), "Seed of the run's one random generator."] = 0

    #: Defaults of a run's length and of its logs.
    pace: ClassVar[Pace] = Pace(iterations=2000, log_every=10, checkpoint_every=1000)
    #: Whether the kernel and the units that tasks state are used.
    as_stated: ClassVar[bool] = False
    #: ``keep`` without a controller.
    keeps: ClassVar[Literal["expected", "last"]] = "last"

    @property
    def initial_exploration(self) -> InitialExploration:
        """The episodes from which kernel widths are estimated."""
        return InitialExploration(4, 100)

    def resolved(
        self, scaled: bool, horizon: int, around: bool = False, scores: bool = False
    ) -> Self:
        """Return the settings with nothing left open, for tasks whose episodes have ``horizon``.

        ``scaled`` says whether actions are of order one, ``around`` whether they are corrections
        of a controller's, ``scores`` whether they choose between options.
        """
        radius = self.controller_epsilon
        if around and radius is None:
            radius = self.epsilon
        keep = self.keep or ("best" if around else self.keeps)
        return msgspec.structs.replace(self, controller_epsilon=radius, keep=keep)

    @property
    def bound(self) -> float:
        """The largest RKHS norm of every policy; infinite without a controller."""
        return math.inf if self.controller_epsilon is None else self.controller_epsilon

    @property
    def compares(self) -> bool:
        """Whether policies are compared, so that the best are known.

        In models that costs no real steps, and is done around every controller.
        """
        free = self.method == "models" and self.controller_epsilon is not None
        return self.keep != "last" or free

    def noise_within(self, usual: float, share: float = REAL_SHARE) -> float:
        """Return a standard deviation of noise: the usual one, or less around a controller."""
        return max(min(usual, share * self.bound), _NO_NOISE)

    @property
    def fewest_steps(self) -> int:
        """The fewest environment steps of a task with which an iteration is made."""
        return 1

    def aims(self, iteration: int, numbers: Mapping[str, Any]) -> Mapping[str, float]:
        """Return target values of an iteration's numbers, by name; k from 1.

        ``numbers`` are those that it reported, by name and task.
        """
        return {}

    @property
    def gamma(self) -> float:
        """γ of settings that are resolved."""
        assert self.discount is not None, "these settings were not resolved"
        return self.discount

    def __post_init__(self) -> None:
        kind = METHODS[self.method]
        if type(self) not in (kind, LearnerSettings):
            raise InputError(
                f"method is {self.method!r} in {type(self).__name__}; take {kind.__name__}(…)"
            )
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise InputError(f"epsilon must be at least 0 (inf allowed), got {self.epsilon}")
        if self.controller_epsilon is not None and not self.controller_epsilon >= 0.0:
            given = self.controller_epsilon
            raise InputError(f"controller_epsilon must be at least 0 (inf allowed), got {given}")
        if math.isfinite(self.bound) and self.projection != "exact":
            raise InputError(
                f"the {self.projection} projection does not bound the distance from a controller; "
                "around one, take exact"
            )
        if self.keep == "expected" and self.method != "models":
            raise InputError(
                f"keep='expected' compares policies in models, which {self.method} does not learn; "
                "take 'best', which compares real returns, or 'last'"
            )
        refuse_huge("epsilon", self.epsilon)
        refuse_huge("budget", self.budget)

    def _suiting_discount(self, horizon: int, share: float) -> float:
        """Return γ, by default 1 − share/H for horizon H, but between 0.9 and 0.99."""
        return self.discount or min(max(1.0 - share / horizon, 0.9), 0.99)

    def _check_finite(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise InputError(f"{name} must be finite, got {value}")


#: The settings of every method, by its name; filled where all of them are imported.
METHODS: dict[MethodName, type[LearnerSettings]] = {}
