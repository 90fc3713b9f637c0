"""The multipliers of ‖f_i − f_c‖ ≤ ε, from the dual of a cross-learned regression.

The dual is concave in the multipliers μ ≥ 0 and has slope ‖d_i‖² − ε² in μ_i. Where one multiplier
serves all tasks, 1/‖d‖ is concave and nearly linear in it, as for the trust region of Moré and
Sorensen: Newton's method on 1/‖d‖ − 1/ε needs a few steps. With one for each task a Newton
step under μ ≥ 0 is a non-negative least-squares problem of N unknowns. Which constraints are active
at first follows from the smallest ball around the separate functions.
"""

from __future__ import annotations

import enum
import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.coupled_ridge import CoupledRidge, Solution
from crosslearning.rkhs.enclosing_ball import share_of_the_way, smallest_ball

#: The relative error of a distance at which the search ends, and at which a stall counts as solved.
TOLERANCE = 1e-11
STALL_TOLERANCE = 1e-7
_MAX_STEPS = 100
#: Armijo's constant, and the relative rounding error of the dual.
_SUFFICIENT = 1e-4
_ROUNDING = 1e-12
#: Multipliers that are smaller relative to the largest count for less.
_NEGLIGIBLE = 1e-6


class FitStatus(enum.Enum):
    """How a fit ended; the value is a sentence for people.

    Examples
    --------
    >>> from crosslearning.rkhs import FitStatus
    >>> print(FitStatus.SOLVED.value)
    The multipliers were computed to the accuracy of float64.
    """

    POOLED = "Epsilon is 0: one function was fitted to the data of all tasks."
    SEPARATE = "The separate functions lie within epsilon of one; no constraint is active."
    SOLVED = "The multipliers were computed to the accuracy of float64."
    INACCURATE = (
        "Newton's method stopped before the wanted accuracy; the constraints hold, but the fit may "
        "not be the best one. Look at gap(), and check the scales of noise, targets and epsilon."
    )
    PENALISED = "The multiplier was given; epsilon is what it leads to."


class SearchResult(NamedTuple):
    """The result of a search."""

    solution: Solution
    status: FitStatus
    residual: float  # the largest error of a distance, relative to ε
    steps: int


def search(problem: CoupledRidge, epsilon: float, method: str) -> SearchResult:
    """Return the functions within ε of a centre: each, or in the mean square (relaxed)."""
    if epsilon == 0.0:
        solution = problem.solve(np.full(problem.size, math.inf))
        return SearchResult(solution, FitStatus.POOLED, 0.0, 0)
    direction = np.ones(problem.size)
    if _weighted_distance(problem.alone, direction) <= epsilon:
        if method == "relaxed" or math.isinf(epsilon):
            return SearchResult(problem.alone, FitStatus.SEPARATE, 0.0, 0)
        flat = problem.alone.differences.reshape(problem.size, -1)
        coefficients, reach = smallest_ball(np.asarray(flat @ flat.T))
        if reach <= epsilon:
            solution = _recentred(problem.alone, coefficients, epsilon)
            return SearchResult(solution, FitStatus.SEPARATE, 0.0, 0)
        # Only the tasks that touch the ball have active constraints.
        direction = coefficients
    start = _along(problem, direction, epsilon)
    return start if method == "relaxed" else _exact(problem, start, epsilon)


def _weighted_distance(solution: Solution, direction: Floats) -> float:
    """Return the weighted root mean square of ‖d_i‖."""
    return math.sqrt(float(direction @ solution.distances**2) / float(direction.sum()))


def _recentred(alone: Solution, coefficients: Floats, epsilon: float) -> Solution:
    """Move the centre from the mean towards that of the smallest ball, until all are within ε."""
    # Without multipliers every centre within ε is optimal; this one is continuous in ε.
    shift = np.einsum("i,imo->mo", coefficients, alone.differences)
    length = float(np.sum(shift**2))
    along = np.einsum("imo,mo->i", alone.differences, shift)
    share = share_of_the_way(alone.distances**2 - epsilon**2, along, length)
    move = share * shift
    return alone._replace(centre=alone.centre + move, differences=alone.differences - move)


