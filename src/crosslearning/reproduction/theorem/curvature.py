"""How fast a gradient changes: the steepest slope that can be found from a policy.

The slope along a function d of norm one is ‖∇U(h + td) − ∇U(h − td)‖ / 2t for a small t. Both
gradients come from the same plans, so that what does not depend on d cancels. To first order it
is ‖Hd‖ with H the second derivative, which is symmetric: to replace d by Hd, normalised, and to
do so again, leads to the steepest direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from crosslearning._base.statistics import Interval
from crosslearning.errors import InputError
from crosslearning.learner.gradients import IndependentEstimates
from crosslearning.learner.gradients.mean import GradientMean
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


class Search:
    """Directions as functions on shared knots (L, q): the dictionary's, and states of every task.

    The units are estimates of the gradients at h_i.
    """

    def __init__(
        self, sampling: Sampling, family: Family, units: Sequence[IndependentEstimates]
    ) -> None:
        states = [own.knots[:: max(1, len(own) // _STATES), 0][:_STATES] for own in units]
        self.sampling, self.family, self.units = sampling, family, units
        self.distance = _secant(sampling, units)
        self.knots = np.concatenate([family.knots, *states])
        self.shape = (len(units), len(self.knots), family.outputs)  # of a direction for every task
        self.gram = sampling.kernel(self.knots)
        # Knots may be dependent; a small ridge shortens a direction, which normalising undoes.
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

    The slope is measured on ``samples`` fresh ones, a number that ``sampling.count`` returned.
    """
    search = Search(sampling, family, units)
    plans = draw_plans(sampling, sampling.count(min(samples, _SEARCH)), generator)
    steepest = np.full(len(units), -1.0)
    best, following = np.zeros((2, *search.shape))

    def attempt(directions: Sequence[Floats]) -> None:
        """Measure one direction per task on the search's plans, and keep what is steeper."""
        for i, own in enumerate(search.differences(directions, plans)):
            change = search.project_mean(own)
            slope = search.norm(change)
            if slope > steepest[i]:
                steepest[i], best[i], following[i] = slope, directions[i], change

    for directions in search.first_directions(generator):
        attempt(directions)
    for _ in range(_POWER_STEPS):
        attempt(search.normalised(following))
    # On fresh plans: the search has seen the others, and would flatter its choice.
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
