"""Imagined rollouts, against plain NumPy, and their gradients, against differences."""

import numpy as np
import pytest

from crosslearning.learner.model_based.imagination import backpropagate, imagine
from tests.learner.model_based.examples import PENALTIES, P, Q, example, plain_returns, plain_step

N, H = 6, 5
POLICY, MODEL = np.array([0, 1, 0, 1, 0, 1]), np.array([0, 1, 2, 0, 1, 2])
DISCOUNT = 0.9

CASES = {
    "free": {"ends": 0},
    "ends": {"ends": 1},
    "tight room": {"ends": 1, "room": 0.7},
    "tight actions": {"ends": 1, "bound": 0.5},
    "limits": {"ends": 1, "penalties": PENALTIES},
    "controlled": {"ends": 1, "machine": 50.0},
}
every_case = pytest.mark.parametrize("case", CASES)


def rollouts(one, noise, trace=1.0):
    starts = np.random.default_rng(1).uniform(-0.6, 0.6, (N, Q))
    starts[:, 2] *= 5.0
    imagined = imagine(one.policies.expansion, one.world, starts, POLICY, MODEL, noise)
    backpropagate(
        imagined, one.policies.expansion, one.world, one.values, POLICY, MODEL, DISCOUNT, trace
    )
    return imagined


def some_noise():
    return 0.4 * np.random.default_rng(2).normal(size=(N, H, P))


@every_case
def test_steps_are_those_of_plain_numpy(case):
    one, noise = example(**CASES[case]), some_noise()
    imagined = rollouts(one, noise)
    for k in range(N):
        state = imagined.states[k, 0]
        for t in range(H):
            action = one.policies(state[None])[0, POLICY[k]] + noise[k, t]
            np.testing.assert_allclose(imagined.actions[k, t], action, atol=1e-12)
            state, reward, going = plain_step(one, MODEL[k], state, action)
            np.testing.assert_allclose(imagined.states[k, t + 1], state, atol=1e-12)
            assert imagined.rewards[k, t] == pytest.approx(reward, abs=1e-12)
            assert imagined.bootstrap_mask[k, t] == pytest.approx(going, abs=1e-12)


def test_the_machine_clips_the_sum_of_both_actions():
    one, noise = example(ends=1, machine=0.8), some_noise()
    imagined, ends = rollouts(one, noise), one.world.controlled.limits
    for k in range(N):
        state = imagined.states[k, 0]
        for t in range(H):
            state, reward, _ = plain_step(one, MODEL[k], state, imagined.actions[k, t])
            np.testing.assert_allclose(imagined.states[k, t + 1], state, atol=1e-12)
            assert imagined.rewards[k, t] == pytest.approx(reward, abs=1e-12)
    wide = rollouts(example(ends=1, machine=50.0), noise)
    assert np.any(imagined.states != wide.states)
    assert np.any(imagined.gradients == 0.0)
    assert ends.shape == (2, P)


def clipped(one, imagined):
    """Return where a bound of the machine cuts the sum of both actions, (N, H, P)."""
    low, high = one.world.controlled.limits
    result = np.zeros(imagined.actions.shape, dtype=bool)
    for k, t in np.ndindex(N, H):
        state = imagined.states[k, t]
        asked = [family(state[None])[0, MODEL[k], 0] for family in one.controllers]
        asked += 0.2 + np.array([[0.1, -0.3, 0.0], [1.1, -0.3, 0.0]]) @ state
        total = np.clip(asked, low, high) + imagined.actions[k, t]
        result[k, t] = (total <= low) | (total >= high)
    return result


def test_integrals_stand_still_at_bounds_and_pass_gradients_on():
    one, noise, h = example(ends=0, machine=0.4, windup=True), some_noise(), 1e-6
    imagined = rollouts(one, noise)
    for k in range(N):
        state = imagined.states[k, 0]
        for t in range(H):
            state, *_ = plain_step(one, MODEL[k], state, imagined.actions[k, t])
            np.testing.assert_allclose(imagined.states[k, t + 1], state, atol=1e-12)
    still = imagined.states[:, 1:, 1] == imagined.states[:, :-1, 1]
    assert 2 < still.sum() < still.size - 2
    inside, compared = ~clipped(one, imagined), 0
    for t, j in np.ndindex(H, P):
        up, down = noise.copy(), noise.copy()
        up[:, t, j] += h
        down[:, t, j] -= h
        change = (rollouts(one, up).returns - rollouts(one, down).returns)[:, t] / (2.0 * h)
        rows = inside[:, t, j]
        compared += int(np.sum(rows & still[:, t:].any(axis=1)))
        np.testing.assert_allclose(imagined.gradients[rows, t, j], change[rows], atol=2e-5)
    assert compared > 5


