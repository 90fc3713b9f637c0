"""CDKOMP's inner loop: greedy removal of knots, and its certificate.

Removing knot j and refitting the others is an orthogonal projection. With P = (K + λI)⁻¹ it
moves function f by e(j, f) = Σ_p w_jfp² / P_jj (squared), and the squares of successive
removals add up (Pythagoras), so the budget bounds the whole move of each function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.compiled import compiled, compiled_reordered
from crosslearning.rkhs.checks import Floats, Integers

#: λ: K + λI is the Gram matrix of the kernel κ + λδ, whose norm is never below κ's. So the
#: claimed error is never below the true one, and P stays computable in float64.
RIDGE = 1e-6
#: A knot with P_jj above this is numerically a combination of the others, and always removed.
CONDITIONING = 1e5

# The reasons of removals, in the order of the certificate's counters.
WITHIN_BUDGET = 0
FORCED_BY_CONDITIONING = 1
FORCED_BY_CAP = 2


@dataclass(frozen=True)
class PruningCertificate:
    """Upper bounds on the error of pruning, for every function.

    Attributes
    ----------
    budget : float
        The budget β, an RKHS norm.
    errors : array, shape (functions,)
        Bound on ‖f_before − f_after‖ for every function.
    budgeted_errors, conditioning_errors, cap_errors : arrays, shape (functions,)
        The parts of ``errors`` by the reason of the removals; for one call their squares add up to
        its square. Removals within the budget count as budgeted.
    removed : int
        Knots removed in all.
    forced_by_conditioning, forced_by_cap : int
        Removals beyond the budget, because a knot was nearly a combination of others or because
        more than ``max_knots`` would have remained.
    knots : int
        Knots that remain.
    rebuilds : int
        How often the maintained inverse was computed anew.

    Examples
    --------
    >>> import numpy as np
    >>> from crosslearning.rkhs import Family, Gaussian, prune
    >>> knots = np.array([[0.0], [1.0], [2.0]])
    >>> weights = np.array([[[1.0], [0.0]], [[0.5], [0.0]], [[0.0], [0.0]]])
    >>> family = Family(Gaussian(std=[1.0]), knots, weights)
    >>> prune(family, budget=0.01)[1].removed
    1
    """

    budget: float
    errors: Floats
    budgeted_errors: Floats
    conditioning_errors: Floats
    cap_errors: Floats
    removed: int
    forced_by_conditioning: int
    forced_by_cap: int
    knots: int
    rebuilds: int

    @classmethod
    def of(
        cls,
        budget: float,
        errors: Floats,
        by_reason: Floats,
        counts: Integers,
        knots: int,
        rebuilds: int,
    ) -> PruningCertificate:
        """Return a certificate from errors (3, functions) and counts (3,) by reason."""
        numbers = int(counts.sum()), int(counts[1]), int(counts[2])
        budgeted, conditioning, cap = by_reason
        return cls(budget, errors, budgeted, conditioning, cap, *numbers, knots, rebuilds)

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
    row = P[j]
    for i in range(m):
        out[i] = row[i]
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
    guarded = len(spent)
    removed = 0
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
