"""The settings of learning in dynamics models."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import msgspec
from msgspec import Meta

from crosslearning.learner.settings.shared import (
    IMAGINED_SHARE,
    ActionStd,
    Count,
    CriticKnots,
    CriticRidge,
    InitialExploration,
    LearnerSettings,
    MethodName,
    Mixture,
    NewKnots,
    NotNegative,
    Novelty,
    Pace,
    Positive,
    Ridge,
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
            noise = settings.noise_within(0.5, IMAGINED_SHARE)
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
