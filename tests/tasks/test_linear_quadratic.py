"""Linear-quadratic tasks: closed forms against sums, differences and the best policy."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest

from crosslearning.errors import InputError
from crosslearning.tasks import LINEAR_QUADRATIC_ID, linear_quadratic_set
from crosslearning.tasks import linear_quadratic as module
from tests.rollouts.examples import LOPSIDED, SCALAR, wide_system

GAIN = np.array([[0.25, -0.35], [0.3, 0.4]])
VARIANCE = np.array([0.3, 0.15])


def test_a_scalar_system_by_hand():
    # F = 0.9 − 0.2 = 0.7; S₀ = 1 + 16/12; Z = (S₀ + γ/(1−γ) b²σ²) / (1 − γF²).
    gamma, sigma2, m = 0.8, 0.1, -0.4
    Z = (1.0 + 16.0 / 12.0 + 4.0 * 0.25 * sigma2) / (1.0 - gamma * 0.49)
    U = -(2.0 + 0.3 * m**2) * Z - 0.3 * sigma2 / 0.2
    assert SCALAR.expected_return([[m]], sigma2, gamma) == pytest.approx(U, rel=1e-13)


@pytest.mark.parametrize("discount", [0.5, 0.95])
def test_the_expected_return_is_the_sum_over_time(discount):
    A, B, Q, R = (np.array(m) for m in (LOPSIDED.A, LOPSIDED.B, LOPSIDED.Q, LOPSIDED.R))
    low, high = np.array(LOPSIDED.start_low), np.array(LOPSIDED.start_high)
    F, noise = A + B @ GAIN, np.diag(VARIANCE)
    S = np.outer(low + high, low + high) / 4 + np.diag((high - low) ** 2) / 12
    total = 0.0
    for t in range(2_000):
        action = GAIN @ S @ GAIN.T + noise  # E[a aᵀ]
        total -= discount**t * (np.trace(Q @ S) + np.trace(R @ action))
        S = F @ S @ F.T + B @ noise @ B.T
    assert LOPSIDED.expected_return(GAIN, VARIANCE, discount) == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("system", [LOPSIDED, wide_system(0), *linear_quadratic_set().values()])
def test_the_gradient_is_the_derivative(system):
    generator = np.random.default_rng(1)
    p, q = system.outputs, system.state_size
    gain = 0.1 * generator.standard_normal((p, q))
    variance = generator.uniform(0.1, 1.0, p)
    gradient = system.gradient(gain, variance, 0.9)
    for a in range(p):
        for d in range(q):
            change = np.zeros((p, q))
            change[a, d] = 1e-5
            ends = [system.expected_return(gain + s * change, variance, 0.9) for s in (1, -1)]
            assert gradient[a, d] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("system", [LOPSIDED, wide_system(0), *linear_quadratic_set().values()])
def test_the_best_gain_is_the_best(system):
    best = system.best_gain(0.9)
    assert np.max(np.abs(system.gradient(best, 0.2, 0.9))) < 1e-9
    top = system.expected_return(best, 0.2, 0.9)
    generator = np.random.default_rng(2)
    for _ in range(20):
        other = best + 0.05 * generator.standard_normal(best.shape)
        assert system.expected_return(other, 0.2, 0.9) < top


def test_the_set_is_stable_without_control_and_can_be_improved():
    for system in linear_quadratic_set().values():
        assert np.max(np.abs(np.linalg.eigvals(np.array(system.A)))) < 1.0
        rest = system.expected_return(np.zeros((1, 2)), 0.05, 0.9)
        assert system.expected_return(system.best_gain(0.9), 0.05, 0.9) > 0.7 * rest


def test_a_return_without_expectation_is_refused():
    with pytest.raises(InputError, match=r"finite only below 1"):
        SCALAR.expected_return([[2.0]], 0.1, 0.9)


def test_compiled_equals_interpreted():
    system = wide_system(3)
    generator = np.random.default_rng(4)
    parameters = system.parameters
    fast, plain = np.empty(5), np.empty(5)
    uniforms = generator.random(5)
    module.start_episode(parameters, uniforms, fast)
    module.start_episode.py_func(parameters, uniforms, plain)
    np.testing.assert_allclose(fast, plain, rtol=1e-15)
    np.testing.assert_allclose(plain, -1.0 + 3.0 * uniforms, rtol=1e-15)
    A, B, Q, R = (np.array(m) for m in (system.A, system.B, system.Q, system.R))
    for action in generator.standard_normal((10, 2)):
        x = plain.copy()
        reward = module.step(parameters, fast, action)
        assert reward == pytest.approx(module.step.py_func(parameters, plain, action), rel=1e-12)
        assert reward == pytest.approx(-(x @ Q @ x + action @ R @ action), rel=1e-12)
        np.testing.assert_allclose(fast, plain, rtol=1e-12)
        np.testing.assert_allclose(plain, A @ x + B @ action, rtol=1e-12)


def test_actions_are_clipped_far_out_and_a_nan_is_seen():
    parameters = SCALAR.parameters
    far, bound = np.zeros(1), np.zeros(1)
    for sign in (-1.0, 1.0):
        far[0] = bound[0] = 0.0
        paid = module.step(parameters, far, np.array([sign * 1e9]))
        assert paid == module.step(parameters, bound, np.array([sign * 1e6]))
        assert far[0] == bound[0] == sign * 0.5e6
    assert np.isnan(module.step(parameters, far, np.array([np.nan])))


def test_the_registered_environment():
    environment = gymnasium.make(LINEAR_QUADRATIC_ID)
    assert environment.unwrapped.system == linear_quadratic_set()["m=1"]
    changed = gymnasium.make(LINEAR_QUADRATIC_ID, start_low=[0.0, 0.0]).unwrapped.system
    assert changed.start_low == (0.0, 0.0)
    observation, _ = environment.reset(options={"state": [1.0, 2.0]})
    np.testing.assert_array_equal(observation, [1.0, 2.0])
    observation, reward, terminated, truncated, _ = environment.step(np.array([1.0]))
    np.testing.assert_allclose(observation, [2.0, 2.0 - 0.25 - 0.5 + 0.5], rtol=1e-15)
    assert reward == pytest.approx(-(1.0 + 4.0 + 0.1))
    assert not terminated
    assert not truncated
    assert gymnasium.make(LINEAR_QUADRATIC_ID).spec.max_episode_steps == 50


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_goes_on_by_itself(copied):
    environment = LOPSIDED.environment()
    assert copied(environment).reset(seed=1)[0].shape == (2,)
    environment.reset(seed=1)
    twin = copied(environment)
    ahead = [environment.step([0.1, 0.2])[0] for _ in range(4)]
    np.testing.assert_array_equal(ahead, [twin.step([0.1, 0.2])[0] for _ in range(4)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": [[1.0]]}, r"A is .*; give finite numbers of shape \(2, 2\)"),
        ({"B": [1.0, 2.0]}, "B is .*; give a matrix"),
        ({"R": [[1.0]]}, r"R is .*shape \(2, 2\)"),
        ({"Q": [[1.0, 0.0], [0.0, -1.0]]}, "Q is .*positive semi-definite"),
        ({"Q": [[1.0, 0.3], [0.0, 1.0]]}, "Q is .*symmetric"),
        ({"A": [[1.0, np.nan], [0.0, 1.0]]}, "A is .*finite"),
        ({"A": "fast"}, "A is 'fast'"),
        ({"start_low": (2.0, 0.0)}, "must not be above start_high"),
        ({"start_hihg": (2.0, 0.0)}, "did you mean 'start_high'"),
    ],
)
def test_bad_parameters_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        LOPSIDED.replace(**changes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"states": [0, 0]}, "did you mean 'state'"),
        ({"state": [0.0]}, r"'state' is \[0.0\]"),
        ({"uniforms": [0.5, 1.0]}, r"numbers in \[0, 1\)"),
        ({"state": [0, 0], "uniforms": [0, 0]}, "exclude one another"),
    ],
)
def test_bad_options_are_refused(options, message):
    environment = LOPSIDED.environment()
    environment.reset(seed=0)
    before = environment.state
    with pytest.raises(InputError, match=message):
        environment.reset(options=options)
    np.testing.assert_array_equal(environment.state, before)


def test_bad_use_is_refused():
    environment = LOPSIDED.environment()
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        environment.step([0.0, 0.0])
    environment.reset(seed=0)
    with pytest.raises(InputError, match=r"the action is \[0.0\]"):
        environment.step([0.0])
    with pytest.raises(InputError, match="no picture"):
        LOPSIDED.environment(render_mode="human")
