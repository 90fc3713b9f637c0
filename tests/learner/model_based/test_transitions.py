"""Transitions: what episodes become."""

import numpy as np

from crosslearning.learner.model_based.data import Transitions
from crosslearning.rollouts import ActionScale, Episodes


def episodes_of_one_task():
    """Three episodes: one cut off, one that ended after two steps, one that ended at the last."""
    result = Episodes.empty((1, 3, 4), 2, 1)
    result.lengths[0] = [4, 2, 4]
    result.terminated[0] = [False, True, True]
    result.observations[0] = np.arange(3 * 5 * 2).reshape(3, 5, 2)
    result.rewards[0] = np.arange(12).reshape(3, 4)
    result.actions[0, ..., 0] = np.linspace(-4.0, 7.0, 12).reshape(3, 4)
    return result._replace(outcomes=({},)).of_task(0)


def transitions():
    scale = ActionScale(np.array([1.0]), np.array([2.0]))  # [−1, 1] is [−1, 3]
    return Transitions.of(episodes_of_one_task(), scale, np.array([[-1.0], [1.0]]))


def test_episodes_are_laid_end_to_end_without_what_comes_after_their_ends():
    result = transitions()
    assert result.rewards.tolist() == [0, 1, 2, 3, 4, 5, 8, 9, 10, 11]
    assert result.first.tolist() == [1, 0, 0, 0, 1, 0, 1, 0, 0, 0]
    np.testing.assert_array_equal(result.states[:, 0], [0, 2, 4, 6, 10, 12, 20, 22, 24, 26])
    np.testing.assert_array_equal(result.after[:, 0], result.states[:, 0] + 2)


def test_truncation_is_not_termination():
    assert transitions().terminated.tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 0, 1]


def test_actions_are_clipped_and_in_the_policies_units():
    given = np.array([-4, -3, -2, -1, 0, 1, 4, 5, 6, 7.0])
    wanted = np.clip((given - 1.0) / 2.0, -1.0, 1.0)
    np.testing.assert_allclose(transitions().actions[:, 0], wanted)


def test_they_can_be_joined():
    one, none = transitions(), Transitions.none(2, 1)
    both = Transitions.joined([none, one, one])
    assert len(both.rewards) == 20
    np.testing.assert_array_equal(both.after[10:], one.after)
    assert Transitions.joined([none, none]).states.shape == (0, 2)
