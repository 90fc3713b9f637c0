"""The settings of learning in cross-learned models; each field's description documents it."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Self

import msgspec
from msgspec import Meta

from crosslearning.errors import InputError
from crosslearning.learner.settings import (
    CriticKnots,
    CriticRidge,
    InitialExploration,
    LearnerSettings,
    MethodName,
    Pace,
    Ridge,
)

#: γ, where none is given, is such that 1/(1 − γ) is the horizon over this.
_LOOK_AHEAD = 3.0


class ModelBased(LearnerSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of policies that are learned in models of the tasks.

    Examples
    --------
    >>> from crosslearning import CrossLearner, ModelBased
    >>> CrossLearner("pendulums:2", ModelBased(round_steps=20)).settings.method
    'models'
    """

    pace: ClassVar[Pace] = Pace(iterations=240, log_every=1, checkpoint_every=60)
    method: MethodName = "models"
    round_steps: Annotated[
        int,
        Meta(
            ge=1,
            description="Real steps of every task in the first round, after which its model is "
            "fitted. Later rounds are as long as all before them together, so that each doubles "
            "what was seen.",
        ),
    ] = 50
    longest_round: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="The most steps of a round. None: an episode. No more than round_steps: "
            "all rounds are alike."
        ),
    ] = None
    updates_per_round: Annotated[
        int,
        Meta(
            ge=1,
            description="Iterations of a round: how often the policies are improved in the models "
            "before more is seen of the tasks.",
        ),
    ] = 60
    model_epsilon: Annotated[
        Annotated[float, Meta(ge=0.0)] | None,
        Meta(
            description="ε_m: how far, in RKHS norm, a task's model may be from the central one "
            "in every output (the root of the mean square over tasks). 0 is one model for all, "
            "inf one for each. None: what the data say."
        ),
    ] = None
    model_knots: Annotated[
        int, Meta(ge=1, description="Cap on the knots of each of the models' outputs.")
    ] = 200
    samples: Annotated[
        int,
        Meta(
            ge=0,
            description="Models of every task that are drawn from what is possible after the "
            "data, so that policies do not rely on what is not known. 0: the means alone.",
        ),
    ] = 4
    rollouts: Annotated[
        int, Meta(ge=1, description="Imagined rollouts of every task in an iteration.")
    ] = 20
    look_ahead: Annotated[
        int, Meta(ge=1, description="Steps of an imagined rollout; a critic tells the rest.")
    ] = 25
    trace: Annotated[
        float,
        Meta(
            ge=0.0,
            le=1.0,
            description="λ: 0 trusts the critic after one imagined step, 1 only at the end.",
        ),
    ] = 0.95
    step_kl: Annotated[
        float,
        Meta(
            gt=0.0,
            description="The length δ of a round's first step, a Kullback-Leibler divergence; it "
            "shrinks to nothing by the round's end, so that the policies settle.",
        ),
    ] = 0.1
    action_std: Annotated[
        tuple[float, ...],
        Meta(
            description="Standard deviation of the exploration noise in the real tasks, in the "
            "units of the policies' actions: of half the range of each action, where it has "
            "bounds. One number stands for all.",
        ),
    ] = (0.4,)
    explorers: Annotated[
        int,
        Meta(
            ge=0,
            description="Ways to act that are imagined before a round: smooth changes of the "
            "policies, as large as action_std; each task takes the one along which its models "
            "disagree most. 0: independent noise at every step.",
        ),
    ] = 8
    imagined_std: Annotated[
        float,
        Meta(ge=0.0, description="That of the noise in imagined rollouts, in the same units."),
    ] = 0.5
    settled: Annotated[
        float,
        Meta(
            ge=0.0,
            description="Learning stops after two rounds whose data changed the policies' actions "
            "at the visited states by no more than this (root of the mean square). 0: never.",
        ),
    ] = 0.0
    ridge: Ridge = 1.0
    novelty: Annotated[
        float,
        Meta(
            gt=0.0,
            lt=1.0,
            description="An imagined state becomes a knot of the policies if the knots so far "
            "leave more than this share of its kernel unexplained.",
        ),
    ] = 0.02
    new_knots: Annotated[
        int, Meta(ge=1, description="The most states that become knots in an iteration.")
    ] = 20
    reuse: Annotated[
        int, Meta(ge=1, description="How many iterations' rollouts the critic learns from.")
    ] = 4
    critic_ridge: CriticRidge = 0.01
    critic_knots: CriticKnots = 150

    @property
    def initial_exploration(self) -> InitialExploration:
        """The first round is what widths are found from: nothing that is seen is wasted."""
        return InitialExploration(1, self.round_steps)

    def next_round(self, seen: int, horizon: int) -> int:
        """Return the length of a round after so many steps of every task."""
        most = horizon if self.longest_round is None else self.longest_round
        return max(self.round_steps, min(seen, most))

    def resolved(self, scaled: bool, horizon: int) -> Self:
        """Return the settings with what suits the tasks' horizon."""
        discount = self._suiting_discount(horizon, _LOOK_AHEAD)
        return msgspec.structs.replace(self, discount=discount)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_each("action_std")
        if self.model_epsilon is not None and math.isnan(self.model_epsilon):
            raise InputError("model_epsilon must be at least 0 (inf allowed), got nan")
        self._check_finite("step_kl", "imagined_std", "settled", "ridge", "critic_ridge")
