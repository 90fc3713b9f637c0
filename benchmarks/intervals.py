"""Numbers over seeds with intervals that cover, also where seeds are few.

How often they do is measured by :mod:`benchmarks.coverage`. With fewer than three seeds there is
no interval: that of two would be thirteen times as wide as they are apart.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.statistics import Interval, student, student_difference

Floats = NDArray[np.float64]

#: What an interquartile mean leaves out at each end.
QUARTER = 0.25
#: The fewest seeds of which an interval is shown.
FEWEST = 3


def interquartile_mean(values: Floats, axis: int = -1) -> Floats:
    """Return the mean of what is left without the lowest and the highest quarter."""
    n = values.shape[axis]
    middle = np.arange(n // 4, n - n // 4)
    return np.asarray(np.take(np.sort(values, axis=axis), middle, axis=axis).mean(axis=axis))


def over_seeds(values: ArrayLike) -> Interval:
    """Return the interquartile mean over seeds with Tukey and McLaughlin's 95 % interval."""
    return _shown(student(values, trim=QUARTER), np.size(values))


def difference_over_seeds(first: ArrayLike, second: ArrayLike) -> Interval:
    """Return the difference of interquartile means over other seeds with Yuen's interval."""
    fewest = min(np.size(first), np.size(second))
    return _shown(student_difference(first, second, trim=QUARTER), fewest)


def _shown(interval: Interval, seeds: int) -> Interval:
    return interval if seeds >= FEWEST else Interval(interval.value, -math.inf, math.inf)


def median(values: ArrayLike) -> Interval:
    """Return the median with the interval of a sign test, which needs no distribution.

    Values may be infinite. Fewer than six have no such interval at 95 %.
    """
    from scipy.special import bdtr

    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    return _between(ordered, ordered, int(np.sum(bdtr(np.arange(n), n, 0.5) <= 0.025)))


def ratio_over_seeds(first: ArrayLike, second: ArrayLike) -> Interval:
    """Return by what factor positive numbers of one sample differ from those of another.

    The median of all ratios of a number of the first to one of the second, with all factors that
    a Mann-Whitney test at 5 % does not reject. It needs no distribution, and numbers may be
    infinite, that is censored: two infinite ones have a ratio that is not known.
    """
    a, b = (np.asarray(values, dtype=np.float64) for values in (first, second))
    with np.errstate(invalid="ignore"):
        ratios = np.ravel(a[:, None] / b)
    least, most = (np.sort(np.where(np.isnan(ratios), end, ratios)) for end in (0.0, math.inf))
    return _between(least, most, _unlikely(len(a), len(b)))


def _between(least: Floats, most: Floats, cut: int) -> Interval:
    """Return the median and the ends that so many ordered values reach from outside."""
    # Of an even number the upper one of both in the middle, so that nothing is interpolated.
    value = float(most[len(most) // 2])
    if cut == 0:
        return Interval(value, -math.inf, math.inf)
    return Interval(value, float(least[cut - 1]), float(most[-cut]))


def _unlikely(n: int, m: int) -> int:
    """Return how many of the least values of Mann and Whitney's U have 2.5 % together, at most."""
    ways = np.zeros(n * m + 1)
    ways[0] = 1.0
    # The product over i of (1 - q^(m + i)) / (1 - q^i) generates how many orders have which U.
    for i in range(1, n + 1):
        ways[m + i :] -= ways[: -m - i].copy()
        for u in range(i, len(ways)):
            ways[u] += ways[u - i]
    return int(np.sum(np.cumsum(ways) <= 0.025 * ways.sum()))
