"""The settings of trust-region cross-learning; each field's description is its documentation."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

import msgspec
from msgspec import Meta

from crosslearning.errors import InputError
from crosslearning.learner.settings import (
    ActionStd,
    CriticKnots,
    CriticRidge,
    LearnerSettings,
    MethodName,
    NewKnots,
    Novelty,
    Pace,
    Ridge,
)

#: By default 1/(1 − γ) is the horizon over this.
_LOOK_AHEAD = 5.0
#: Shortest episodes, and their share of the horizon: short ones have more starts.
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
        Meta(ge=1, description="Episodes of every task and iteration, within the next two limits."),
    ] = 10
    least_steps: Annotated[
        int, Meta(ge=1, description="Fewest steps of a task and iteration: more short episodes.")
    ] = 200
    most_steps: Annotated[
        int,
        Meta(
            ge=1,
            description="Most steps of a task and iteration: fewer long episodes, but at least 2.",
        ),
    ] = 800
    episode_steps: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="The most steps of an episode; one that is truncated there is bootstrapped "
            "with the critic. None: two fifths of the tasks' horizon, but at least 10 steps."
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
            description="Iterations after which δ has halved: it falls as 1/(1 + k/step_decay), so "
            "that the policies settle. inf: it is constant.",
        ),
    ] = 30.0
    trace: Annotated[
        float,
        Meta(
            ge=0.0,
            le=1.0,
            description="λ of the λ-returns: 0 bootstraps after one step, 1 uses rewards alone.",
        ),
    ] = 0.9
    reuse: Annotated[
        int, Meta(ge=1, description="How many iterations' episodes a step is computed from.")
    ] = 4
    ratio_clip: Annotated[
        float, Meta(ge=1.0, description="Largest importance ratio of earlier episodes' actions.")
    ] = 2.0
    action_std: ActionStd = (0.5,)
    least_std: Annotated[
        float, Meta(gt=0.0, description="Lower bound of the noise, in the same units.")
    ] = 0.05
    ridge: Ridge = 1.0
    novelty: Novelty = 0.05
    new_knots: NewKnots = 30
    critic_ridge: CriticRidge = 0.1
    critic_knots: CriticKnots = 200

    def resolved(self, scaled: bool, horizon: int) -> Self:
        """Return the settings with defaults for the tasks' horizon."""
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
        """Return δ: ``kl`` differs from it by projection and pruning alone."""
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
