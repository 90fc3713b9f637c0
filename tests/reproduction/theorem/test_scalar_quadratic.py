"""The moments of the antithetic estimate in closed form, against rollouts and differences."""

import numpy as np
import pytest
from benchmarks.scalar_quadratic import ScalarQuadratic

from crosslearning.errors import InputError
from crosslearning.learner.gradients import ESTIMATORS
from crosslearning.rkhs import Family, Linear
from crosslearning.rollouts import CompiledExecutor, plan_samples
from crosslearning.tasks import LinearQuadratic

MILD = LinearQuadratic([[0.5]], [[0.5]], [[1.0]], [[0.1]], [0.5], [1.5])
LOPSIDED = LinearQuadratic([[0.8]], [[0.5]], [[1.0]], [[0.3]], [-1.0], [0.5])


def single_estimates(case, gain, count, seed):
    """Return the one number of each single-sample estimate."""
    task, variance = case.system.task("one"), np.array([case.variance])
    policy = Family(Linear(std=[1.0]), [[1.0]], [[[gain]]])
    plan = plan_samples(
        np.random.default_rng(seed), [task], count, case.discount, np.sqrt(variance)
    )
    samples = CompiledExecutor([task]).samples(policy.expansion, plan, True)
    knots, weights = ESTIMATORS["antithetic"].estimate(samples, variance, case.discount)
    return knots[0, :, 0] * weights[0, :, 0] * count


@pytest.mark.parametrize(
    ("system", "variance", "discount", "gain"),
    [(MILD, 0.05, 0.7, 0.0), (MILD, 0.05, 0.7, -0.4), (LOPSIDED, 0.2, 0.6, -0.3)],
)
def test_mean_and_second_moment_of_the_estimates(system, variance, discount, gain):
    case = ScalarQuadratic(system, variance, discount)
    numbers = single_estimates(case, gain, 150_000, seed=1)
    for values, expected in (
        (numbers, case.gradient(gain)),
        (numbers**2, case.second_moment(gain)),
    ):
        error = values.std() / np.sqrt(len(values))
        assert abs(values.mean() - expected) < 4.5 * error
        # The simulation is sharp enough to see a wrong factor.
        assert error < 0.05 * abs(expected)
    deviation = case.deviation(gain)
    assert deviation**2 + case.gradient(gain) ** 2 == pytest.approx(case.second_moment(gain))


@pytest.mark.parametrize("gain", [0.2, 0.0, -0.4, -0.9])
def test_the_curvature_is_the_derivative_of_the_gradient(gain):
    case = ScalarQuadratic(LOPSIDED, 0.2, 0.8)
    difference = (case.gradient(gain + 1e-5) - case.gradient(gain - 1e-5)) / 2e-5
    assert case.curvature(gain) == pytest.approx(difference, rel=1e-6)


def test_the_best_gain_has_no_gradient():
    case = ScalarQuadratic(MILD, 0.1, 0.9)
    assert case.gradient(case.best_gain()) == pytest.approx(0.0, abs=1e-12)
    assert case.curvature(case.best_gain()) < 0.0


def test_a_system_of_another_size_is_refused():
    plane = LinearQuadratic(np.eye(2), [[1.0], [0.0]], np.eye(2), [[1.0]], [0, 0], [1, 1])
    with pytest.raises(InputError, match="2 coordinates and 1 actions"):
        ScalarQuadratic(plane, 0.1, 0.9)


def test_where_the_second_moment_is_infinite_it_says_so():
    with pytest.raises(InputError, match="second moment only below 1"):
        ScalarQuadratic(MILD, 0.1, 0.9).second_moment(1.1)
