"""Pruning a dictionary: knots are removed in blocks until the budget is spent.

A removal changes every weight of every function. Where the weights are more than a cache holds,
the cheapest knots become candidates: removals go on among these alone until another knot would
cost less, and then all other weights follow in one matrix product.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, solve_triangular

from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rkhs.geometry import BLOCK, Geometry
from crosslearning.rkhs.pruning import (
    CONDITIONING,
    PruningCertificate,
    removal_scores,
    remove_knots,
)
from crosslearning.rkhs.slots import Slots

#: Knots that removals between two matrix products are chosen from.
CANDIDATES = 96


class _Tally(NamedTuple):
    """The accumulated errors and counts, as :func:`remove_knots` takes them."""

    spent: Floats  # (guarded,)
    squared_errors: Floats  # (3, functions)
    counts: Integers  # (3,)


def remove_within(
    geometry: Geometry, budget: float, cap: int, moved: Floats, many: bool
) -> PruningCertificate:
    """Prune functions that an earlier pruning has ``moved``, shape (guarded,), within one budget.

    At most ``cap`` knots stay. ``many`` weights are pruned through candidates.
    """
    squared_errors, counts = np.zeros((3, len(geometry.slots.rows))), np.zeros(3, np.int64)
    tally = _Tally(_spent_before(moved, budget), squared_errors, counts)
    rebuilds_before = geometry.rebuilds
    _scale_rows(geometry, np.divide)  # weights of the normalised kernel
    try:
        more = True
        while more:
            Z = geometry.insertion()
            if many:
                geometry.close(_remove_from_many(geometry, Z, cap, budget**2, tally))
                break
            removed, V, alive = _remove(geometry, Z, cap, budget**2, tally)
            geometry.update(Z, V, alive)
            if removed < 0:
                geometry.rebuild(geometry.size)
            more = removed < 0 or removed == BLOCK
    finally:
        _scale_rows(geometry, np.multiply)
    geometry.reserve(geometry.size)
    errors, rebuilds = np.sqrt(squared_errors.sum(axis=0)), geometry.rebuilds - rebuilds_before
    return PruningCertificate.of(
        budget, errors, np.sqrt(squared_errors), counts, geometry.size, rebuilds
    )


def _scale_rows(geometry: Geometry, operation: np.ufunc) -> None:
    if not geometry.kernel.normalised:
        rows = geometry.slots.rows[:, :, : geometry.size]
        operation(rows, geometry.slots.scale[: geometry.size], out=rows)


def _spent_before(moved: Floats, budget: float) -> Floats:
    """Return the part of the squared budget that earlier moves have spent.

    For a further move of length e, moved + e ≤ β is then spent + e² ≤ β². Beyond the budget it is
    the square of the move, so that the functions that moved least go first.
    """
    within = (moved > 0.0) & (moved < budget)
    spent = moved**2
    spent[within] = (2.0 * budget - moved[within]) * moved[within]
    return spent


def _remove(
    geometry: Geometry, Z: Floats, cap: int, squared_budget: float, tally: _Tally
) -> tuple[int, Floats, NDArray[np.bool_]]:
    """Remove up to a block of knots; return how many, V, and which are left."""
    V, order = np.zeros((BLOCK, geometry.capacity)), np.zeros(BLOCK, dtype=np.int64)
    inverse, rows = geometry.slots.inverse, geometry.slots.rows
    diagonal = np.diagonal(inverse) + np.einsum("kc,kc->c", Z, Z)
    alive = np.ones(geometry.size, dtype=np.bool_)
    limits = cap, squared_budget, np.inf
    removed = remove_knots(inverse, Z, V, diagonal, rows, alive, *limits, *tally, order)
    return removed, V[: abs(removed)], alive


def _remove_from_many(
    geometry: Geometry, Z: Floats, cap: int, squared_budget: float, tally: _Tally
) -> NDArray[np.bool_]:
    """Remove knots until the budget is spent; return which are left.

    The inverse over all knots is P + ZZᵀ; it is not updated.
    """
    slots: Slots = geometry.slots
    alive = np.ones(geometry.size, dtype=np.bool_)
    # Rows v of all removals so far: the inverse is then P + ZZᵀ − VVᵀ.
    V = np.empty((geometry.size, slots.inverse.shape[1]))
    removed, more = 0, True
    diagonal = np.diagonal(slots.inverse) + np.einsum("kc,kc->c", Z, Z)
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
    return alive


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
    """Remove candidates, and update all weights; return which were removed, and their rows of V.

    ``columns``, shape (candidates, C), are those of the inverse.
    """
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
