"""The settings of the paper's method; each field's description is its documentation."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, Self

import msgspec
from msgspec import Meta

from crosslearning.errors import InputError
from crosslearning.learner.settings import LearnerSettings, MethodName

#: Default step sizes: in the paper's units, and for actions in [−1, 1].
STEP, SCALED_STEP = 2.0, 0.5
#: γ of the paper.
DISCOUNT = 0.9
#: Rollouts take 1/(1 − γ) steps on average; more than a million do not fit into memory.
LARGEST_DISCOUNT = 0.999999
#: It is divided further over checks and tasks, and 1 − δ must differ from 1.
LEAST_DELTA = 1e-9


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
        Meta(
            description="Gradient estimator: geometric is Algorithm 1 as printed; antithetic "
            "compares mirrored actions at one state; baseline subtracts the batch's mean."
        ),
    ] = "antithetic"
    batch_size: Annotated[int, Meta(ge=1, description="Samples B per task and iteration.")] = 4
    action_variance: Annotated[
        tuple[float, ...],
        Meta(
            description="Variance of the exploration noise for each action (the diagonal of Σ); "
            "one number stands for all."
        ),
    ] = (0.05,)
    step_rule: Annotated[
        Literal["constant", "normalised", "adam", "decaying"],
        Meta(
            description="constant: η times the gradient, the printed form; normalised: a step of "
            "RKHS norm about η, the gradient divided by its running root mean square; adam: the "
            "same with momentum; decaying: normalised, with η falling as 1/√(1 + k/step_decay)."
        ),
    ] = "decaying"
    step_size: Annotated[
        float | None,
        Meta(
            description="Step size η: a step of RKHS norm η changes an action by at most "
            "η √κ(s, s). Take at most the range of the actions. None: 2, or 0.5 where actions are "
            "scaled to their box."
        ),
    ] = None
    step_decay: Annotated[
        float, Meta(gt=0.0, description="Iterations over which the decaying rule starts to fall.")
    ] = 500.0
    step_clip: Annotated[
        float,
        Meta(
            gt=0.0,
            description="Gradients are clipped to this multiple of their running root mean square, "
            "so that one crash does not move a policy far; inf: never. Not for the constant rule.",
        ),
    ] = 1.0
    momentum: Annotated[
        float, Meta(ge=0.0, lt=1.0, description="Share of the old direction that adam keeps.")
    ] = 0.9
    second_moment: Annotated[
        float, Meta(ge=0.0, lt=1.0, description="Share of the old mean square that is kept.")
    ] = 0.99
    alpha: Annotated[
        float | None,
        Meta(description="Stop when every stationarity gap is at most this; none: never."),
    ] = None
    stopping: Annotated[
        Literal["checked", "batch"],
        Meta(
            description="How alpha is tested. checked: by upper confidence bounds from a separate "
            "batch every check_every iterations; batch: by the estimate of each iteration, as "
            "printed, which noise alone can satisfy."
        ),
    ] = "checked"
    check_every: Annotated[
        int, Meta(ge=1, description="Iterations between checks of the stationarity gap.")
    ] = 200
    check_batch: Annotated[
        int,
        Meta(ge=1, description="Samples per task of a check, rounded up to hundreds of estimates."),
    ] = 1000
    check_delta: Annotated[
        float,
        Meta(gt=0.0, lt=1.0, description="Probability that any check of a run stops it wrongly."),
    ] = 0.05

    #: The paper's tasks state the paper's kernel.
    as_stated: ClassVar[bool] = True

    def resolved(self, scaled: bool, horizon: int) -> Self:
        """Return the settings with the step size and the discount that suit the tasks."""
        size = self.step_size or (SCALED_STEP if scaled else STEP)
        discount = DISCOUNT if self.discount is None else self.discount
        return msgspec.structs.replace(self, step_size=size, discount=discount)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.discount is not None and self.discount > LARGEST_DISCOUNT:
            raise InputError(
                f"discount is {self.discount}: rollouts would take {1 / (1 - self.discount):.2g} "
                f"steps on average; give at most {LARGEST_DISCOUNT}"
            )
        self._check_each("action_variance")
        if self.step_size is not None and not 0.0 < self.step_size < math.inf:
            raise InputError(f"step_size must be positive and finite, got {self.step_size}")
        self._check_finite("step_decay")
        if self.alpha is not None and not 0.0 <= self.alpha < math.inf:
            raise InputError(f"alpha must be finite and at least 0, got {self.alpha}")
        if self.alpha is not None and (math.isinf(self.epsilon) or self.epsilon == 0):
            raise InputError(
                "alpha needs an epsilon between 0 and infinity: the stationarity gap is infinite "
                "without a bound on the policies, and always 0 if all must be equal"
            )
        if self.check_delta < LEAST_DELTA:
            raise InputError(
                f"check_delta is {self.check_delta}, which float64 hardly separates from 0: no "
                f"check could ever stop the run; give at least {LEAST_DELTA}"
            )
        if self.estimator == "baseline" and self.batch_size < 2:
            raise InputError("the baseline estimator needs batch_size ≥ 2: it compares samples")
