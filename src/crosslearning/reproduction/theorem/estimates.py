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
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from crosslearning._base.statistics import CONFIDENCE, Interval, checked_confidence, root_interval
from crosslearning.certificates.reading import check_asked
from crosslearning.certificates.stationarity import TAIL_LIMIT, tail_of
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.gradients import GradientMean, IndependentEstimates, quantile
from crosslearning.learner.sampling import Sampling, draw_plans, run_plans
from crosslearning.rkhs import Family
from crosslearning.rollouts.plan import SamplePlan

Floats = NDArray[np.float64]
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


class Search:
    """Directions as functions on shared knots (L, q): the dictionary's and states of tasks."""

    def __init__(
        self, sampling: Sampling, family: Family, units: Sequence[IndependentEstimates]
    ) -> None:
        states = [own.knots[:: max(1, len(own) // _STATES), 0][:_STATES] for own in units]
        self.sampling, self.family, self.units = sampling, family, units
        self.distance = _secant(sampling, units)
        self.knots = np.concatenate([family.knots, *states])
        self.shape = (len(units), len(self.knots), family.outputs)  # of a direction for every task
        self.gram = sampling.kernel(self.knots)
        # For dependent knots; normalising undoes the shortening by the ridge.
        ridge = 1e-8 * float(np.trace(self.gram)) / len(self.knots) + 1e-300
        self._factor = scipy.linalg.cho_factor(self.gram + ridge * np.eye(len(self.knots)))

    def norm(self, weights: Floats) -> float:
        """Return the RKHS norm of Σ κ(knot, ·) weights, with weights of shape (L, p)."""
        return float(np.sqrt(max(np.einsum("lp,lm,mp->", weights, self.gram, weights), 0.0)))

    def normalised(self, directions: Iterable[Floats]) -> list[Floats]:
        """Return functions divided by their norms; zero stays zero."""
        return [weights / (self.norm(weights) or 1.0) for weights in directions]

    def project_mean(self, units: IndependentEstimates) -> Floats:
        """Return the weights (L, p) of the units' mean, projected onto the knots' span."""
        U, B, q = units.knots.shape
        weights = (units.weights * units.ratios[:, None, None]).reshape(U * B, -1) / U
        values = self.sampling.kernel(self.knots, units.knots.reshape(U * B, q)) @ weights
        return np.asarray(scipy.linalg.cho_solve(self._factor, values))

    def first_directions(self, generator: np.random.Generator) -> list[list[Floats]]:
        """Return the directions to begin with: towards g, along the gradient, and random ones."""
        towards, weights = np.zeros(self.shape), self.family.weights
        for i in range(len(self.units)):
            towards[i, : len(weights)] = weights[:, -1] - weights[:, i]
        first: list[Iterable[Floats]] = [towards, [self.project_mean(own) for own in self.units]]
        first += [generator.standard_normal(self.shape) for _ in range(_RANDOM_DIRECTIONS)]
        return [self.normalised(directions) for directions in first]

    def differences(self, directions: Sequence[Floats], plans: Plans) -> list[IndependentEstimates]:
        """Return units of (∇U(h_i + t d_i) − ∇U(h_i − t d_i)) / 2t for every task."""
        ends = []
        for sign in (1.0, -1.0):
            weights = np.zeros((len(self.knots), self.family.functions, self.family.outputs))
            weights[: len(self.family.knots)] = self.family.weights
            for i, direction in enumerate(directions):
                weights[:, i] += sign * self.distance * direction
            moved = Family(self.sampling.kernel, self.knots, weights)
            ends.append(run_plans(self.sampling, moved.expansion, plans)[0])
        return [plus.minus(minus, 0.5 / self.distance) for plus, minus in zip(*ends, strict=True)]


def steepest_slopes(
    sampling: Sampling,
    family: Family,
    units: Sequence[IndependentEstimates],
    samples: int,
    generator: np.random.Generator,
    confidence: float,
) -> list[Interval]:
    """Return for every task the slope of its gradient along the steepest direction found.

    ``samples``, a number from ``sampling.count``, are fresh ones.
    """
    search = Search(sampling, family, units)
    plans = draw_plans(sampling, sampling.count(min(samples, _SEARCH)), generator)
    steepest = np.full(len(units), -1.0)
    best, following = np.zeros((2, *search.shape))

    def attempt(directions: Sequence[Floats]) -> None:
        """Measure one direction per task on the search's plans, and keep the steeper ones."""
        for i, own in enumerate(search.differences(directions, plans)):
            change = search.project_mean(own)
            slope = search.norm(change)
            if slope > steepest[i]:
                steepest[i], best[i], following[i] = slope, directions[i], change

    for directions in search.first_directions(generator):
        attempt(directions)
    for _ in range(_POWER_STEPS):
        attempt(search.normalised(following))
    # On fresh plans, which the search has not used.
    measured = search.differences(list(best), draw_plans(sampling, samples, generator))
    return [GradientMean.of(sampling.kernel, own).norm(confidence) for own in measured]


def _secant(sampling: Sampling, units: Sequence[IndependentEstimates]) -> float:
    """Return a t that moves actions by a share of their noise, at typical states."""
    points = np.concatenate([own.knots[: 10 * _STATES, 0] for own in units])
    size = float(np.sqrt(np.mean(sampling.kernel.diagonal(points))))
    if size == 0.0:
        raise InputError(
            "the kernel is zero at every sampled state: no step from the policies moves an action"
        )
    return _SHARE * float(np.min(sampling.noise.std)) / size
