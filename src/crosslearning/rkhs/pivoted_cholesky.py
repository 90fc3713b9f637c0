"""The selection of knots by pivoted Cholesky factorisation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crosslearning.rkhs.checks import Floats, Integers


def pivoted_cholesky(
    residual: Floats,
    most: int,
    column: Callable[[int], tuple[Floats, Floats | float]],
    score: Callable[[Floats], Floats],
    least: Floats | float,
) -> tuple[Integers, Floats]:
    """Return at most ``most`` pivots of a Gram matrix, and their rows of the factorisation.

    Parameters
    ----------
    residual : array, shape (n,)
        The diagonal; it is overwritten.
    column : callable
        Returns column j as two terms, of which the second is subtracted.
    score : callable
        Maps residuals to scores; the next pivot has the largest.
    least : float or array, shape (n,)
        The selection ends at a pivot whose residual is not above it.
    """
    n = len(residual)
    rows, free = np.zeros((min(most, n), n)), np.ones(n, dtype=np.bool_)
    least, chosen = np.broadcast_to(least, n), np.zeros(len(rows), dtype=np.int64)
    for k in range(len(rows)):
        j = int(np.argmax(np.where(free, score(residual), -np.inf)))
        if not residual[j] > least[j]:
            return chosen[:k], rows[:k]
        values, known = column(j)
        rows[k] = (values - (known + rows[:k, j] @ rows[:k])) / np.sqrt(residual[j])
        residual -= rows[k] ** 2
        chosen[k], free[j] = j, False
    return chosen, rows
