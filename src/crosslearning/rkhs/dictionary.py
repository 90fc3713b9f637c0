"""The working dictionary: functions on knots that are inserted and removed in place."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.errors import FileFormatError, InputError
from crosslearning.rkhs.checks import Floats, Integers, count, finite_array, radius
from crosslearning.rkhs.family import Family, weighted_inner_products
from crosslearning.rkhs.geometry import RIDGE, Geometry
from crosslearning.rkhs.kernel import Kernel
from crosslearning.rkhs.program import Expansion
from crosslearning.rkhs.projection import (
    Method,
    Projection,
    bounded_projection,
    no_bound,
    projection_of,
)
from crosslearning.rkhs.pruning import PruningCertificate, remove_within
from crosslearning.rkhs.slots import Slots, add_multiples

#: More weights than a cache holds: matrix products replace loops.
MANY_WEIGHTS = 2**18
#: More states are searched for novel ones in parts of this size.
MANY_STATES, _PART = 8192, 2048
#: Where weights are many, the knots above the cap that pruning chooses from, relative to the cap.
_SPARE = 0.25


class Dictionary:
    """Functions on a common dictionary that grows by insertion and shrinks by pruning.

    Parameters
    ----------
    functions, outputs : int
        The number of functions that share the knots, and the dimension p of their values.
    guarded : int, optional
        The number of functions, from the first, that the pruning budget guards; by default all.

    Examples
    --------
    >>> from crosslearning.rkhs import Dictionary, Gaussian
    >>> dictionary = Dictionary(Gaussian(std=[1.0]), functions=2, outputs=1)
    >>> dictionary.extend([[0.0], [0.1]], [[[1.0], [0.0]], [[0.5], [0.0]]])
    >>> certificate = dictionary.prune(budget=0.1)
    >>> len(dictionary), certificate.within_budget
    (1, True)
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
        self._geometry = Geometry(kernel, self.functions, self.outputs)

    @classmethod
    def of(cls, family: Family, guarded: int | None = None) -> Dictionary:
        """Return a dictionary that holds a family."""
        dictionary = cls(family.kernel, family.functions, family.outputs, guarded)
        if len(family.knots):
            dictionary.extend(family.knots, family.weights)
        return dictionary

    def __len__(self) -> int:
        return self._geometry.size

    @property
    def _slots(self) -> Slots:
        return self._geometry.slots

    @property
    def rebuilds(self) -> int:
        """How often the inverse of the Gram matrix was computed anew."""
        return self._geometry.rebuilds

    @property
    def knots(self) -> Floats:
        """The knots, shape (L, q); a copy."""
        return self._slots.knots[: len(self)].copy()

    @property
    def weights(self) -> Floats:
        """The weights, shape (L, functions, p); a copy."""
        return np.ascontiguousarray(self._slots.rows[:, :, : len(self)].transpose(2, 0, 1))

    @property
    def gram(self) -> Floats:
        """The knots' Gram matrix, shape (L, L); a copy."""
        return self._slots.gram[: len(self), : len(self)].copy()

    def family(self, functions: int | None = None) -> Family:
        """Return the first ``functions`` functions, by default all."""
        stop = self.functions if functions is None else count("functions", functions)
        weights = np.ascontiguousarray(self.weights[:, :stop])
        return Family._trusted(self.kernel, self.knots, weights)

    @property
    def expansion(self) -> Expansion:
        """The functions for compiled code; a view, which changes with the dictionary."""
        return Expansion(self.kernel.program, self._slots.features, self._slots.rows)

    def state(self) -> tuple[dict[str, Floats], dict[str, int]]:
        """Return the arrays and integers from which :meth:`from_state` continues bit for bit."""
        arrays, numbers = self._geometry.state()
        return arrays, {"guarded": self.guarded, **numbers}

    @classmethod
    def from_state(
        cls, kernel: Kernel, arrays: Mapping[str, Floats], numbers: Mapping[str, int]
    ) -> Dictionary:
        """Return the dictionary of a :meth:`state`."""
        try:
            rows = finite_array("the dictionary's rows", arrays["rows"], (None, None, None))
            functions, outputs, _ = rows.shape
            dictionary = cls(kernel, functions, outputs, numbers["guarded"])
            dictionary._geometry.restore(arrays, numbers)
        except InputError as problem:
            raise FileFormatError(str(problem)) from problem
        return dictionary

    def extend(self, knots: ArrayLike, weights: ArrayLike) -> None:
        """Add κ(knot, ·) weight to the functions, for knots (n, q) and weights (n, functions, p).

        A knot that equals one of the dictionary, to the last bit, only adds its weights.
        """
        new, added = self._checked(knots, weights)
        if len(new) == 0:
            raise InputError("no knots were given; give at least one")
        self._geometry.insert(new, added)

    def _checked(self, knots: ArrayLike, weights: ArrayLike) -> tuple[Floats, Floats]:
        new = finite_array("knots", knots, (None, self.kernel.dimension))
        return new, finite_array("weights", weights, (len(new), self.functions, self.outputs))

    def replace(self, weights: ArrayLike) -> None:
        """Set the weights, shape (L, functions, p), on the same knots."""
        shape = (len(self), self.functions, self.outputs)
        new = finite_array("weights", weights, shape)
        self._slots.rows[:, :, : len(self)] = new.transpose(1, 2, 0)

    def novel(self, states: ArrayLike, tolerance: float, most: int) -> Integers:
        """Return at most ``most`` states, of shape (n, q), that are novel, the most novel first.

        Each is the farthest from the span of the knots and of the states chosen before it, as long
        as the squared distance is above ``tolerance`` times κ(s, s).
        """
        points = finite_array("states", states, (None, self.kernel.dimension))
        if len(points) <= MANY_STATES:
            return self._geometry.novel(points, tolerance, most)
        known, chosen = Dictionary(self.kernel, 1, 1), np.empty(0, dtype=np.int64)
        if len(self):
            known.extend(self.knots, np.zeros((len(self), 1, 1)))
        parts = -(-len(points) // _PART)
        for first in range(parts):
            # Each part has states of all tasks and times.
            part = np.arange(first, len(points), parts)
            new = part[known._geometry.novel(points[part], tolerance, most - len(chosen))]
            chosen = np.concatenate([chosen, new])
            if len(chosen) == most:
                break
            if len(new):
                known.extend(points[new], np.zeros((len(new), 1, 1)))
        return chosen

    def differences(self, about_mean: bool = False) -> Floats:
        """Return D_ij = ⟨h_i − g, h_j − g⟩ of the guarded functions, of which g is the last.

        About the mean, the mean of the h_i takes the place of g.
        The inner product is that of κ + λδ, in which pruning is an orthogonal projection; its norm
        is never below κ's. Shape (guarded − 1, guarded − 1).
        """
        rows = self._slots.rows[: self.guarded]
        origin = rows[:-1].mean(axis=0) if about_mean else rows[-1]
        return self._ridged_products(rows[:-1] - origin)

    def _ridged_products(self, rows: Floats) -> Floats:
        """Return the inner products in κ + λδ of functions with these rows, which it may change."""
        if self._many(len(self)):
            return self._geometry.inner_products(rows[:, :, : len(self)])
        products = weighted_inner_products(self._slots.gram, rows)
        if not self.kernel.normalised:
            rows[:, :, : len(self)] /= self._slots.scale[: len(self)]
        flat = rows.reshape(len(rows), -1)
        return np.asarray(products + RIDGE * (flat @ flat.T))

    def project(
        self, epsilon: float, method: Method = "exact", bound: float = math.inf
    ) -> Projection:
        """Project the guarded functions, the centre last, in place, as :func:`project` does.

        The norms are those of κ + λδ, see :meth:`differences`. Pruning applies one orthogonal
        projector of that geometry to all functions, so it breaks neither ‖h_i − g‖ ≤ ε nor
        ‖h_i‖ ≤ ε₀.
        """
        if self.guarded < 2:
            raise InputError("a projection needs at least two functions; the last is the centre")
        rows, project_gram = self._slots.rows[: self.guarded], projection_of(method)
        if no_bound(method, bound):
            projection = project_gram(self.differences(about_mean=method == "free"), epsilon)
        else:
            gram = self._ridged_products(rows.copy())
            projection = bounded_projection(gram, epsilon, bound)
        if projection.moved:
            projection.apply(rows)
            self._shorten(rows, bound)
        return projection

    def _shorten(self, rows: Floats, bound: float) -> None:
        """Scale all functions by one factor if rounding left one longer than the bound."""
        margin = np.finfo(np.float64).eps
        while bound < math.inf:
            longest = math.sqrt(np.max(np.diag(self._ridged_products(rows.copy()))))
            if longest <= bound:
                return
            rows *= max(0.0, 1.0 - margin) * bound / longest
            margin *= 4.0

    def inner_products(self) -> Floats:
        """Return ⟨h_f, h_g⟩ for all pairs, shape (functions, functions)."""
        return weighted_inner_products(self._slots.gram, self._slots.rows)

    def mix(self, matrix: ArrayLike) -> None:
        """Replace the first functions by h'_f = Σ_g matrix[f, g] h_g, with a square matrix."""
        mixing = finite_array("matrix", matrix, (None, None))
        first = len(mixing)
        if mixing.shape != (first, first) or not 0 < first <= self.functions:
            most = self.functions
            raise InputError(f"matrix must be square, of at most {most} rows, got {mixing.shape}")
        rows = self._slots.rows[:first]
        rows[:] = (mixing @ rows.reshape(first, -1)).reshape(rows.shape)

    def scale(self, first: int, factor: float) -> None:
        """Multiply the functions from ``first`` on by a number."""
        self._slots.rows[first:] *= factor

    def add_multiples(self, first: int, factors: Floats) -> None:
        """Add to function i factors[i] times function first + i."""
        add_multiples(self._slots.rows, first, factors)

    def prune(
        self, budget: float, max_knots: int | None = None, before: PruningCertificate | None = None
    ) -> PruningCertificate:
        """Remove knots while every guarded function moves by at most ``budget`` in all (CDKOMP).

        Removed beyond the budget, an RKHS norm, are only knots that are nearly combinations of
        others, and those above ``max_knots``. An earlier pruning, whose certificate is ``before``,
        shares the budget and the certificate.
        """
        budget = radius("budget", budget)
        cap = len(self) if max_knots is None else count("max_knots", max_knots)
        moved = np.zeros(self.guarded) if before is None else before.errors[: self.guarded]
        pruned = remove_within(self._geometry, budget, cap, moved, self._many(len(self)))
        return pruned if before is None else before.followed_by(pruned)

    def crowded_by(self, new: int, max_knots: int) -> bool:
        """Return whether so many new knots should be added by :meth:`extend_within`."""
        size = len(self) + new
        return self._many(size) and size > max_knots + int(_SPARE * max_knots)

    def extend_within(
        self, knots: ArrayLike, weights: ArrayLike, budget: float, max_knots: int
    ) -> PruningCertificate:
        """Add to the functions as :meth:`extend` does, and project most new knots onto the others.

        The dictionary grows to at most 1.25 times ``max_knots``; the certificate bounds the error.
        """
        budget, cap = radius("budget", budget), count("max_knots", max_knots)
        new, added = self._checked(knots, weights)
        rebuilds, removed, errors = self.rebuilds, 0, np.zeros(self.functions)
        parts = -(-len(new) // cap)
        for k, part in enumerate(np.array_split(np.arange(len(new)), parts)):
            most = max(0, cap + int(_SPARE * cap) - len(self)) // (parts - k)
            if most < len(part):
                inserted, moves = self._geometry.fold(new[part], added[part], most)
                errors += moves
                removed += len(part) - inserted
            else:
                self._geometry.insert(new[part], added[part])
        # All errors have one reason: the budget, or the cap.
        none, within = np.zeros(self.functions), bool(np.max(errors[: self.guarded]) <= budget)
        by_reason = (errors, none, none) if within else (none, none, errors)
        counts = removed, 0, 0 if within else removed
        numbers = *counts, len(self), self.rebuilds - rebuilds
        return PruningCertificate(budget, errors, *by_reason, *numbers)

    def _many(self, knots: int) -> bool:
        return knots * self.functions * self.outputs > MANY_WEIGHTS


def prune(
    family: Family, budget: float, max_knots: int | None = None
) -> tuple[Family, PruningCertificate]:
    """Return a family on fewer knots, within ``budget`` of the given one, and the certificate.

    Parameters
    ----------
    budget : float
        β ≥ 0: the largest distance that each function may move, an RKHS norm.
    max_knots : int, optional
        The cap on the number of knots; it has priority over the budget.

    Examples
    --------
    >>> from crosslearning.rkhs import Family, Gaussian, prune
    >>> family = Family(Gaussian(std=[1.0]), [[0.0], [1.0]], [[[1.0]], [[0.0]]])
    >>> pruned, certificate = prune(family, budget=0.01)
    >>> len(pruned.knots), certificate.within_budget
    (1, True)
    """
    dictionary = Dictionary.of(family)
    certificate = dictionary.prune(budget, max_knots)
    return dictionary.family(), certificate
