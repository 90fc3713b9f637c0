"""What environments of others return: numbers in arrays, no info, time limits of their own."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from crosslearning import CrossLearner, PolicyGradient, Task
from crosslearning.errors import TaskError
from crosslearning.learner.evaluation import run_episodes


class Odd(gymnasium.Env):
    """A place on a line; ``change(self, result)`` is what a step returns instead of ``result``."""

    observation_space = Box(-9.0, 9.0, (1,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, change, render_mode=None):
        self.change = change

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = self.np_random.uniform(-1.0, 1.0), 0
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.steps += 1
        self.place = float(np.clip(self.place + 0.1 * action[0], -9.0, 9.0))
        shown = np.array([self.place], np.float32)
        return self.change(self, [shown, -abs(self.place), False, False, {}])


def odd(place, value, name="odd"):
    def change(environment, result):
        result[place] = value(result[place]) if callable(value) else value
        return tuple(result)

    return Task(name, lambda render_mode=None: Odd(change), horizon=12)


def still(observation):
    return np.zeros(1)


@pytest.mark.parametrize(
    "task",
    [
        odd(0, lambda x: x.astype(np.float64)),
        odd(0, lambda x: x.tolist()),
        odd(1, np.array),
        odd(1, lambda x: np.array([x])),
        odd(1, lambda x: np.array([[x]])),
        odd(1, np.float16),
        odd(2, 0),
        odd(2, np.array(False)),
        odd(3, np.array([0])),
        odd(4, None),
    ],
)
def test_what_is_meant_is_understood(task):
    episodes = run_episodes(still, task, 3)
    expected = run_episodes(still, odd(4, {}), 3)
    np.testing.assert_allclose(episodes.rewards, expected.rewards, rtol=1e-3)
    assert episodes.lengths.tolist() == [12] * 3
    assert not episodes.terminated.any()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (odd(1, np.zeros(2)), r"the reward is array\(\[0., 0.\]\).*expected a number"),
        (odd(1, "1.0"), "the reward is '1.0'.*expected a number"),
        (odd(2, 0.5), "terminated is 0.5.*expected True or False"),
        (odd(2, None), "terminated is None.*expected True or False"),
        (odd(4, ["x"]), r"the info is \['x'\].*expected a dictionary"),
    ],
)
def test_what_cannot_be_meant_is_named(task, message):
    with pytest.raises(TaskError, match=message):
        run_episodes(still, task, 1)


def test_a_start_without_an_info_is_named():
    class Bare(Odd):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0]

    task = Task("bare", lambda render_mode=None: Bare(lambda _, result: tuple(result)), horizon=5)
    with pytest.raises(TaskError, match=r"what reset returns is .*expected an observation and an"):
        run_episodes(still, task, 1)


def test_samples_beyond_a_time_limit_are_told_the_method_for_it():
    def strict(environment, result):
        if environment.steps > 3:
            raise RuntimeError("stepped after the end")
        result[3] = environment.steps == 3
        return tuple(result)

    task = Task("strict", lambda render_mode=None: Odd(strict), horizon=3)
    learner = CrossLearner([task], PolicyGradient(discount=0.95, estimator="baseline"))
    with pytest.raises(TaskError, match=r"stepped after the end.*time limit.*trust-region"):
        learner.learn(20)
    assert run_episodes(still, task, 2).lengths.tolist() == [3, 3]
