"""The settings of the paper's method."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, Self

import msgspec
from msgspec import Meta

from crosslearning.errors import InputError
from crosslearning.learner.settings.shared import (
    Count,
    EachAction,
    LearnerSettings,
    MethodName,
    NotNegative,
    Positive,
    Share,
)

#: γ and step sizes of the paper's method: in its units, and for actions in [−1, 1].
_DISCOUNT, _STEP, _SCALED_STEP, _VARIANCE = 0.9, 2.0, 0.5, 0.05
#: Rollouts take 1/(1 − γ) steps on average; more than a million do not fit into memory.
_LARGEST_DISCOUNT = 0.999999


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
