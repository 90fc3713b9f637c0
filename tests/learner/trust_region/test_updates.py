"""Several updates of the policies with the same episodes, and a critic of the policies by then."""

import itertools

import numpy as np
import pytest

from crosslearning import CrossLearner, Task
from crosslearning.errors import FileFormatError
from crosslearning.learner.critic import lambda_returns
from tests.learner.examples import Drift, assert_same_bits, drift, recorded_reports


class Survivor(Drift):
    """A point that is paid 1 in every step, and lost outside of the box of its starts."""

    def step(self, action):
        seen, *_ = super().step(action)
        return seen, 1.0, bool(np.max(np.abs(self.place)) > self.far), False, {}

    far = 1.05


class Safe(Survivor):
    far = np.inf


def small(tasks=None, **settings):
    kernel = {"kernel": "gaussian", "std": [1.0, 1.0]}
    how = {
        "episode_steps": 20,
        "least_steps": 20,
        "episodes": 1,
        "updates": 3,
        "kernel": kernel,
        "reliable": 0.0,
    }
    return CrossLearner(
        tasks or [drift("one"), drift("two")], np.inf, method="trust-region", **{**how, **settings}
    )


def test_every_third_iteration_runs_episodes_and_all_move_the_policies():
    learner = small()
    families, reports = [], []

    def see(report):
        reports.append(report)
        families.append(learner.family)

    learner.learn(6, see)
    assert [report.steps for report in reports] == [40, 0, 0, 40, 0, 0]
    assert [report.episodes for report in reports] == [2, 0, 0, 2, 0, 0]
    returns = np.array([report.numbers["total_return"] for report in reports])
    np.testing.assert_array_equal(returns[0], returns[2])
    assert np.all(returns[2] != returns[3])
    for one, other in itertools.pairwise(families):
        assert np.any(one(np.zeros((1, 2))) != other(np.zeros((1, 2))))


def test_a_limit_of_steps_does_not_leave_updates_out():
    learner = small().learn(steps=100)
    assert (learner.steps, learner.iteration % 3) == (100, 0)


def test_a_learner_that_is_restored_between_updates_goes_on_alike(tmp_path):
    learner = small().learn(4)
    path = learner.save(tmp_path / "half.safetensors") or tmp_path / "half.safetensors"
    again = CrossLearner.load(path, tasks=[drift("one"), drift("two")])
    here, there = recorded_reports(learner, 3), recorded_reports(again, 3)
    assert_same_bits(learner.family, again.family)
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one.returns, other.returns)
        for name, numbers in one.numbers.items():
            np.testing.assert_array_equal(numbers, other.numbers[name])


def test_updates_that_cannot_be_left_are_refused():
    learner = small().learn(1)
    arrays, numbers = learner.method.state()
    with pytest.raises(FileFormatError, match="updates_left"):
        learner.method.restore(arrays, {**numbers, "updates_left": 3})


def test_shares_are_one_for_the_policies_that_acted_and_less_for_others():
    ((acted, _),) = small().learn(1).method.critic.shares
    np.testing.assert_allclose(acted, 1.0)
    later = small().learn(3).method.critic.shares[0][0]
    assert np.all(later <= 1.0)
    assert np.min(later) < 0.99


def test_unlikely_actions_count_for_nothing():
    """With shares of zero a return is the reward and the value after it, whatever came later."""
    draw = np.random.default_rng(0)
    rewards, values, last = draw.normal(size=5), draw.normal(size=5), np.array([2.0, 0.0])
    found = lambda_returns(rewards, values, np.array([3, 2]), last, 0.9, np.zeros(5))
    after = np.array([values[1], values[2], 2.0, values[4], 0.0])
    np.testing.assert_allclose(found, rewards + 0.9 * after)
    # λ belongs to the step whose return is relied on: the last of these alone.
    traces = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    found = lambda_returns(rewards, values, np.array([3, 2]), last, 0.9, traces)
    expected = rewards[1] + 0.9 * (rewards[2] + 0.9 * 2.0)
    assert found[1] == pytest.approx(expected)
    assert found[0] == pytest.approx(rewards[0] + 0.9 * values[1])


def test_values_are_held_between_those_of_the_rewards_for_ever():
    task = Task("survivor", lambda render_mode=None: Survivor(), horizon=50)
    critic = small([task], discount=0.9).learn(2).method.critic
    np.testing.assert_allclose(critic.bounds, [0.0, 10.0])
    critic.offsets[:] = 1e3
    assert np.all(critic.values(0, np.zeros((1, 2))) == critic.bounds[1])


def test_a_task_in_which_nothing_differed_keeps_its_policy():
    tasks = [
        Task("lost", lambda render_mode=None: Survivor(), horizon=50),
        Task("safe", lambda render_mode=None: Safe(), horizon=50),
    ]
    learner = small(tasks, episodes=8).learn(3)
    assert np.all(learner.family.weights[:, 1] == 0.0)
    assert np.any(learner.family.weights[:, 0] != 0.0)
