"""Policies: shapes, bounds and noise of the actions that they give."""

import gymnasium
import numpy as np
import pytest

from crosslearning import CrossLearner, Policy
from crosslearning.errors import InputError
from crosslearning.rkhs import Family, Gaussian

KERNEL = Gaussian(std=[1.0, 1.0, 1.0])
STD = np.array([0.5, 0.1])


def policy_of(bound=100.0, dtype=np.float64, seed=0):
    generator = np.random.default_rng(1)
    function = Family(KERNEL, generator.standard_normal((6, 3)), generator.normal(size=(6, 1, 2)))
    space = gymnasium.spaces.Box(-bound, bound, (2,), dtype)
    return Policy("some", function, STD, space).seed(seed)


def test_one_observation_and_a_batch():
    policy = policy_of()
    batch = np.random.default_rng(2).standard_normal((5, 3))
    actions, state = policy.predict(batch)
    assert state is None
    assert actions.shape == (5, 2)
    np.testing.assert_array_equal(actions, policy.function(batch)[:, 0])
    np.testing.assert_array_equal(actions, policy.mean(batch))
    for observation, action in zip(batch, actions, strict=True):
        one, _ = policy.predict(observation)
        assert one.shape == (2,)
        np.testing.assert_array_equal(one, action)
        np.testing.assert_array_equal(policy.predict(observation.tolist())[0], action)
    assert policy.predict(batch[:1])[0].shape == (1, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("deterministic", [True, False])
def test_actions_are_clipped_to_the_space_and_of_its_type(dtype, deterministic):
    policy = policy_of(bound=0.3, dtype=dtype)
    batch = np.random.default_rng(3).standard_normal((200, 3))
    actions, _ = policy.predict(batch, deterministic)
    assert actions.dtype == dtype
    assert all(policy.action_space.contains(action) for action in actions)
    assert np.any(np.abs(actions) == dtype(0.3))
    mean = policy.mean(batch)
    assert np.max(np.abs(mean)) > 0.3  # the mean itself is not clipped
    if deterministic:
        inside = np.abs(mean) < 0.3
        np.testing.assert_allclose(actions[inside], mean[inside], rtol=1e-6)
        np.testing.assert_array_equal(np.sign(actions), np.sign(mean.astype(dtype)))


def test_noise_has_its_standard_deviation_and_comes_from_the_seed():
    observation = np.zeros((20_000, 3))
    policy = policy_of(seed=4)
    first, second = (policy.predict(observation, deterministic=False)[0] for _ in range(2))
    noise = first - policy.mean(observation)
    np.testing.assert_allclose(noise.std(axis=0), STD, rtol=0.03)
    np.testing.assert_allclose(noise.mean(axis=0) / STD, 0.0, atol=0.04)
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.04
    assert not np.any(first == second)
    again = policy_of(seed=4)
    np.testing.assert_array_equal(first, again.predict(observation, deterministic=False)[0])
    np.testing.assert_array_equal(second, again.predict(observation, deterministic=False)[0])
    other = policy_of(seed=5).predict(observation, deterministic=False)[0]
    assert not np.any(first == other)


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (1.0, r"observation must be numbers of shape \(3,\)"),
        (np.zeros((2, 2, 3)), r"numbers of shape \(3,\), or \(n, 3,\) for a batch"),
        (np.zeros(4), r"numbers of shape \(3,\)"),
        (np.zeros((5, 2)), r"numbers of shape \(3,\)"),
        ([0.0, np.nan, 0.0], "must be finite"),
    ],
)
def test_bad_observations_are_refused(observation, message):
    with pytest.raises(InputError, match=message):
        policy_of().predict(observation)


def test_the_policies_of_a_learner():
    learner = CrossLearner("paper", epsilon=0.1, step_size=0.5).learn(3)
    observation = np.array([2.0, 0.1, 4.0, -0.2, 0.5])
    values = learner.family(observation)
    policies = [learner.policy(0), learner.policy("r=1"), learner.policy(2), learner.central]
    assert [policy.name for policy in policies] == ["r=0.5", "r=1", "r=2", "central"]
    for policy, value in zip(policies, values, strict=True):
        np.testing.assert_array_equal(policy.mean(observation), value)
    low, high = learner.tasks[0].action_space.low, learner.tasks[0].action_space.high
    assert len({tuple(value) for value in values}) == 4
    for task, function in ((None, 3), (1, 1), ("r=2", 2)):
        action, _ = learner.predict(observation, task=task)
        np.testing.assert_array_equal(action, np.clip(values[function], low, high))
    assert learner.predict([observation] * 4)[0].shape == (4, 2)
    np.testing.assert_allclose(learner.central.noise_std, np.sqrt([0.05, 0.05]))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("r=3", "no such policy 'r=3'; did you mean 'r="),
        (3, "no task 3; there are 3"),
        (-1, "no task"),
    ],
)
def test_unknown_policies_are_refused(task, message):
    learner = CrossLearner("paper")
    with pytest.raises(InputError, match=message):
        learner.policy(task)


def test_alone_the_task_policy_acts():
    # ε = 3 does not hold one policy back, so the central one lags behind or has not moved.
    learner = CrossLearner("paper:r=1", step_size=0.5).learn(3)
    observation = [2.0, 0.1, 4.0, -0.2, 0.5]
    expected, _ = learner.policy(0).predict(observation)
    np.testing.assert_array_equal(learner.predict(observation)[0], expected)
    assert not np.array_equal(
        learner.central.mean(observation), learner.policy(0).mean(observation)
    )


def test_a_learner_that_has_learned_nothing_does_nothing():
    learner = CrossLearner("paper")
    action, _ = learner.predict([2.0, 0.1, 4.0, -0.2, 0.5])
    np.testing.assert_array_equal(action, [0.0, 0.0])
