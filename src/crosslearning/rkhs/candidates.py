"""Removing knots from families of many functions, a few candidates at a time.

One removal touches every weight of every function. With a thousand functions these are more than a
cache holds, and a thousand removals read them a thousand times. Here the knots that cost least
are taken out as candidates; removals go on among these alone, in the cache, until another knot
would cost less, and then all other weights follow in one product. What is removed is accounted
for as anywhere else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, solve_triangular

from crosslearning._base.compiled import compiled
from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rkhs.pruning import CONDITIONING, remove_knots
from crosslearning.rkhs.slots import Slots

#: Most removals between two products, and knots that they are chosen from.
BLOCK = 64
CANDIDATES = 96


class Tally(NamedTuple):
    """What removals add up to, as :func:`remove_knots` takes it."""

    spent: Floats  # (guarded,)
    squared_errors: Floats  # (3, functions)
    counts: Integers  # (3,)


def remove_from_many(
    slots: Slots, Z: Floats, size: int, max_knots: int, squared_budget: float, tally: Tally
) -> NDArray[np.bool_]:
    """Remove knots until the budget is spent, as :func:`remove_knots` does.

    The inverse over all knots is P + ZZᵀ; it is not brought up to date. Returns which of the
    ``size`` knots are left.
    """
    alive = np.ones(size, dtype=np.bool_)
    # Rows v of all removals so far: the inverse is then P + ZZᵀ − VVᵀ.
    V = np.empty((size, slots.inverse.shape[1]))
    removed, more = 0, True
    diagonal = np.diagonal(slots.inverse) + np.einsum("kc,kc->c", Z, Z)
    while more:
        few, bar = _cheapest(slots.rows, diagonal, alive, tally.spent)
        if len(few) == 0:
            break
        columns = slots.inverse[few] + Z[:, few].T @ Z - V[:removed, few].T @ V[:removed]
        room = max_knots - (int(alive.sum()) - len(few))
        taken, new = _remove_among(slots.rows, columns, few, room, squared_budget, bar, tally)
        stop = removed + len(new)
        V[removed:stop] = new
        diagonal -= np.einsum("kc,kc->c", new, new)
        alive[taken] = False
        removed, more = stop, len(taken) > 0
    return alive


def _cheapest(
    rows: Floats, diagonal: Floats, alive: NDArray[np.bool_], spent: Floats
) -> tuple[Integers, float]:
    """Return the candidates, the cheapest first, and the least that another knot costs."""
    scores, own = np.empty(len(alive)), np.empty(len(alive))
    _fill_scores(rows, diagonal, spent, scores, own)
    # Once a function has moved far, many knots have its score: those that move others less first.
    order = np.lexsort((own, scores, diagonal[: len(alive)] <= CONDITIONING))
    order = order[alive[order]]
    bar = float(scores[order[CANDIDATES]]) if len(order) > CANDIDATES else np.inf
    return order[:CANDIDATES], bar


@compiled
def _fill_scores(
    rows: Floats, diagonal: Floats, spent: Floats, scores: Floats, own: Floats
) -> None:
    """Fill what :func:`removal_scores` does, and in ``own`` the same with nothing spent."""
    squares = np.empty(len(scores))
    scores[:] = 0.0
    own[:] = 0.0
    for f in range(len(spent)):
        squares[:] = 0.0
        for p in range(rows.shape[1]):
            row = rows[f, p]
            for j in range(len(scores)):
                squares[j] += row[j] * row[j]
        before = spent[f]
        for j in range(len(scores)):
            cost = squares[j] / diagonal[j]
            own[j] = cost if cost > own[j] else own[j]
            total = before + cost
            scores[j] = total if total > scores[j] else scores[j]


def _remove_among(
    rows: Floats,
    columns: Floats,
    few: Integers,
    room: int,
    squared_budget: float,
    bar: float,
    tally: Tally,
) -> tuple[Integers, Floats]:
    """Remove candidates, and let all weights follow; return which, and their rows of V.

    ``columns``, shape (candidates, C), are those of the inverse; ``room`` of them may stay.
    """
    m = len(few)
    among, own = np.ascontiguousarray(columns[:, few]), np.ascontiguousarray(rows[:, :, few])
    V, alive, sequence = np.zeros((BLOCK, m)), np.ones(m, dtype=np.bool_), np.zeros(BLOCK, np.int64)
    limits, diagonal = (room, squared_budget, bar), np.diagonal(among).copy()
    removed = remove_knots(
        among, np.zeros((0, m)), V, diagonal, own, alive, *limits, *tally, sequence
    )
    # A negative count would ask for a fresh inverse, which this one is.
    sequence = sequence[: abs(removed)]
    taken = few[sequence]
    if len(taken) == 0:
        return taken, np.empty((0, columns.shape[1]))
    # P over the removed knots is CCᵀ, and the removals have computed Cᵀ on the way.
    factor = V[: len(taken), sequence].T
    flat = rows.reshape(-1, rows.shape[2])
    weights = np.ascontiguousarray(flat[:, taken].T)
    V = np.ascontiguousarray(solve_triangular(factor, columns[sequence], lower=True))
    U = np.ascontiguousarray(solve_triangular(factor, weights, lower=True))
    # W −= UᵀV in place; BLAS reads our row-major arrays as their transposes.
    blas.dgemm(-1.0, V.T, U.T, 1.0, flat.T, trans_b=1, overwrite_c=1)
    flat[:, taken] = 0.0
    return taken, V
