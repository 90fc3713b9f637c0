"""The settings of learning; the text beside a field is its documentation.

``LearnerSettings`` has the fields that all methods share, and a class for each method adds its own;
:data:`METHODS` lists them. NumPy is not imported here, so that help is shown at once.
"""

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
#: γ and step sizes of the paper's method: in its units, and for actions in [−1, 1].
_DISCOUNT, _STEP, _SCALED_STEP, _VARIANCE = 0.9, 2.0, 0.5, 0.05
#: Rollouts take 1/(1 − γ) steps on average; more than a million do not fit into memory.
_LARGEST_DISCOUNT = 0.999999
#: Shortest episodes of trust-region, and their share of the horizon: short ones have more starts.
_SHORTEST, _SHARE = 10, 0.4
#: Steps of trust-region shrink with so high a power of the reliability, below a reliable one.
_RELIABILITY_POWER = 4
#: What trust-region does by default: steps by evidence.
_BY_EVIDENCE = {
    "step_kl": 0.1,
    "reliable": 0.5,
    "step_decay": math.inf,
    "episodes": 4,
    "least_steps": 200,
    "updates": 1,
}
#: Of scores: few whole episodes, too few for their agreement to be measured, used several times.
_SCORES = {**_BY_EVIDENCE, "reliable": 0.0, "episodes": 1, "least_steps": 100, "updates": 5}
#: Around a controller, whose noise is too small for evidence.
_AROUND = {
    **_BY_EVIDENCE,
    "step_kl": 0.04,
    "reliable": 0.0,
    "step_decay": 30.0,
    "episodes": 10,
    "task_correlation": 0.0,
}
#: One episode cannot separate the effect of actions from that of its start, unless the critic can.
_FEWEST_EPISODES = 2
#: Noise around a controller, relative to the largest change of an action: on the machine, where
#: it costs, and imagined.
_REAL_SHARE, _IMAGINED_SHARE, _NO_NOISE = 0.1, 0.1, 1e-30


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

    def noise_within(self, usual: float, share: float = _REAL_SHARE) -> float:
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


