"""The Gram matrix K of a dictionary's knots, and the inverse P = (K + λI)⁻¹.

Both are updated as knots are inserted and removed; a few of them cost two matrix products. P
drifts by rounding: a probe tests it at every insertion.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack, solve_triangular
from scipy.sparse import csr_array

from crosslearning.errors import FileFormatError, NumericalError
from crosslearning.rkhs.checks import Floats, Integers, finite_array
from crosslearning.rkhs.kernel import Kernel
from crosslearning.rkhs.knot_coordinates import pivoted_cholesky
from crosslearning.rkhs.program import kernel_matrix
from crosslearning.rkhs.slots import Slots, close_gaps, fill_symmetric, insert_knots

#: λ: K + λI is the Gram matrix of the kernel κ + λδ, whose norm is never below κ's. So the claimed
#: error of a pruning is never below the true one, and P stays computable in float64.
RIDGE = 1e-6
# Arrays grow in steps of this many knots; a multiple of every SIMD width.
_CAPACITY_STEP = 16
#: Removals between two updates of P.
BLOCK = 64
#: P is computed anew when a column of P(K + λI) differs from the identity's by more.
DRIFT_LIMIT = 1e-7
#: A squared distance that is rounding alone: λ, by which all new knots differ, is far above.
_ROUNDING = 1e-9
# Names of the numbers of a state in files, and the attributes that hold them.
_NUMBERS = {"rebuilds": "rebuilds", "_size": "size", "_covered": "covered", "_probe": "_probe"}


class Geometry:
    """Knots in slots, with K, P and the weights of functions to R^outputs."""

    def __init__(self, kernel: Kernel, functions: int, outputs: int) -> None:
        self.kernel = kernel
        self.rebuilds = 0
        self.size = 0  # knots
        self.covered = 0  # knots that P covers; the others are inserted by the next pruning
        self._probe = 0
        self._weights = (functions, outputs)
        self.slots = Slots(*map(np.zeros, self._shapes(0)))
        self._factored: Floats | None = None  # the last Cholesky factor, while it is that of K

    @property
    def capacity(self) -> int:
        """The number of slots."""
        return len(self.slots.knots)

    def state(self) -> tuple[dict[str, Floats], dict[str, int]]:
        """Return the arrays and the integers of a checkpoint."""
        arrays = {name: array.copy() for name, array in self.slots._asdict().items()}
        return arrays, {name: getattr(self, attribute) for name, attribute in _NUMBERS.items()}

    def restore(self, arrays: Mapping[str, Floats], numbers: Mapping[str, int]) -> None:
        """Restore a state whose parts fit together."""
        capacity = np.shape(arrays["rows"])[-1]
        # Compiled code does not check bounds.
        checked = (
            finite_array(f"the dictionary's {name}", arrays[name], shape).copy()
            for name, shape in zip(Slots._fields, self._shapes(capacity), strict=True)
        )
        self.slots = Slots(*checked)
        if not 0 <= numbers["_covered"] <= numbers["_size"] <= capacity:
            raise FileFormatError(
                f"the dictionary has room for {capacity} knots, but claims {numbers['_size']}, "
                f"{numbers['_covered']} of them covered"
            )
        for name, attribute in _NUMBERS.items():
            setattr(self, attribute, int(numbers[name]))

    def insert(self, new: Floats, weights: Floats) -> None:
        """Insert knots (n, q) with weights (n, functions, p); an equal knot adds its weights."""
        self._factored = None
        self.reserve(self.size + len(new), filler=new[0])
        size = insert_knots(self.kernel.program, self.slots, self.size, new, weights)
        if size < 0:
            raise self._not_finite()
        self.size = size

    def _shapes(self, C: int) -> tuple[tuple[int, ...], ...]:
        r = int(self.kernel.program.factors[-1, 2])
        return (C, self.kernel.dimension), (r, C), (*self._weights, C), (C, C), (C, C), (C,)

    def reserve(self, size: int, filler: Floats | None = None) -> None:
        """Grow the arrays to ``size`` knots, or shrink them if they are far larger."""
        capacity = -(-size // _CAPACITY_STEP) * _CAPACITY_STEP
        if size <= self.capacity and capacity > self.capacity // 2:
            return
        keep = min(self.capacity, capacity)
        before, self.slots = self.slots, Slots(*map(np.zeros, self._shapes(capacity)))
        for old, new in zip(before, self.slots, strict=True):
            part = tuple(map(slice, np.minimum(old.shape, new.shape)))
            new[part] = old[part]
        if filler is not None and capacity > keep:
            self.slots.knots[keep:] = filler
            self.slots.features[:, keep:] = self.kernel.embed(filler[None, :])

    def update(self, Z: Floats, V: Floats, alive: NDArray[np.bool_]) -> None:
        """Close the gaps of removed knots and update P in one product."""
        left = np.concatenate([Z, V])
        size = close_gaps(alive, self.slots, left)
        if len(left):
            right = left.copy()
            right[len(Z) :] *= -1.0
            # P += ZZᵀ − VVᵀ in place; BLAS reads our row-major arrays as their transposes.
            inverse = self.slots.inverse.T
            blas.dgemm(1.0, left.T, right.T, 1.0, inverse, trans_b=1, overwrite_c=1)
        self.size = self.covered = size
        self._factored = None

    def close(self, alive: NDArray[np.bool_]) -> None:
        """Close the gaps of removed knots; P is computed when it is next needed."""
        self.size = close_gaps(alive, self.slots, np.empty((0, self.capacity)))
        self.slots.inverse[:] = 0.0
        self.covered = 0
        self._factored = None

    def rebuild(self, size: int) -> None:
        """Compute P from K by Cholesky, over the first ``size`` knots."""
        self.rebuilds += 1
        self.covered = size
        if size == 0:
            return
        lower, _ = lapack.dpotri(self._factor(size), lower=1)
        # dpotri fills one triangle of a matrix that is stored by columns.
        fill_symmetric(lower.T, self.slots.inverse)

    def _factor(self, size: int) -> Floats:
        """Return C with K + λI = CCᵀ over the first ``size`` knots, in its lower triangle."""
        if self._factored is not None and len(self._factored) == size:
            return self._factored
        part = slice(0, size)
        factor, failed = lapack.dpotrf(self._normalised_gram(part, part), lower=1)
        if failed:
            raise self._not_positive_definite()
        return np.asarray(factor)

    def insertion(self) -> Floats:
        """Return Z, as rows, with (K + λI)⁻¹ = P + ZZᵀ over all knots; a drifted P is rebuilt."""
        n = self.size - self.covered
        if n > max(2 * BLOCK, self.covered // 2):
            self.rebuild(self.size)
            return np.zeros((0, self.capacity))
        Z = self._schur(test=True)
        if Z is None:
            self.rebuild(self.covered)
            Z = self._schur(test=False)
        if Z is None:
            raise self._not_positive_definite()
        return Z

    def _schur(self, test: bool) -> Floats | None:
        """Return the insertion's Z, or None if P fails its test or the block its Cholesky."""
        old, new = slice(0, self.covered), slice(self.covered, self.size)
        n, j = self.size - self.covered, 0
        # Columns for one product with P: those of the new knots, and one of K as a probe, that of
        # the largest diagonal entry and each of the others in turn.
        self._probe += 1
        if self.covered and self._probe % 2:
            j = int(np.argmax(np.diagonal(self.slots.inverse)[old]))
        elif self.covered:
            j = (self._probe // 2) % self.covered
        columns = np.zeros((n + 1, self.capacity))
        columns[:n, old] = self._normalised_gram(new, old)
        if self.covered:
            columns[n, old] = self._normalised_gram(slice(j, j + 1), old)[0]
            columns[n, j] += RIDGE
        T = columns @ self.slots.inverse
        if test and self.covered:
            T[n, j] -= 1.0
            if not np.max(np.abs(T[n])) <= DRIFT_LIMIT:
                return None
        if n == 0:
            return np.zeros((0, self.capacity))
        T = T[:n]
        inner = columns[:n] @ T.T
        schur = self._normalised_gram(new, new) - 0.5 * (inner + inner.T)
        factor, failed = lapack.dpotrf(schur, lower=1, clean=1)
        if failed:
            return None
        root, _ = lapack.dtrtri(factor, lower=1)
        Z = -(root @ T)
        Z[:, new] = root
        return np.asarray(Z)

    def _normalised_gram(self, rows: slice, columns: slice) -> Floats:
        block = self.slots.gram[rows, columns].copy()
        if not self.kernel.normalised:
            block *= self.slots.scale[rows, None]
            block *= self.slots.scale[columns]
        if rows == columns:
            block.flat[:: len(block) + 1] += RIDGE
        return block

    def inner_products(self, functions: Floats) -> Floats:
        """Return the inner products of functions (F, p, L), through K + λI = CCᵀ: half the work."""
        F, p, L = functions.shape
        if not self.kernel.normalised:
            functions = functions / self.slots.scale[:L]
        self._factored = factor = self._factor(L)
        # BLAS reads our row-major arrays as their transposes.
        columns = np.ascontiguousarray(functions).reshape(F * p, L).T
        coordinates = blas.dtrmm(1.0, factor, columns, lower=1, trans_a=1, overwrite_b=1).T
        upper = blas.dsyrk(1.0, coordinates.reshape(F, p * L).T, trans=1)
        return np.asarray(upper + np.triu(upper, 1).T)

    def novel(self, points: Floats, tolerance: float, most: int) -> Integers:
        """Return which points are far from the span of the knots, the farthest first."""
        if self.covered < self.size:
            self.rebuild(self.size)
        embedded, length = self.kernel.embed(points), np.sqrt(self.kernel.diagonal(points))

        def columns(features: Floats, scale: Floats) -> Floats:
            values = np.empty((len(length), features.shape[1]))
            kernel_matrix(self.kernel.program, features, embedded, values)
            if not self.kernel.normalised:
                values *= scale
                values /= length[:, None]
            return values

        known = columns(self.slots.features, self.slots.scale)
        known[:, self.size :] = 0.0
        solved = known @ self.slots.inverse
        left = 1.0 - np.einsum("nc,nc->n", known, solved)
        # Most points are near the knots; only the others are candidates.
        far = np.flatnonzero(left > tolerance)
        embedded, length = np.ascontiguousarray(embedded[:, far]), length[far]
        known, solved = known[far], solved[far]

        def column(j: int) -> tuple[Floats, Floats]:
            one = np.ascontiguousarray(embedded[:, j : j + 1])
            return columns(one, 1.0 / length[j : j + 1])[:, 0], known @ solved[j]

        chosen, _ = pivoted_cholesky(left[far], most, column, lambda left: left, tolerance)
        return np.asarray(far[chosen])

    def fold(self, new: Floats, weights: Floats, most: int) -> tuple[int, Floats]:
        """Insert ``most`` of new knots (n, q) with weights (n, functions, p); project the others.

        Those are inserted whose removal would move some function the farthest. The others are
        projected onto the old and the inserted knots. Returns the number of inserted knots, and by
        how much each function moves, exactly.
        """
        if self.covered < self.size:
            self.rebuild(self.size)
        old, embedded = slice(0, self.size), self.kernel.embed(new)
        between, among = np.empty((len(new), self.capacity)), np.empty((len(new), len(new)))
        kernel_matrix(self.kernel.program, self.slots.features, embedded, between)
        kernel_matrix(self.kernel.program, embedded, embedded, among)
        between = np.ascontiguousarray(between[:, old])
        scale = np.ones(len(new))
        if not self.kernel.normalised:
            squares = np.diagonal(among)
            scale = 1.0 / np.sqrt(squares, out=np.ones(len(new)), where=squares > 0.0)
            between *= scale[:, None] * self.slots.scale[old]
            among *= scale[:, None] * scale
        if not (np.all(np.isfinite(between)) and np.all(np.isfinite(among))):
            raise self._not_finite()
        among.flat[:: len(among) + 1] += RIDGE
        weights = weights / scale[:, None, None]
        n, F, p = weights.shape
        onto = between @ self.slots.inverse[old, old]
        # The Gram matrix of the new knots' residuals.
        left = among
        left -= onto @ between.T
        largest = np.max(np.einsum("nfp,nfp->nf", weights, weights), axis=1)
        diagonal = np.diagonal(left).copy()
        chosen, rows = pivoted_cholesky(
            diagonal, most, lambda j: (left[j], 0.0), lambda r: largest * r, _ROUNDING
        )
        others = np.setdiff1d(np.arange(n), chosen)
        explained = rows[:, others]
        shares = solve_triangular(rows[:, chosen], explained) if len(chosen) else explained
        residual = left[np.ix_(others, others)] - explained.T @ explained
        # Only one task has weights on each new knot: most are zero.
        moved = csr_array(weights[others].reshape(len(others), F * p).T)
        squares = np.asarray(moved.multiply(moved @ residual).sum(axis=1))
        kept = weights[chosen].reshape(len(chosen), F * p) + (moved @ shares.T).T
        onto_old = np.asarray(moved @ (onto[others] - shares.T @ onto[chosen]))
        self.slots.rows[:, :, old] += onto_old.reshape(F, p, -1) * self.slots.scale[old]
        if len(chosen):
            self.insert(new[chosen], kept.reshape(-1, F, p) * scale[chosen, None, None])
        return len(chosen), np.sqrt(np.maximum(squares.reshape(F, p).sum(axis=1), 0.0))

    def _not_finite(self) -> NumericalError:
        return NumericalError(
            f"the {self.kernel.name} kernel is not finite between the new knots and the "
            "dictionary; check its formula. Nothing was changed"
        )

    def _not_positive_definite(self) -> NumericalError:
        return NumericalError(
            f"the Gram matrix of {self.size} knots is not positive definite in float64; is the "
            f"{self.kernel.name} kernel positive definite? crosslearning.rkhs.check_kernel tests it"
        )
