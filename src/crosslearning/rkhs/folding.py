"""Folding: of many new knots, those that say most are kept, and the others' weights move to them.

A thousand tasks bring a thousand new knots an iteration, and a cap of a thousand keeps as many as
before. To insert all and then remove as many costs far more than to choose among them first. New
knots are chosen one after the other, each the one whose removal would move some function the
farthest; what is left of the others is projected onto the old knots and the chosen ones. That
is an orthogonal projection, as every pruning is, so its error is known exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from crosslearning.rkhs.checks import Floats, Integers

#: A square of a distance that is rounding alone: λ, which all new knots are apart, is far above.
_NOTHING = 1e-9


class Folded(NamedTuple):
    """What becomes of new knots."""

    chosen: Integers  # (m,), which of them are kept
    weights: Floats  # (m, functions, p), of the functions on those
    onto_old: Floats  # (functions, p, L), what the weights on the old knots gain
    squared_errors: Floats  # (functions,), how far each function moves


def fold(inverse: Floats, between: Floats, among: Floats, weights: Floats, most: int) -> Folded:
    """Keep ``most`` of n new knots.

    Parameters
    ----------
    inverse : array, shape (L, L)
        P = (K + λI)⁻¹ over the old knots.
    between, among : arrays, shapes (n, L) and (n, n)
        K between new and old knots, and K + λI among the new ones, which is overwritten.
    weights : array, shape (n, functions, p)
        What the functions gain on the new knots.
    most : int
        Below n. Fewer are kept if the others say nothing that float64 could tell.
    """
    n, F, p = weights.shape
    onto = between @ inverse
    # Q: the inner products of what the old knots leave of the new ones.
    left = among
    left -= onto @ between.T
    largest = np.max(np.einsum("nfp,nfp->nf", weights, weights), axis=1)
    chosen, rows = _farthest(left, largest, most)
    others = np.setdiff1d(np.arange(n), chosen)
    # Of the others, what the chosen ones explain, and what is left of them for good.
    explained = rows[:, others]
    shares = solve_triangular(rows[:, chosen], explained) if len(chosen) else explained
    residual = left[np.ix_(others, others)] - explained.T @ explained
    # A task's new knots carry its own weights alone: most of the rest is zero.
    moved = csr_array(weights[others].reshape(len(others), F * p).T)
    squares = np.asarray(moved.multiply(moved @ residual).sum(axis=1))
    kept = weights[chosen].reshape(len(chosen), F * p) + (moved @ shares.T).T
    onto_old = moved @ (onto[others] - shares.T @ onto[chosen])
    return Folded(
        chosen,
        kept.reshape(len(chosen), F, p),
        np.asarray(onto_old).reshape(F, p, -1),
        np.maximum(squares.reshape(F, p).sum(axis=1), 0.0),
    )


def _farthest(gram: Floats, scales: Floats, most: int) -> tuple[Integers, Floats]:
    """Return which points to keep, and the rows of their pivoted Cholesky factorisation.

    Each is the one whose distance from those before it is the longest, times its scale.
    """
    left, free = np.diagonal(gram).copy(), np.ones(len(gram), dtype=np.bool_)
    rows = np.zeros((most, len(gram)))
    chosen = np.zeros(most, dtype=np.int64)
    for k in range(most):
        j = int(np.argmax(np.where(free, scales * left, -np.inf)))
        if not left[j] > _NOTHING:
            return chosen[:k], rows[:k]
        rows[k] = (gram[j] - rows[:k, j] @ rows[:k]) / np.sqrt(left[j])
        left -= rows[k] ** 2
        chosen[k], free[j] = j, False
    return chosen, rows
