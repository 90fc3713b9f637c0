"""Multipliers of the projection onto functions that are near their centre and near zero.

With multipliers μ_i of ‖h_i − g‖ ≤ ε, ν_i of ‖h_i‖ ≤ ε₀ and ν_0 of ‖g‖ ≤ ε₀, each for half the
square, the Lagrange function is least at

    g = (ḡ + Σ_i p_i h̄_i) / γ  and  h_i = p_i g + h̄_i / a_i

with a_i = 1 + μ_i + ν_i, p_i = μ_i / a_i and γ = 1 + ν_0 + Σ_i p_i (1 + ν_i). So the dual problem
is smooth and concave, in 2N + 1 unknowns. The primal problem reduced to g is not smooth: it has
kinks where the two balls of an h_i touch, which is common for functions on a line.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import lapack

from crosslearning._base.compiled import compiled
from crosslearning.rkhs.checks import Floats, Integers

# Violation or slack of a constraint, relative to ε₀, at which Newton's method stops, and at which
# a stall counts as solved.
TOLERANCE = 1e-14
STALL_TOLERANCE = 1e-10
_MAX_ITERATIONS = 300
# The Hessian is scaled to a diagonal of 1; on a line it is singular without damping.
_DAMPING = 1e-12
# A radius below a tenth of ε₀ is reached in such steps, each solved to this residual.
_RADIUS_STEP, _ON_THE_WAY = 0.01, 1e-8


def coordinates(gram: Floats) -> Floats:
    """Return vectors with the given inner products, shape (functions, rank)."""
    norms = np.sqrt(np.maximum(np.diag(gram), 0.0))
    # Scaled to unit vectors, or small functions would lose their digits beside large ones.
    unit = np.where(norms > 0.0, norms, 1.0)
    factor, pivots, rank, _ = lapack.dpstrf(gram / unit / unit[:, None], lower=1, tol=1e-15)
    vectors = np.zeros((len(gram), max(rank, 1)))
    vectors[pivots - 1, :rank] = np.tril(factor)[:, :rank]
    return vectors * norms[:, None]


@compiled
def shares(m: Floats, p: Floats, a: Floats) -> float:
    """Fill p_i and a_i, shape (N,), for m = (μ_1 … μ_N, ν_1 … ν_N, ν_0); return γ."""
    N = len(p)
    gamma = 1.0 + float(m[2 * N])
    for i in range(N):
        a[i] = 1.0 + m[i] + m[N + i]
        p[i] = m[i] / a[i]
        gamma += p[i] * (1.0 + m[N + i])
    return gamma


@compiled
def _dual(
    X: Floats, radii: Floats, m: Floats, V: Floats, squares: Floats, p: Floats, a: Floats
) -> float:
    """Fill V = (h_i − g, h_i, g), shape (2N+1, D), and the squared norms; return the dual value."""
    N = len(p)
    gamma = shares(m, p, a)
    g = V[2 * N]
    np.divide(X[N] + np.dot(p, X[:N]), gamma, g)
    value = 0.0
    for d in range(X.shape[1]):
        value += 0.5 * (g[d] - X[N, d]) ** 2
    for i in range(N):
        for d in range(X.shape[1]):
            # As h_i − g it would have no digits for a small ε.
            V[i, d] = (X[i, d] - (1.0 + m[N + i]) * g[d]) / a[i]
            V[N + i, d] = X[i, d] / a[i] + p[i] * g[d]
            value += 0.5 * (V[N + i, d] - X[i, d]) ** 2
    for j in range(len(m)):
        squares[j] = np.dot(V[j], V[j])
        value += 0.5 * m[j] * (squares[j] - radii[j] ** 2)
    return value


@compiled
def _residual(radii: Floats, m: Floats, squares: Floats) -> float:
    """Return the largest violation, or slack of a constraint whose multiplier is larger still."""
    residual = 0.0
    for j in range(len(m)):
        excess = math.sqrt(squares[j]) - radii[j]
        residual = max(residual, excess, min(m[j], -excess))
    return residual


@compiled
def _slope(radii: Floats, squares: Floats, m: Floats, trial: Floats) -> float:
    """Return ½ Σ (‖v_j‖² − r_j²) (m'_j − m_j), the dual's derivative from m to the trial m'."""
    slope = 0.0
    for j in range(len(m)):
        slope += 0.5 * (squares[j] - radii[j] ** 2) * (trial[j] - m[j])
    return slope


@compiled
def _scaled_hessian(V: Floats, m: Floats, free: Integers, scale: Floats) -> Floats:
    """Return S_jk ⟨v_j, v_k⟩ of the free multipliers, scaled to a diagonal of 1; fill the scale.

    S = BᵀA⁻¹B for the quadratic form A of the Lagrange function and v = Bᵀ(h, g): S_jk is
    q_j q_k / γ, and 1/a_i more if both j and k are constraints on h_i.
    """
    N = (len(m) - 1) // 2
    p, a, q = np.empty(N), np.empty(N), np.empty(len(m))
    gamma = shares(m, p, a)
    q[2 * N] = 1.0
    for i in range(N):
        q[i], q[N + i] = -(1.0 + m[N + i]) / a[i], p[i]
    chosen = V[free]
    hessian: Floats = np.dot(chosen, chosen.T)
    for k, j in enumerate(free):
        for other, i in enumerate(free):
            share = q[j] * q[i] / gamma
            if j < 2 * N and i < 2 * N and (i - j) % N == 0:
                share += 1.0 / a[j % N]
            hessian[k, other] *= share
        scale[k] = 1.0 / math.sqrt(max(hessian[k, k], 1e-300))
    for k in range(len(free)):
        for other in range(len(free)):
            hessian[k, other] *= scale[k] * scale[other]
    return hessian


@compiled
def _newton(X: Floats, radii: Floats, m: Floats, wanted: float) -> tuple[int, float]:
    """Maximise the dual function over m ≥ 0 from the given m; return steps and residual.

    Newton's method solves ‖v_j‖⁻¹ = r_j⁻¹, nearly linear in m_j as in trust-region methods, on the
    multipliers that are positive or rise, and cuts off at zero. If that step neither halves the
    residual nor ascends enough, it takes Newton's step for the dual function itself, damped more
    and more: short steps along the gradient always ascend.
    """
    n, N = len(m), len(X) - 1
    p, a, V = np.empty(N), np.empty(N), np.empty((n, X.shape[1]))
    squares, new_squares, trial, best_m = np.empty(n), np.empty(n), np.empty(n), m.copy()
    value = _dual(X, radii, m, V, squares, p, a)
    best, damping, stalled = _residual(radii, m, squares), _DAMPING, 0
    for iteration in range(_MAX_ITERATIONS):
        if best <= wanted or (stalled > 2 and best <= STALL_TOLERANCE):
            np.positive(best_m, m)
            return iteration, best
        free = np.flatnonzero((m > 0.0) | (squares > radii**2))
        scale = np.empty(len(free))
        hessian = _scaled_hessian(V, m, free, scale)
        right = np.empty((len(free), 2))
        for k, j in enumerate(free):
            right[k, 0] = scale[k] * squares[j] * (math.sqrt(squares[j]) / radii[j] - 1.0)
            right[k, 1] = scale[k] * 0.5 * (squares[j] - radii[j] ** 2)
        steps = np.empty_like(right)
        accepted = False
        for attempt in range(30):
            if attempt != 1:
                for k in range(len(free)):
                    hessian[k, k] = 1.0 + damping
                np.positive(np.linalg.solve(hessian, right), steps)
            trial[:] = 0.0
            for k, j in enumerate(free):
                trial[j] = max(0.0, m[j] + scale[k] * steps[k, min(attempt, 1)])
            new_value = _dual(X, radii, trial, V, new_squares, p, a)
            residual = _residual(radii, trial, new_squares)
            rise = _slope(radii, squares, m, trial)
            # The difference of two values has no digits for a small step: the trapezoidal rule has.
            gain = new_value - value
            if rise <= 1e-10 * abs(value):
                gain = 0.5 * (rise + _slope(radii, new_squares, m, trial))
            if residual <= 0.5 * best or (rise > 0.0 and gain >= 1e-4 * rise):
                accepted = True
                break
            if attempt > 0:
                damping *= 30.0
        if not accepted:
            break
        damping = max(_DAMPING, 0.01 * damping)
        np.positive(trial, m)
        np.positive(new_squares, squares)
        value = new_value
        stalled = 0 if residual <= 0.5 * best else stalled + 1
        if residual < best:
            best = residual
            np.positive(m, best_m)
    np.positive(best_m, m)
    return _MAX_ITERATIONS, best


@compiled
def bounded_multipliers(X: Floats, epsilon: float, m: Floats) -> tuple[int, float]:
    """Compute the multipliers m = (μ_1 … μ_N, ν_1 … ν_N, ν_0) for vectors X = (h̄_1 … h̄_N, ḡ).

    The unit of length is ε₀, so ‖h_i‖ ≤ 1. Returns the number of Newton steps and the residual.
    """
    N = len(X) - 1
    radii = np.ones(2 * N + 1)
    m[:] = 0.0
    steps, radius = 0, max(epsilon, 0.1)
    while True:
        radii[:N] = radius
        taken, residual = _newton(X, radii, m, TOLERANCE if radius == epsilon else _ON_THE_WAY)
        steps += taken
        if radius == epsilon:
            return steps, residual
        # Nearly in consensus μ_i is proportional to 1/ε.
        smaller = max(epsilon, _RADIUS_STEP * radius)
        m[:N] *= radius / smaller
        radius = smaller
