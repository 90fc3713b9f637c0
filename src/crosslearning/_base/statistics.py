"""Confidence intervals: one type, and the ways to compute one.

Student's for means, Wilson's for proportions, Bonett and Price's for differences of paired
proportions, and Hall's for means of skewed samples. Unknown bounds are infinite. Exact and
one-sided are Clopper and Pearson's bound of a proportion, and the level that a share of a
population reaches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.errors import InputError

Floats = NDArray[np.float64]

#: The default confidence level.
CONFIDENCE = 0.95
_Z = 1.959963984540054  # the normal quantile of a two-sided 95 %


@dataclass(frozen=True)
class Interval:
    """A number with its confidence interval, of 95 % unless another level was given."""

    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether both bounds are finite; those of a single value are not."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def __str__(self) -> str:
        return self.format()

    def format(self, spec: str | None = None) -> str:
        """Return the number with its bounds in brackets, if they are known."""
        spec = spec or readable(self.value, self.low, self.high)
        ends = f" [{self.low:{spec}}, {self.high:{spec}}]" if self.known else ""
        return f"{self.value:{spec}}{ends}"

    def percent(self, spec: str = ".1f") -> str:
        """Return a proportion or a difference of proportions in per cent."""
        ends = f" [{100 * self.low:{spec}}, {100 * self.high:{spec}}]" if self.known else ""
        return f"{100 * self.value:{spec}} %{ends}"

    def within(self, low: float = -math.inf, high: float = math.inf) -> Interval:
        """Return the interval clipped to the range of the number, such as 0 to 1."""
        return Interval(self.value, max(self.low, low), min(self.high, high))


def readable(*numbers: float) -> str:
    """Return the format of numbers side by side: three digits, but ``-1000``, not ``-1e+03``."""
    largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    return ".0f" if 999.5 <= largest < 1e6 else ".3g"


def checked_confidence(confidence: float) -> float:
    """Return a confidence level that is between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence must be between 0 and 1, such as 0.95, got {confidence}")
    return float(confidence)


def student_quantile(level: float, degrees: float) -> float:
    """Return the quantile of Student's t."""
    from scipy.special import stdtrit  # not scipy.stats, which takes a second to import

    return float(stdtrit(degrees, checked_confidence(level)))


def f_tail(value: float, first: float, second: float) -> float:
    """Return the probability that a sample of the F(first, second) distribution exceeds a value."""
    from scipy.special import fdtrc

    return float(fdtrc(first, second, value))


def student(values: ArrayLike) -> Interval:
    """Return a mean with Student's two-sided interval of 95 %; a single value has no bounds."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or len(numbers) == 0 or not np.all(np.isfinite(numbers)):
        raise InputError(f"an interval needs finite numbers, got {values!r}")
    mean, n = float(np.mean(numbers)), len(numbers)
    if n == 1:
        return Interval(mean, -math.inf, math.inf)
    error = float(np.std(numbers, ddof=1)) / math.sqrt(n)
    half = student_quantile(0.5 + 0.5 * CONFIDENCE, n - 1) * error
    return Interval(mean, mean - half, mean + half)


def mean_with_unknown(values: Floats) -> Interval:
    """Return the mean of the values that are not NaN; NaN if there are none."""
    known = values[np.isfinite(values)]
    return student(known) if len(known) else Interval(math.nan, math.nan, math.nan)


def wilson(successes: NDArray[np.bool_]) -> Interval:
    """Return a proportion with Wilson's interval, which is valid near 0 and 1, too."""
    n = len(successes)
    rate = float(np.mean(successes))
    centre = (rate + _Z * _Z / (2 * n)) / (1 + _Z * _Z / n)
    half = _Z * math.sqrt(rate * (1 - rate) / n + _Z * _Z / (4 * n * n)) / (1 + _Z * _Z / n)
    # Exact where rounding would miss it.
    low = 0.0 if rate == 0.0 else centre - half
    high = 1.0 if rate == 1.0 else centre + half
    return Interval(rate, low, high)


