"""Pruning a dictionary: knots leave, a block at a time, until one budget is spent.

The loop around the removals of :mod:`~crosslearning.rkhs.pruning` and, where weights are many, of
:mod:`~crosslearning.rkhs.candidates`: it keeps the inverse up to date and writes the certificate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crosslearning.rkhs.candidates import Tally, remove_from_many
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.geometry import BLOCK, Geometry
from crosslearning.rkhs.pruning import PruningCertificate, remove_knots


def remove_within(
    geometry: Geometry, budget: float, cap: int, moved: Floats, many: bool
) -> PruningCertificate:
    """Prune functions that have ``moved``, shape (guarded,), before, within one budget.

    At most ``cap`` knots stay. Where there are ``many`` weights, products take the place of loops.
    """
    squared_errors, counts = np.zeros((3, len(geometry.slots.rows))), np.zeros(3, np.int64)
    tally = Tally(_spent_before(moved, budget), squared_errors, counts)
    rebuilds_before = geometry.rebuilds
    _scale_rows(geometry, np.divide)  # weights of the normalised kernel
    try:
        more = True
        while more:
            Z = geometry.insertion()
            if many:
                alive = remove_from_many(geometry.slots, Z, geometry.size, cap, budget**2, tally)
                geometry.close(alive)
                break
            removed, V, alive = _remove(geometry, Z, cap, budget**2, tally)
            geometry.update(Z, V, alive)
            if removed < 0:
                geometry.rebuild(geometry.size)
            more = removed < 0 or removed == BLOCK
    finally:
        _scale_rows(geometry, np.multiply)
    geometry.reserve(geometry.size)
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
        knots=geometry.size,
        rebuilds=geometry.rebuilds - rebuilds_before,
    )


def _remove(
    geometry: Geometry, Z: Floats, cap: int, squared_budget: float, tally: Tally
) -> tuple[int, Floats, NDArray[np.bool_]]:
    """Remove up to a block of knots; return how many, V, and which are left."""
    V, order = np.zeros((BLOCK, geometry.capacity)), np.zeros(BLOCK, dtype=np.int64)
    inverse, rows = geometry.slots.inverse, geometry.slots.rows
    diagonal = np.diagonal(inverse) + np.einsum("kc,kc->c", Z, Z)
    alive = np.ones(geometry.size, dtype=np.bool_)
    limits = cap, squared_budget, np.inf
    removed = remove_knots(inverse, Z, V, diagonal, rows, alive, *limits, *tally, order)
    return removed, V[: abs(removed)], alive


def _scale_rows(geometry: Geometry, operation: np.ufunc) -> None:
    if not geometry.kernel.normalised:
        rows = geometry.slots.rows[:, :, : geometry.size]
        operation(rows, geometry.slots.scale[: geometry.size], out=rows)


def _spent_before(moved: Floats, budget: float) -> Floats:
    """Return what functions that moved before have spent of the squared budget.

    A further move of length e is within the budget if moved + e is: spent + e² ≤ β² must say so.
    Beyond the budget it is the square of the move, so that those that moved least go first.
    """
    within = (moved > 0.0) & (moved < budget)
    spent = moved**2
    spent[within] = (2.0 * budget - moved[within]) * moved[within]
    return spent
