"""The working dictionary: knots that come and go, with everything that depends on them.

:class:`Family` is a value; :class:`Dictionary` is the place where an algorithm changes one
thousands of times. It keeps the Gram matrix K and the inverse P = (K + λI)⁻¹ up to date, so
that inserting and pruning a few knots costs two matrix products.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas, lapack

from crosslearning.errors import FileFormatError, InputError, NumericalError
from crosslearning.rkhs.candidates import Tally, remove_from_many
from crosslearning.rkhs.checks import Floats, count, finite_array, radius
from crosslearning.rkhs.family import Family, weighted_inner_products
from crosslearning.rkhs.folding import Folded, fold
from crosslearning.rkhs.kernels.base import Kernel
from crosslearning.rkhs.program import Expansion, kernel_matrix
from crosslearning.rkhs.projection import Method, Projection, projection_of
from crosslearning.rkhs.pruning import RIDGE, PruningCertificate, remove_knots
from crosslearning.rkhs.slots import Slots, add_multiples, close_gaps, fill_symmetric, insert_knots

# Arrays grow in steps of this many knots; a multiple of every SIMD width.
_CAPACITY_STEP = 16
# Removals between two updates of P.
_BLOCK = 64
#: Weights beyond which a cache does not hold them: from there on products take the place of loops.
MANY_WEIGHTS = 2**18
#: Where weights are many, the knots above the cap that pruning is to choose from, as a share of it.
_SPARE = 0.25
_STATE_NUMBERS = ("guarded", "rebuilds", "_size", "_covered", "_probe")
#: P is computed afresh when a column of P(K + λI) differs from the identity's by more.
DRIFT_LIMIT = 1e-7


class Dictionary:
    """Functions on a common dictionary that grows by insertion and shrinks by pruning.

    Parameters
    ----------
    functions, outputs : int
        How many functions share the knots, and the dimension p of their values.
    guarded : int, optional
        How many of the functions, from the first, the pruning budget guards; the others are
        carried along. By default all.
    """

    def __init__(
        self, kernel: Kernel, functions: int, outputs: int, guarded: int | None = None
    ) -> None:
        self.kernel = kernel
        self.functions = count("functions", functions)
        self.outputs = count("outputs", outputs)
        self.guarded = self.functions if guarded is None else count("guarded", guarded)
        if self.guarded > self.functions:
            raise InputError(f"guarded is {guarded}, but there are only {functions} functions")
        #: How often P was computed afresh.
        self.rebuilds = 0
        self._size = 0  # knots
        self._covered = 0  # knots that P covers; the rest wait for the next pruning
        self._probe = 0
        self._slots = Slots(*map(np.zeros, self._shapes(0)))
        self._factored: Floats | None = None  # the last Cholesky factor, while it is that of K

    @classmethod
    def of(cls, family: Family, guarded: int | None = None) -> Dictionary:
        """Return a dictionary that holds a family."""
        dictionary = cls(family.kernel, family.functions, family.outputs, guarded)
        if len(family.knots):
            dictionary.extend(family.knots, family.weights)
        return dictionary

    def __len__(self) -> int:
        return self._size

    @property
    def knots(self) -> Floats:
        """The knots, shape (L, q); a copy."""
        return self._slots.knots[: self._size].copy()

    @property
    def weights(self) -> Floats:
        """The weights, shape (L, functions, p); a copy."""
        return np.ascontiguousarray(self._slots.rows[:, :, : self._size].transpose(2, 0, 1))

    @property
    def gram(self) -> Floats:
        """The knots' Gram matrix, shape (L, L); a copy."""
        return self._slots.gram[: self._size, : self._size].copy()

    def family(self, functions: int | None = None) -> Family:
        """Return the first ``functions`` functions (by default all) as a value."""
        stop = self.functions if functions is None else count("functions", functions)
        weights = np.ascontiguousarray(self.weights[:, :stop])
        return Family._trusted(self.kernel, self.knots, weights)

    @property
    def expansion(self) -> Expansion:
        """The functions in the form that compiled code reads; it changes with the dictionary."""
        return Expansion(self.kernel.program, self._slots.features, self._slots.rows)

    # Checkpoints ----------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Floats], dict[str, int]]:
        """Return everything that the next operation depends on: arrays, and whole numbers.

        :meth:`from_state` gives a dictionary that goes on bit for bit as this one would.
        """
        arrays = {name: array.copy() for name, array in self._slots._asdict().items()}
        return arrays, {name: getattr(self, name) for name in _STATE_NUMBERS}

    @classmethod
    def from_state(
        cls, kernel: Kernel, arrays: Mapping[str, Floats], numbers: Mapping[str, int]
    ) -> Dictionary:
        """Return the dictionary that :meth:`state` described."""
        # Compiled code does not look at bounds: what does not fit together ends here.
        try:
            rows = finite_array("the dictionary's rows", arrays["rows"], (None, None, None))
            functions, outputs, capacity = rows.shape
            dictionary = cls(kernel, functions, outputs, numbers["guarded"])
            checked = (
                finite_array(f"the dictionary's {name}", arrays[name], shape).copy()
                for name, shape in zip(Slots._fields, dictionary._shapes(capacity), strict=True)
            )
            dictionary._slots = Slots(*checked)
        except InputError as problem:
            raise FileFormatError(str(problem)) from problem
        if not 0 <= numbers["_covered"] <= numbers["_size"] <= capacity:
            raise FileFormatError(
                f"the dictionary has room for {capacity} knots, but claims {numbers['_size']}, "
                f"{numbers['_covered']} of them covered"
            )
        for name in _STATE_NUMBERS:
            setattr(dictionary, name, int(numbers[name]))
        return dictionary

    # Growing ---------------------------------------------------------------------------

    def extend(self, knots: ArrayLike, weights: ArrayLike) -> None:
        """Add κ(knot, ·) weight to the functions.

        A knot that is already there, to the last bit, only adds its weights.

        Parameters
        ----------
        knots : array_like, shape (n, q)
        weights : array_like, shape (n, functions, p)
        """
        new = finite_array("knots", knots, (None, self.kernel.dimension))
        added = finite_array("weights", weights, (len(new), self.functions, self.outputs))
        if len(new) == 0:
            raise InputError("no knots were given; give at least one")
        self._factored = None
        self._reserve(self._size + len(new), filler=new[0])
        size = insert_knots(self.kernel.program, self._slots, self._size, new, added)
        if size < 0:
            raise self._not_finite()
        self._size = size

    def replace(self, weights: ArrayLike) -> None:
        """Give the functions other weights, shape (L, functions, p), on the same knots."""
        shape = (self._size, self.functions, self.outputs)
        new = finite_array("weights", weights, shape)
        self._slots.rows[:, :, : self._size] = new.transpose(1, 2, 0)

    def novel(self, states: ArrayLike, tolerance: float, most: int) -> NDArray[np.int64]:
        """Return which states say something that the knots do not, the newest to them first.

        A pivoted Cholesky factorisation of what the knots leave of the states' Gram matrix:
        each state in turn is the one farthest from the span of the knots and of the states
        chosen before it, as long as the square of that distance is above ``tolerance`` times
        κ(s, s) and no more than ``most`` are chosen.

        Parameters
        ----------
        states : array_like, shape (n, q)
        tolerance : float
        most : int
        """
        points = finite_array("states", states, (None, self.kernel.dimension))
        if self._covered < self._size:
            self._rebuild(self._size)
        embedded = self.kernel.embed(points)
        length = np.sqrt(self.kernel.diagonal(points)) if not self.kernel.normalised else None

        def columns(features: Floats, scale: Floats | None) -> Floats:
            values = np.empty((len(points), features.shape[1]))
            kernel_matrix(self.kernel.program, features, embedded, values)
            if length is not None and scale is not None:
                values *= scale
                values /= length[:, None]
            return values

        known = columns(self._slots.features, self._slots.scale)
        known[:, self._size :] = 0.0
        solved = known @ self._slots.inverse
        left = 1.0 - np.einsum("nc,nc->n", known, solved)
        # Most states are near the knots: only the others are looked at again.
        far = np.flatnonzero(left > tolerance)
        points, embedded = points[far], np.ascontiguousarray(embedded[:, far])
        known, solved, left = known[far], solved[far], left[far]
        length = None if length is None else length[far]
        rows = np.zeros((min(most, len(far)), len(far)))
        chosen: list[int] = []
        for k in range(len(rows)):
            j = int(np.argmax(left))
            if left[j] <= tolerance:
                break
            one = np.ascontiguousarray(embedded[:, j : j + 1])
            column = columns(one, None if length is None else 1.0 / length[j : j + 1])[:, 0]
            column -= known @ solved[j] + rows[:k, j] @ rows[:k]
            rows[k] = column / np.sqrt(left[j])
            left -= rows[k] ** 2
            left[j] = 0.0
            chosen.append(j)
        return np.asarray(far[chosen])

    @property
    def _capacity(self) -> int:
        return len(self._slots.knots)

    def _shapes(self, C: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the arrays of C slots."""
        r = int(self.kernel.program.factors[-1, 2])
        rows = (self.functions, self.outputs, C)
        return (C, self.kernel.dimension), (r, C), rows, (C, C), (C, C), (C,)

    def _reserve(self, size: int, filler: Floats | None = None) -> None:
        """Make room for ``size`` knots, or give much unused room back."""
        capacity = -(-size // _CAPACITY_STEP) * _CAPACITY_STEP
        if size <= self._capacity and capacity > self._capacity // 2:
            return
        keep = min(self._capacity, capacity)
        before, self._slots = self._slots, Slots(*map(np.zeros, self._shapes(capacity)))
        for old, new in zip(before, self._slots, strict=True):
            part = tuple(map(slice, np.minimum(old.shape, new.shape)))
            new[part] = old[part]
        if filler is not None and capacity > keep:
            self._slots.knots[keep:] = filler
            self._slots.features[:, keep:] = self.kernel.embed(filler[None, :])

    # Geometry --------------------------------------------------------------------------

    def differences(self) -> Floats:
        """Return D_ij = ⟨h_i − g, h_j − g⟩ of the guarded functions, of which g is the last.

        The inner product is that of the kernel κ + λδ, in which pruning is an orthogonal
        projection. It is never below κ's, and only so much above as λ = 1e-6 times the
        squared weights makes it. Shape (guarded − 1, guarded − 1).
        """
        rows = self._slots.rows[: self.guarded]
        difference = rows[:-1] - rows[-1]
        if self._many(self._size):
            return self._factored_products(difference[:, :, : self._size])
        D = weighted_inner_products(self._slots.gram, difference)
        if not self.kernel.normalised:
            difference[:, :, : self._size] /= self._slots.scale[: self._size]
        flat = difference.reshape(len(difference), -1)
        return np.asarray(D + RIDGE * (flat @ flat.T))

    def _factored_products(self, functions: Floats) -> Floats:
        """Return the inner products of functions (F, p, L) through K + λI = CCᵀ.

        Rows of C are the knots' coordinates in an orthonormal basis: half the work, and C serves
        for the inverse too.
        """
        F, p, L = functions.shape
        if not self.kernel.normalised:
            functions = functions / self._slots.scale[:L]
        self._factored = factor = self._factor(L)
        # BLAS reads our row-major arrays as their transposes.
        columns = np.ascontiguousarray(functions).reshape(F * p, L).T
        coordinates = blas.dtrmm(1.0, factor, columns, lower=1, trans_a=1, overwrite_b=1).T
        upper = blas.dsyrk(1.0, coordinates.reshape(F, p * L).T, trans=1)
        return np.asarray(upper + np.triu(upper, 1).T)

    def project(self, epsilon: float, method: Method = "exact") -> Projection:
        """Project the guarded functions, the centre last among them, in place.

        The distances are those of κ + λδ, see :meth:`differences`: so ‖h_i − g‖ ≤ ε holds
        now, and pruning, which moves all functions by one orthogonal projector of that same
        geometry, cannot break it. The arguments are those of :func:`crosslearning.rkhs.project`.
        """
        if self.guarded < 2:
            raise InputError("a projection needs at least two functions; the last is the centre")
        projection = projection_of(method)(self.differences(), epsilon)
        if projection.moved:
            projection.apply(self._slots.rows[: self.guarded])
        return projection

    def inner_products(self) -> Floats:
        """Return ⟨h_f, h_g⟩ for all pairs, shape (functions, functions)."""
        return weighted_inner_products(self._slots.gram, self._slots.rows)

    def mix(self, matrix: ArrayLike) -> None:
        """Replace the functions by h'_f = Σ_g matrix[f, g] h_g.

        A square matrix smaller than the number of functions mixes the first ones and leaves
        the others.
        """
        mixing = finite_array("matrix", matrix, (None, None))
        first = len(mixing)
        if mixing.shape != (first, first) or not 0 < first <= self.functions:
            raise InputError(
                f"matrix must be square with at most {self.functions} rows, got {mixing.shape}"
            )
        rows = self._slots.rows[:first]
        rows[:] = (mixing @ rows.reshape(first, -1)).reshape(rows.shape)

    def scale(self, first: int, factor: float) -> None:
        """Multiply the functions from ``first`` on by a number."""
        self._slots.rows[first:] *= factor

    def add_multiples(self, first: int, factors: Floats) -> None:
        """Add to function i factors[i] times function first + i."""
        add_multiples(self._slots.rows, first, factors)

    # Pruning ---------------------------------------------------------------------------

    def prune(
        self, budget: float, max_knots: int | None = None, before: PruningCertificate | None = None
    ) -> PruningCertificate:
        """Remove knots while every guarded function moves by at most ``budget`` in all.

        CDKOMP over the common dictionary. Beyond the budget it removes only what it must:
        knots that are nearly combinations of others, and what exceeds ``max_knots``.

        Parameters
        ----------
        budget : float
            β ≥ 0, an RKHS norm, for the whole call.
        max_knots : int, optional
            The cap on the model order.
        before : PruningCertificate, optional
            Of an earlier pruning, with which this one shares the budget and the certificate.
        """
        budget = radius("budget", budget)
        cap = self._size if max_knots is None else count("max_knots", max_knots)
        if before is None:
            return self._prune(budget, cap, np.zeros(self.guarded))
        found = self._prune(budget, cap, before.errors[: self.guarded])
        return before.followed_by(found)

    def crowded_by(self, new: int, max_knots: int) -> bool:
        """Whether there are so many new knots, and weights, that most should be folded at once."""
        size = self._size + new
        return self._many(size) and size > max_knots + int(_SPARE * max_knots)

    def extend_within(
        self, knots: ArrayLike, weights: ArrayLike, budget: float, max_knots: int
    ) -> PruningCertificate:
        """Add to the functions as :meth:`extend` does, but keep few of the new knots.

        So many that the dictionary is a quarter larger than ``max_knots``; what the others carry
        is projected onto the rest, and the certificate says how far that moves each function.
        There may be any number of new knots: they are taken in parts.
        """
        budget, cap = radius("budget", budget), count("max_knots", max_knots)
        new = finite_array("knots", knots, (None, self.kernel.dimension))
        added = finite_array("weights", weights, (len(new), self.functions, self.outputs))
        rebuilds, removed, errors = self.rebuilds, 0, np.zeros(self.functions)
        parts = -(-len(new) // cap)
        for k, part in enumerate(np.array_split(np.arange(len(new)), parts)):
            room = cap + int(_SPARE * cap) - self._size
            most = max(0, room) // (parts - k)
            if most < len(part):
                folded = self._fold(new[part], added[part], most)
                errors += np.sqrt(folded.squared_errors)
                removed += len(part) - len(folded.chosen)
            else:
                self.extend(new[part], added[part])
        within = bool(np.max(errors[: self.guarded]) <= budget)
        nothing = np.zeros(self.functions)
        return PruningCertificate(
            budget=budget,
            errors=errors,
            budgeted_errors=errors if within else nothing,
            conditioning_errors=nothing,
            cap_errors=nothing if within else errors,
            removed=removed,
            forced_by_conditioning=0,
            forced_by_cap=0 if within else removed,
            knots=self._size,
            rebuilds=self.rebuilds - rebuilds,
        )

    def _fold(self, new: Floats, added: Floats, most: int) -> Folded:
        """Add new knots, but keep at most ``most`` of them."""
        if self._covered < self._size:
            self._rebuild(self._size)
        old, embedded = slice(0, self._size), self.kernel.embed(new)
        between, among = np.empty((len(new), self._capacity)), np.empty((len(new), len(new)))
        kernel_matrix(self.kernel.program, self._slots.features, embedded, between)
        kernel_matrix(self.kernel.program, embedded, embedded, among)
        between = np.ascontiguousarray(between[:, old])
        scale = np.ones(len(new))
        if not self.kernel.normalised:
            squares = np.diagonal(among)
            scale = 1.0 / np.sqrt(squares, out=np.ones(len(new)), where=squares > 0.0)
            between *= scale[:, None] * self._slots.scale[old]
            among *= scale[:, None] * scale
        if not (np.all(np.isfinite(between)) and np.all(np.isfinite(among))):
            raise self._not_finite()
        among.flat[:: len(among) + 1] += RIDGE
        inverse = self._slots.inverse[old, old]
        folded = fold(inverse, between, among, added / scale[:, None, None], most)
        self._slots.rows[:, :, old] += folded.onto_old * self._slots.scale[old]
        if len(folded.chosen):
            kept = folded.weights * scale[folded.chosen, None, None]
            self.extend(new[folded.chosen], kept)
        return folded

    def _many(self, knots: int) -> bool:
        return knots * self.functions * self.outputs > MANY_WEIGHTS

    def _prune(self, budget: float, cap: int, moved: Floats) -> PruningCertificate:
        """Prune functions that have ``moved``, shape (guarded,), before, within one budget."""
        squared_errors, counts = np.zeros((3, self.functions)), np.zeros(3, dtype=np.int64)
        spent = _spent_before(moved, budget)
        tally = Tally(spent, squared_errors, counts)
        rebuilds_before = self.rebuilds
        self._scale_rows(np.divide)  # weights of the normalised kernel
        try:
            more = True
            while more:
                Z = self._insertion()
                if self._many(self._size):
                    alive = remove_from_many(self._slots, Z, self._size, cap, budget**2, tally)
                    self._close(alive)
                    break
                removed, V, alive = self._remove(Z, cap, budget**2, tally)
                self._update(Z, V, alive)
                if removed < 0:
                    self._rebuild(self._size)
                more = removed < 0 or removed == _BLOCK
        finally:
            self._scale_rows(np.multiply)
        self._reserve(self._size)
        budgeted, conditioning, forced = np.sqrt(squared_errors)
        return PruningCertificate(
            budget=budget,
            errors=np.sqrt(squared_errors.sum(axis=0)),
            budgeted_errors=budgeted,
            conditioning_errors=conditioning,
            cap_errors=forced,
            removed=int(counts.sum()),
            forced_by_conditioning=int(counts[1]),
            forced_by_cap=int(counts[2]),
            knots=self._size,
            rebuilds=self.rebuilds - rebuilds_before,
        )

    def _remove(
        self, Z: Floats, cap: int, squared_budget: float, tally: Tally
    ) -> tuple[int, Floats, NDArray[np.bool_]]:
        """Remove up to a block of knots; return how many, V, and which are left."""
        V, order = np.zeros((_BLOCK, self._capacity)), np.zeros(_BLOCK, dtype=np.int64)
        inverse, rows = self._slots.inverse, self._slots.rows
        diagonal = np.diagonal(inverse) + np.einsum("kc,kc->c", Z, Z)
        alive = np.ones(self._size, dtype=np.bool_)
        limits = cap, squared_budget, np.inf
        removed = remove_knots(inverse, Z, V, diagonal, rows, alive, *limits, *tally, order)
        return removed, V[: abs(removed)], alive

    def _scale_rows(self, operation: np.ufunc) -> None:
        if not self.kernel.normalised:
            rows = self._slots.rows[:, :, : self._size]
            operation(rows, self._slots.scale[: self._size], out=rows)

    def _normalised_gram(self, rows: slice, columns: slice) -> Floats:
        block = self._slots.gram[rows, columns].copy()
        if not self.kernel.normalised:
            block *= self._slots.scale[rows, None]
            block *= self._slots.scale[columns]
        if rows == columns:
            block.flat[:: len(block) + 1] += RIDGE
        return block

    def _insertion(self) -> Floats:
        """Return Z, as rows, with (K + λI)⁻¹ = P + ZZᵀ over all knots.

        Tests P on the way, and computes it afresh if it has drifted.
        """
        n = self._size - self._covered
        if n > max(2 * _BLOCK, self._covered // 2):
            self._rebuild(self._size)
            return np.zeros((0, self._capacity))
        Z = self._schur(test=True)
        if Z is None:
            self._rebuild(self._covered)
            Z = self._schur(test=False)
        if Z is None:
            raise self._not_positive_definite()
        return Z

    def _schur(self, test: bool) -> Floats | None:
        """Return the insertion's Z, or None if P fails its test or the block its Cholesky."""
        old, new = slice(0, self._covered), slice(self._covered, self._size)
        n = self._size - self._covered
        # Columns for one product with P: the new knots', and one of P's own as a probe.
        columns = np.zeros((n + 1, self._capacity))
        columns[:n, old] = self._normalised_gram(new, old)
        j = self._next_probe()
        if self._covered:
            columns[n, old] = self._normalised_gram(slice(j, j + 1), old)[0]
            columns[n, j] += RIDGE
        T = columns @ self._slots.inverse
        if test and self._covered:
            T[n, j] -= 1.0
            if not np.max(np.abs(T[n])) <= DRIFT_LIMIT:
                return None
        if n == 0:
            return np.zeros((0, self._capacity))
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

    def _not_finite(self) -> NumericalError:
        return NumericalError(
            f"the {self.kernel.name} kernel is not finite between the new knots and the "
            "dictionary; check its formula. Nothing was changed"
        )

    def _not_positive_definite(self) -> NumericalError:
        return NumericalError(
            f"the Gram matrix of {self._size} knots is not positive definite in float64; is the "
            f"{self.kernel.name} kernel positive definite? crosslearning.rkhs.check_kernel tests it"
        )

    def _next_probe(self) -> int:
        """Return which column of P to test: the largest diagonal entry, or each in turn."""
        self._probe += 1
        if self._covered == 0:
            return 0
        if self._probe % 2:
            return int(np.argmax(np.diagonal(self._slots.inverse)[: self._covered]))
        return (self._probe // 2) % self._covered

    def _update(self, Z: Floats, V: Floats, alive: NDArray[np.bool_]) -> None:
        """Close the gaps that removed knots left and bring P up to date in one product."""
        left = np.concatenate([Z, V])
        size = close_gaps(alive, self._slots, left)
        if len(left):
            right = left.copy()
            right[len(Z) :] *= -1.0
            # P += ZZᵀ − VVᵀ in place; BLAS reads our row-major arrays as their transposes.
            inverse = self._slots.inverse.T
            blas.dgemm(1.0, left.T, right.T, 1.0, inverse, trans_b=1, overwrite_c=1)
        self._size = self._covered = size
        self._factored = None

    def _close(self, alive: NDArray[np.bool_]) -> None:
        """Close the gaps that removed knots left, and let P be computed when it is next needed."""
        self._size = close_gaps(alive, self._slots, np.empty((0, self._capacity)))
        self._slots.inverse[:] = 0.0
        self._covered = 0
        self._factored = None

    def _rebuild(self, size: int) -> None:
        """Compute P afresh from K by Cholesky, over the first ``size`` knots."""
        self.rebuilds += 1
        self._covered = size
        if size == 0:
            return
        lower, _ = lapack.dpotri(self._factor(size), lower=1)
        # dpotri fills one triangle of a matrix that is stored by columns.
        fill_symmetric(lower.T, self._slots.inverse)

    def _factor(self, size: int) -> Floats:
        """Return C with K + λI = CCᵀ over the first ``size`` knots, in its lower triangle."""
        if self._factored is not None and len(self._factored) == size:
            return self._factored
        part = slice(0, size)
        factor, failed = lapack.dpotrf(self._normalised_gram(part, part), lower=1)
        if failed:
            raise self._not_positive_definite()
        return np.asarray(factor)


def _spent_before(moved: Floats, budget: float) -> Floats:
    """Return what functions that moved before have spent of the squared budget.

    A further move of length e is within the budget if moved + e is: spent + e² ≤ β² must say so.
    Beyond the budget it is the square of the move, so that those that moved least go first.
    """
    within = (moved > 0.0) & (moved < budget)
    spent = moved**2
    spent[within] = (2.0 * budget - moved[within]) * moved[within]
    return spent


def prune(
    family: Family, budget: float, max_knots: int | None = None
) -> tuple[Family, PruningCertificate]:
    """Return a family on fewer knots, within ``budget`` of the given one, and the certificate.

    Parameters
    ----------
    family : Family
        Functions on a common dictionary; all are guarded.
    budget : float
        β ≥ 0: how far each function may move, an RKHS norm.
    max_knots : int, optional
        The cap on the number of knots; it goes before the budget.
    """
    dictionary = Dictionary.of(family)
    certificate = dictionary.prune(budget, max_knots)
    return dictionary.family(), certificate
