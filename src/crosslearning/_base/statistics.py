"""Numbers with intervals: one type for all of them, and the ways to compute one.

Student's for means, Wilson's for shares, Bonett and Price's for differences of paired shares, and
Hall's for means of very skewed samples. Where nothing is known of an end, it is infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.errors import InputError

Floats = NDArray[np.float64]

#: The confidence of every interval whose maker was asked for no other.
CONFIDENCE = 0.95
_Z = 1.959963984540054  # the normal quantile of a two-sided 95 %


@dataclass(frozen=True)
class Interval:
    """A number with an interval, of 95 % unless whoever made it was asked for another level."""

    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether both ends are finite: one value alone says nothing about others."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def __str__(self) -> str:
        return self.format()

    def format(self, spec: str | None = None) -> str:
        """Return the number and its ends in brackets; without ends that are not known."""
        spec = spec or readable(self.value, self.low, self.high)
        ends = f" [{self.low:{spec}}, {self.high:{spec}}]" if self.known else ""
        return f"{self.value:{spec}}{ends}"

    def percent(self, spec: str = ".1f") -> str:
        """Return a share or a difference of shares in per cent."""
        ends = f" [{100 * self.low:{spec}}, {100 * self.high:{spec}}]" if self.known else ""
        return f"{100 * self.value:{spec}} %{ends}"

    def within(self, low: float = -math.inf, high: float = math.inf) -> Interval:
        """Return the interval cut to where the number can be, as a share between 0 and 1."""
        return Interval(self.value, max(self.low, low), min(self.high, high))


def readable(*numbers: float) -> str:
    """Return how to write numbers side by side: three digits, but thousands in full.

    ``-1000``, not ``-1e+03``; from a million on there is no other way.
    """
    largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    return ".0f" if 999.5 <= largest < 1e6 else ".3g"


def checked_confidence(confidence: float) -> float:
    """Return a level of confidence, or say what is wrong with it."""
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence must be between 0 and 1, such as 0.95, got {confidence}")
    return float(confidence)


def student_quantile(level: float, degrees: float) -> float:
    """Return the quantile of Student's t."""
    # Not scipy.stats, which takes a second to import.
    from scipy.special import stdtrit

    if not 0.0 < level < 1.0:
        raise InputError(f"a level of confidence must be between 0 and 1, got {level}")
    return float(stdtrit(degrees, level))


def f_tail(value: float, first: float, second: float) -> float:
    """Return the probability that a number of Fisher's F(first, second) is above ``value``."""
    from scipy.special import fdtrc

    return float(fdtrc(first, second, value))


