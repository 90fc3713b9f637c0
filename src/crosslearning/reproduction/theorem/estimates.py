"""The constants of the convergence theory, estimated at the trained policies.

The theory assumes that they bound the gradients everywhere; rollouts estimate them at the learned
policies. :data:`KINDS` describes each estimate.

The slope of a gradient along a function d of norm one is ‖∇U(h + td) − ∇U(h − td)‖ / 2t for a small
t, with the same plans for both gradients. To first order it is ‖Hd‖ with the symmetric second
derivative H, so power iteration, from d to Hd normalised, leads to the steepest direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from crosslearning._base.statistics import CONFIDENCE, Interval, checked_confidence, root_interval
from crosslearning.certificates.reading import check_asked
from crosslearning.certificates.stationarity import TAIL_LIMIT, tail_of
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.gradients import GradientMean, IndependentEstimates, quantile
from crosslearning.learner.sampling import Sampling, draw_plans, run_plans
from crosslearning.rkhs import Family
from crosslearning.rkhs.checks import Floats
from crosslearning.rollouts.plan import SamplePlan

Plans = Sequence[tuple[SamplePlan, Floats]]

#: Samples for the search of a direction; the slope itself is measured on others.
_SEARCH = 1000
_RANDOM_DIRECTIONS = 2
_POWER_STEPS = 4
#: Sampled states of each task that join the dictionary's knots to carry directions.
_STATES = 100
#: Of the noise's standard deviation: by how much actions move at the ends of a secant.
_SHARE = 0.03
#: Descriptions of the estimates.
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
            gradient_moments(sampling, unit, GradientMean.of(sampling.kernel, unit), confidence)
            for unit in units
        ]
        generator = np.random.default_rng([seed, 3])
        slopes = steepest_slopes(sampling, learner.family, units, samples, generator, confidence)
    return [
        EstimatedConstants(task.name, samples, *moment, slope, tail_of(sampling, unit))
        for task, moment, slope, unit in zip(learner.tasks, moments, slopes, units, strict=True)
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


def steepest_slopes(
    sampling: Sampling,
    family: Family,
    units: Sequence[IndependentEstimates],
    samples: int,
    generator: np.random.Generator,
    confidence: float,
) -> list[Interval]:
    """Return for every task the slope of its gradient along the steepest direction of a search.

    Directions are functions on the dictionary's knots and on states of the tasks. The search
    begins towards g, along the gradient and in random directions, and goes on by power iteration.
    ``samples``, a number from ``sampling.count``, are fresh ones.
    """
    states = [unit.knots[:: max(1, len(unit) // _STATES), 0][:_STATES] for unit in units]
    knots = np.concatenate([family.knots, *states])
    gram = sampling.kernel(knots)
    # For dependent knots; normalising undoes the shortening by the ridge.
    ridge = 1e-8 * float(np.trace(gram)) / len(knots) + 1e-300
    factor = scipy.linalg.cho_factor(gram + ridge * np.eye(len(knots)))
    t = _secant(sampling, units)

    def norm(weights: Floats) -> float:
        """Return the RKHS norm of Σ κ(knot, ·) weights, with weights of shape (L, p)."""
        return float(np.sqrt(max(np.einsum("lp,lm,mp->", weights, gram, weights), 0.0)))

    def project_mean(unit: IndependentEstimates) -> Floats:
        """Return the weights (L, p) of the units' mean, projected onto the knots' span."""
        U, B, q = unit.knots.shape
        weights = (unit.weights * unit.ratios[:, None, None]).reshape(U * B, -1) / U
        values = sampling.kernel(knots, unit.knots.reshape(U * B, q)) @ weights
        return np.asarray(scipy.linalg.cho_solve(factor, values))

    def differences(directions: Sequence[Floats], plans: Plans) -> list[IndependentEstimates]:
        """Return units of (∇U(h_i + t d_i) − ∇U(h_i − t d_i)) / 2t for every task."""
        ends = []
        for sign in (1.0, -1.0):
            weights = np.zeros((len(knots), family.functions, family.outputs))
            weights[: len(family.knots)] = family.weights
            for i, direction in enumerate(directions):
                weights[:, i] += sign * t * direction
            moved = Family(sampling.kernel, knots, weights)
            ends.append(run_plans(sampling, moved.expansion, plans)[0])
        return [plus.minus(minus, 0.5 / t) for plus, minus in zip(*ends, strict=True)]

    plans = draw_plans(sampling, sampling.count(min(samples, _SEARCH)), generator)
    shape = (len(units), len(knots), family.outputs)  # of a direction for every task
    towards = np.zeros(shape)
    between = family.weights[:, -1:] - family.weights[:, :-1]
    towards[:, : len(family.knots)] = between.swapaxes(0, 1)
    first: list[Iterable[Floats]] = [towards, [project_mean(unit) for unit in units]]
    first += [generator.standard_normal(shape) for _ in range(_RANDOM_DIRECTIONS)]
    steepest = np.full(len(units), -1.0)
    best, following = np.zeros((2, *shape))
    for directions in [*first, *[following] * _POWER_STEPS]:
        # Zero stays zero.
        tried = [weights / (norm(weights) or 1.0) for weights in directions]
        for i, difference in enumerate(differences(tried, plans)):
            change = project_mean(difference)
            if norm(change) > steepest[i]:
                steepest[i], best[i], following[i] = norm(change), tried[i], change
    # On fresh plans, which the search has not used.
    measured = differences(list(best), draw_plans(sampling, samples, generator))
    return [GradientMean.of(sampling.kernel, change).norm(confidence) for change in measured]


def _secant(sampling: Sampling, units: Sequence[IndependentEstimates]) -> float:
    """Return a t that moves actions by a share of their noise, at typical states."""
    points = np.concatenate([unit.knots[: 10 * _STATES, 0] for unit in units])
    size = float(np.sqrt(np.mean(sampling.kernel.diagonal(points))))
    if size == 0.0:
        raise InputError(
            "the kernel is zero at every sampled state: no step from the policies moves an action"
        )
    return _SHARE * float(np.min(sampling.noise.std)) / size
