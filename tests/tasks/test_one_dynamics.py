"""One dynamics for all: compiled, interpreted, through pointers and through Gymnasium."""

import numpy as np
import pytest

from crosslearning.compiled import compiled
from crosslearning.tasks import Circle, Ellipse, Navigation
from crosslearning.tasks.navigation import dynamics as dynamics
from crosslearning.tasks.navigation.dynamics import RESET_SIZE, STATE_SIZE, State

TURNED = Ellipse((4.0, 4.0), (0.5, 2.0), 0.6)


def test_compiled_functions_agree_with_their_python_bodies():
    generator = np.random.default_rng(4)
    for crash in ("absorbing", "terminate", "continue"):
        navigation = Navigation(
            obstacles=(TURNED, Circle((7.0, 2.0), 1.5)), goals=((1.0, 8.0), (9.0, 9.0)), crash=crash
        )
        parameters = navigation.parameters
        for _ in range(20):
            uniforms = generator.random(RESET_SIZE)
            fast, plain = np.empty(STATE_SIZE), np.empty(STATE_SIZE)
            dynamics.start_episode(parameters, uniforms, fast)
            dynamics.start_episode.py_func(parameters, uniforms, plain)
            np.testing.assert_allclose(fast, plain, atol=1e-14)
            for action in generator.uniform([0.0, -2.0], [2.0, 2.0], size=(15, 2)):
                reward = dynamics.step(parameters, fast, action)
                expected = dynamics.step.py_func(parameters, plain, action)
                assert reward == pytest.approx(expected, abs=1e-11)
                np.testing.assert_allclose(fast, plain, atol=1e-12)
                seen, wanted = np.empty(5), np.empty(5)
                dynamics.observe(parameters, fast, seen)
                dynamics.observe.py_func(parameters, plain, wanted)
                # Where a crash has put the robot on a surface, the opening angle is the square
                # root of a rounding error away from π.
                np.testing.assert_allclose(seen, wanted, atol=1e-6)
                assert dynamics.ended(parameters, fast) == dynamics.ended.py_func(parameters, plain)


@compiled
def roll(task, uniforms, actions, states, observations, rewards):
    """A rollout as compiled code does it: through the pointers of the dynamics."""
    state = np.empty(states.shape[1])
    task.reset(task.parameters, uniforms, state)
    for index in range(actions.shape[0]):
        task.observe(task.parameters, state, observations[index])
        rewards[index] = task.step(task.parameters, state, actions[index])
        states[index] = state


@pytest.mark.parametrize("crash", ["absorbing", "terminate", "continue"])
def test_the_environment_and_a_compiled_rollout_give_the_same_bits(crash):
    obstacles = (TURNED, Circle((7.0, 2.0), 1.5))
    task = Navigation(obstacles=obstacles, goals=((3.0, 7.0), (8.0, 8.0)), crash=crash).task("both")
    generator = np.random.default_rng(5)
    environment = task.make()
    crashed = []
    for _ in range(30):
        uniforms = generator.random(task.reset_size)
        actions = generator.normal([1.2, 0.0], [0.8, 1.0], size=(40, 2))
        states, observations = np.empty((40, task.state_size)), np.empty((40, 5))
        rewards = np.empty(40)
        roll(task.dynamics, uniforms, actions, states, observations, rewards)
        observation, _ = environment.reset(options=task.reset_options(uniforms))
        for index, action in enumerate(actions):
            np.testing.assert_array_equal(observation, observations[index])
            observation, reward, terminated, truncated, _ = environment.step(action)
            assert reward == rewards[index]
            np.testing.assert_array_equal(environment.state, states[index])
            assert terminated == (crash == "terminate" and states[index, State.CRASHED] == 1.0)
            assert not truncated
        crashed.append(task.outcomes(states[-1:])["crashed"][0])
    assert 3 < sum(crashed) < 30