def _along(problem: CoupledRidge, direction: Floats, epsilon: float) -> SearchResult:
    """Find multipliers t·direction whose weighted mean square distance is ε²."""
    t, best = problem.ridge, math.inf
    for steps in range(1, _MAX_STEPS + 1):
        solution = problem.solve(t * direction)
        distance = _weighted_distance(solution, direction)
        residual = abs(distance / epsilon - 1.0)
        if residual <= TOLERANCE or (residual >= best and residual <= STALL_TOLERANCE):
            return SearchResult(solution, FitStatus.SOLVED, residual, steps)
        best = min(best, residual)
        bend = float(direction @ problem.curvature(solution) @ direction)
        # Newton on 1/distance: (1/distance)' = bend / (Σ direction · distance³).
        slope = bend / (float(direction.sum()) * distance**3)
        t = max(t + (1.0 / epsilon - 1.0 / distance) / slope, 0.1 * t)
    return SearchResult(solution, FitStatus.INACCURATE, residual, steps)


def _misfit(solution: Solution, epsilon: float) -> float:
    """Return the largest violation of optimality by a distance, relative to ε."""
    errors = solution.distances / epsilon - 1.0
    # With a multiplier the distance must be ε; with a negligible one it may be less.
    largest = float(np.max(solution.multipliers))
    short = np.minimum(solution.multipliers / (_NEGLIGIBLE * largest), 1.0)
    return float(np.max(np.maximum(errors, -short * errors)))


def _exact(problem: CoupledRidge, start: SearchResult, epsilon: float) -> SearchResult:
    """Maximise the dual over μ ≥ 0 from a start."""
    solution, steps = start.solution, start.steps
    best = misfit = _misfit(solution, epsilon)
    while misfit > TOLERANCE and steps < _MAX_STEPS:
        steps += 1
        tried = _improved(problem, solution, misfit, best, epsilon)
        if tried is None:
            break  # stalled in float64
        solution, misfit = tried, _misfit(tried, epsilon)
        best = min(best, misfit)
    status = FitStatus.SOLVED if misfit <= STALL_TOLERANCE else FitStatus.INACCURATE
    return SearchResult(solution, status, misfit, steps)


def _improved(
    problem: CoupledRidge, solution: Solution, misfit: float, best: float, epsilon: float
) -> Solution | None:
    """Return the solution after one step, or None if the search has stalled.

    A step is accepted if it reduces the largest misfit, or if the dual rises by Armijo's rule.
    """
    mu, distances = solution.multipliers, solution.distances
    slope = distances**2 - epsilon**2
    curvature = problem.curvature(solution)
    # ½ slope, and its counterpart in Newton's method on 1/‖d‖, which is nearly linear in μ.
    plain, bent = 0.5 * slope, distances**2 * (distances / epsilon - 1.0)
    before = problem.dual(solution, epsilon)
    for right, halvings in ((bent, 3), (plain, 30)):
        step = -mu
        free = np.diagonal(curvature) > 0.0  # the others are at the centre
        step[free] = _newton_step(mu[free], curvature[np.ix_(free, free)], right[free])
        length = 1.0
        for _ in range(halvings):
            moved = np.maximum(mu + length * step, 0.0)
            if not np.any(moved):
                moved = 0.1 * mu
            tried = problem.solve(moved)
            left = _misfit(tried, epsilon)
            gain = problem.dual(tried, epsilon) - before
            promised = float(slope @ (moved - mu))
            # Where rounding hides the gain of the dual, only the distances count.
            hidden = max(abs(gain), promised) <= _ROUNDING * abs(before)
            rises = not hidden and promised > 0.0 and gain >= _SUFFICIENT * promised
            if left <= 0.9 * best or rises or (hidden and left <= 0.9 * misfit):
                return tried
            length *= 0.5
    return None


def _newton_step(mu: Floats, curvature: Floats, right: Floats) -> Floats:
    """Return the step s that maximises 2 rightᵀs − sᵀ curvature s under μ + s ≥ 0."""
    from scipy.optimize import nnls  # slow to import, and few commands need it

    scale = np.sqrt(np.diagonal(curvature))
    scaled = curvature / np.outer(scale, scale)
    scaled.flat[:: len(scaled) + 1] += 1e-13
    root = np.linalg.cholesky(scaled).T
    aim = root @ (scale * mu) + solve_triangular(root, right / scale, trans=1)
    solved, _ = nnls(root, aim)
    return np.asarray(solved / scale - mu)
