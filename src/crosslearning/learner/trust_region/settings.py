"""The settings of trust-region cross-learning; each field's description is its documentation."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import msgspec
from msgspec import Meta

from crosslearning.errors import InputError
from crosslearning.learner.settings import (
    CriticKnots,
    CriticRidge,
    LearnerSettings,
    MethodName,
    Pace,
    Ridge,
)

#: γ, where none is given, is such that 1/(1 − γ) is the horizon over this.
_LOOK_AHEAD = 5.0
#: The length of episodes: short ones see more starts, and γ does not look much farther.
_SHORTEST, _SHARE = 10, 0.4


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
        int,
        Meta(
            ge=1,
            description="Episodes of every task in an iteration, if they are neither very short "
            "nor very long: then least_steps and most_steps decide.",
        ),
    ] = 10
    least_steps: Annotated[
        int,
        Meta(ge=1, description="While episodes are short, so many of them that a task has these."),
    ] = 200
    most_steps: Annotated[
        int,
        Meta(
            ge=1,
            description="While episodes are long, no more of them than a task needs for these, "
            "but two at least.",
        ),
    ] = 800
    episode_steps: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="The most steps of an episode; one that is cut off there goes on in the "
            "critic's word, and another starts elsewhere. None: two fifths of the tasks' horizon, "
            "but at least 10 steps.",
        ),
    ] = None
    step_kl: Annotated[
        float,
        Meta(
            gt=0.0,
            description="The length δ of a step: the mean Kullback-Leibler divergence, over the "
            "visited states, between a task's policy before it and after.",
        ),
    ] = 0.04
    step_decay: Annotated[
        float,
        Meta(
            gt=0.0,
            description="Iterations after which δ is half of what it was at first: it falls as "
            "1/(1 + k/step_decay), so that the policies settle. inf: it stays.",
        ),
    ] = 30.0
    trace: Annotated[
        float,
        Meta(
            ge=0.0,
            le=1.0,
            description="λ of the λ-returns: 0 trusts the critic after one step, 1 the rewards "
            "alone.",
        ),
    ] = 0.9
    reuse: Annotated[
        int,
        Meta(ge=1, description="How many iterations' episodes a step is made from."),
    ] = 4
    ratio_clip: Annotated[
        float,
        Meta(
            ge=1.0,
            description="The most that an earlier action may count for being more likely now "
            "than it was then.",
        ),
    ] = 2.0
    action_std: Annotated[
        tuple[float, ...],
        Meta(
            description="Standard deviation of the exploration noise at the start, in the units "
            "of the policies' actions: of half the range of each action, where it has bounds. One "
            "number stands for all.",
        ),
    ] = (0.5,)
    least_std: Annotated[
        float, Meta(gt=0.0, description="What the noise does not fall below, in the same units.")
    ] = 0.05
    ridge: Ridge = 1.0
    novelty: Annotated[
        float,
        Meta(
            gt=0.0,
            lt=1.0,
            description="A visited state becomes a knot if the knots so far leave more than this "
            "share of its kernel unexplained.",
        ),
    ] = 0.05
    new_knots: Annotated[
        int, Meta(ge=1, description="The most visited states that become knots in an iteration.")
    ] = 30
    critic_ridge: CriticRidge = 0.1
    critic_knots: CriticKnots = 200

    def resolved(self, scaled: bool, horizon: int) -> Self:
        """Return the settings with what suits the tasks' horizon."""
        episode = min(horizon, max(_SHORTEST, round(_SHARE * horizon)))
        return msgspec.structs.replace(
            self,
            discount=self._suiting_discount(horizon, _LOOK_AHEAD),
            episode_steps=self.episode_steps or episode,
        )

    def step_length(self, iteration: int) -> float:
        """Return δ of an iteration, from 0."""
        return self.step_kl / (1.0 + iteration / self.step_decay)

    def aims(self, iteration: int) -> dict[str, float]:
        """Return δ: ``kl`` is that, but for projection and pruning, which follow the step."""
        return {"kl": self.step_length(iteration - 1)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.most_steps < self.least_steps:
            raise InputError(
                f"most_steps is {self.most_steps}, below least_steps, {self.least_steps}; an "
                "iteration cannot have both"
            )
        self._check_each("action_std")
        self._check_finite("step_kl", "ratio_clip", "least_std", "ridge", "critic_ridge")
