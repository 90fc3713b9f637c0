"""Functions on knots, in orthonormal coordinates; the selection of knots from points.

With K = L Lᵀ the knots' Gram matrix, the function of coordinates c is Σ_m κ(s_m, ·) w_m with
w = L⁻ᵀ c; its norm is |c|, and its value at a point x is cᵀ φ(x) with φ(x) = L⁻¹ κ(knots, x).
The residual variance of x is κ(x, x) − |φ(x)|².
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.linalg import solve_triangular

from crosslearning.errors import NumericalError
from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rkhs.kernel import Kernel

#: Points in a block, which bounds the memory.
BLOCK = 4096
#: Points among which knots are chosen together.
_CANDIDATES = 8192
#: Added to the diagonal of the Gram matrix, relative to it.
_JITTER = 1e-12
#: Relative residuals below this are rounding errors.
_LEAST_SHARE = 1e-10


def blocks(points: int) -> Iterator[slice]:
    """Yield slices that cover so many points in blocks."""
    for first in range(0, points, BLOCK):
        yield slice(first, min(first + BLOCK, points))


def pivoted_cholesky(
    residual: Floats,
    most: int,
    column: Callable[[int], tuple[Floats, Floats | float]],
    score: Callable[[Floats], Floats],
    least: Floats | float,
) -> tuple[Integers, Floats]:
    """Return at most ``most`` pivots of a Gram matrix, and their rows of the factorisation.

    ``residual`` (n,) is the diagonal, and overwritten; ``column(j)`` returns column j as two terms,
    of which the second is subtracted. The next pivot has the largest ``score(residual)``; the
    selection ends where its residual is not above ``least``, a number or an array (n,).
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


class KnotCoordinates:
    """Knots (m, q), by default none, with the Cholesky factor of their Gram matrix; immutable."""

    def __init__(self, kernel: Kernel, knots: Floats | None = None) -> None:
        self.kernel = kernel
        self.knots = np.empty((0, kernel.dimension)) if knots is None else knots
        self.factor: Floats = np.empty((0, 0))
        if len(self.knots) == 0:
            return
        gram = kernel(self.knots)
        gram.flat[:: len(gram) + 1] += _JITTER * np.diagonal(gram)
        try:
            self.factor = np.asarray(np.linalg.cholesky(gram), dtype=np.float64)
        except np.linalg.LinAlgError as problem:
            what = f"the Gram matrix of {len(gram)} knots of the {kernel.name} kernel"
            remedy = "allow fewer knots, or a larger tolerance"
            raise NumericalError(f"{what} is not positive definite; {remedy}") from problem

    def __len__(self) -> int:
        return len(self.knots)

    def features(self, points: Floats) -> Floats:
        """Return φ at points (n, q), shape (m, n)."""
        if len(points) == 0 or len(self) == 0:
            return np.zeros((len(self), len(points)))
        between = self.kernel(self.knots, points)
        return np.asarray(solve_triangular(self.factor, between, lower=True, overwrite_b=True))

    def weights(self, functions: Floats) -> Floats:
        """Return the weights (m, F, p) on the knots of functions (F, m, p)."""
        F, m, p = functions.shape
        flat = functions.transpose(1, 0, 2).reshape(m, F * p)
        solved = solve_triangular(self.factor, flat, lower=True, trans=1)
        return np.asarray(solved).reshape(m, F, p)

    def unexplained(self, points: Floats, features: Floats | None = None) -> Floats:
        """Return κ(x, x) − |φ(x)|² at points (n, q), shape (n,)."""
        phi = self.features(points) if features is None else features
        left = self.kernel.diagonal(points) - np.einsum("mn,mn->n", phi, phi)
        return np.asarray(np.maximum(left, 0.0))

    def grown(self, points: Floats, tolerance: float, most: int) -> KnotCoordinates:
        """Return coordinates with up to ``most`` further knots, chosen from points (n, q).

        Each is the point with the largest relative residual, as long as that is above
        ``tolerance``. Many points are processed in subsets.
        """
        tolerance, grown = max(tolerance, _LEAST_SHARE), self
        while most > 0:
            share = np.ones(len(points))
            if len(grown):
                for part in blocks(len(points)):
                    x = points[part]
                    share[part] = grown.unexplained(x) / _positive(self.kernel.diagonal(x))
            new = np.flatnonzero(share > tolerance)
            evenly = np.linspace(0, len(new) - 1, min(len(new), _CANDIDATES)).round().astype(int)
            candidates = points[new[evenly]]
            chosen = grown._pivots(candidates, tolerance, most)
            if len(chosen) == 0:
                break
            most -= len(chosen)
            knots = np.concatenate([grown.knots, candidates[chosen]])
            grown = KnotCoordinates(self.kernel, knots)
            if len(candidates) == len(new):
                break
        return grown

    def _pivots(self, points: Floats, tolerance: float, most: int) -> Integers:
        """Return the points to take; unlike :meth:`Dictionary.novel`, in the geometry of κ."""
        full = _positive(self.kernel.diagonal(points))
        known = self.features(points)
        left = full - np.einsum("mn,mn->n", known, known)

        def column(j: int) -> tuple[Floats, Floats]:
            return self.kernel(points, points[j : j + 1])[:, 0], known[:, j] @ known

        return pivoted_cholesky(left, most, column, lambda left: left / full, tolerance * full)[0]


def _positive(values: Floats) -> Floats:
    return np.maximum(values, np.finfo(np.float64).tiny)
