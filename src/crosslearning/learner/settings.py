"""What can be chosen about learning; each field's description is its documentation."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from crosslearning.errors import InputError


class LearnerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of Algorithm 2."""

    epsilon: Annotated[
        float,
        Meta(
            description="Centrality radius ε: how far, in RKHS norm, a task policy may be from the "
            "central one. 0 forces consensus; inf lets every task learn alone."
        ),
    ] = 3.0
    projection: Annotated[
        Literal["exact", "relaxed"],
        Meta(description="exact bounds every distance by ε; relaxed bounds their mean square."),
    ] = "exact"
    estimator: Annotated[
        Literal["geometric", "antithetic", "baseline"],
        Meta(
            description="Gradient estimator: geometric is Algorithm 1 as printed; antithetic "
            "compares mirrored actions at one state; baseline takes off the batch's mean."
        ),
    ] = "antithetic"
    batch_size: Annotated[int, Meta(ge=1, description="Samples B per task and iteration.")] = 4
    discount: Annotated[float, Meta(gt=0.0, lt=1.0, description="Discount factor γ.")] = 0.9
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
        float,
        Meta(
            gt=0.0,
            description="Step size η. A step of RKHS norm η changes an action by at most η times "
            "√κ(s, s): take about the range of your actions, or less.",
        ),
    ] = 2.0
    step_decay: Annotated[
        float, Meta(gt=0.0, description="Iterations over which the decaying rule starts to fall.")
    ] = 500.0
    step_clip: Annotated[
        float,
        Meta(
            gt=0.0,
            description="A gradient longer than this many times its running root mean square is "
            "shortened to that, so that one rare crash does not throw a policy far off; inf: "
            "never. The constant rule does not use it.",
        ),
    ] = 1.0
    momentum: Annotated[
        float, Meta(ge=0.0, lt=1.0, description="Share of the old direction that adam keeps.")
    ] = 0.9
    second_moment: Annotated[
        float,
        Meta(
            ge=0.0, lt=1.0, description="Share of the old mean square that a normalisation keeps."
        ),
    ] = 0.99
    budget: Annotated[
        float,
        Meta(
            ge=0.0,
            description="Pruning budget β: how far, in RKHS norm, pruning may move each policy in "
            "one iteration.",
        ),
    ] = 1e-3
    max_knots: Annotated[int, Meta(ge=1, description="Cap on the model order.")] = 400
    alpha: Annotated[
        float | None,
        Meta(
            description="Stop when the stationarity gap of every task is at most this; none: never."
        ),
    ] = None
    stopping: Annotated[
        Literal["checked", "batch"],
        Meta(
            description="How alpha is tested. checked: by upper confidence bounds from a batch of "
            "its own every check_every iterations; batch: by the estimate of each iteration, as "
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
        Meta(
            gt=0.0,
            lt=1.0,
            description="Chance, over all checks of a run, to stop where some gap is above alpha.",
        ),
    ] = 0.05
    kernel: Annotated[
        dict[str, Any] | None,
        Meta(
            description="The kernel as a table, such as {kernel = 'gaussian', std = [1.0, 0.8]}; "
            "none: the paper's widths for its navigation tasks, else widths from the "
            "observation space."
        ),
    ] = None
    seed: Annotated[int, Meta(ge=0, description="Seed of the run's one random generator.")] = 0

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise InputError(f"epsilon must be at least 0 (inf allowed), got {self.epsilon}")
        for value in self.action_variance:
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"action_variance must be positive, got {self.action_variance}")
        for name in ("step_size", "step_decay", "budget"):
            if not math.isfinite(getattr(self, name)) and name != "budget":
                raise InputError(f"{name} must be finite, got {getattr(self, name)}")
        if self.alpha is not None and not self.alpha >= 0:
            raise InputError(f"alpha must be at least 0, got {self.alpha}")
        if self.alpha is not None and (math.isinf(self.epsilon) or self.epsilon == 0):
            raise InputError(
                "alpha needs an epsilon between 0 and infinity: the stationarity gap is infinite "
                "without a bound on the policies, and always 0 if all must be equal"
            )
        if self.estimator == "baseline" and self.batch_size < 2:
            raise InputError("the baseline estimator needs batch_size ≥ 2: it compares samples")


_Fields = TypeVar("_Fields", bound=LearnerSettings)
_PLACE = re.compile(r" - at `\$\.?([\w\[\].]*)`$")


def convert_fields(values: dict[str, Any], kind: type[_Fields]) -> _Fields:
    """Return checked fields from plain values, or say which is wrong, and what it was."""
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as problem:
        text = str(problem)
        place = _PLACE.search(text)
        if place is None:
            raise InputError(text) from problem
        name = place[1].split("[")[0]
        said = text[: place.start()].replace("`", "")
        raise InputError(
            f"{name} is {values.get(name)!r}: {said[0].lower()}{said[1:]}"
        ) from problem
