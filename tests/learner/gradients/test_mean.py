"""Intervals against vectors whose mean is known: they must cover, and be of use.

With the linear kernel of unit width κ(s, ·) is the vector s itself, so that units of weight one
are vectors drawn by the test.
"""

import functools
from dataclasses import astuple

import numpy as np
import pytest
from scipy import stats

from crosslearning._base.statistics import Interval
from crosslearning.errors import InputError
from crosslearning.learner.gradients import (
    GradientMean,
    IndependentEstimates,
    quantile,
)
from crosslearning.rkhs import Linear

TRIALS, COUNT = 120, 200


def mean_of(vectors):
    n, dimension = vectors.shape
    units = IndependentEstimates(vectors[:, None], np.ones((n, 1, 1)), np.ones(n))
    return GradientMean.of(Linear(std=[1.0] * dimension), units)


def least_covered(level, trials):
    """Return how many of the trials an interval of this level covers, but once in 10,000."""
    return stats.binom.ppf(1e-4, trials, level)


@functools.cache
def trials_of(dimension, length, skewed):
    """Return means of vectors around (length, 0, …) in units of their mean's noise per axis."""
    generator = np.random.default_rng([dimension, int(10 * length), skewed])
    truth = np.zeros(dimension)
    truth[0] = length / np.sqrt(COUNT)
    spread = np.linspace(1.0, 0.5, dimension)
    means = []
    for _ in range(TRIALS):
        noise = generator.standard_normal((COUNT, dimension))
        if skewed:
            noise = generator.exponential(size=(COUNT, dimension)) - 1.0
        vectors = truth + spread * noise
        means.append((vectors, mean_of(vectors)))
    return truth, means


every_example = pytest.mark.parametrize(
    ("dimension", "skewed"), [(1, False), (4, True), (40, False)], ids=["1", "4 skewed", "40"]
)
every_length = pytest.mark.parametrize("length", [0.0, 2.0, 30.0])


@every_length
@every_example
def test_norms_are_covered(dimension, length, skewed):
    truth, means = trials_of(dimension, length, skewed)
    norm = np.linalg.norm(truth)
    intervals = np.array([astuple(mean.norm(0.9)) for _, mean in means])
    # Each side by itself: an upper bound must not lean on the lower one's slack.
    assert np.sum(intervals[:, 1] <= norm) >= least_covered(0.95, TRIALS)
    assert np.sum(intervals[:, 2] >= norm) >= least_covered(0.95, TRIALS)
    assert np.all(intervals[:, 1] <= intervals[:, 0])
    assert np.all(intervals[:, 0] <= intervals[:, 2])
    if length == 30.0:
        # Far from zero the interval is as short as a scalar's, and the bias is gone.
        width = np.median(intervals[:, 2] - intervals[:, 1]) * np.sqrt(COUNT)
        assert width < 1.3 * 2 * quantile(0.95)
        error = intervals[:, 0] - norm
        assert abs(error.mean()) < 4.0 * error.std() / np.sqrt(TRIALS)


@pytest.mark.parametrize("place", ["inside", "ahead", "behind", "aside"])
@every_length
@every_example
def test_maxima_over_a_ball_are_covered(dimension, length, place, skewed):
    truth, means = trials_of(dimension, length, skewed)
    radius = 0.7
    f = np.zeros(dimension)
    f[0] = {"inside": 0.2, "ahead": 0.7, "behind": -0.7, "aside": 0.0}[place]
    if place == "aside":
        f[-1] = 0.7
    exact = float(truth @ f + radius * np.linalg.norm(truth))
    intervals = np.array(
        [
            astuple(mean.ball_maximum(vectors @ f, np.linalg.norm(f), radius, 0.9))
            for vectors, mean in means
        ]
    )
    rounding = 1e-12
    assert np.sum(intervals[:, 1] <= exact + rounding) >= least_covered(0.95, TRIALS)
    assert np.sum(intervals[:, 2] >= exact - rounding) >= least_covered(0.95, TRIALS)
    assert np.all(intervals[:, 1] >= 0.0)
    if place == "behind" and length == 30.0:
        # As good as it can be: the error is of second order, far below that of a norm.
        assert np.median(intervals[:, 2]) < 0.3 * radius * quantile(0.95) / np.sqrt(COUNT) * (
            1 + dimension / 10
        )


def test_the_plain_norm_would_be_too_long():
    truth, means = trials_of(40, 5.0, False)
    norm = np.linalg.norm(truth)
    plain = np.array([np.sqrt(mean.square) for _, mean in means])
    corrected = np.array([mean.norm(0.9).value for _, mean in means])
    assert plain.mean() > 1.3 * norm
    assert abs(corrected.mean() - norm) < 0.1 * norm


def test_squares_against_sums_over_pairs():
    vectors = np.random.default_rng(1).standard_normal((200, 3)) + 0.2
    mean = mean_of(vectors)
    assert mean.square == pytest.approx(np.sum(vectors.mean(axis=0) ** 2))
    products = vectors @ vectors.T
    pairs = (products.sum() - np.trace(products)) / (200 * 199)
    assert mean.unbiased_square(np.sum(vectors**2, axis=1)) == pytest.approx(pairs)
    np.testing.assert_allclose(mean.with_mean, vectors @ vectors.mean(axis=0))


def test_vectors_that_are_all_zero():
    mean = mean_of(np.zeros((200, 2)))
    zero = Interval(0.0, 0.0, 0.0)
    assert mean.norm(0.95) == zero
    assert mean.ball_maximum(np.zeros(200), 0.5, 1.0, 0.95) == zero


def test_a_higher_level_has_wider_bounds():
    vectors, mean = trials_of(4, 5.0, False)[1][0]
    bounds = [mean.upper_bound(vectors[:, 0], 1.0, level) for level in (0.5, 0.9, 0.999, 1 - 1e-6)]
    assert bounds == sorted(bounds)
    with pytest.raises(InputError, match="between 0 and 1"):
        quantile(1.0)
