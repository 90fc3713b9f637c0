"""The closed forms of the scalar tasks against the library's, and their samples against both."""

import numpy as np
import pytest
import scipy.stats
from benchmarks.scalar_quadratic import ScalarQuadratic
from benchmarks.scalar_tasks import ScalarTasks, gaps, project

from crosslearning.learner.gradients import antithetic
from crosslearning.rollouts import executor_for, plan_samples
from crosslearning.tasks import LinearQuadratic
from tests.reproduction.theorem.theorem_examples import projected
from tests.rollouts.examples import linear_family

TASKS = ScalarTasks.spread(3)
GAINS = np.array([-0.3, -0.5, 0.1])


def system(i: int) -> LinearQuadratic:
    return LinearQuadratic([[TASKS.A[i]]], [[TASKS.B[i]]], [[TASKS.Q]], [[TASKS.R]], [-1.0], [1.0])


@pytest.mark.parametrize("i", range(3))
def test_closed_forms_are_those_of_the_library(i):
    gain = [[GAINS[i]]]
    variance, discount = TASKS.variance, TASKS.discount
    assert TASKS.returns(GAINS)[i] == pytest.approx(
        system(i).expected_return(gain, variance, discount), rel=1e-12
    )
    assert TASKS.gradients(GAINS)[i] == pytest.approx(
        system(i).gradient(gain, variance, discount)[0, 0], rel=1e-12
    )
    assert TASKS.best()[i] == pytest.approx(system(i).best_gain(discount)[0, 0], rel=1e-9)
    # Two derivations of the noise and of the curvature, each by other sums.
    scalar = ScalarQuadratic(system(i), variance, discount)
    assert TASKS.deviations(GAINS)[i] == pytest.approx(scalar.deviation(GAINS[i]), rel=1e-9)
    assert TASKS.curvatures(GAINS)[i] == pytest.approx(scalar.curvature(GAINS[i]), rel=1e-9)


def test_the_curvature_is_the_derivative_of_the_gradient():
    step = 1e-5
    slope = (TASKS.gradients(GAINS + step) - TASKS.gradients(GAINS - step)) / (2.0 * step)
    np.testing.assert_allclose(TASKS.curvatures(GAINS), slope, rtol=1e-7)


def test_samples_have_the_mean_and_the_deviation_of_the_closed_forms():
    trials = 100_000
    samples = TASKS.sample(np.broadcast_to(GAINS, (trials, 3)), 1, np.random.default_rng(0))
    sigma = TASKS.deviations(GAINS)
    z = (samples.mean(axis=0) - TASKS.gradients(GAINS)) / (sigma / np.sqrt(trials))
    assert np.all(np.abs(z) < 4.0)
    squares = (samples - TASKS.gradients(GAINS)) ** 2
    z = (squares.mean(axis=0) - sigma**2) / (squares.std(axis=0) / np.sqrt(trials))
    assert np.all(np.abs(z) < 4.5)


def test_samples_are_distributed_as_the_estimates_of_rollouts():
    task, count = system(1).task("one"), 20_000
    executor = executor_for([task])
    plan = plan_samples(
        np.random.default_rng(3), [task], count, TASKS.discount, np.sqrt([TASKS.variance])
    )
    policy = linear_family([np.array([[GAINS[1]]])], [1.0]).expansion
    samples = executor.samples(policy, plan, True)
    knots, weights = antithetic(samples, np.array([TASKS.variance]), TASKS.discount)
    executor.close()
    theirs = count * knots[0, :, 0] * weights[0, :, 0]
    ours = TASKS.sample(np.broadcast_to(GAINS, (count, 3)), 1, np.random.default_rng(1))[:, 1]
    # Kolmogorov and Smirnov's test of one distribution.
    assert scipy.stats.ks_2samp(theirs, ours).pvalue > 1e-3


def test_the_projection_of_numbers_is_the_librarys():
    generator = np.random.default_rng(2)
    for _ in range(50):
        functions = generator.standard_normal((generator.integers(2, 6), 1))
        expected = projected(functions, 0.4)
        h, g = project(functions[None, :-1, 0], functions[-1:, 0], 0.4)
        np.testing.assert_allclose(np.append(h, g), expected[:, 0], atol=1e-12)


def test_the_gap_is_the_maximum_over_the_ball():
    slopes, gains, centre = np.array([[-2.0, 0.5]]), np.array([[0.3, 0.1]]), np.array([0.2])
    inside = np.linspace(0.1, 0.3, 1001)
    brute = [max(s * (inside - h)) for s, h in zip(slopes[0], gains[0], strict=True)]
    np.testing.assert_allclose(gaps(slopes, gains, centre, 0.1)[0], brute, rtol=1e-9)
