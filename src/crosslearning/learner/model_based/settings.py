"""The settings of learning in dynamics models; each field's description is its documentation."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Self

import msgspec
from msgspec import Meta

from crosslearning.errors import InputError
from crosslearning.learner.settings import (
    ActionStd,
    CriticKnots,
    CriticRidge,
    InitialExploration,
    LearnerSettings,
    MethodName,
    NewKnots,
    Novelty,
    Pace,
    Ridge,
)

#: By default 1/(1 − γ) is the horizon over this.
_LOOK_AHEAD = 3.0


class ModelBased(LearnerSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of policies that are learned in cross-learned dynamics models.

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
            description="Real steps of every task in the first round. A later round is as long as "
            "all before it together, so that each doubles the data.",
        ),
    ] = 50
    longest_round: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="The most steps of a round. None: an episode. At most round_steps: all "
            "rounds have the same length."
        ),
    ] = None
    updates_per_round: Annotated[
        int,
        Meta(ge=1, description="Iterations of a round: updates of the policies in the models."),
    ] = 60
    model_epsilon: Annotated[
        Annotated[float, Meta(ge=0.0)] | None,
        Meta(
            description="ε_m: the largest distance, in RKHS norm, of the tasks' models from the "
            "central one (root mean square over tasks, for every output). 0 is one model for all, "
            "inf one for each. None: estimated from the data."
        ),
    ] = None
    model_knots: Annotated[
        int, Meta(ge=1, description="Cap on the knots of each output of the models.")
    ] = 200
    samples: Annotated[
        int,
        Meta(
            ge=0,
            description="Posterior samples of every task's model, so that policies do not exploit "
            "its errors. 0: the means alone.",
        ),
    ] = 4
    rollouts: Annotated[
        int, Meta(ge=1, description="Imagined rollouts of every task in an iteration.")
    ] = 20
    look_ahead: Annotated[
        int, Meta(ge=1, description="Steps of an imagined rollout, then bootstrapped.")
    ] = 25
    trace: Annotated[
        float,
        Meta(
            ge=0.0,
            le=1.0,
            description="λ: 0 bootstraps after one imagined step, 1 only at the end.",
        ),
    ] = 0.95
    step_kl: Annotated[
        float,
        Meta(
            gt=0.0,
            description="The length δ of a round's first step, a Kullback-Leibler divergence; it "
            "shrinks to zero by the round's end, so that the policies settle.",
        ),
    ] = 0.1
    action_std: ActionStd = (0.4,)
    explorers: Annotated[
        int,
        Meta(
            ge=0,
            description="Candidate policies for exploration in a round: smooth changes as large as "
            "action_std; each task uses the one on which its models disagree most. 0: independent "
            "noise at every step.",
        ),
    ] = 8
    imagined_std: Annotated[
        float, Meta(ge=0.0, description="Noise in imagined rollouts, in the same units.")
    ] = 0.5
    settled: Annotated[
        float,
        Meta(
            ge=0.0,
            description="Learning stops after two rounds that changed the actions at the visited "
            "states by no more than this (root mean square). 0: never.",
        ),
    ] = 0.0
    ridge: Ridge = 1.0
    novelty: Novelty = 0.02
    new_knots: NewKnots = 20
    reuse: Annotated[
        int, Meta(ge=1, description="How many iterations' rollouts the critic is fitted to.")
    ] = 4
    critic_ridge: CriticRidge = 0.01
    critic_knots: CriticKnots = 150

    @property
    def initial_exploration(self) -> InitialExploration:
        """The first round serves to estimate widths, too."""
        return InitialExploration(1, self.round_steps)

    def next_round(self, seen: int, horizon: int) -> int:
        """Return the length of a round after ``seen`` steps of every task."""
        most = horizon if self.longest_round is None else self.longest_round
        return max(self.round_steps, min(seen, most))

    def resolved(self, scaled: bool, horizon: int) -> Self:
        """Return the settings with defaults for the tasks' horizon."""
        discount = self._suiting_discount(horizon, _LOOK_AHEAD)
        return msgspec.structs.replace(self, discount=discount)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_each("action_std")
        if self.model_epsilon is not None and math.isnan(self.model_epsilon):
            raise InputError("model_epsilon must be at least 0 (inf allowed), got nan")
        self._check_finite("step_kl", "imagined_std", "settled", "ridge", "critic_ridge")
