"""The share of signal in a direction, against its definition and against simulated noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslearning.learner.reliability import (
    Agreement,
    Reliability,
    correlation_of,
    task_agreement,
)


def simulated(signal, noise, tasks=1, parts=8, points=30, repeats=4000, seed=0):
    """Return products of parts (repeats, N, K, N, K) of signals (N, n) under independent noise."""
    draw = np.random.default_rng(seed)
    shape = (repeats, tasks, parts, points)
    functions = np.reshape(signal, (tasks, 1, points)) / parts
    functions = functions + noise / np.sqrt(parts) * draw.standard_normal(shape)
    flat = functions.reshape(repeats, tasks * parts, points)
    return (flat @ flat.transpose(0, 2, 1) / points).reshape(repeats, *(tasks, parts) * 2)


def test_the_signal_is_estimated_without_bias_and_its_variance_is_that_of_noise():
    signal = np.sin(np.arange(30.0))
    products = simulated(signal, 1.5)[:, 0, :, 0]
    found = np.array([Agreement.of(one) for one in products])
    energy = np.mean(signal**2)
    assert found[:, 0].mean() == pytest.approx(energy, abs=4 * found[:, 0].std() / 60.0)
    assert found[:, 1].mean() == pytest.approx(energy + 1.5**2, rel=0.02)
    noise = np.array([Agreement.of(one) for one in simulated(0.0 * signal, 1.5)[:, 0, :, 0]])
    assert noise[:, 0].mean() == pytest.approx(0.0, abs=4 * noise[:, 0].std() / 60.0)
    assert noise[:, 2].mean() == pytest.approx(noise[:, 0].var(), rel=0.15)


@given(seed=st.integers(0, 1000), parts=st.integers(2, 8), tasks=st.integers(1, 4))
def test_the_variance_is_that_of_flipped_signs_exactly(seed, parts, tasks):
    """Over all signs of the parts, which two parts' products share or not."""
    draw = np.random.default_rng(seed)
    functions = draw.normal(size=(tasks, parts, 5))
    products = functions @ functions.transpose(0, 2, 1)
    signs = 1 - 2 * (np.arange(2**parts)[:, None] >> np.arange(parts) & 1)
    flipped = signs[:, :, None] * signs[:, None, :]
    totals = [[Agreement.of(one * sign).signal for sign in flipped] for one in products]
    found = Agreement.together(products)
    np.testing.assert_allclose(np.mean(totals, axis=1), 0.0, atol=1e-9)
    assert found.variance == pytest.approx(np.sum(np.var(totals, axis=1)))
    assert found.signal == pytest.approx(sum(one[0] for one in totals))
    assert found.energy == pytest.approx(np.sum(functions.sum(axis=1) ** 2))


@given(parts=st.integers(2, 8), empty=st.integers(0, 3), signal=st.floats(0.1, 10.0))
def test_equal_parts_without_noise_are_all_signal(parts, empty, signal):
    """Also where some parts have no episodes."""
    products = np.zeros((parts + empty,) * 2)
    products[:parts, :parts] = signal
    found = Agreement.of(products)
    assert found.signal == pytest.approx(found.energy) == pytest.approx(parts**2 * signal)


def test_one_part_says_nothing_of_signal():
    assert Agreement.of(np.diag([2.0, 0.0])) == (0.0, 2.0, 0.0)


def test_what_is_known_approaches_the_share_of_signal():
    for share in (0.1, 0.7):
        noise = np.sqrt((1.0 - share) / share)
        products = simulated(np.sqrt(2.0) * np.sin(np.arange(30.0)), noise, repeats=200, seed=1)
        known, means = Reliability(), []
        for one in products:
            known = known.after(Agreement.of(one[0, :, 0]))
            means.append(known.mean)
            assert known.value == max(known.mean - 0.5 * np.sqrt(known.variance), 0.0)
        assert np.mean(means[20:]) == pytest.approx(share, abs=0.1)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_so_many_times_the_episodes_have_the_wanted_share_of_signal(share):
    """Measured: the noise of n times the episodes is smaller by √n."""
    signal, noise = np.sqrt(2.0) * np.sin(np.arange(30.0)), np.sqrt((1.0 - share) / share)
    times = Reliability(share, 0.0).episodes_for(0.5)
    products = simulated(signal, noise / np.sqrt(times), seed=2)
    found = Agreement.together(products[:, 0, :, 0])
    assert found.signal / found.energy == pytest.approx(0.5, abs=0.02)
    assert Reliability(0.5, 0.0).episodes_for(0.5) == 1.0


@given(mean=st.floats(-1.0, 1.0), share=st.floats(0.0, 1.0))
def test_the_episodes_that_are_needed_are_finite(mean, share):
    assert 0.0 < Reliability(mean, 0.1).episodes_for(share) < np.inf


def test_the_more_tasks_the_more_the_newest_iteration_counts():
    products = np.eye(8) + 0.3
    one, many = (Agreement.together(np.array([products] * N)) for N in (1, 16))
    assert one.signal / one.energy == pytest.approx(many.signal / many.energy)
    near, far = (Reliability(0.0, 0.02).after(agreement) for agreement in (one, many))
    assert 0.0 < near.mean < far.mean < one.signal / one.energy
    assert near.variance > far.variance


@given(
    signal=st.floats(-1e6, 1e6),
    energy=st.floats(0.0, 1e6),
    variance=st.floats(0.0, 1e9),
    mean=st.floats(-1.0, 1.0),
)
def test_whatever_was_measured_the_reliability_is_a_share(signal, energy, variance, mean):
    before = Reliability(mean, 0.05)
    after = before.after(Agreement(signal, energy, variance))
    assert 0.0 <= after.value <= 1.0
    assert -1.0 <= after.mean <= 1.0
    assert after.variance > 0.0
    if energy == 0.0:
        assert after == before


@pytest.mark.parametrize(
    ("second", "expected"),
    [(1.0, 1.0), (0.5, 0.8), (0.0, 0.0), (-1.0, 0.0)],
    ids=["the same", "alike", "unrelated", "opposed"],
)
def test_the_correlation_is_that_of_the_signals_under_noise(second, expected):
    """Of unrelated and of opposed tasks it is zero."""
    waves = np.sin(np.arange(30.0)), np.cos(np.arange(30.0))
    rest = {1.0: 0.0, 0.5: 0.75**0.5, 0.0: 1.0, -1.0: 0.0}[second]
    other = second * waves[0] + rest * waves[1]
    products = simulated([waves[0], other], 1.0, tasks=2, repeats=1500)
    between, within = np.mean([task_agreement(one) for one in products], axis=0)
    exact = np.mean(waves[0] * other), 0.5 * np.mean(waves[0] ** 2 + other**2)
    np.testing.assert_allclose((between, within), exact, atol=0.03)
    assert correlation_of(between, within) == pytest.approx(max(exact[0] / exact[1], 0.0), abs=0.06)


def test_without_signal_there_is_no_correlation():
    assert correlation_of(1.0, 0.0) == correlation_of(1.0, -1.0) == correlation_of(-1.0, 1.0) == 0.0
    assert correlation_of(3.0, 1.0) == 1.0
