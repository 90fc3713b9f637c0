"""The working dictionary: functions on knots that come and go.

:class:`Family` is a value; :class:`Dictionary` is the place where an algorithm changes one
thousands of times. It holds functions; :class:`~crosslearning.rkhs.geometry.Geometry` keeps
the knots beneath them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.errors import FileFormatError, InputError
from crosslearning.rkhs.checks import Floats, count, finite_array, radius
from crosslearning.rkhs.family import Family, weighted_inner_products
from crosslearning.rkhs.geometry import Geometry
from crosslearning.rkhs.kernels.base import Kernel
from crosslearning.rkhs.program import Expansion
from crosslearning.rkhs.projection import Method, Projection, projection_of
from crosslearning.rkhs.pruning import RIDGE, PruningCertificate
from crosslearning.rkhs.removal import remove_within
from crosslearning.rkhs.slots import Slots, add_multiples

#: Weights beyond which a cache does not hold them: from there on products take the place of loops.
MANY_WEIGHTS = 2**18
#: States beyond which what is novel among them is looked for in parts, and the size of a part.
MANY_STATES, _PART = 8192, 2048
#: Where weights are many, the knots above the cap that pruning is to choose from, as a share of it.
_SPARE = 0.25


class Dictionary:
    """Functions on a common dictionary that grows by insertion and shrinks by pruning.

    Parameters
    ----------
    functions, outputs : int
        How many functions share the knots, and the dimension p of their values.
    guarded : int, optional
        How many of the functions, from the first, the pruning budget guards; the others are
        carried along. By default all.

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
        """How often the inverse of the Gram matrix was computed afresh."""
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
        arrays, numbers = self._geometry.state()
        return arrays, {"guarded": self.guarded, **numbers}

    @classmethod
    def from_state(
        cls, kernel: Kernel, arrays: Mapping[str, Floats], numbers: Mapping[str, int]
    ) -> Dictionary:
        """Return the dictionary that :meth:`state` described."""
        try:
            rows = finite_array("the dictionary's rows", arrays["rows"], (None, None, None))
            functions, outputs, _ = rows.shape
            dictionary = cls(kernel, functions, outputs, numbers["guarded"])
            dictionary._geometry.restore(arrays, numbers)
        except InputError as problem:
            raise FileFormatError(str(problem)) from problem
        # None is all of them to a caller, but no number in a file.
        dictionary.guarded = int(numbers["guarded"])
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
        self._geometry.insert(new, added)

    def replace(self, weights: ArrayLike) -> None:
        """Give the functions other weights, shape (L, functions, p), on the same knots."""
        shape = (len(self), self.functions, self.outputs)
        new = finite_array("weights", weights, shape)
        self._slots.rows[:, :, : len(self)] = new.transpose(1, 2, 0)

    def novel(self, states: ArrayLike, tolerance: float, most: int) -> NDArray[np.int64]:
        """Return which states say something that the knots do not, the newest to them first.

        A pivoted Cholesky factorisation of what the knots leave of the states' Gram matrix:
        each state in turn is the one farthest from the span of the knots and of the states
        chosen before it, as long as the square of that distance is above ``tolerance`` times
        κ(s, s) and no more than ``most`` are chosen. Very many states are looked at in parts,
        each against what was chosen from the parts before it.

        Parameters
        ----------
        states : array_like, shape (n, q)
        tolerance : float
        most : int
        """
        points = finite_array("states", states, (None, self.kernel.dimension))
        if len(points) <= MANY_STATES:
            return self._geometry.novel(points, tolerance, most)
        known, chosen = Dictionary(self.kernel, 1, 1), np.empty(0, dtype=np.int64)
        if len(self):
            known.extend(self.knots, np.zeros((len(self), 1, 1)))
        parts = -(-len(points) // _PART)
        for first in range(parts):
            # Each has states of all tasks and times.
            part = np.arange(first, len(points), parts)
            found = part[known._geometry.novel(points[part], tolerance, most - len(chosen))]
            chosen = np.concatenate([chosen, found])
            if len(chosen) == most:
                break
            if len(found):
                known.extend(points[found], np.zeros((len(found), 1, 1)))
        return chosen

    # Functions -------------------------------------------------------------------------

    def differences(self) -> Floats:
        """Return D_ij = ⟨h_i − g, h_j − g⟩ of the guarded functions, of which g is the last.

        The inner product is that of the kernel κ + λδ, in which pruning is an orthogonal
        projection. It is never below κ's, and only so much above as λ = 1e-6 times the
        squared weights makes it. Shape (guarded − 1, guarded − 1).
        """
        rows = self._slots.rows[: self.guarded]
        difference = rows[:-1] - rows[-1]
        if self._many(len(self)):
            return self._geometry.inner_products(difference[:, :, : len(self)])
        D = weighted_inner_products(self._slots.gram, difference)
        if not self.kernel.normalised:
            difference[:, :, : len(self)] /= self._slots.scale[: len(self)]
        flat = difference.reshape(len(difference), -1)
        return np.asarray(D + RIDGE * (flat @ flat.T))

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
        cap = len(self) if max_knots is None else count("max_knots", max_knots)
        moved = np.zeros(self.guarded) if before is None else before.errors[: self.guarded]
        found = remove_within(self._geometry, budget, cap, moved, self._many(len(self)))
        return found if before is None else before.followed_by(found)

    def crowded_by(self, new: int, max_knots: int) -> bool:
        """Whether there are so many new knots, and weights, that most should be folded at once."""
        size = len(self) + new
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
            room = cap + int(_SPARE * cap) - len(self)
            most = max(0, room) // (parts - k)
            if most < len(part):
                folded = self._geometry.fold(new[part], added[part], most)
                self._slots.rows[:, :, : len(self)] += folded.onto_old
                if len(folded.chosen):
                    self.extend(new[part[folded.chosen]], folded.weights)
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
            knots=len(self),
            rebuilds=self.rebuilds - rebuilds,
        )

    def _many(self, knots: int) -> bool:
        return knots * self.functions * self.outputs > MANY_WEIGHTS


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

    Examples
    --------
    >>> import numpy as np
    >>> from crosslearning.rkhs import Family, Gaussian, prune
    >>> knots = np.array([[0.0], [1.0], [2.0]])
    >>> weights = np.array([[[1.0], [0.0]], [[0.5], [0.0]], [[0.0], [0.0]]])
    >>> family = Family(Gaussian(std=[1.0]), knots, weights)
    >>> pruned, certificate = prune(family, budget=0.01)
    >>> len(pruned.knots), certificate.within_budget
    (2, True)
    """
    dictionary = Dictionary.of(family)
    certificate = dictionary.prune(budget, max_knots)
    return dictionary.family(), certificate