def student(values: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """Return a mean with Student's two-sided interval, without ends for a single value."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or len(numbers) == 0 or not np.all(np.isfinite(numbers)):
        raise InputError(f"an interval needs finite numbers, got {values!r}")
    mean, n = float(np.mean(numbers)), len(numbers)
    if n == 1:
        return Interval(mean, -math.inf, math.inf)
    error = float(np.std(numbers, ddof=1)) / math.sqrt(n)
    half = student_quantile(0.5 + 0.5 * confidence, n - 1) * error
    return Interval(mean, mean - half, mean + half)


def mean_with_unknown(values: Floats) -> Interval:
    """Return the mean of the values that are not NaN; without any, everything is NaN."""
    known = values[np.isfinite(values)]
    return student(known) if len(known) else Interval(math.nan, math.nan, math.nan)


def wilson(successes: NDArray[np.bool_]) -> Interval:
    """Return a share with Wilson's interval, which is right near 0 and 1 too."""
    n = len(successes)
    rate = float(np.mean(successes))
    centre = (rate + _Z * _Z / (2 * n)) / (1 + _Z * _Z / n)
    half = _Z * math.sqrt(rate * (1 - rate) / n + _Z * _Z / (4 * n * n)) / (1 + _Z * _Z / n)
    # At the ends the interval begins at the rate itself, which rounding would miss.
    low = 0.0 if rate == 0.0 else centre - half
    high = 1.0 if rate == 1.0 else centre + half
    return Interval(rate, low, high)


def share(shares: NDArray[Any]) -> Interval:
    """Return a share: of successes, or, of tasks that have a share each, their mean.

    NaN stands for unknown and is left out.
    """
    if shares.dtype == np.bool_:
        return wilson(shares)
    known = shares[np.isfinite(shares)]
    if len(known) and np.all(known == known[0]) and known[0] in (0.0, 1.0):
        # A sample that does not vary would claim certainty.
        return wilson(known == 1.0)
    return mean_with_unknown(shares).within(0.0, 1.0)


def difference_of_shares(first: NDArray[Any], second: NDArray[Any]) -> Interval:
    """Return the difference of two paired shares with Bonett and Price's interval.

    It is Wald's with one success added to each kind of discordant pair, so that it is right for
    few of them too: without any it is not the single point 0. Of shares by task, the mean of the
    tasks' differences is taken.
    """
    if first.dtype != np.bool_ or second.dtype != np.bool_:
        return mean_with_unknown(first - second).within(-1.0, 1.0)
    n = len(first)
    only_first = int(np.count_nonzero(first & ~second))
    only_second = int(np.count_nonzero(second & ~first))
    p, q = (only_first + 1) / (n + 2), (only_second + 1) / (n + 2)
    half = _Z * math.sqrt((p + q - (p - q) ** 2) / (n + 2))
    return Interval((only_first - only_second) / n, max(p - q - half, -1.0), min(p - q + half, 1.0))


def mean_of_known(values: ArrayLike) -> Floats:
    """Return means along the first axis without what is NaN; NaN where nothing is known."""
    numbers = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(numbers)
    count = known.sum(axis=0)
    total = np.where(known, numbers, 0.0).sum(axis=0)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


# Skewed samples ----------------------------------------------------------------------------


def hall_margin(skewness: Floats | float, count: int, z: float) -> Floats:
    """Return how many standard errors below a mean the truth may be; z is the normal answer.

    With T the t-statistic and a = skewness/√count, the polynomial T + aT²/3 + a²T³/27 + a/6 is
    nearly normal (Hall's transformation): its inverse at z. Never less than z: a skewness seen
    in a sample widens a bound, but does not narrow it. Above a mean, the skewness changes sign.
    """
    a = np.asarray(skewness, dtype=np.float64) / np.sqrt(count)
    # As a → 0 the inverse tends to z.
    safe = np.where(np.abs(a) < 1e-6, 1.0, a)
    inverse = 3.0 / safe * (np.cbrt(1.0 + safe * (z - safe / 6.0)) - 1.0)
    return np.asarray(np.where(np.abs(a) < 1e-6, z, np.maximum(inverse, z)))


def skewness_of(values: Floats) -> float:
    """Return the sample skewness; 0 if the values do not vary."""
    centred = values - values.mean()
    spread = float(np.mean(centred**2))
    return float(np.mean(centred**3)) / spread**1.5 if spread > 0.0 else 0.0


def hall_bounds(values: Floats, z: float) -> tuple[float, float]:
    """Return lower and upper bounds for a mean, each at the level of the quantile z."""
    n, skewness = len(values), skewness_of(values)
    error = float(values.std(ddof=1)) / np.sqrt(n)
    low = values.mean() - error * float(hall_margin(skewness, n, z))
    high = values.mean() + error * float(hall_margin(-skewness, n, z))
    return float(low), float(high)


def root_interval(value: float, influence: Floats, z: float) -> Interval:
    """Return √value with its interval, for a positive number that is a mean of squares.

    ``influence``, shape (n,), is what each sample adds to n times the estimate, up to a constant;
    z is the quantile of one end.
    """
    # Centred at the estimate, whose own value may hold a correction of order 1/n.
    _, high = hall_bounds(influence - influence.mean() + value, z)
    if value <= 0.0:
        return Interval(0.0, 0.0, float(np.sqrt(max(high, 0.0))))
    ratio = float(influence.std(ddof=1)) / np.sqrt(len(influence)) / value
    low = value * np.exp(-z * ratio)
    high = max(high, value * np.exp(z * ratio))
    return Interval(float(np.sqrt(value)), float(np.sqrt(low)), float(np.sqrt(high)))
