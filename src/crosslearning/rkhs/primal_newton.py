"""Newton's method for the centre of functions that are projected near it.

For a fixed centre g the best h_i is h̄_i pulled onto the ball around g, which leaves

    min_g ½ w ‖g − o‖² + ½ Σ_i (‖h̄_i − g‖ − ε)₊²

with an anchor o of weight w: 1 for the old centre, 0 where the centre is free.
"""

from __future__ import annotations

import math

import numpy as np

from crosslearning._base.compiled import compiled
from crosslearning.rkhs.checks import Floats

# Relative size of the gradient at which Newton's method stops, and at which a stall counts as
# solved.
TOLERANCE = 1e-13
STALL_TOLERANCE = 1e-10
_ROUNDING = 1e-15
_MAX_ITERATIONS = 200


@compiled
def _pulls(
    D: Floats, anchor: float, epsilon: float, c: Floats, q: Floats, distance: Floats, a: Floats
) -> float:
    """Fill distances d_i = ‖h̄_i − g‖ and pulls a_i = (1 − ε/d_i)₊ at g = o + Σ c_i (h̄_i − o).

    ``q`` is Dc. Returns the objective.
    """
    cq = float(np.dot(c, q))
    objective = 0.5 * anchor * cq
    for i in range(len(c)):
        distance[i] = math.sqrt(max(D[i, i] - 2.0 * q[i] + cq, 0.0))
        a[i] = 0.0
        if distance[i] > epsilon:
            a[i] = 1.0 - epsilon / distance[i]
            objective += 0.5 * (distance[i] - epsilon) ** 2
    return objective


@compiled
def newton(
    D: Floats, anchor: float, epsilon: float, c: Floats, a: Floats, distance: Floats
) -> tuple[int, float]:
    """Compute g = o + Σ c_i (h̄_i − o), the pulls a_i and the distances ‖h̄_i − g‖.

    D_ij = ⟨h̄_i − o, h̄_j − o⟩ is scaled to max D_ii = 1, and the anchor's weight w is 1, or it is 0
    where no centre is within ε of all functions: then A below is positive everywhere.

    A semi-smooth Newton method. All vectors are coefficients of functions in the basis h̄_i − o,
    with ⟨u, v⟩ = uᵀDv. The gradient is (w + A)c − a with A = Σ a_i; the Hessian is
    (w + A)I + Σ_active (ε/d_i³) z_i z_iᵀ with z_i = g − h̄_i, that is c − e_i. Newton's equation
    is solved by conjugate gradients, one product with D a step.

    Returns the number of steps and the gradient's norm relative to (1 + A).
    """
    N = len(D)
    trial, q, bend = np.zeros(N), np.zeros(N), np.zeros(N)
    # One step of the fixed point c = a / (w + A) from g = o.
    c[:] = 0.0
    _pulls(D, anchor, epsilon, c, q, distance, a)
    total = anchor + a.sum()
    if total > 0.0:
        np.divide(a, total, c)
    norm = best = np.inf
    for iteration in range(_MAX_ITERATIONS):
        np.dot(D, c, q)
        objective = _pulls(D, anchor, epsilon, c, q, distance, a)
        A = a.sum()
        total = anchor + A
        if total == 0.0:
            return iteration, 0.0  # only rounding had kept a function from the centre
        gradient = total * c - a
        D_gradient = np.dot(D, gradient)
        squared = max(np.dot(gradient, D_gradient), 0.0)
        norm = math.sqrt(squared)
        relative = norm / total
        # In float64 the gradient stops falling a little above or below the tolerance; if A is small
        # and there is no anchor, relative to 1.
        stalled = relative >= best and (relative <= STALL_TOLERANCE or norm <= TOLERANCE)
        if relative <= TOLERANCE or norm <= _ROUNDING or stalled:
            return iteration, norm / (1.0 + A)
        best = min(best, relative)
        active = 0
        for i in range(N):
            bend[i] = 0.0
            if a[i] > 0.0:
                bend[i] = epsilon / distance[i] ** 3
                active += 1
        # Conjugate gradients for H s = -gradient.
        s, D_s = np.zeros(N), np.zeros(N)
        r, D_r = -gradient, -D_gradient
        p, D_p = r.copy(), D_r.copy()
        rr = squared
        wanted = (min(0.1, relative) * relative * total) ** 2
        for _ in range(N + 2):
            t = bend * (np.dot(c, D_p) - D_p)
            H_p = total * p + t.sum() * c - t
            curvature = np.dot(H_p, D_p)
            if curvature <= 0.0:
                break
            step = rr / curvature
            s += step * p
            D_s += step * D_p
            r -= step * H_p
            np.dot(D, r, D_r)
            rr_next = np.dot(r, D_r)
            if rr_next <= wanted:
                break
            for i in range(N):
                p[i] = r[i] + (rr_next / rr) * p[i]
                D_p[i] = D_r[i] + (rr_next / rr) * D_p[i]
            rr = rr_next
        # Armijo's rule with halving; q moves along D s, so a trial costs no product.
        slope = np.dot(gradient, D_s)
        # Squared distances are rounded relative to 1, so without an anchor a small objective to
        # its root.
        rounding = _ROUNDING * (objective + (1.0 - anchor) * math.sqrt(objective))
        length, accepted = 1.0, False
        for _ in range(40):
            for i in range(N):
                trial[i] = c[i] + length * s[i]
            value = _pulls(D, anchor, epsilon, trial, q + length * D_s, distance, a)
            if value <= objective + 1e-4 * length * slope + rounding:
                accepted = True
                break
            length *= 0.5
        if accepted:
            np.positive(trial, c)
        else:
            # The Hessian is at most w + (number of active constraints): this descends.
            c -= gradient / (anchor + active)
    np.dot(D, c, q)
    _pulls(D, anchor, epsilon, c, q, distance, a)
    return _MAX_ITERATIONS, norm / (1.0 + a.sum())
