"""How fast a gradient changes: the steepest slope that can be found from a policy.

The slope along a function d of norm one is ‖∇U(h + td) − ∇U(h − td)‖ / 2t for a small t. Both
gradients come from the same plans, so that what does not depend on d cancels. To first order it
is ‖Hd‖ with H the second derivative, which is symmetric: to replace d by Hd, normalised, and to
do so again, leads to the steepest direction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.gradients import Units
from crosslearning.gradients.mean import GradientMean
from crosslearning.learner.sampling import Sampling, draw_plans, run_plans
from crosslearning.rkhs import Family, Kernel
from crosslearning.rollouts.plan import SamplePlan
from crosslearning.statistics import Interval

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


class Span:
    """Functions on given knots (L, q), and the projection of others onto them."""

    def __init__(self, kernel: Kernel, knots: Floats) -> None:
        self.kernel = kernel
        self.knots = knots
        self.gram = kernel(knots)
        # Knots may be dependent; a small ridge shortens a direction, which normalising undoes.
        ridge = 1e-8 * float(np.trace(self.gram)) / len(knots) + 1e-300
        self._factor = scipy.linalg.cho_factor(self.gram + ridge * np.eye(len(knots)))

    def norm(self, weights: Floats) -> float:
        """Return the RKHS norm of Σ κ(knot, ·) weights, with weights of shape (L, p)."""
        return float(np.sqrt(max(np.einsum("lp,lm,mp->", weights, self.gram, weights), 0.0)))

    def normalised(self, weights: Floats) -> Floats:
        """Return a function divided by its norm; zero stays zero."""
        norm = self.norm(weights)
        return weights / norm if norm > 0.0 else weights

    def project_mean(self, units: Units) -> Floats:
        """Return the weights of the units' mean, projected onto the span, shape (L, p)."""
        U, B, q = units.knots.shape
        weights = (units.weights * units.ratios[:, None, None]).reshape(U * B, -1) / U
        values = self.kernel(self.knots, units.knots.reshape(U * B, q)) @ weights
        return np.asarray(scipy.linalg.cho_solve(self._factor, values))


def steepest_slopes(
    sampling: Sampling,
    family: Family,
    units: Sequence[Units],
    samples: int,
    generator: np.random.Generator,
    confidence: float,
) -> list[Interval]:
    """Return for every task the slope of its gradient along the steepest direction found.

    The units are estimates of the gradients at h_i, for a direction to begin with and for states;
    ``samples``, a number that ``sampling.count`` returned, are drawn for the measurement.
    """
    distance = _secant(sampling, units)
    states = [own.knots[:: max(1, len(own) // _STATES), 0][:_STATES] for own in units]
    span = Span(sampling.kernel, np.concatenate([family.knots, *states]))
    plans = draw_plans(sampling, sampling.count(min(samples, _SEARCH)), generator)
    steepest = np.full(len(units), -1.0)
    best, following = np.zeros((2, len(units), len(span.knots), family.outputs))

    def attempt(directions: Sequence[Floats]) -> None:
        """Measure one direction per task on the search's plans, and keep what is steeper."""
        moved = _differences(sampling, family, span, directions, plans, distance)
        for i, own in enumerate(moved):
            change = span.project_mean(own)
            slope = span.norm(change)
            if slope > steepest[i]:
                steepest[i], best[i], following[i] = slope, directions[i], change

    for directions in _first_directions(family, span, units, generator):
        attempt(directions)
    for _ in range(_POWER_STEPS):
        attempt([span.normalised(change) for change in following])
    # On fresh plans: the search has seen the others, and would flatter its choice.
    fresh = draw_plans(sampling, samples, generator)
    measured = _differences(sampling, family, span, list(best), fresh, distance)
    return [GradientMean.of(sampling.kernel, own).norm(confidence) for own in measured]


def _secant(sampling: Sampling, units: Sequence[Units]) -> float:
    """Return a t that moves actions by a share of their noise, at typical states."""
    points = np.concatenate([own.knots[: 10 * _STATES, 0] for own in units])
    size = float(np.sqrt(np.mean(sampling.kernel.diagonal(points))))
    if size == 0.0:
        raise InputError(
            "the kernel is zero at every sampled state: no step from the policies moves an action"
        )
    return _SHARE * float(np.min(sampling.noise.std)) / size


def _first_directions(
    family: Family, span: Span, units: Sequence[Units], generator: np.random.Generator
) -> list[list[Floats]]:
    """Return the directions to begin with: towards g, along the gradient, and random ones."""
    shape = (len(units), len(span.knots), family.outputs)
    towards = np.zeros(shape)
    for i in range(len(units)):
        towards[i, : len(family.knots)] = family.weights[:, -1] - family.weights[:, i]
    candidates = [list(towards), [span.project_mean(own) for own in units]]
    candidates += [list(generator.standard_normal(shape)) for _ in range(_RANDOM_DIRECTIONS)]
    return [[span.normalised(one) for one in directions] for directions in candidates]


def _differences(
    sampling: Sampling,
    family: Family,
    span: Span,
    directions: Sequence[Floats],
    plans: Plans,
    distance: float,
) -> list[Units]:
    """Return units of (∇U(h_i + t d_i) − ∇U(h_i − t d_i)) / 2t for every task."""
    ends = []
    for sign in (1.0, -1.0):
        weights = np.zeros((len(span.knots), family.functions, family.outputs))
        weights[: len(family.knots)] = family.weights
        for i, direction in enumerate(directions):
            weights[:, i] += sign * distance * direction
        moved = Family(sampling.kernel, span.knots, weights)
        ends.append(run_plans(sampling, moved.expansion, plans)[0])
    return [plus.minus(minus, 0.5 / distance) for plus, minus in zip(*ends, strict=True)]