class PolicyGradient(LearnerSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of Algorithm 2 with the estimators of Algorithm 1.

    Examples
    --------
    >>> from crosslearning import CrossLearner, PolicyGradient
    >>> CrossLearner("paper", PolicyGradient(epsilon=1.0)).settings.epsilon
    1.0
    """

    method: MethodName = "policy-gradient"
    estimator: Annotated[
        Literal["geometric", "antithetic", "baseline"],
        "Gradient estimator: geometric is Algorithm 1 as printed; antithetic compares mirrored "
        "actions at one state; baseline subtracts the batch's mean.",
    ] = "antithetic"
    batch_size: Annotated[Count, "Samples B per task and iteration."] = 4
    action_variance: Annotated[
        EachAction | None,
        "Variance of the exploration noise for each action (the diagonal of Σ); one number stands "
        "for all. None: 0.05, or less around a controller.",
    ] = None
    step_rule: Annotated[
        Literal["constant", "normalised", "adam", "decaying"],
        "constant: η times the gradient, the printed form; normalised: a step of RKHS norm about "
        "η, the gradient divided by its running root mean square; adam: the same with momentum; "
        "decaying: normalised, with η falling as 1/√(1 + k/step_decay).",
    ] = "decaying"
    step_size: Annotated[
        Positive | None,
        "Step size η: a step of RKHS norm η changes an action by at most η √κ(s, s). Take at most "
        "the range of the actions. None: 2, or 0.5 where actions are scaled to their box.",
    ] = None
    step_decay: Annotated[Positive, "Iterations over which decaying starts to fall."] = 500.0
    step_clip: Annotated[
        Positive,
        "Gradients are clipped to this multiple of their running root mean square, so that one "
        "crash does not move a policy far; inf: never. Not for the constant rule.",
    ] = 1.0
    momentum: Annotated[Share, "Share of the old direction that adam keeps."] = 0.9
    second_moment: Annotated[Share, "Share of the old mean square that is kept."] = 0.99
    alpha: Annotated[
        NotNegative | None, "Stop when every stationarity gap is at most this; none: never."
    ] = None
    stopping: Annotated[
        Literal["checked", "batch"],
        "How alpha is tested. checked: by upper confidence bounds from a separate batch every "
        "check_every iterations; batch: by the estimate of each iteration, as printed, which noise "
        "alone can satisfy.",
    ] = "checked"
    check_every: Annotated[Count, "Iterations between checks of the stationarity gap."] = 200
    check_batch: Annotated[
        Count, "Samples per task of a check, rounded up to hundreds of estimates."
    ] = 1000
    check_delta: Annotated[
        float,
        Meta(ge=1e-9, lt=1.0),  # it is divided further, and 1 − δ must differ from 1
        "Probability that any check of a run stops it wrongly.",
    ] = 0.05

    #: The paper's tasks state the paper's kernel.
    as_stated: ClassVar[bool] = True

    def resolved(
        self, scaled: bool, horizon: int, around: bool = False, scores: bool = False
    ) -> Self:
        """Return the settings with step size, noise and discount that suit the tasks."""
        settings = super().resolved(scaled, horizon, around, scores)
        usual = _SCALED_STEP if scaled else _STEP
        std = settings.noise_within(math.inf)
        return msgspec.structs.replace(
            settings,
            step_size=self.step_size or (min(usual, settings.bound) or usual),
            discount=_DISCOUNT if self.discount is None else self.discount,
            action_variance=self.action_variance or (min(_VARIANCE, std**2),),
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.discount is not None and self.discount > _LARGEST_DISCOUNT:
            raise InputError(
                f"discount is {self.discount}: rollouts would take {1 / (1 - self.discount):.2g} "
                f"steps on average; give at most {_LARGEST_DISCOUNT}"
            )
        self._check_finite("step_size", "step_decay", "alpha")
        if self.alpha is not None and (math.isinf(self.epsilon) or self.epsilon == 0):
            raise InputError(
                "alpha needs an epsilon between 0 and infinity: the stationarity gap is infinite "
                "without a bound on the policies, and always 0 if all must be equal"
            )
        if self.estimator == "baseline" and self.batch_size < 2:
            raise InputError("the baseline estimator needs batch_size ≥ 2: it compares samples")


class TrustRegion(LearnerSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of natural policy gradients from whole episodes.

    Examples
    --------
    >>> from crosslearning import CrossLearner, TrustRegion
    >>> CrossLearner("pendulums:2", TrustRegion(step_kl=0.1)).settings.step_kl
    0.1
    """

    pace: ClassVar[Pace] = Pace(iterations=100, log_every=1, checkpoint_every=20)
    method: MethodName = "trust-region"
    episodes: Annotated[
        Count | None,
        "Episodes of every task and iteration, at first if their number follows the evidence, "
        "within the next two limits. None: 4, around a controller 10, of discrete actions 1.",
    ] = None
    least_steps: Annotated[
        Count | None,
        "Fewest steps of a task and iteration: more episodes. None: 200, of discrete actions 100.",
    ] = None
    most_steps: Annotated[
        Count,
        "Most steps of a task and iteration: fewer long episodes, but at least 2, or 1 if updates "
        "is above 1.",
    ] = 800
    batch_growth: Annotated[
        float,
        Meta(ge=1.0),
        "The largest factor by which an iteration has more or fewer episodes than the one before: "
        "as many as make the directions `reliable`, and at most four times `episodes`. 1: always "
        "`episodes`, as without `reliable`.",
    ] = 1.5
    episode_steps: Annotated[
        Count | None,
        "The most steps of an episode; one that is truncated there is bootstrapped with the "
        "critic. None: two fifths of the tasks' horizon, but at least 10 steps; of discrete "
        "actions the horizon.",
    ] = None
    updates: Annotated[
        Count | None,
        "Updates of the policies with the same episodes, each an iteration. With more than one the "
        "critic is fitted anew before each: to what earlier actions tell of the policies as they "
        "are by then. None: 1, of discrete actions 5.",
    ] = None
    step_kl: Annotated[
        Positive | None,
        "The largest length δ of a step: the mean Kullback-Leibler divergence, over the visited "
        "states, between a task's policy before it and after. None: 0.1, around a controller "
        "0.04.",
    ] = None
    reliable: Annotated[
        Mixture | None,
        "The reliability c of the directions from which on a step has the length δ: the share of "
        "signal in them, 0 to 1, as far as episodes agree. Below it the length is δ "
        "(c/reliable)⁴. 0: the length is δ, of discrete actions its share by the spread of the "
        "advantages. None: 0.5, around a controller and of discrete actions 0.",
    ] = None
    step_decay: Annotated[
        Positive | None,
        "Iterations after which δ has halved: it falls as 1/(1 + k/step_decay). inf: it is "
        "constant, and only the reliability makes steps shorter. None: inf, around a controller "
        "30.",
    ] = None
    task_correlation: Annotated[
        Mixture | None,
        "The correlation of the tasks' critics and of their directions, with which they are "
        "regressed together: 0 separates the tasks, 1 pools their data. None: estimated in every "
        "iteration from how far the tasks agree, around a controller 0. More than 64 tasks are "
        "always separate.",
    ] = None
    trace: Annotated[
        Mixture, "λ of the λ-returns: 0 bootstraps after one step, 1 uses rewards alone."
    ] = 0.9
    reuse: Annotated[Count, "How many iterations' episodes a step is computed from."] = 4
    ratio_clip: Annotated[
        float, Meta(ge=1.0), "Largest importance ratio of earlier episodes' actions."
    ] = 2.0
    action_std: ActionStd = None
    least_std: Annotated[Positive, "Lower bound of the noise, in the same units."] = 0.05
    ridge: Ridge = 1.0
    novelty: Novelty = 0.05
    new_knots: NewKnots = 30
    critic_ridge: CriticRidge = 0.1
    critic_knots: CriticKnots = 200

    def resolved(
        self, scaled: bool, horizon: int, around: bool = False, scores: bool = False
    ) -> Self:
        """Return the settings with defaults for the tasks' horizon."""
        settings = super().resolved(scaled, horizon, around, scores)
        usual = _AROUND if around else _SCORES if scores else _BY_EVIDENCE
        short = min(horizon, max(_SHORTEST, round(_SHARE * horizon)))
        episode = horizon if usual is _SCORES else short
        return msgspec.structs.replace(
            settings,
            **{name: value for name, value in usual.items() if getattr(self, name) is None},
            discount=self._suiting_discount(horizon, 5.0),
            episode_steps=self.episode_steps or episode,
            action_std=self.action_std or (settings.noise_within(0.5),),
        )

    @property
    def fewest_steps(self) -> int:
        """The steps of the fewest episodes."""
        assert self.episode_steps is not None, "these settings were not resolved"
        return self.fewest_episodes * self.episode_steps

    @property
    def fewest_episodes(self) -> int:
        """The fewest episodes of a task."""
        return 1 if (self.updates or 1) > 1 else _FEWEST_EPISODES

    def step_length(self, iteration: int, reliability: float) -> float:
        """Return the divergence of the step of an iteration, from 0, in a direction."""
        given = self.step_kl, self.reliable, self.step_decay
        longest, reliable, decay = (
            _BY_EVIDENCE[name] if value is None else value
            for name, value in zip(_BY_EVIDENCE, given, strict=False)
        )
        share = 1.0 if reliability >= reliable else (reliability / reliable) ** _RELIABILITY_POWER
        return share * longest / (1.0 + iteration / decay)

    def aims(self, iteration: int, numbers: Mapping[str, Any]) -> dict[str, float]:
        """Return the step's length: ``kl`` differs from it by projection and pruning alone."""
        known, shares = (
            [value for value in numbers.get(name, {}).values() if value is not None]
            for name in ("reliability", "step_share")
        )
        share = sum(shares) / len(shares) if shares else 1.0
        return {"kl": share * self.step_length(iteration - 1, known[0] if known else 1.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.least_steps is not None and self.most_steps < self.least_steps:
            raise InputError(
                f"most_steps is {self.most_steps}, below least_steps, {self.least_steps}; an "
                "iteration cannot have both"
            )
        self._check_finite(
            "step_kl", "ratio_clip", "least_std", "ridge", "critic_ridge", "batch_growth"
        )


class ModelBased(LearnerSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of policies that are learned in cross-learned dynamics models.

    Examples
    --------
    >>> from crosslearning import CrossLearner, ModelBased
    >>> CrossLearner("pendulums:2", ModelBased(round_steps=20)).settings.method
    'models'
    """

    pace: ClassVar[Pace] = Pace(iterations=240, log_every=1, checkpoint_every=60)
    keeps: ClassVar[Literal["expected", "last"]] = "expected"
    method: MethodName = "models"
    round_steps: Annotated[
        Count,
        "Real steps of every task in the first round. A later round is as long as all before it "
        "together, so that each doubles the data; the last one ends with the steps of the run.",
    ] = 50
    longest_round: Annotated[
        Count | None,
        "The most steps of a round. None: an episode. At most round_steps: all rounds have the "
        "same length.",
    ] = None
    updates_per_round: Annotated[
        Count, "Iterations of a round: updates of the policies in the models."
    ] = 60
    model_epsilon: Annotated[
        NotNegative | None,
        "ε_m: the largest distance, in RKHS norm, of the tasks' models from the central one (root "
        "mean square over tasks, for every output). 0 is one model for all, inf one for each. "
        "None: estimated from the data.",
    ] = None
    model_knots: Annotated[
        Count | None,
        "Cap on the knots of each output of the models. None: a third of the steps of all tasks, "
        "from 200 to 600.",
    ] = None
    samples: Annotated[
        int,
        Meta(ge=0),
        "Posterior samples of every task's model, so that policies do not exploit its errors. 0: "
        "the means alone.",
    ] = 4
    rollouts: Annotated[Count, "Imagined rollouts of every task in an iteration."] = 20
    start_share: Annotated[
        Mixture | None,
        "Share of the imagined rollouts that begin where real episodes began; the others begin at "
        "any visited state. None: 0.25, or 0 around a controller and from logs alone.",
    ] = None
    look_ahead: Annotated[Count, "Steps of an imagined rollout, then bootstrapped."] = 25
    trace: Annotated[Mixture, "λ: 0 bootstraps after one imagined step, 1 only at the end."] = 0.95
    step_kl: Annotated[
        Positive,
        "The length δ of a round's first step, a Kullback-Leibler divergence; it shrinks to zero "
        "by the round's end, so that the policies settle.",
    ] = 0.1
    action_std: ActionStd = None
    explorers: Annotated[
        int,
        Meta(ge=0),
        "Candidate policies for exploration in a round: smooth changes as large as action_std; "
        "each task uses the one on which its models disagree most. 0: independent noise at every "
        "step.",
    ] = 8
    imagined_std: Annotated[
        NotNegative | None,
        "Noise in imagined rollouts, in the same units. None: 0.5, or less around a controller.",
    ] = None
    range_penalty: Annotated[
        NotNegative | None,
        "Weight of a penalty on imagined observations beyond the range of the data, in standard "
        "deviations of the reward: there the models are guesses. None: 1 from logs alone, unless "
        "around a controller; else 0.",
    ] = None
    settled: Annotated[
        NotNegative,
        "Learning stops after two rounds that changed the actions at the visited states by no more "
        "than this (root mean square). 0: never.",
    ] = 0.0
    ridge: Ridge = 1.0
    novelty: Novelty = 0.02
    new_knots: NewKnots = 20
    reuse: Annotated[Count, "How many iterations' rollouts the critic is fitted to."] = 4
    critic_ridge: CriticRidge = 0.01
    critic_knots: CriticKnots = 150

    @property
    def initial_exploration(self) -> InitialExploration:
        """The first round serves to estimate widths, too."""
        return InitialExploration(1, self.round_steps, share=1.0)

    def next_round(self, seen: int, horizon: int, left: float) -> int:
        """Return the length of a round after ``seen`` steps of every task, with so many left.

        A rest that is shorter than half of the first round is part of the round before it.
        """
        most = horizon if self.longest_round is None else self.longest_round
        length = max(self.round_steps, min(seen, most))
        if self.longest_round is None and left < length + self.round_steps / 2:
            return int(left)
        return int(min(length, left))

    def resolved(
        self, scaled: bool, horizon: int, around: bool = False, scores: bool = False
    ) -> Self:
        """Return the settings with defaults for the tasks' horizon."""
        settings = super().resolved(scaled, horizon, around, scores)
        noise = self.imagined_std
        if noise is None:
            noise = settings.noise_within(0.5, _IMAGINED_SHARE)
        share = self.start_share
        if share is None:
            share = 0.0 if around else 0.25
        return msgspec.structs.replace(
            settings,
            discount=self._suiting_discount(horizon, 3.0),
            action_std=self.action_std or (settings.noise_within(0.4),),
            start_share=share,
            imagined_std=noise,
            range_penalty=self.range_penalty or 0.0,
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_finite(
            "step_kl", "imagined_std", "range_penalty", "settled", "ridge", "critic_ridge"
        )


METHODS: dict[MethodName, type[LearnerSettings]] = {
    "policy-gradient": PolicyGradient,
    "trust-region": TrustRegion,
    "models": ModelBased,
}
