"""CDKOMP: greedy removal of knots until the budget is spent, and its certificate.

Removing knot j and refitting the others is an orthogonal projection. With P = (K + λI)⁻¹ it
moves function f by e(j, f) = Σ_p w_jfp² / P_jj (squared), and the squares of successive
removals add up (Pythagoras), so the budget bounds the whole move of each function.

A removal changes every weight of every function. Where the weights are more than a cache holds,
the cheapest knots become candidates: removals go on among these alone until another knot would
cost less, and then all other weights follow in one matrix product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, solve_triangular

from crosslearning._base.compiled import compiled, compiled_reordered
from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rkhs.geometry import BLOCK, Geometry
from crosslearning.rkhs.slots import Slots

#: A knot with P_jj above this is numerically a combination of the others, and always removed.
CONDITIONING = 1e5
#: Knots that removals between two matrix products are chosen from.
CANDIDATES = 96

# The reasons of removals, in the order of the certificate's counters.
WITHIN_BUDGET, FORCED_BY_CONDITIONING, FORCED_BY_CAP = 0, 1, 2


@dataclass(frozen=True)
class PruningCertificate:
    """Upper bounds on the error of pruning, for every function.

    ``errors`` bounds ‖f_before − f_after‖. ``budgeted_errors``, ``conditioning_errors`` and
    ``cap_errors`` are its parts by the reason of the removals; for one call their squares add up to
    its square. ``forced_by_conditioning`` and ``forced_by_cap`` of the ``removed`` knots were
    removed beyond the budget β, because a knot was nearly a combination of others or because more
    than ``max_knots`` would have remained. The maintained inverse was computed anew ``rebuilds``
    times.

    Examples
    --------
    >>> from crosslearning.rkhs import Family, Gaussian, prune
    >>> family = Family(Gaussian(std=[1.0]), [[0.0], [1.0]], [[[1.0]], [[0.0]]])
    >>> prune(family, budget=0.01)[1].removed
    1
    """

    budget: float
    errors: Floats  # (functions,), as its parts
    budgeted_errors: Floats
    conditioning_errors: Floats
    cap_errors: Floats
    removed: int
    forced_by_conditioning: int
    forced_by_cap: int
    knots: int  # that remain
    rebuilds: int

    @property
    def within_budget(self) -> bool:
        """Whether every function moved by at most the budget."""
        return self.forced_by_conditioning == 0 and self.forced_by_cap == 0

    def followed_by(self, other: PruningCertificate) -> PruningCertificate:
        """Return the certificate of two prunings with an addition between them.

        The addition need not be orthogonal to the first move, so the moves add up, not their
        squares, and ``errors`` is at most the sum of its parts.
        """
        names = ("errors", "budgeted_errors", "conditioning_errors", "cap_errors")
        numbers = ("removed", "forced_by_conditioning", "forced_by_cap", "rebuilds")
        added = {name: getattr(self, name) + getattr(other, name) for name in names + numbers}
        return replace(other, **added)

    def __str__(self) -> str:
        verdict = "within" if self.within_budget else "beyond"
        largest = float(np.max(self.errors, initial=0.0))
        return (
            f"removed {self.removed} knots, {self.knots} remain; largest move {largest:.3g}, "
            f"{verdict} the budget {self.budget:.3g} ({self.forced_by_cap} forced by the cap, "
            f"{self.forced_by_conditioning} by conditioning)"
        )


@compiled_reordered
def _inverse_column(
    P: Floats, Z: Floats, V: Floats, removed: int, j: int, m: int, out: Floats
) -> None:
    """Fill out = column j of P + ZZᵀ − VVᵀ on the first m rows, V's first ``removed`` counted."""
    np.positive(P[j, :m], out[:m])
    for k in range(Z.shape[0]):
        factor, column = Z[k, j], Z[k]
        if factor != 0.0:
            for i in range(m):
                out[i] += factor * column[i]
    for k in range(removed):
        factor, column = V[k, j], V[k]
        for i in range(m):
            out[i] -= factor * column[i]


@compiled
def removal_scores(weights: Floats, diagonal: Floats, spent: Floats, out: Floats) -> None:
    """Fill out[j] = max_f (spent_f + e(j, f)) over the first ``len(spent)`` functions."""
    # Knots run fastest, as they do in memory; the largest does not depend on the order.
    m = len(out)
    squares = np.empty(m)
    out[:] = 0.0
    for f in range(len(spent)):
        squares[:] = 0.0
        for p in range(weights.shape[1]):
            row = weights[f, p]
            for j in range(m):
                squares[j] += row[j] * row[j]
        before = spent[f]
        for j in range(m):
            total = before + squares[j] / diagonal[j]
            out[j] = total if total > out[j] else out[j]


