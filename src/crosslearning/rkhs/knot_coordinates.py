"""Functions on knots in coordinates in which the RKHS inner product is the plain one.

With K = L Lᵀ the knots' Gram matrix, the function of coordinates c is Σ_m κ(s_m, ·) w_m with
w = L⁻ᵀ c; its norm is |c|, and its value at a point x is cᵀ φ(x) with φ(x) = L⁻¹ κ(knots, x).
What the knots cannot say of x is κ(x, x) − |φ(x)|².
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from crosslearning.errors import NumericalError
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.kernels.base import Kernel

#: Points that are looked at together, so that no array grows with the data.
BLOCK = 4096
#: Points among which knots are chosen together.
_CANDIDATES = 8192
#: What is added to the diagonal of the Gram matrix, as a share of it.
_JITTER = 1e-12
#: Below this share rounding decides what a knot adds.
_LEAST_SHARE = 1e-10


def blocks(points: int) -> Iterator[slice]:
    """Yield slices that go through so many points, a block at a time."""
    for first in range(0, points, BLOCK):
        yield slice(first, min(first + BLOCK, points))


def diagonal(kernel: Kernel, points: Floats) -> Floats:
    """Return κ(x, x) at every point, at once if it is one everywhere."""
    return np.ones(len(points)) if kernel.normalised else kernel.diagonal(points)


class KnotCoordinates:
    """Knots with the factor of their Gram matrix; a value.

    Parameters
    ----------
    kernel : Kernel
    knots : array, shape (m, q), optional
        By default none.
    """

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
            raise NumericalError(
                f"the Gram matrix of {len(gram)} knots of the {kernel.name} kernel is not positive "
                "definite; allow fewer knots, or a larger tolerance"
            ) from problem

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
        left = diagonal(self.kernel, points) - np.einsum("mn,mn->n", phi, phi)
        return np.asarray(np.maximum(left, 0.0))

    # Growing ---------------------------------------------------------------------------

    def grown(self, points: Floats, tolerance: float, most: int) -> KnotCoordinates:
        """Return coordinates with further knots, chosen from points (n, q).

        Each in turn is the point that the knots before it explain least, as long as they leave
        more than ``tolerance`` of κ(x, x) and no more than ``most`` are chosen. Where there are
        many points, a part of those that are not yet explained is looked at together.
        """
        tolerance, grown = max(tolerance, _LEAST_SHARE), self
        while most > 0:
            share = np.ones(len(points))
            if len(grown):
                for part in blocks(len(points)):
                    x = points[part]
                    share[part] = grown.unexplained(x) / _positive(diagonal(self.kernel, x))
            new = np.flatnonzero(share > tolerance)
            evenly = np.linspace(0, len(new) - 1, min(len(new), _CANDIDATES)).round().astype(int)
            candidates = points[new[evenly]]
            chosen = grown._farthest(candidates, tolerance, most)
            if len(chosen) == 0:
                break
            most -= len(chosen)
            knots = np.concatenate([grown.knots, candidates[chosen]])
            grown = KnotCoordinates(self.kernel, knots)
            if len(candidates) == len(new):
                break
        return grown

    def _farthest(self, points: Floats, tolerance: float, most: int) -> NDArray[np.int64]:
        """Return which points to take: a pivoted Cholesky factorisation of what is left.

        :meth:`Dictionary.novel` does so in the geometry of κ + λδ, to which a point 1e-6 from a
        knot is new. Here the last digits count.
        """
        full = _positive(diagonal(self.kernel, points))
        known = self.features(points)
        left = full - np.einsum("mn,mn->n", known, known)
        rows = np.zeros((min(most, len(points)), len(points)))
        chosen: list[int] = []
        for k in range(len(rows)):
            j = int(np.argmax(left / full))
            if left[j] <= tolerance * full[j]:
                break
            column = self.kernel(points, points[j : j + 1])[:, 0]
            column -= known[:, j] @ known + rows[:k, j] @ rows[:k]
            rows[k] = column / np.sqrt(left[j])
            left -= rows[k] ** 2
            left[j] = 0.0
            chosen.append(j)
        return np.array(chosen, dtype=np.int64)


def _positive(values: Floats) -> Floats:
    """Return values with the least number above zero in the place of zeros, to divide by."""
    return np.maximum(values, np.finfo(np.float64).tiny)