def least_share(successes: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the Clopper-Pearson lower bound of a proportion, one-sided and exact.

    In repeated samples it exceeds the proportion in at most a share 1 − confidence of them,
    whatever the proportion and the number of trials are.
    """
    from scipy.special import betaincinv

    if not 0 <= successes <= trials or trials < 1:
        raise InputError(f"got {successes} successes in {trials} trials")
    if successes == 0:
        return 0.0
    tail = 1.0 - checked_confidence(confidence)
    return float(betaincinv(successes, trials - successes + 1, tail))


def clopper_pearson(successes: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Return a proportion with the exact two-sided interval of a binomial distribution."""
    one_sided = 0.5 * (1.0 + checked_confidence(confidence))
    low = least_share(successes, trials, one_sided)
    high = 1.0 - least_share(trials - successes, trials, one_sided)
    return Interval(successes / trials, low, high)


class ToleranceBound(NamedTuple):
    """A level that at least a share of a population reaches, with a confidence."""

    value: float  #: the level; −∞ if the sample is too small for any
    share: float
    confidence: float
    needed: int  #: the smallest sample that gives a level: its minimum


def tolerance_bound(
    values: ArrayLike, share: float, confidence: float = CONFIDENCE
) -> ToleranceBound:
    """Return the largest order statistic that a share of the population reaches; exact.

    Of n independent draws the r-th smallest has at least a share p of the population at or above
    it with probability P(X ≥ r) for X ~ Binomial(n, 1 − p), at least, whatever the distribution.
    """
    from scipy.special import bdtrc

    numbers = np.sort(np.asarray(values, dtype=np.float64))
    n, p, level = len(numbers), float(share), checked_confidence(confidence)
    if not 0.0 < p < 1.0:
        raise InputError(f"share must be between 0 and 1, such as 0.9, got {share}")
    if numbers.ndim != 1 or n == 0 or not np.all(np.isfinite(numbers)):
        raise InputError(f"a bound needs finite numbers, got {values!r}")
    # P(X ≥ r) falls with r.
    rank = int(np.count_nonzero(bdtrc(np.arange(n), n, 1.0 - p) >= level))
    needed = math.ceil(math.log(1.0 - level) / math.log(p))
    return ToleranceBound(float(numbers[rank - 1]) if rank else -math.inf, p, level, needed)


def share(shares: NDArray[Any]) -> Interval:
    """Return the proportion of successes, or the mean of the tasks' proportions without NaN."""
    if shares.dtype == np.bool_:
        return wilson(shares)
    known = shares[np.isfinite(shares)]
    if len(known) and np.all(known == known[0]) and known[0] in (0.0, 1.0):
        # A sample that does not vary would claim certainty.
        return wilson(known == 1.0)
    return mean_with_unknown(shares).within(0.0, 1.0)


def difference_of_shares(first: NDArray[Any], second: NDArray[Any]) -> Interval:
    """Return the difference of two paired proportions with Bonett and Price's interval.

    It is Wald's with one success added to each kind of discordant pair, so that it is valid for
    few of them, too. For proportions by task, it is the mean of the tasks' differences.
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
    """Return means along the first axis that leave NaN out; NaN where there is nothing else."""
    numbers = np.asarray(values, dtype=np.float64)
    count = np.count_nonzero(~np.isnan(numbers), axis=0)
    mean = np.nansum(numbers, axis=0) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, mean, np.nan))


def hall_margin(skewness: Floats | float, count: int, z: float) -> Floats:
    """Return the lower margin of a mean in standard errors, given the normal quantile z.

    With T the t-statistic and a = skewness/√count, the polynomial T + aT²/3 + a²T³/27 + a/6 is
    nearly normal (Hall's transformation). The margin is its inverse at z, but at least z. For the
    upper margin, change the sign of the skewness.
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
    """Return lower and upper bounds of a mean, each at the level of the quantile z."""
    n, skewness = len(values), skewness_of(values)
    error = float(values.std(ddof=1)) / np.sqrt(n)
    low = values.mean() - error * float(hall_margin(skewness, n, z))
    high = values.mean() + error * float(hall_margin(-skewness, n, z))
    return float(low), float(high)


def root_interval(value: float, influence: Floats, z: float) -> Interval:
    """Return √value with its interval, for a positive number that is a mean of squares.

    ``influence``, shape (n,), are the samples' contributions to n times the estimate, up to a
    constant; z is the quantile of one bound.
    """
    # Centred at the estimate, which may hold a correction of order 1/n.
    _, high = hall_bounds(influence - influence.mean() + value, z)
    if value <= 0.0:
        return Interval(0.0, 0.0, float(np.sqrt(max(high, 0.0))))
    ratio = float(influence.std(ddof=1)) / np.sqrt(len(influence)) / value
    low = value * np.exp(-z * ratio)
    high = max(high, value * np.exp(z * ratio))
    return Interval(float(np.sqrt(value)), float(np.sqrt(low)), float(np.sqrt(high)))