@compiled
def _candidate(
    scores: Floats, diagonal: Floats, alive: NDArray[np.bool_], forced: bool
) -> tuple[int, float]:
    """Return the knot with the lowest score, and the score; if ``forced``, ill-conditioned."""
    best, best_value = -1, np.inf
    for j in range(len(alive)):
        if alive[j] and scores[j] < best_value and not (forced and diagonal[j] <= CONDITIONING):
            best, best_value = j, scores[j]
    return best, best_value


@compiled
def remove_knots(
    P: Floats,
    Z: Floats,
    V: Floats,
    diagonal: Floats,
    weights: Floats,
    alive: NDArray[np.bool_],
    max_knots: int,
    squared_budget: float,
    bar: float,
    spent: Floats,
    squared_errors: Floats,
    counts: Integers,
    order: Integers,
) -> int:
    """Remove knots greedily until the budget is spent (Algorithm 3, lines 2 to 14).

    With C slots, the inverse of the extended dictionary is P + ZZᵀ − VVᵀ: P (C, C) before the
    insertion, zero in the rows of the new knots; Z (inserted, C) for the insertion; and V
    (block, C), to which each removal appends a row. ``diagonal`` (C,) is that of P + ZZᵀ.
    Updated are ``weights`` (functions, p, C); ``alive``, which knots are left; ``spent``
    (guarded,), the squared errors of the guarded functions; by reason, ``squared_errors``
    (3, functions) and ``counts`` (3,); and ``order`` (block,), the removed knots. After the first
    removal, a knot whose score is above ``bar`` is not removed.

    Returns the number of removals; its negative if the inverse must be computed anew first.
    """
    m = size = len(alive)
    functions, outputs = weights.shape[0], weights.shape[1]
    guarded, removed = len(spent), 0
    column, scores = np.empty(m), np.empty(m)
    while removed < V.shape[0] and size > 0:
        ill_conditioned = False
        for j in range(m):
            if alive[j] and diagonal[j] > CONDITIONING:
                ill_conditioned = True
                break
        # Lines 3 to 8: the least informative knot.
        removal_scores(weights, diagonal, spent, scores)
        j, worst = _candidate(scores, diagonal, alive, ill_conditioned)
        if removed > 0 and worst > bar:
            break
        # Line 9, with the budget over all removals rather than each.
        reason = WITHIN_BUDGET
        if not worst <= squared_budget:
            if ill_conditioned:
                reason = FORCED_BY_CONDITIONING
            elif size > max_knots:
                reason = FORCED_BY_CAP
            else:
                break
        _inverse_column(P, Z, V, removed, j, m, column)
        pivot = column[j]
        if not pivot > 0.0:
            # Only a drifted inverse has such a pivot, and then something was removed before.
            return -removed
        # Line 10: the others are refitted.
        for f in range(functions):
            squares = 0.0
            for p in range(outputs):
                w = weights[f, p, j]
                squares += w * w
                factor = w / pivot
                row = weights[f, p]
                for i in range(m):
                    row[i] -= factor * column[i]
                row[j] = 0.0
            squared_errors[reason, f] += squares / pivot
            if f < guarded:
                spent[f] += squares / pivot
        # Lines 11 and 12: the knot leaves, the inverse follows.
        root = math.sqrt(pivot)
        for i in range(m):
            v = column[i] / root
            V[removed, i] = v
            diagonal[i] -= v * v
        counts[reason] += 1
        order[removed] = j
        alive[j] = False
        size -= 1
        removed += 1
    return removed


class _Tally(NamedTuple):
    """The accumulated errors and counts, as :func:`remove_knots` takes them."""

    spent: Floats  # (guarded,)
    squared_errors: Floats  # (3, functions)
    counts: Integers  # (3,)


def remove_within(
    geometry: Geometry, budget: float, cap: int, moved: Floats, many: bool
) -> PruningCertificate:
    """Prune to at most ``cap`` knots; an earlier pruning has ``moved`` the guarded functions."""
    squared_errors, counts = np.zeros((3, len(geometry.slots.rows))), np.zeros(3, np.int64)
    # What is spent of β²: for a further move e, moved + e ≤ β is spent + e² ≤ β². Beyond the
    # budget it is the square of the move, so that the functions that moved least go first.
    within = (moved > 0.0) & (moved < budget)
    tally = _Tally(moved**2, squared_errors, counts)
    tally.spent[within] = (2.0 * budget - moved[within]) * moved[within]
    rebuilds_before = geometry.rebuilds
    _scale_rows(geometry, np.divide)  # weights of the normalised kernel
    try:
        removed = BLOCK
        while removed < 0 or removed == BLOCK:
            Z, alive = geometry.insertion(), np.ones(geometry.size, dtype=np.bool_)
            slots, limits = geometry.slots, (cap, budget**2, np.inf)
            diagonal = np.diagonal(slots.inverse) + np.einsum("kc,kc->c", Z, Z)
            if many:
                _remove_from_many(slots, Z, diagonal, alive, limits, tally)
                geometry.close(alive)
                break
            V, order = np.zeros((BLOCK, geometry.capacity)), np.zeros(BLOCK, dtype=np.int64)
            removed = remove_knots(
                slots.inverse, Z, V, diagonal, slots.rows, alive, *limits, *tally, order
            )
            geometry.update(Z, V[: abs(removed)], alive)
            if removed < 0:
                geometry.rebuild(geometry.size)
    finally:
        _scale_rows(geometry, np.multiply)
    geometry.reserve(geometry.size)
    budgeted, conditioning, capped = np.sqrt(squared_errors)
    numbers = int(counts.sum()), int(counts[1]), int(counts[2]), geometry.size
    errors, rebuilds = np.sqrt(squared_errors.sum(axis=0)), geometry.rebuilds - rebuilds_before
    return PruningCertificate(budget, errors, budgeted, conditioning, capped, *numbers, rebuilds)


