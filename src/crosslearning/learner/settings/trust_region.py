"""The settings of the trust region."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import Meta

from crosslearning.errors import InputError
from crosslearning.learner.settings.shared import (
    ActionStd,
    Count,
    CriticKnots,
    CriticRidge,
    LearnerSettings,
    MethodName,
    Mixture,
    NewKnots,
    Novelty,
    Pace,
    Positive,
    Ridge,
)

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
        "(c/reliable)⁴. 0: the length is δ, and with several updates its share by the spread of "
        "the advantages. None: 0.5, around a controller and of discrete actions 0.",
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