def test_disturbances_are_added_to_the_next_observation_and_the_reward():
    one, noise = example(ends=1), some_noise()
    met = 0.1 * np.random.default_rng(3).normal(size=(N, H, Q + 1))
    starts = np.random.default_rng(1).uniform(-0.3, 0.3, (N, Q))
    imagined = imagine(one.policies.expansion, one.world, starts, POLICY, MODEL, noise, met)
    world = one.world
    for k in range(N):
        for t in range(H):
            moved = world._replace(offsets=world.offsets + np.append(met[k, t], [0.0, 0.0]))
            given = (imagined.states[k, t], imagined.actions[k, t])
            state, reward, _ = plain_step(one._replace(world=moved), MODEL[k], *given)
            np.testing.assert_allclose(imagined.states[k, t + 1], state, atol=1e-12)
            assert imagined.rewards[k, t] == pytest.approx(reward, abs=1e-12)


def test_every_special_case_occurs():
    free = rollouts(example(**CASES["ends"]), some_noise())
    assert np.any(np.abs(np.diff(free.states[:, :, 2], axis=1)) > np.pi)  # an angle wrapped
    assert np.any((free.bootstrap_mask > 0.1) & (free.bootstrap_mask < 0.9))
    room = rollouts(example(**CASES["tight room"]), some_noise())
    assert np.any(np.abs(room.states[:, 1:, :2]) == 0.7)
    assert np.any(np.abs(room.outcomes[..., 0]) == 0.4 * 0.7)
    assert np.any(np.abs(room.outcomes[..., 1]) == 0.5 * 0.7)
    one = example(**CASES["tight actions"])
    actions = rollouts(one, some_noise()).actions
    assert np.any(actions > one.world.actions[1])
    assert np.any(actions < one.world.actions[0])


@every_case
@pytest.mark.parametrize("trace", [1.0, 0.7, 0.0])
def test_returns_mix_rewards_and_critic(case, trace):
    one = example(**CASES[case])
    imagined = rollouts(one, some_noise(), trace)
    for k in range(N):
        wanted = plain_returns(
            one,
            POLICY[k],
            imagined.states[k],
            imagined.rewards[k],
            imagined.bootstrap_mask[k],
            DISCOUNT,
            trace,
        )
        np.testing.assert_allclose(imagined.returns[k], wanted, atol=1e-12)


@every_case
@pytest.mark.parametrize("trace", [1.0, 0.7, 0.0])
def test_gradients_are_those_of_the_returns(case, trace):
    one, noise, h = example(**CASES[case]), some_noise(), 1e-6
    imagined = rollouts(one, noise, trace)
    low, high = one.world.actions
    for t in range(H):
        for j in range(P):
            # At a bound, the action is at its end, and the difference is taken inward alone.
            action = imagined.actions[:, t, j]
            at_low, at_high = action <= low[j], action >= high[j]
            up, down = noise.copy(), noise.copy()
            up[:, t, j] += np.where(at_low, low[j] - action + h, np.where(at_high, 0.0, h))
            down[:, t, j] -= np.where(at_high, action - high[j] + h, np.where(at_low, 0.0, h))
            step = np.where(at_low | at_high, h, 2.0 * h)
            change = rollouts(one, up, trace).returns - rollouts(one, down, trace).returns
            slope = change[:, t] / step
            outward = (at_high & (slope > 0.0)) | (at_low & (slope < 0.0))
            wanted = np.where(outward, 0.0, slope)
            np.testing.assert_allclose(imagined.gradients[:, t, j], wanted, atol=2e-5)


def test_what_is_over_is_worth_nothing():
    one = example(ends=1)
    offsets = np.array([0.0, 0.0, 0.0, 0.2, 99.0, 0.3])
    ending = one._replace(world=one.world._replace(offsets=offsets))
    imagined = rollouts(ending, some_noise())
    np.testing.assert_allclose(imagined.bootstrap_mask, 0.0, atol=1e-15)
    np.testing.assert_allclose(imagined.returns, imagined.rewards, atol=1e-12)
    # What counts is the reward at an end alone.
    np.testing.assert_allclose(imagined.rewards, imagined.outcomes[..., 1], atol=1e-12)


def test_pieces_do_not_matter():
    # A rollout is the same alone as among others.
    one, noise = example(), some_noise()
    imagined = rollouts(one, noise)
    alone = imagine(
        one.policies.expansion,
        one.world,
        imagined.states[3:4, 0],
        POLICY[3:4],
        MODEL[3:4],
        noise[3:4],
    )
    np.testing.assert_array_equal(alone.states[0], imagined.states[3])
