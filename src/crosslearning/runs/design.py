"""Designed studies of several factors: which combinations to run, and what each factor does.

A fractional factorial runs a fraction of all combinations such that any two factors take every
pair of levels in proportion. The mean over all runs with one level, compared with that of another,
then shows the effect of the factor whatever the others are: all runs inform every effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.errors import InputError

Levels = NDArray[np.int64]
Floats = NDArray[np.float64]


class Interaction(NamedTuple):
    """How far the effect of one factor depends on another.

    ``size`` is the largest deviation of a cell's mean from the sum of both main effects, at the
    levels of ``cell``. ``aliases`` are the factors, and the pairs of factors, whose effects the
    design does not tell apart from it.
    """

    factors: tuple[int, int]
    size: float
    cell: tuple[int, int]
    aliases: tuple[tuple[int, ...], ...]


def fractional_factorial(levels: Sequence[int], runs: int) -> Levels:
    """Return a fraction of all combinations of factors, shape (runs, factors).

    Each factor takes a column of the full design of ``log2(runs)`` factors of two levels, one of
    three or four levels two columns and their sum. Columns are chosen so that as few main effects
    as possible coincide with interactions of two other factors. Of three levels the second is run
    twice as often. The first combination has level 0 of every factor.

    Parameters
    ----------
    levels : sequence of int
        The number of levels of each factor: 2, 3 or 4.
    runs : int
        A power of two.

    Examples
    --------
    >>> from crosslearning.runs.design import fractional_factorial
    >>> fractional_factorial([2, 2, 2], 4).tolist()
    [[0, 0, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0]]
    """
    if any(count not in (2, 3, 4) for count in levels):
        raise InputError(f"factors have {list(levels)} levels; give 2, 3 or 4 for each")
    if runs < 2 or runs & (runs - 1):
        raise InputError(f"a fractional factorial has {runs} runs; give a power of two")
    # Greedy choices differ in what they leave for later ones: take the better of two.
    chosen = [_columns(levels, runs, foresight) for foresight in (False, True)]
    columns = min(chosen, key=_confounding)
    table = np.zeros((runs, len(levels)), dtype=np.int64)
    for factor, own in columns.items():
        bits = _parities(runs, own[0])
        if levels[factor] > 2:
            bits = 2 * bits + _parities(runs, own[1])
        if levels[factor] == 3:
            bits[bits == 3] = 1
        table[:, factor] = bits
    return table


def _columns(levels: Sequence[int], runs: int, foresight: bool) -> dict[int, list[int]]:
    """Return the columns of each factor, as bit masks: one, or two and their sum."""
    columns: dict[int, list[int]] = {}
    # Factors with more levels need three columns, so they choose first.
    for factor in sorted(range(len(levels)), key=lambda f: levels[f] == 2):
        used = [column for own in columns.values() for column in own]
        own = [_free_column(used, runs, levels, foresight)]
        if levels[factor] > 2:
            second = _free_column([*used, *own], runs, levels, foresight, own[0])
            own += [second, own[0] ^ second]
        columns[factor] = own
    return columns


def _free_column(
    used: Sequence[int], runs: int, levels: Sequence[int], foresight: bool, beside: int = 0
) -> int:
    """Return the column that is the sum of the fewest pairs of used ones.

    With ``foresight`` it is, of several, the one with the fewest sums that pairs have already.
    """
    pairs = [first ^ second for first, second in combinations(used, 2)]
    free = [c for c in range(1, runs) if c not in used and (not beside or c ^ beside not in used)]
    if not free:
        raise InputError(
            f"{runs} runs are too few for factors of {list(levels)} levels; give a larger power "
            "of two"
        )

    def cost(column: int) -> tuple[int, int, int]:
        shared = sum(column ^ one in pairs for one in used) if foresight else 0
        return pairs.count(column), shared, column

    return min(free, key=cost)


def _confounding(columns: dict[int, list[int]]) -> tuple[int, int]:
    """Return how many interactions coincide with main effects, and with one another."""
    used = [column for own in columns.values() for column in own]
    pairs = [first ^ second for first, second in combinations(used, 2)]
    return sum(pair in used for pair in pairs), len(pairs) - len(set(pairs))


def _parities(runs: int, column: int) -> Levels:
    return np.array([(run & column).bit_count() % 2 for run in range(runs)], dtype=np.int64)


def crossed(design: Levels, levels: Sequence[int]) -> Levels:
    """Return a design with every combination of further factors, shape (more, more factors)."""
    further = list(product(*(range(count) for count in levels)))
    rows = [[*row, *more] for row in design.tolist() for more in further]
    return np.array(rows, dtype=np.int64)


def main_effects(design: Levels, responses: ArrayLike) -> list[Floats]:
    """Return for each factor the mean responses of its levels minus that of level 0.

    ``responses`` have shape (runs, …); the effects of a factor have shape (levels, …).
    """
    values = np.asarray(responses, dtype=np.float64)
    effects = []
    for column in design.T:
        means = [values[column == level].mean(axis=0) for level in range(column.max() + 1)]
        effects.append(np.array([mean - means[0] for mean in means]))
    return effects


def interactions(design: Levels, responses: ArrayLike) -> list[Interaction]:
    """Return the interactions of all pairs of factors on responses (runs,), the strongest first."""
    values = np.asarray(responses, dtype=np.float64)
    pairs = list(combinations(range(design.shape[1]), 2))
    spans: dict[tuple[int, ...], Floats] = {
        (factor,): _main_span(column) for factor, column in enumerate(design.T)
    }
    spans |= {pair: _pair_span(design, pair) for pair in pairs}
    found = []
    for pair in pairs:
        deviations = {}
        first, second = design[:, pair[0]], design[:, pair[1]]
        for cell in sorted(set(zip(first.tolist(), second.tolist(), strict=True))):
            here = (first == cell[0]) & (second == cell[1])
            mains = values[first == cell[0]].mean() + values[second == cell[1]].mean()
            deviations[cell] = float(values[here].mean() - mains + values.mean())
        cell = max(deviations, key=lambda c: abs(deviations[c]))
        aliases = [
            other
            for other, span in spans.items()
            if other != pair and np.abs(span.T @ spans[pair]).max(initial=0.0) > 1e-9
        ]
        found.append(Interaction(pair, abs(deviations[cell]), cell, tuple(aliases)))
    return sorted(found, key=lambda one: (-one.size, one.factors))


def _main_span(column: Levels) -> Floats:
    """Return centred indicators of the levels, which span the main effect."""
    indicators = (column[:, None] == np.arange(column.max() + 1)).astype(np.float64)
    return np.asarray(indicators - indicators.mean(axis=0))


def _pair_span(design: Levels, pair: tuple[int, int]) -> Floats:
    """Return products of centred indicators, which span the interaction."""
    first, second = (_main_span(design[:, factor]) for factor in pair)
    products: Any = first[:, :, None] * second[:, None, :]
    return np.asarray(products.reshape(len(design), -1))
