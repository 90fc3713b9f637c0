"""Intervals: against SciPy's, against the truth by simulation, and at their ends."""

import math

import numpy as np
import pytest
from scipy import stats

from crosslearning._base.statistics import (
    Interval,
    difference_of_shares,
    f_tail,
    hall_bounds,
    hall_margin,
    mean_with_unknown,
    root_interval,
    share,
    skewness_of,
    student,
    student_quantile,
    wilson,
)
from crosslearning.errors import InputError


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(-999.7, -1003.2, -998.1), "-1000 [-1003, -998]"),
        (Interval(-1234.5, -math.inf, math.inf), "-1234"),  # of one value alone
        (Interval(2.0, -54321.0, 3.0), "2 [-54321, 3]"),
        (Interval(999.4, 1.0, 999.4), "999 [1, 999]"),
        (Interval(1e6, -1.0, 2e6), "1e+06 [-1, 2e+06]"),
    ],
)
def test_thousands_are_written_in_full(interval, text):
    assert str(interval) == text


def test_students_interval_is_scipys():
    values = np.array([1.0, 2.5, -0.5, 3.0])
    actual = student(values)
    low, high = stats.t.interval(0.95, 3, loc=values.mean(), scale=stats.sem(values))
    assert (actual.value, actual.low, actual.high) == pytest.approx((1.5, low, high))
    with pytest.raises(InputError, match="finite numbers"):
        student([1.0, math.nan])


def test_one_value_has_no_ends():
    alone = student([2.0])
    assert (alone.low, alone.high, alone.known) == (-math.inf, math.inf, False)
    assert (str(alone), alone.percent("+.0f")) == ("2", "+200 %")


def test_quantiles_are_scipys_to_the_bit():
    for degrees in (1, 4, 99):
        for level in (0.6, 0.975, 1 - 1e-6):
            assert student_quantile(level, degrees) == stats.t.ppf(level, degrees)
    assert f_tail(2.5, 1.5, 7.0) == stats.f.sf(2.5, 1.5, 7.0)
    with pytest.raises(InputError, match="between 0 and 1"):
        student_quantile(1.0, 3)


def test_words():
    interval = Interval(-0.5, -1.25, 0.125)
    assert str(interval) == "-0.5 [-1.25, 0.125]"
    assert interval.percent() == "-50.0 % [-125.0, 12.5]"
    assert interval.within(-1.0, 1.0) == Interval(-0.5, -1.0, 0.125)


def test_shares_of_tasks_that_all_agree_are_not_certain():
    assert share(np.ones(20)) == wilson(np.ones(20, dtype=bool))
    assert share(np.ones(20)).low < 1.0
    assert share(np.array([0.5, 1.0, 1.0])).high == 1.0


def test_the_root_of_nothing():
    assert root_interval(0.0, np.zeros(200), 2.0) == Interval(0.0, 0.0, 0.0)


@pytest.mark.parametrize("skewness", [-8.0, -1e-9, 0.0, 0.5, 8.0])
def test_the_margin_inverts_the_polynomial_and_is_never_below_normal(skewness):
    z, count = 1.7, 400
    actual = float(hall_margin(skewness, count, z))
    assert actual >= z
    a = skewness / np.sqrt(count)
    value = actual + a * actual**2 / 3 + a**2 * actual**3 / 27 + a / 6
    assert value == pytest.approx(z) if skewness <= 0.0 else value >= z


def test_means_of_skewed_numbers_are_covered():
    generator = np.random.default_rng(2)
    z = student_quantile(0.975, 99)
    lows, highs, plain = [], [], []
    for _ in range(1000):
        values = generator.exponential(size=100) ** 2
        low, high = hall_bounds(values, z)
        lows.append(low <= 2.0)
        highs.append(high >= 2.0)
        plain.append(values.mean() + z * values.std(ddof=1) / 10.0 >= 2.0)
    assert np.mean(lows) >= 0.975
    # Skewness 6.6 and 100 numbers: Student's bound is too low in 12 % of cases, this one in 6 %.
    assert np.mean(highs) > 0.92
    assert np.mean(highs) > np.mean(plain) + 0.03
    assert skewness_of(np.ones(5)) == 0.0


def test_roots_of_mean_squares_are_covered():
    generator = np.random.default_rng(3)
    covered = []
    for _ in range(500):
        squares = generator.standard_normal(400) ** 4
        root = root_interval(float(squares.mean()), squares, student_quantile(0.975, 99))
        covered.append(root.low <= np.sqrt(3.0) <= root.high)
        assert 0.0 < root.low < root.value < root.high
    assert sum(covered) >= 463


def test_share_is_wilsons_interval():
    # Textbook: 8 of 10 gives [0.490, 0.943].
    estimate = wilson(np.array([True] * 8 + [False] * 2))
    assert estimate.value == 0.8
    assert estimate.low == pytest.approx(0.4901625, abs=1e-6)
    assert estimate.high == pytest.approx(0.9433178, abs=1e-6)
    assert wilson(np.zeros(100, dtype=bool)).low == 0.0
    assert 0.03 < wilson(np.zeros(100, dtype=bool)).high < 0.04


def test_unknown_values_are_left_out():
    assert mean_with_unknown(np.array([1.0, np.nan, 3.0])) == student([1.0, 3.0])
    assert math.isnan(mean_with_unknown(np.full(2, np.nan)).value)


@pytest.mark.parametrize(("p", "q"), [(0.02, 0.02), (0.3, 0.1), (0.0, 0.05)])
def test_the_interval_of_a_difference_of_shares_covers(p, q):
    generator = np.random.default_rng(7)
    covered, trials, n = 0, 1000, 60
    for _ in range(trials):
        kind = generator.random(n)
        common = generator.random(n) < 0.5
        first = (kind < p) | ((kind >= p + q) & common)
        second = ((kind >= p) & (kind < p + q)) | ((kind >= p + q) & common)
        estimate = difference_of_shares(first, second)
        covered += estimate.low <= p - q <= estimate.high
        assert estimate.value == pytest.approx(first.mean() - second.mean())
    assert covered / trials >= 0.935
