"""Numbers over seeds with intervals that cover, also where seeds are few.

How often they do is measured by :mod:`benchmarks.coverage`. With fewer than three seeds there is
no interval: that of two would be thirteen times as wide as they are apart.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning._base.statistics import Interval, student_quantile

Floats = NDArray[np.float64]

#: The fewest seeds of which an interval is shown.
FEWEST = 3


def interquartile_mean(values: Floats, axis: int = -1) -> Floats:
    """Return the mean of what is left without the lowest and the highest quarter."""
    n = values.shape[axis]
    middle = np.arange(n // 4, n - n // 4)
    return np.asarray(np.take(np.sort(values, axis=axis), middle, axis=axis).mean(axis=axis))


def over_seeds(values: ArrayLike) -> Interval:
    """Return the interquartile mean over seeds with Tukey and McLaughlin's 95 % interval.

    It is Student's with the variance of the winsorised values, and the degrees of freedom of those
    that are left.
    """
    mean, error, degrees = _with_error(values)
    return _around(mean, error, degrees, np.size(values))


def difference_over_seeds(first: ArrayLike, second: ArrayLike) -> Interval:
    """Return the difference of interquartile means over other seeds with Yuen's 95 % interval."""
    (a, error_a, degrees_a), (b, error_b, degrees_b) = map(_with_error, (first, second))
    error = math.hypot(error_a, error_b)
    # Welch's; without any error it does not matter.
    parts = error_a**4 / degrees_a + error_b**4 / degrees_b
    degrees = error**4 / parts if parts else 1.0
    return _around(a - b, error, degrees, min(np.size(first), np.size(second)))


def _with_error(values: ArrayLike) -> tuple[float, float, int]:
    """Return the interquartile mean, its standard error and the degrees of freedom of that."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    cut = len(ordered) // 4
    left = ordered[cut : len(ordered) - cut]
    n = len(left)
    # At each end the values that were cut off count as the outermost that were not.
    squares = float(np.var(np.clip(ordered, left[0], left[-1]))) * len(ordered)
    return float(np.mean(left)), math.sqrt(squares / max(n * (n - 1), 1)), max(n - 1, 1)


def _around(mean: float, error: float, degrees: float, seeds: int) -> Interval:
    if seeds < FEWEST:
        return Interval(mean, -math.inf, math.inf)
    half = student_quantile(0.975, degrees) * error
    return Interval(mean, mean - half, mean + half)


def median(values: ArrayLike) -> Interval:
    """Return the median with the interval of a sign test, which needs no distribution.

    Values may be infinite. Fewer than six have no such interval at 95 %.
    """
    from scipy.special import bdtr

    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    return _between(ordered, ordered, int(np.sum(bdtr(np.arange(n), n, 0.5) <= 0.025)))


def ratio_over_seeds(first: ArrayLike, second: ArrayLike) -> Interval:
    """Return by what factor numbers of at least 0 differ from those of another sample.

    The median of all ratios of a number of the first to one of the second, with all factors that
    a Mann-Whitney test at 5 % does not reject. It needs no distribution, and numbers may be
    infinite, that is censored, or 0: two infinite ones, or two zeros, have a ratio that is not
    known.
    """
    a, b = (np.asarray(values, dtype=np.float64) for values in (first, second))
    with np.errstate(invalid="ignore", divide="ignore"):
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
