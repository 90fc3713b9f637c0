"""The constants of the convergence theory, estimated at the trained policies.

The theory assumes that they bound the gradients everywhere. Rollouts can only tell what they are
here, at the policies that were learned; :data:`KINDS` says of each what kind of estimate it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from crosslearning._base.statistics import CONFIDENCE, Interval, checked_confidence, root_interval
from crosslearning.certificates.reading import check_asked
from crosslearning.certificates.stationarity import TAIL_LIMIT, tail_of
from crosslearning.learner import CrossLearner
from crosslearning.learner.gradients import IndependentEstimates
from crosslearning.learner.gradients.mean import GradientMean, quantile
from crosslearning.learner.sampling import Sampling, draw_plans, run_plans
from crosslearning.reproduction.theorem.curvature import steepest_slopes

#: What kind of estimate each constant is.
KINDS: Mapping[str, str] = {
    "deviation": "σ_U: the root of the mean squared RKHS distance of one sample's gradient "
    "estimate from the true gradient, at the trained policy; two-sided interval.",
    "second_moment": "B_U: the root of the mean squared RKHS norm of the gradient estimate of "
    "the run's batch size, at the trained policy; two-sided interval.",
    "gradient_norm": "μ: the norm of the true gradient at the trained policy, with the upward "
    "bias of a noisy norm removed; two-sided interval. The theory's μ bounds it everywhere.",
    "lipschitz": "L: how fast the gradient changes along the steepest direction that was "
    "found from the trained policy; its interval is for that direction. The theory's L is the "
    "largest over all directions and policies, so this is a lower bound of it.",
}


@dataclass(frozen=True)
class EstimatedConstants:
    """The constants of one task at its trained policy; see :data:`KINDS`."""

    task: str
    samples: int  #: gradient samples of each estimate
    deviation: Interval  #: σ_U of one sample; a batch of b has σ_U/√b
    second_moment: Interval  #: B_U of the run's batch size
    gradient_norm: Interval  #: μ
    lipschitz: Interval  #: L
    tail: float  #: how much rare samples decide, see :func:`stationarity.tail_of`

    @property
    def doubtful(self) -> bool:
        """Whether the samples have such tails that the intervals may be too short."""
        return self.tail > TAIL_LIMIT


def estimate_constants(
    learner: CrossLearner, samples: int = 4000, seed: int = 0, confidence: float = CONFIDENCE
) -> list[EstimatedConstants]:
    """Return the constants of every task at its trained policy, from fresh rollouts.

    The learner is not changed. The gradient samples per task are rounded up to whole groups of
    estimates; the confidence is that of each interval by itself, not of all together.
    """
    confidence = checked_confidence(confidence)
    check_asked(seed=seed)
    sampling = learner.method.sampling
    samples = sampling.count(samples)
    with threadpool_limits(1, user_api="blas"):
        plans = draw_plans(sampling, samples, np.random.default_rng([seed, 2]))
        units, _ = run_plans(sampling, learner.family.expansion, plans)
        moments = [
            gradient_moments(sampling, own, GradientMean.of(sampling.kernel, own), confidence)
            for own in units
        ]
        generator = np.random.default_rng([seed, 3])
        slopes = steepest_slopes(sampling, learner.family, units, samples, generator, confidence)
    return [
        EstimatedConstants(task.name, samples, *own, slope, tail_of(sampling, unit))
        for task, own, slope, unit in zip(learner.tasks, moments, slopes, units, strict=True)
    ]


def gradient_moments(
    sampling: Sampling, units: IndependentEstimates, mean: GradientMean, confidence: float
) -> tuple[Interval, Interval, Interval]:
    """Return σ_U, B_U and μ from independent gradient estimates of one task and their mean.

    With S = E‖X‖² for a unit X of s samples, σ² = s (S − ‖∇U‖²), and a batch of b samples has
    B² = σ²/b + ‖∇U‖². Both are linear in S and ‖∇U‖², which are estimated without bias: S by a
    mean, ‖∇U‖² by a U-statistic, whose first-order term is twice the mean of ⟨X, ∇U⟩.
    """
    weighted = units.ratios * units.squares(sampling.kernel)
    moment = float(weighted.mean())
    norm_square = mean.unbiased_square(units.ratios * weighted)
    size, batch = sampling.unit_size, sampling.batch_size

    def root(of_moment: float, of_norm: float) -> Interval:
        value = of_moment * moment + of_norm * norm_square
        influence = of_moment * weighted + 2.0 * of_norm * mean.with_mean
        return root_interval(value, influence, quantile(0.5 + 0.5 * confidence))

    second_moment = root(size / batch, 1.0 - size / batch)
    return root(size, -size), second_moment, mean.norm(confidence)
