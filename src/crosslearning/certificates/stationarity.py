"""Stationarity gaps of trained policies, with confidence intervals.

Gap_i = max ⟨∇U_i, h − h_i⟩ over the h that the constraint allows while g and the other policies
are fixed: ⟨∇U_i, g − h_i⟩ + r_i ‖∇U_i‖. To first order it is the most that task i could still
gain. If every gap is at most α, the policies are an α-first-order stationary point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from crosslearning._base.statistics import CONFIDENCE, Interval, checked_confidence, skewness_of
from crosslearning.certificates.reading import check_asked
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.gradients import IndependentEstimates
from crosslearning.learner.internals import radii_of
from crosslearning.learner.sampling import Sampling, draw_plans, sample_gaps

Verdict = Literal["stationary", "not stationary", "undecided"]

#: Above this tail the coverage of the intervals is below their level.
TAIL_LIMIT = 0.3
#: Notes for the radii at which the gap is not informative.
_NOTES = {
    0.0: "With ε = 0 every policy equals the centre and none can move alone, so every gap is 0 "
    "whatever the gradients are. It says nothing about how good the common policy is.",
    math.inf: "With ε = ∞ nothing bounds the policies, and the gap is infinite unless the gradient "
    "is exactly zero. Look at the gradient's norm instead ('crosslearning theory').",
}


@dataclass(frozen=True)
class StationarityGap:
    """The stationarity gap of one task's policy.

    The upward bias of a noisy gradient's norm is corrected for; the interval is two-sided.
    """

    task: str
    gap: Interval
    samples: int  #: gradient samples that it comes from
    confidence: float  #: of the interval
    tail: float = 0.0  #: how much rare samples decide, see :func:`tail_of`
    note: str | None = None  #: what the gap means where ε is 0 or infinite

    @property
    def doubtful(self) -> bool:
        """Whether the samples have such tails that the interval may be too short."""
        return self.tail > TAIL_LIMIT

    def verdict(self, alpha: float) -> Verdict:
        """Return whether the interval shows that the policy is stationary up to ``alpha``."""
        if not alpha >= 0.0:
            raise InputError(f"alpha must be at least 0, got {alpha}")
        if self.gap.high <= alpha:
            return "stationary"
        return "not stationary" if self.gap.low > alpha else "undecided"


def stationarity_gaps(
    learner: CrossLearner, samples: int = 4000, seed: int = 0, confidence: float = CONFIDENCE
) -> list[StationarityGap]:
    """Return the stationarity gap of every task's policy, from fresh rollouts.

    The learner is not changed. The gradient samples per task are rounded up to whole groups of
    estimates; the confidence is that of each interval by itself, not of all together.
    """
    confidence = checked_confidence(confidence)
    check_asked(seed=seed)
    sampling, epsilon = learner.method.sampling, learner.settings.epsilon
    samples = sampling.count(samples)
    names, note = [task.name for task in learner.tasks], _NOTES.get(epsilon)
    if epsilon == 0.0:
        zero = Interval(0.0, 0.0, 0.0)
        return [StationarityGap(name, zero, 0, confidence, note=note) for name in names]
    gaps = []
    with threadpool_limits(1, user_api="blas"):
        generator = np.random.default_rng([seed, 1])
        measured, _ = sample_gaps(
            sampling, learner.family, draw_plans(sampling, samples, generator)
        )
        places = zip(names, measured, learner.family.distances(), radii_of(learner), strict=True)
        for name, one, distance, radius in places:
            if math.isinf(epsilon):
                low = math.inf if one.mean.norm(confidence).low > 0.0 else 0.0
                gap = Interval(math.inf, low, math.inf)
            else:
                gap = one.mean.ball_maximum(one.towards, distance, radius, confidence)
            tail = tail_of(sampling, one.units)
            gaps.append(StationarityGap(name, gap, samples, confidence, tail, note))
    return gaps


def tail_of(sampling: Sampling, units: IndependentEstimates) -> float:
    """Return the skewness of the gradients' squared norms over the root of their number."""
    squares = units.ratios * units.squares(sampling.kernel)
    return abs(skewness_of(squares)) / float(np.sqrt(len(squares)))
