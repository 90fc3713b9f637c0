"""Plans: the right distributions, nothing left to chance, and returns that estimate U."""

import functools

import numpy as np
import pytest
from scipy import stats

from crosslearning.rollouts import CompiledExecutor, plan_episodes, plan_samples
from crosslearning.tasks import linear_quadratic_set, task_set
from tests.rollouts.examples import LOPSIDED, linear_family


@functools.cache
def paper():
    """Return the paper's tasks, made by the first test that asks."""
    return task_set("paper")


def chi_square(counts, discount):
    """Return the p-value of P(t) = (1−γ)γᵗ for observed t, the tail in one bin."""
    n = counts.size
    last = int(np.log(20.0 / n) / np.log(discount))
    expected = n * (1.0 - discount) * discount ** np.arange(last)
    expected = np.append(expected, n - expected.sum())
    observed = np.bincount(np.minimum(counts.ravel(), last), minlength=last + 1)
    return stats.chisquare(observed, expected).pvalue


@pytest.mark.parametrize("discount", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("field", ["before", "after"])
def test_times_have_the_distribution_of_the_paper(discount, field):
    plan = plan_samples(np.random.default_rng(0), paper(), 5_000, discount)
    times = getattr(plan, field)
    assert times.min() == 0
    assert chi_square(times, discount) > 1e-3
    # The test sees a shift by one and another discount.
    assert chi_square(times + 1, discount) < 1e-9
    assert chi_square(times, discount**1.2) < 1e-9


def test_the_two_times_are_independent():
    plan = plan_samples(np.random.default_rng(1), paper(), 5_000, 0.9)
    n = plan.before.size
    pairs = [(plan.before, plan.after), (plan.before[0], plan.before[1])]
    pairs.append((plan.before[:, 1:], plan.before[:, :-1]))
    for one, other in pairs:
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 4.5 / np.sqrt(n / 3)


def test_a_plan_of_samples_has_these_shapes():
    plan = plan_samples(np.random.default_rng(2), paper(), 7, 0.9)
    reset_size = paper()[0].reset_size
    assert plan.seeds.shape == plan.before.shape == plan.after.shape == (3, 7)
    assert plan.uniforms.shape == (3, 7, reset_size)
    assert plan.noise.shape == (3, 7, 1 + np.max(plan.before + plan.after), 2)
    assert plan.before.dtype == plan.after.dtype == np.int64
    assert plan.uniforms.min() >= 0.0
    assert plan.uniforms.max() < 1.0
    assert len(np.unique(plan.seeds)) == 21


def test_uniforms_suffice_for_the_task_that_needs_most():
    mixed = (*task_set("linear-quadratic"), *paper()[:1])
    assert plan_samples(np.random.default_rng(0), mixed, 2, 0.5).uniforms.shape[2] == 17


def test_the_noise_is_standard_normal_and_all_of_it_is_new():
    plan = plan_samples(np.random.default_rng(3), paper(), 300, 0.9)
    assert stats.kstest(plan.noise.ravel()[:20_000], "norm").pvalue > 1e-3
    assert len(np.unique(plan.noise)) == plan.noise.size
    assert len(np.unique(plan.uniforms)) == plan.uniforms.size


def test_the_same_generator_gives_the_same_plan():
    one, other = np.random.default_rng(4), np.random.default_rng(4)
    for _ in range(3):
        first, second = (plan_samples(g, paper(), 5, 0.9) for g in (one, other))
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)
    # The next plan of the same generator is another one, and so is one of another seed.
    following = plan_samples(one, paper(), 5, 0.9)
    assert not np.array_equal(first.seeds, following.seeds)
    different = plan_samples(np.random.default_rng(5), paper(), 5, 0.9)
    assert not np.array_equal(different.uniforms[0, 0], first.uniforms[0, 0])


def test_a_plan_of_episodes():
    quiet = plan_episodes(np.random.default_rng(6), paper(), 4, 9)
    noisy = plan_episodes(np.random.default_rng(6), paper(), 4, 9, np.array([1.0, 2.0]))
    assert quiet.noise.shape == noisy.noise.shape == (3, 4, 9, 2)
    assert not quiet.noise.any()
    assert len(np.unique(noisy.noise)) == noisy.noise.size
    # Both start from the same places.
    np.testing.assert_array_equal(quiet.uniforms, noisy.uniforms)
    np.testing.assert_array_equal(quiet.seeds, noisy.seeds)
    assert quiet.uniforms.shape == (3, 4, paper()[0].reset_size)


def test_the_noise_is_scaled_by_its_standard_deviation():
    std = np.array([0.3, 2.0])
    plain = plan_samples(np.random.default_rng(9), paper(), 5, 0.9)
    scaled = plan_samples(np.random.default_rng(9), paper(), 5, 0.9, std)
    np.testing.assert_array_equal(scaled.noise, plain.noise * std)


def test_returns_estimate_the_discounted_return():
    systems = [*linear_quadratic_set().values()]
    tasks = task_set("linear-quadratic")
    gains = [np.array([[-0.4, -0.7]]), np.array([[0.2, -0.5]]), np.array([[0.0, 0.3]])]
    check_returns(systems, tasks, gains, np.array([0.4]), discount=0.9)


def test_returns_with_two_actions():
    gain = np.array([[0.25, -0.35], [0.3, 0.4]])
    check_returns([LOPSIDED], [LOPSIDED.task("one")], [gain], np.array([0.3, 0.15]), discount=0.7)


def check_returns(systems, tasks, gains, variance, discount):
    policies = linear_family(gains, np.ones(gains[0].shape[1])).expansion
    generator, executor = np.random.default_rng(7), CompiledExecutor(tasks)
    drawn = []
    for _ in range(20):
        plan = plan_samples(generator, tasks, 2_000, discount, np.sqrt(variance))
        drawn.append(executor.samples(policies, plan, mirrored=False).returns)
    for i, (system, gain) in enumerate(zip(systems, gains, strict=True)):
        returns = np.concatenate([part[i] for part in drawn])
        error = returns.std(ddof=1) / np.sqrt(returns.size)
        exact = system.expected_return(gain, variance, discount)
        assert abs(returns.mean() - exact) < 4.5 * error
        # And the comparison is sharp: another discount differs.
        wrong = system.expected_return(gain, variance, 0.97 * discount)
        assert abs(returns.mean() - wrong) > 4.5 * error
