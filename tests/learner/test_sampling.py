"""Samples: unbiased although their noise is drawn wider, and inner products that are right."""

import numpy as np
import pytest

from crosslearning.errors import InputError
from crosslearning.learner.gradients import ESTIMATORS, GROUPS, IndependentEstimates, group_products
from crosslearning.learner.sampling import Sampling, draw_plans, noise_scale, run_plans
from crosslearning.rkhs import Gaussian, Linear
from crosslearning.rollouts import CompiledExecutor, Noise
from tests.rollouts.examples import LOPSIDED, linear_family

VARIANCE = np.array([0.3, 0.15])
GAINS = np.array([[[0.3, -0.3], [0.4, 0.1]], [[0.0, 0.1], [-0.2, 0.0]]])
DISCOUNT = 0.8


def sampling_of(name, workers=1):
    tasks = [LOPSIDED.task("one"), LOPSIDED.task("two")]
    executor = CompiledExecutor(tasks, workers)
    kernel = Linear(std=[1.0, 1.0])
    return Sampling(executor, ESTIMATORS[name], kernel, Noise(VARIANCE), DISCOUNT, 4)


def units_of(name, samples, seed, workers=1):
    sampling = sampling_of(name, workers)
    plans = draw_plans(sampling, samples, np.random.default_rng(seed))
    return run_plans(sampling, linear_family(GAINS, (1.0, 1.0)).expansion, plans)[0]


def scores(units, task, ratios):
    """Return how many standard errors the units' mean is from the gradient, entry by entry."""
    matrices = np.einsum("ubp,ubq->upq", units.weights, units.knots) * ratios[:, None, None]
    exact = LOPSIDED.gradient(GAINS[task], VARIANCE, DISCOUNT)
    return (matrices.mean(axis=0) - exact) / (matrices.std(axis=0) / np.sqrt(len(matrices)))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_mean_of_the_units_is_the_gradient(name):
    for task, units in enumerate(units_of(name, 40_000, seed=1)):
        assert np.max(np.abs(scores(units, task, units.ratios))) < 4.5


def test_without_the_ratios_it_is_not():
    units = units_of("antithetic", 40_000, seed=1)[0]
    assert np.max(np.abs(scores(units, 0, np.ones(len(units))))) > 20.0


def test_ratios_have_mean_one_and_a_bound():
    ratios = units_of("antithetic", 40_000, seed=2)[0].ratios
    assert abs(ratios.mean() - 1.0) < 4.5 * ratios.std() / np.sqrt(len(ratios))
    assert np.max(ratios) <= noise_scale(2) ** 2
    assert all(noise_scale(p) ** p < np.exp(1.5) for p in (1, 2, 5, 50))


def test_wider_noise_takes_off_variance_and_skewness():
    wide, plain = units_of("antithetic", 20_000, seed=3)[0], None
    sampling = sampling_of("antithetic")
    generator = np.random.default_rng(3)
    plans = draw_plans(sampling, 20_000, generator)
    for plan, ratios in plans:
        rows = (*np.ix_(*map(np.arange, plan.before.shape)), plan.before)
        plan.noise[rows] /= noise_scale(2)
        ratios[:] = 1.0
    policies = linear_family(GAINS, (1.0, 1.0)).expansion
    plain = run_plans(sampling, policies, plans)[0][0]
    squares = [units.squares(sampling.kernel) * units.ratios for units in (wide, plain)]
    # The same second moment, from samples that vary far less. Measured: 2.5 and 5.4.
    assert squares[0].mean() == pytest.approx(squares[1].mean(), rel=0.15)
    assert squares[0].std() < 0.7 * squares[1].std()


def test_coupled_samples_keep_their_noise_and_their_batches():
    units = units_of("baseline", 800, seed=4)[0]
    assert units.knots.shape == (200, 4, 2)
    assert np.all(units.ratios == 1.0)


def test_threads_do_not_matter():
    for one, other in zip(
        units_of("antithetic", 300, 5), units_of("antithetic", 300, 5, workers=2), strict=True
    ):
        np.testing.assert_array_equal(one.weights, other.weights)
        np.testing.assert_array_equal(one.knots, other.knots)


def random_units(seed, units, size, kernel):
    generator = np.random.default_rng(seed)
    return IndependentEstimates(
        generator.standard_normal((units, size, kernel.dimension)),
        generator.standard_normal((units, size, 2)),
        generator.uniform(0.5, 2.0, units),
    )


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("kernel", [Gaussian(std=[1.0, 0.5]), Linear(std=[1.0, 2.0])])
def test_inner_products_against_the_whole_gram_matrix(kernel, size, monkeypatch):
    # So few kernel values at a time that several blocks are needed.
    monkeypatch.setattr("crosslearning.learner.gradients._BLOCK", 5000)
    units = random_units(1, 2 * GROUPS, size, kernel)
    weights = (units.weights * units.ratios[:, None, None]).reshape(-1, 2)
    gram = kernel(units.knots.reshape(-1, 2)) * (weights @ weights.T)
    between = gram.reshape(2 * GROUPS, size, 2 * GROUPS, size).sum(axis=(1, 3))
    expected = between.reshape(2 * GROUPS, GROUPS, 2).mean(axis=2)
    np.testing.assert_allclose(group_products(kernel, units), expected, rtol=1e-10, atol=1e-10)
    own = np.diag(between) / units.ratios**2
    np.testing.assert_allclose(units.squares(kernel), own, rtol=1e-10)


def test_differences_of_units():
    kernel = Gaussian(std=[1.0, 0.5])
    one, other = (random_units(seed, GROUPS, 1, kernel) for seed in (1, 2))
    other = IndependentEstimates(other.knots, other.weights, one.ratios)
    place = np.array([[0.3, -0.2]])

    def value(units):
        flat = (units.weights * units.ratios[:, None, None]).reshape(-1, 2)
        return kernel(place, units.knots.reshape(-1, 2)) @ flat

    np.testing.assert_allclose(value(one.minus(other, 3.0)), 3.0 * (value(one) - value(other)))


def test_numbers_of_samples():
    assert sampling_of("antithetic").count(1) == GROUPS
    assert sampling_of("antithetic").count(1001) == 11 * GROUPS
    assert sampling_of("baseline").count(1000) == 12 * GROUPS
    with pytest.raises(InputError, match="samples must be a whole number of at least 1, got 0"):
        sampling_of("antithetic").count(0)
    with pytest.raises(InputError, match="do not make 100 equal groups"):
        group_products(Linear(std=[1.0, 1.0]), random_units(1, 150, 1, Linear(std=[1.0, 1.0])))
