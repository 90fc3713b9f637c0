"""Transitions: what episodes become."""

import numpy as np
import pytest

from crosslearning.learner.model_based.data import Transitions, end_absorbed
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


def stuck(length, reward=-7.0, before=3, stays=True):
    """Return an episode that moves for some steps, crashes, and stays where it is."""
    n = before + 1 + length
    states = np.arange(n + 1.0)[:, None] + np.array([0.0, 0.5])
    states[before + 1 :] = states[before + 1]
    rewards = np.linspace(1.0, 2.0, n)
    rewards[before:] = reward
    actions = np.random.default_rng(0).normal(size=(n, 1))
    if not stays:
        actions[:] = 0.5
    first = np.zeros(n)
    first[0] = 1.0
    return Transitions(states[:-1], actions, states[1:], rewards, np.zeros(n), first)


def test_an_absorbing_state_becomes_an_end_with_the_same_return():
    discount, steps = 0.9, stuck(400)
    (ended,) = end_absorbed([steps], discount)
    assert len(ended.rewards) == 4
    assert ended.terminated.tolist() == [0, 0, 0, 1]
    returns = [one.rewards @ discount ** np.arange(len(one.rewards)) for one in (steps, ended)]
    assert returns[0] == pytest.approx(returns[1], rel=1e-12)
    np.testing.assert_array_equal(ended.after[-1], steps.after[3])


def test_steps_that_move_stay_as_they_are():
    data = [transitions(), transitions()]
    assert all(a is b for a, b in zip(end_absorbed(data, 0.9), data, strict=True))


@pytest.mark.parametrize(
    "steps",
    [
        stuck(2),  # too short to tell
        stuck(30, stays=False),  # nothing else was tried
        Transitions.joined([stuck(30), stuck(0, before=6)]),  # another episode left that state
    ],
)
def test_what_may_move_again_is_not_over(steps):
    (same,) = end_absorbed([steps], 0.9)
    np.testing.assert_array_equal(same.terminated, steps.terminated)
    np.testing.assert_array_equal(same.rewards, steps.rewards)


def test_a_reward_of_absorbing_states_alone_tells_of_ends_that_were_cut_off_soon():
    long, short, at_once = stuck(9), stuck(1, before=1), stuck(0, before=2)
    far = [
        one._replace(states=one.states + k, after=one.after + k)
        for k, one in ((50, short), (90, at_once))
    ]
    ended = end_absorbed([long, Transitions.joined(far)], 0.5)
    assert ended[1].terminated.tolist() == [0, 1, 0, 0, 1]
    # Where the reward is seen elsewhere, it tells nothing.
    usual = far[0]._replace(rewards=np.full(3, -7.0))
    assert not np.any(end_absorbed([long, usual], 0.5)[1].terminated)
