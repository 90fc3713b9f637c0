"""The paper's formulas as they are printed, to be compared with the corrected ones.

The lemma's γ_F is not a lower bound and the iteration bound that divides by it does not hold; the
theorem's α' holds for one look. ``docs/theory.md`` says why.
"""

from __future__ import annotations

import math

import numpy as np

from crosslearning.certificates.arguments import check_asked
from crosslearning.theory.constants import Constants


def printed_gain(constants: Constants, alpha: float) -> float:
    """Return γ_F of the paper's lemma, term by term."""
    check_asked(alpha=alpha)
    at_rest, slope, curvature = _parts(constants)
    eta = constants.step_size
    return alpha - at_rest - eta * slope - eta**2 * curvature


def printed_largest_step(constants: Constants, alpha: float) -> float | None:
    """Return the largest η with γ_F > 0: infinite if there is no largest, None if there is none.

    γ_F is a falling parabola in η.
    """
    check_asked(alpha=alpha)
    at_rest, slope, curvature = _parts(constants)
    left = alpha - at_rest
    if left <= 0.0:
        return None
    if slope == 0.0 and curvature == 0.0:
        return math.inf
    # The stable form of the parabola's positive root.
    return 2.0 * left / (slope + math.sqrt(slope**2 + 4.0 * curvature * left))


def printed_accuracy(constants: Constants, alpha: float, delta: float) -> float:
    """Return α' = α + 2ε max σ_i √(1/(δ b)) of the paper's theorem."""
    check_asked(alpha=alpha, delta=delta)
    largest = float(np.max(constants.deviation))
    if largest == 0.0:
        return alpha
    return alpha + 2.0 * constants.epsilon * largest * math.sqrt(
        1.0 / (delta * constants.batch_size)
    )


def _parts(constants: Constants) -> tuple[float, float, float]:
    """Return what γ_F takes off α: the part without η, the factor of η and that of η²."""
    N, beta, L = constants.tasks, constants.budget, constants.smoothness
    errors = float(np.sum(constants.deviation)) / math.sqrt(constants.batch_size)
    norms = float(np.sum(constants.gradient_norm))
    squares = float(np.sum(constants.second_moment**2))
    pruned = math.sqrt(N + 1) * beta
    # The term √(N+1) β Σ σ_i/√b stands in γ_F twice.
    at_rest = 3.0 * (N + 1) * beta**2 * L + 2.0 * pruned * errors + pruned * norms
    return at_rest, squares + norms * errors + errors**2, 3.0 * L * squares
