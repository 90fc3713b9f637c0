"""Cross-learned classification: probabilities of related tasks, near a central function.

Given labels y_n in {0, 1} at points x_n of N tasks, the log odds b + f_1 … b + f_N and f_c solve

    minimise   Σ_i [ −2 Σ_n log p(y_n | b + f_i(x_n)) + ρ ‖f_i‖² ]   subject to   ‖f_i − f_c‖ ≤ ε,

kernel logistic regression in place of the ridge regression of
:mod:`crosslearning.rkhs.cross_regression`. Newton's method solves it: each step is such a ridge
regression, in which a point counts by the variance w = p (1 − p) of its label. That of the last
step has the posterior of the Laplace approximation (Rasmussen and Williams 2006, section 3.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from crosslearning.errors import InputError, NumericalError
from crosslearning.rkhs.checks import Floats, count, finite_array, radius
from crosslearning.rkhs.coupled_ridge import CoupledRidge, Solution, Statistics
from crosslearning.rkhs.cross_fit import CrossFit, Gap
from crosslearning.rkhs.kernel import Kernel
from crosslearning.rkhs.knot_coordinates import KnotCoordinates
from crosslearning.rkhs.multipliers import FitStatus, SearchResult, search

#: Newton steps, and halvings of one.
_STEPS, _HALVINGS = 60, 30
#: The relative decrease of the objective at which the search ends.
_ENOUGH = 1e-9
#: The least variance of a label, so that certain ones leave the system regular.
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class CrossClassifier(CrossFit):
    """The functions of a cross-learned classification: log odds less ``offset``.

    Posterior samples and variances are those of the Laplace approximation.

    Examples
    --------
    >>> from crosslearning.rkhs import Gaussian, cross_classify
    >>> found = cross_classify(Gaussian(std=[1.0]), [[[0.0], [3.0]]], [[0.0, 1.0]], multiplier=0.0)
    >>> found.probability(0, [[0.0], [3.0]]).round(2)
    array([0.4, 0.6])
    """

    offset: float = 0.0

    def probability(self, task: int, points: ArrayLike) -> Floats:
        """Return P(y = 1) of a task at points (n, q), shape (n,)."""
        return np.asarray(expit(self.family(points)[:, task, 0] + self.offset))

    def log_evidence(self) -> float:
        """Return Laplace's approximation of the log marginal likelihood of the labels.

        Of the prior on the knots; the residual variance of the knots is left out.
        """
        problem, mu = self.problem, self.multipliers
        alike = problem.log_evidence(self.solution)
        # The evidence of the last ridge regression has the same determinant; exchange the rest.
        points = sum(task.points for task in problem.tasks)
        quadratic = problem.total - self.solution.explained
        logarithm = -2.0 * alike - quadratic - points * math.log(2.0 * math.pi)
        penalty = self._penalty(mu)
        return -0.5 * (logarithm + self._deviance + penalty)

    def _penalty(self, mu: Floats) -> float:
        """Return ρ Σ ‖f_i‖² + Σ μ_i ‖f_i − f_c‖²."""
        penalty = self.problem.ridge * float(np.sum(self.functions() ** 2))
        if np.all(np.isfinite(mu)):
            penalty += float(mu @ self.distances**2)
        return penalty

    @cached_property
    def _deviance(self) -> float:
        return sum(
            _deviance(self.coordinates.features(x).T @ f[:, 0] + self.offset, y[:, 0])
            for x, y, f in zip(self.inputs, self.targets, self.functions(), strict=True)
        )

    @cached_property
    def _errors(self) -> list[Floats]:
        """Y − p at every point of every task, N arrays (n_i, 1)."""
        return [
            y - self.probability(i, x)[:, None]
            for i, (x, y) in enumerate(zip(self.inputs, self.targets, strict=True))
        ]

    def objective(self) -> float:
        """Return Σ_i [ −2 Σ_n log p(y_n) + ρ ‖f_i‖² ]."""
        return self._deviance + self.problem.ridge * float(np.sum(self.functions() ** 2))

    def gap(self) -> Gap:
        """Refuse: the duality gap is that of regressions."""
        raise InputError("the duality gap is known of regressions alone; see optimality()")


def cross_classify(
    kernel: Kernel,
    inputs: Sequence[ArrayLike],
    labels: Sequence[ArrayLike],
    *,
    epsilon: float | None = None,
    multiplier: float | None = None,
    ridge: float = 1.0,
    offset: float = 0.0,
    max_knots: int = 400,
    tolerance: float = 1e-8,
) -> CrossClassifier:
    """Return the log odds of N tasks, in the mean square within ε of a central function.

    Parameters
    ----------
    kernel : Kernel
    inputs : sequence of N arrays, shapes (n_i, q)
    labels : sequence of N arrays, shapes (n_i,)
        0 or 1.
    epsilon, multiplier : float
        The radius ε, or the multiplier μ of every task; give one of them. ε = 0 and μ = ∞ pool
        the data, ε = ∞ and μ = 0 separate the tasks.
    ridge : float
        ρ: one over the variance of the functions' values, where κ(x, x) = 1.
    offset : float
        b: the log odds where nothing is known.
    max_knots, tolerance
        As for :class:`CrossRegression`; points of the rarer label are chosen first.

    Examples
    --------
    >>> from crosslearning.rkhs import Gaussian, cross_classify
    >>> inputs, labels = [[[0.0], [1.0]], [[0.5]]], [[0.0, 1.0], [1.0]]
    >>> cross_classify(Gaussian(std=[1.0]), inputs, labels, epsilon=0.0).distances
    array([0., 0.])
    """
    if multiplier is not None and epsilon is None:
        bound = radius("multiplier", multiplier)
    elif epsilon is not None and multiplier is None:
        bound = radius("epsilon", epsilon)
    else:
        raise InputError("give either epsilon or multiplier")
    if len(inputs) != len(labels) or not len(inputs):
        raise InputError(
            f"inputs are of {len(inputs)} tasks and labels of {len(labels)}; give one array of "
            "each for every task"
        )
    x = [finite_array("inputs", one, (None, kernel.dimension)) for one in inputs]
    y = [finite_array("labels", one, (len(x[i]),)) for i, one in enumerate(labels)]
    if not all(np.isin(one, (0.0, 1.0)).all() for one in y):
        raise InputError("labels must be 0 or 1")
    if not (math.isfinite(ridge) and ridge > 0.0):
        raise InputError(f"ridge must be positive, got {ridge!r}")
    points, every = np.concatenate(x), np.concatenate(y)
    if not len(points):
        raise InputError("there are no points to classify; give some")
    rare = every == (1.0 if every.mean() <= 0.5 else 0.0)
    coordinates, most = KnotCoordinates(kernel), count("max_knots", max_knots)
    for some in (points[rare], points[~rare]):
        if len(some):
            coordinates = coordinates.grown(some, tolerance, most - len(coordinates))
    phi = [coordinates.features(one) for one in x]

    def solve(problem: CoupledRidge) -> SearchResult:
        if multiplier is None:
            return search(problem, bound, "relaxed")
        solution = problem.solve(np.full(len(x), bound))
        return SearchResult(solution, FitStatus.PENALISED, 0.0, 1)

    def total(solution: Solution) -> float:
        """Return what the Newton steps decrease."""
        mu, functions = solution.multipliers, solution.functions
        value = ridge * float(np.sum(functions**2))
        if multiplier is not None and math.isfinite(multiplier):
            value += float(mu @ solution.distances**2)
        return value + sum(
            _deviance(one.T @ f[:, 0] + offset, label)
            for one, f, label in zip(phi, functions, y, strict=True)
        )

    m = len(coordinates)
    now = Solution(np.zeros(len(x)), np.zeros((m, 1)), np.zeros((len(x), m, 1)), [], 0.0)
    value, steps, settled = math.inf, 0, False
    while not settled and steps < _STEPS:
        steps += 1
        problem = CoupledRidge(_working(phi, y, now, offset), np.ones(1), ridge)
        result = solve(problem)
        step, best, reached = 1.0, result.solution, total(result.solution)
        while not reached <= value and step > 0.5**_HALVINGS:
            step *= 0.5
            best = result.solution._replace(
                centre=now.centre + step * (result.solution.centre - now.centre),
                differences=now.differences
                + step * (result.solution.differences - now.differences),
            )
            reached = total(best)
        settled = value - reached <= _ENOUGH * (1.0 + abs(reached))
        now, value = (best, reached) if reached <= value else (now, value)
    if not math.isfinite(value):
        raise NumericalError(f"a classification on {m} knots broke down; is the ridge too small?")
    # A problem built at its own solution has the posterior of the mode.
    problem = CoupledRidge(_working(phi, y, now, offset), np.ones(1), ridge)
    last = solve(problem)
    solution = last.solution._replace(centre=now.centre, differences=now.differences)
    if multiplier is not None:
        distances = solution.distances
        bound = math.inf if multiplier == 0.0 else math.sqrt(float(np.mean(distances**2)))
    ones = tuple(np.ones(len(one)) for one in x)
    fit = coordinates, problem, solution, tuple(x), tuple(label[:, None] for label in y), ones
    return CrossClassifier(bound, "relaxed", last.status, last.residual, steps, *fit, offset=offset)


def _working(
    phi: Sequence[Floats], labels: Sequence[Floats], now: Solution, offset: float
) -> list[Statistics]:
    """Return the statistics of the ridge regressions of a Newton step."""
    statistics = []
    for one, y, f in zip(phi, labels, now.functions, strict=True):
        values = one.T @ f[:, 0]
        p = expit(values + offset)
        w = np.maximum(p * (1.0 - p), _LEAST)
        z = values + (y - p) / w
        weighted = one * w
        right, squares = (weighted @ z)[:, None], np.array([float(w @ z**2)])
        statistics.append(Statistics(weighted @ one.T, right, squares, len(y), 0.0))
    return statistics


def _deviance(odds: Floats, labels: Floats) -> float:
    """Return −2 Σ log p(y) for log odds."""
    return 2.0 * float(np.sum(np.logaddexp(0.0, np.where(labels == 1.0, -odds, odds))))
