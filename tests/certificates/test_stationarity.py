"""The stationarity gap against closed forms, and what is said where it means nothing."""

import math

import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning._base.statistics import Interval
from crosslearning.certificates import StationarityGap, stationarity_gaps
from crosslearning.errors import InputError
from crosslearning.learner.internals import radii_of
from tests.certificates.examples import CENTRE, GAINS, RADIUS, scalar_learner, true_gap

#: Also a policy at the end of the ball to which its gradient points: held back, but stationary.
ALL = {**GAINS, "held back": CENTRE - RADIUS + 0.2}


def test_the_intervals_hold_the_truth_and_little_else():
    # The centre is such that the last policy is at the ball's lower end.
    centre = CENTRE + 0.2
    learner = scalar_learner(ALL, centre, epsilon=RADIUS + 0.2)
    inside, widths = [], {name: [] for name in ALL}
    for seed in range(25):
        for one in stationarity_gaps(learner, samples=1000, seed=seed):
            exact = true_gap(ALL[one.task], centre, RADIUS + 0.2)
            inside.append(one.gap.low <= exact + 1e-12 and exact <= one.gap.high + 1e-12)
            widths[one.task].append(one.gap.high - one.gap.low)
            assert one.gap.low <= one.gap.value <= one.gap.high
            assert one.note is None
            assert one.samples == 1000
    # 100 intervals of 95 %: thirteen misses happen once in 700.
    assert sum(inside) >= 88
    assert np.median(widths["large"]) < 0.4 * true_gap(0.0, centre, RADIUS + 0.2)
    assert np.median(widths["zero"]) < 0.1


def test_the_relaxed_radius_is_used():
    learner = scalar_learner({"large": 0.0, "zero": -0.4}, projection="relaxed")
    # What the second policy, which is at the centre, leaves to the first: √2 ε.
    np.testing.assert_allclose(radii_of(learner)[0], math.sqrt(2.0) * RADIUS)
    one = stationarity_gaps(learner, samples=4000)[0]
    exact = true_gap(0.0, CENTRE, math.sqrt(2.0) * RADIUS)
    assert one.gap.low <= exact <= one.gap.high
    assert not one.gap.low <= true_gap(0.0, CENTRE, RADIUS) <= one.gap.high


def test_consensus_has_no_gap():
    gaps = stationarity_gaps(CrossLearner("linear-quadratic", 0.0).learn(3), samples=100)
    assert [one.gap for one in gaps] == [Interval(0.0, 0.0, 0.0)] * 3
    assert all("nothing about how good" in one.note for one in gaps)


def test_without_a_bound_the_gap_is_infinite():
    learner = scalar_learner(GAINS, epsilon=math.inf)
    gaps = {one.task: one for one in stationarity_gaps(learner, samples=1000)}
    assert gaps["large"].gap == Interval(math.inf, math.inf, math.inf)
    assert gaps["zero"].gap == Interval(math.inf, 0.0, math.inf)
    assert gaps["large"].verdict(10.0) == "not stationary"
    assert gaps["zero"].verdict(10.0) == "undecided"
    assert "unless the gradient is exactly zero" in gaps["zero"].note


def test_verdicts():
    one = StationarityGap("one", Interval(1.0, 0.5, 2.0), 100, 0.95)
    assert one.verdict(2.0) == "stationary"
    assert one.verdict(1.5) == "undecided"
    assert one.verdict(0.5) == "undecided"
    assert one.verdict(0.49) == "not stationary"
    with pytest.raises(InputError, match="alpha must be at least 0"):
        one.verdict(-1.0)
    with pytest.raises(InputError, match="confidence must be between"):
        stationarity_gaps(scalar_learner(GAINS), confidence=95.0)


def test_a_higher_level_is_wider():
    learner = scalar_learner({"large": 0.0})
    narrow, wide = (
        stationarity_gaps(learner, samples=500, confidence=level)[0].gap for level in (0.5, 0.999)
    )
    assert wide.low < narrow.low < narrow.high < wide.high
    assert wide.value == narrow.value
