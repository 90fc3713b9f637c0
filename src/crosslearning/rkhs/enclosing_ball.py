"""The smallest ball around functions, from their inner products alone."""

from __future__ import annotations

import math

import numpy as np

from crosslearning.rkhs.checks import Floats


def share_of_the_way(beyond: Floats, along: Floats, length: float) -> float:
    """Return the least t in [0, 1] with ‖d_i − t·shift‖ ≤ ε for every i, where t = 1 has it.

    ``beyond`` is ‖d_i‖² − ε², ``along`` is ⟨d_i, shift⟩, both of shape (N,), and ``length`` is
    ‖shift‖².
    """
    # ‖d_i − t·shift‖² = ε² is a quadratic equation in t for every i.
    share = 0.0
    for a, excess in zip(along, beyond, strict=True):
        if excess > 0.0:
            share = max(share, excess / (a + math.sqrt(max(a * a - length * excess, 0.0))))
    return min(share, 1.0)


def smallest_ball(gram: Floats) -> tuple[Floats, float]:
    """Return the coefficients λ (N,) of the centre of the smallest enclosing ball, and its radius.

    The centre is c = Σ_i λ_i x_i with λ_i ≥ 0 and Σ λ_i = 1. It maximises the dual,
    Σ_i λ_i |x_i − c|², which is concave in λ: the largest |x_i − c|² less the dual bounds the
    error.

    The search is an active-set method. A Newton step moves λ on the simplex of the points with
    λ_i > 0, as far as all stay positive; a point whose λ_i becomes 0 leaves. Where these points
    are equally far from the centre, the farthest of the others joins. The dual never falls.
    ``gram`` (N, N) is ⟨x_i, x_j⟩ from any origin; one among the points loses the fewest digits.
    """
    N = len(gram)
    coefficients = np.full(N, 1.0 / N)
    scale = float(np.max(np.diagonal(gram)))
    if scale <= 0.0:
        return coefficients, 0.0
    gram = gram / scale
    mean = gram.mean(axis=0)
    gram = gram - mean - mean[:, None] + mean.mean()
    spread = float(np.max(np.diagonal(gram)))
    rounding = 4.0 * N * np.finfo(float).eps
    if spread <= rounding:
        return coefficients, 0.0
    gram, rounding = gram / spread, rounding / spread
    squares = np.diagonal(gram)
    coefficients = np.eye(N)[np.argmax(squares)]
    for _ in range(50 * N):
        product = gram @ coefficients
        distances = squares - 2.0 * product + coefficients @ product
        dual = float(coefficients @ distances)
        gap = float(np.max(distances)) - dual
        if gap <= rounding:
            break
        carrying = coefficients > 0.0
        if np.max(distances[carrying]) - dual <= 0.5 * gap:
            carrying[np.argmax(distances)] = True
        step = _ball_step(gram, distances, carrying, rounding)
        shrinking = step < 0.0
        lengths = np.where(shrinking, coefficients, np.inf) / np.where(shrinking, -step, 1.0)
        first = int(np.argmin(lengths))
        coefficients = np.maximum(coefficients + min(lengths[first], 1.0) * step, 0.0)
        if lengths[first] <= 1.0:
            coefficients[first] = 0.0
        coefficients /= coefficients.sum()
    return coefficients, math.sqrt(scale) * math.sqrt(spread * float(np.max(distances)))


def _ball_step(gram: Floats, distances: Floats, carrying: Floats, rounding: float) -> Floats:
    """Return the step of λ that makes the carrying points equally distant.

    Its sum is 0. If the points are affinely dependent, it is a long step along the dependence.
    """
    base, *rest = np.flatnonzero(carrying)
    edges = gram[rest] - gram[base]
    values, vectors = np.linalg.eigh(edges[:, rest] - edges[:, [base]])
    slope = vectors.T @ (distances[rest] - distances[base])
    step = np.zeros(len(gram))
    step[rest] = vectors @ (slope / (2.0 * np.maximum(values, rounding)))
    step[base] = -step.sum()
    return step
