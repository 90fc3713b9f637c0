"""Intervals over seeds: what they leave out, and that they cover where seeds are few."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks import coverage, intervals
from crosslearning._base.statistics import Interval

SAMPLES = 2000


def covered(name, seeds, of=intervals.over_seeds):
    generator = np.random.default_rng(seeds)
    draw = coverage.DISTRIBUTIONS[name]
    truth = float(intervals.interquartile_mean(draw(generator, (400_000,))))
    return coverage.coverage(draw, of, truth, seeds, SAMPLES, generator)


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_intervals_of_few_seeds_cover(seeds):
    # One standard error of so many samples is 0.005.
    assert covered("normal", seeds) >= 0.925
    assert covered("moderately skewed: gamma, skewness 1", seeds) >= 0.91
    assert covered("bimodal: learned on 80 % of seeds", seeds) >= 0.93


@pytest.mark.parametrize(("seeds", "most"), [(3, 0.80), (5, 0.92)])
def test_a_percentile_bootstrap_does_not(seeds, most):
    generator = np.random.default_rng(0)
    assert covered("normal", seeds, lambda v: coverage.percentile_bootstrap(v, generator)) < most


def test_the_interquartile_mean_leaves_a_quarter_out_at_each_end():
    assert intervals.interquartile_mean(np.array([-1e9, 4.0, 2.0, 1e9])) == 3.0
    values = np.array([[5.0, 1.0, 9.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0, 100.0]])
    np.testing.assert_allclose(intervals.interquartile_mean(values, axis=1), [10.0 / 3.0, 0.0])
    result = intervals.over_seeds([1.0, 2.0, 3.0, 4.0, 500.0])
    assert result.low < result.value == 3.0 < result.high < 10.0


def test_differences_are_scipys_yuen():
    generator = np.random.default_rng(1)
    first, second = generator.exponential(size=11), generator.normal(1.0, 3.0, 6)
    result = intervals.difference_over_seeds(first, second)
    scipys = stats.ttest_ind(first, second, equal_var=False, trim=0.25).confidence_interval()
    assert (result.low, result.high) == pytest.approx((scipys.low, scipys.high))
    assert result.value == pytest.approx(
        stats.trim_mean(first, 0.25) - stats.trim_mean(second, 0.25)
    )
    # Beside a sample without an error the interval is that of the other alone.
    alone, other = intervals.over_seeds(first), intervals.difference_over_seeds(first, np.zeros(4))
    assert (alone.value, alone.low, alone.high) == pytest.approx(
        (other.value, other.low, other.high)
    )
    assert intervals.difference_over_seeds(np.ones(5), np.zeros(5)) == Interval(1.0, 1.0, 1.0)


def test_one_and_two_seeds_have_no_interval():
    assert intervals.over_seeds([1.0, 3.0]) == Interval(2.0, -math.inf, math.inf)
    assert not intervals.difference_over_seeds([1.0, 2.0, 4.0], [1.0, 2.0]).known
    assert intervals.difference_over_seeds([1.0, 2.0, 4.0], [1.0, 2.0, 4.0]).known


def test_a_median_has_the_interval_of_a_sign_test():
    # Textbook: of twenty values the sixth and the fifteenth.
    assert intervals.median(np.arange(1.0, 21.0)) == Interval(11.0, 6.0, 15.0)
    assert not intervals.median([0.0, 0.2, 0.4, 0.5, 0.6]).known
    assert intervals.median([0.0, 0.1, 0.2, 0.3, 0.4, math.inf]).low == 0.0


def test_ratios_are_those_that_mann_and_whitney_do_not_reject():
    generator = np.random.default_rng(4)
    ours, theirs = np.exp(generator.normal(0.0, 1.0, 10)), np.exp(generator.normal(2.0, 1.0, 5))
    result = intervals.ratio_over_seeds(ours, theirs)
    assert result.low < result.value < result.high < 1.0

    def rejected(factor):
        return stats.mannwhitneyu(ours, factor * theirs, method="exact").pvalue <= 0.05

    for end, outside in ((result.low, 1 - 1e-9), (result.high, 1 + 1e-9)):
        assert rejected(end * outside)
        assert not rejected(end / outside)
    # Censored: ours and theirs never get there on one seed each.
    ours[0] = theirs[0] = math.inf
    censored = intervals.ratio_over_seeds(ours, theirs)
    assert censored.low <= result.low
    assert not intervals.ratio_over_seeds(ours[:3], theirs[:3]).known
