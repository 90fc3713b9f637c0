"""Inner products of gradient estimates with themselves and with the policies."""

from __future__ import annotations

import numpy as np

from crosslearning._base.compiled import FastEntry, compiled
from crosslearning.learner.gradients.estimators import Gradients
from crosslearning.rkhs import program as programs
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.program import Expansion


def gradient_geometry(policies: Expansion, gradients: Gradients) -> tuple[Floats, Floats]:
    """Return ‖∇̂_i‖² and ⟨∇̂_i, g − h_i⟩, each of shape (N,); g is function N."""
    squares, towards = np.empty((2, len(gradients.knots)))
    _geometry(policies, *gradients, squares, towards)
    return squares, towards


@compiled
def _fill_geometry(
    policies: Expansion, knots: Floats, weights: Floats, squares: Floats, towards: Floats
) -> None:
    """Fill the inner products of gradients Σ_b κ(knots[i, b], ·) weights[i, b].

    With itself by the double sum; with g − h_i by the reproducing property, through the
    functions' values at the knots.
    """
    program, features, rows = policies
    N, B, p = weights.shape
    own, gram = np.empty((features.shape[0], B)), np.empty((B, B))
    columns = np.empty((B, features.shape[1]))
    centre, value = np.empty(p), np.empty(p)
    for i in range(N):
        programs.embed_all(program, knots[i], own)
        programs.kernel_columns(program, own, own, gram)
        programs.kernel_columns(program, features, own, columns)
        square = toward = 0.0
        for a in range(B):
            programs.weigh(columns[a], rows[N], centre)
            programs.weigh(columns[a], rows[i], value)
            for k in range(p):
                toward += weights[i, a, k] * (centre[k] - value[k])
                for b in range(B):
                    square += gram[a, b] * weights[i, a, k] * weights[i, b, k]
        squares[i], towards[i] = max(square, 0.0), toward


_geometry = FastEntry(_fill_geometry)
