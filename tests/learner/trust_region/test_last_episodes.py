"""The last episodes before a limit of steps are shorter, so that few steps are left over."""

import pytest

from crosslearning import PID, CrossLearner, task_set


def lengths_and_left(**settings):
    settings = {"batch_growth": 1.0, **settings}
    learner = CrossLearner(task_set("pendulums:2"), method="trust-region", seed=0, **settings)
    lengths = []
    learner.learn(
        steps=1000, progress=False, callback=lambda report: lengths.append(report.numbers["length"])
    )
    return [float(each.max()) for each in lengths], 1000 - learner.steps


def test_they_are_shorter_but_no_shorter_than_a_quarter():
    lengths, left = lengths_and_left(episode_steps=80, episodes=2, least_steps=1)
    assert lengths[0] == 80.0
    assert 20.0 <= lengths[-1] < 80.0
    assert 0 <= left < 2 * 2 * 20


def test_episodes_whose_returns_are_compared_are_all_as_long():
    lengths, _ = lengths_and_left(
        episode_steps=80, episodes=2, least_steps=1, around=PID(kp=2.0, measured=1), epsilon=0.3
    )
    assert set(lengths) == {80.0}


@pytest.mark.parametrize("steps", [400, 401, 437])
def test_they_fit_into_any_number_of_steps(steps):
    learner = CrossLearner(
        task_set("pendulums:2"), method="trust-region", seed=0, episode_steps=60, episodes=2
    )
    assert learner.learn(steps=steps, progress=False).steps <= steps