def _scale_rows(geometry: Geometry, operation: np.ufunc) -> None:
    if not geometry.kernel.normalised:
        rows = geometry.slots.rows[:, :, : geometry.size]
        operation(rows, geometry.slots.scale[: geometry.size], out=rows)


def _remove_from_many(
    slots: Slots,
    Z: Floats,
    diagonal: Floats,
    alive: NDArray[np.bool_],
    limits: tuple[int, float, float],
    tally: _Tally,
) -> None:
    """Remove knots until the budget is spent; P + ZZᵀ is not updated."""
    # Rows v of all removals so far: the inverse is then P + ZZᵀ − VVᵀ.
    V = np.empty((len(alive), slots.inverse.shape[1]))
    removed, more = 0, True
    cap, squared_budget, _ = limits
    while more:
        few, bar = _cheapest(slots.rows, diagonal, alive, tally.spent)
        if len(few) == 0:
            break
        columns = slots.inverse[few] + Z[:, few].T @ Z - V[:removed, few].T @ V[:removed]
        limits = cap - (int(alive.sum()) - len(few)), squared_budget, bar
        taken, new = _remove_among(slots.rows, columns, few, limits, tally)
        stop = removed + len(new)
        V[removed:stop] = new
        diagonal -= np.einsum("kc,kc->c", new, new)
        alive[taken] = False
        removed, more = stop, len(taken) > 0


def _cheapest(
    rows: Floats, diagonal: Floats, alive: NDArray[np.bool_], spent: Floats
) -> tuple[Integers, float]:
    """Return the candidates, the cheapest first, and the lowest score of the other knots."""
    scores, costs = np.empty(len(alive)), np.empty(len(alive))
    removal_scores(rows, diagonal, spent, scores)
    removal_scores(rows, diagonal, np.zeros_like(spent), costs)
    # Once a function has moved far, many knots have its score: the costs break the tie.
    order = np.lexsort((costs, scores, diagonal[: len(alive)] <= CONDITIONING))
    order = order[alive[order]]
    bar = float(scores[order[CANDIDATES]]) if len(order) > CANDIDATES else np.inf
    return order[:CANDIDATES], bar


def _remove_among(
    rows: Floats, columns: Floats, few: Integers, limits: tuple[int, float, float], tally: _Tally
) -> tuple[Integers, Floats]:
    """Remove candidates, by their columns of the inverse; return which, and their rows of V."""
    m = len(few)
    among, weights = np.ascontiguousarray(columns[:, few]), np.ascontiguousarray(rows[:, :, few])
    V, alive, order = np.zeros((BLOCK, m)), np.ones(m, dtype=np.bool_), np.zeros(BLOCK, np.int64)
    Z, diagonal = np.zeros((0, m)), np.diagonal(among).copy()
    removed = remove_knots(among, Z, V, diagonal, weights, alive, *limits, *tally, order)
    # A negative count requests a fresh inverse, which this one is.
    order = order[: abs(removed)]
    taken = few[order]
    if len(taken) == 0:
        return taken, np.empty((0, columns.shape[1]))
    # P over the removed knots is CCᵀ, and Cᵀ is in V.
    factor = V[: len(taken), order].T
    flat = rows.reshape(-1, rows.shape[2])
    weights = np.ascontiguousarray(flat[:, taken].T)
    V = np.ascontiguousarray(solve_triangular(factor, columns[order], lower=True))
    U = np.ascontiguousarray(solve_triangular(factor, weights, lower=True))
    # W −= UᵀV in place; BLAS reads our row-major arrays as their transposes.
    blas.dgemm(-1.0, V.T, U.T, 1.0, flat.T, trans_b=1, overwrite_c=1)
    flat[:, taken] = 0.0
    return taken, V
