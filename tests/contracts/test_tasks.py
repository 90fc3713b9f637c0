"""Every task of every named set satisfies one contract."""

import copy
import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from crosslearning.compiled import compiled
from crosslearning.tasks import task_set, task_set_names
from crosslearning.tasks.navigation.environment import NavigationEnvironment

TASKS = {f"{name}/{t.name}": t for name in task_set_names() for t in task_set(name)}
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())

EPISODES, STEPS = 4, 25


def random_actions(task, generator):
    """Return actions that move the task, some beyond its bounds, shape (STEPS, p)."""
    low = np.maximum(task.action_space.low, -5.0)
    high = np.minimum(task.action_space.high, 5.0)
    width = high - low
    return generator.uniform(low - 0.2 * width, high + 0.2 * width, size=(STEPS, len(low)))


@compiled
def roll(parameters, observe, step, over, state, actions, states, observations, rewards, ended):
    """A rollout as compiled code does it: through the pointers of the dynamics."""
    for k in range(len(actions)):
        observe(parameters, state, observations[k])
        rewards[k] = step(parameters, state, actions[k])
        states[k] = state
        ended[k] = over(parameters, state)
    observe(parameters, state, observations[-1])


@compiled
def call_reset(parameters, reset, uniforms, state):
    reset(parameters, uniforms, state)


def start(task, uniforms):
    """Return the state in which compiled dynamics begin; what was in it before must not matter."""
    state = np.full(task.state_size, np.nan)
    call_reset(task.dynamics.parameters, task.dynamics.reset, uniforms, state)
    return state


def compiled_episode(task, state, actions):
    """Return states, observations, rewards and ends; ``state`` is moved along."""
    q = task.observation_space.shape[0]
    states, observations = np.full((STEPS, task.state_size), np.nan), np.empty((STEPS + 1, q))
    rewards, ended = np.empty(STEPS), np.empty(STEPS, dtype=np.bool_)
    parameters, _, *pointers = task.dynamics
    roll(parameters, *pointers, state, actions, states, observations, rewards, ended)
    return states, observations, rewards, ended


@every_task
def test_gymnasium_finds_nothing_wrong(task):
    with warnings.catch_warnings():
        # Actions keep their units; this one recommendation does not apply.
        warnings.filterwarnings("ignore", message=".*symmetric and normalized space.*")
        check_env(task.make(), skip_render_check=True)


@every_task
def test_the_environment_and_the_compiled_dynamics_give_the_same_bits(task):
    generator = np.random.default_rng(1)
    environment = task.make()
    for _ in range(EPISODES):
        uniforms, actions = generator.random(task.reset_size), random_actions(task, generator)
        state = start(task, uniforms)
        _, observations, rewards, ended = compiled_episode(task, state, actions)
        observation, _ = environment.reset(options=task.reset_options(uniforms))
        for k, action in enumerate(actions):
            np.testing.assert_array_equal(observation, observations[k])
            observation, reward, terminated, truncated, _ = environment.step(action)
            assert reward == rewards[k]
            assert terminated == ended[k]
            assert not truncated
        np.testing.assert_array_equal(observation, observations[-1])


@every_task
def test_numbers_are_finite_and_observations_in_their_space(task):
    generator = np.random.default_rng(2)
    for _ in range(EPISODES):
        state = start(task, generator.random(task.reset_size))
        states, observations, rewards, _ = compiled_episode(
            task, state, random_actions(task, generator)
        )
        for array in (states, observations, rewards):
            assert np.all(np.isfinite(array))
        for observation in observations:
            assert task.observation_space.contains(observation)


@every_task
def test_a_state_can_be_put_back(task):
    generator = np.random.default_rng(3)
    state = start(task, generator.random(task.reset_size))
    compiled_episode(task, state, random_actions(task, generator))
    kept, actions = state.copy(), random_actions(task, generator)
    once = compiled_episode(task, state, actions)
    twice = compiled_episode(task, kept, actions)
    for first, second in zip(once, twice, strict=True):
        np.testing.assert_array_equal(first, second)


@every_task
def test_an_environment_can_be_put_back(task):
    # By its start and its actions, as the Gymnasium executor does it; by a copy; by its state.
    generator = np.random.default_rng(4)
    options = task.reset_options(generator.random(task.reset_size))
    before, after = random_actions(task, generator), random_actions(task, generator)
    environment = task.make()
    environment.reset(options=options)
    for action in before:
        environment.step(action)
    twin, third = copy.deepcopy(environment), task.make()
    third.reset(options={"state": environment.state})
    ahead = [environment.step(action)[:2] for action in after]
    environment.reset(options=options)
    for action in before:
        environment.step(action)
    for other in (environment, twin, third):
        for action, (observation, reward) in zip(after, ahead, strict=True):
            seen, paid, *_ = other.step(action)
            np.testing.assert_array_equal(seen, observation)
            assert paid == reward


@every_task
def test_a_task_says_what_it_is(task):
    environment = task.make()
    assert environment.observation_space == task.observation_space
    assert environment.action_space == task.action_space
    assert len(task.kernel_covariance) == task.observation_space.shape[0]
    assert min(task.kernel_covariance) > 0.0
    assert task.action_space.dtype == task.observation_space.dtype == np.float64
    # Starts differ with the numbers, and only with them.
    generator = np.random.default_rng(5)
    options = [task.reset_options(generator.random(task.reset_size)) for _ in range(2)]
    first, again, other = (environment.reset(options=o)[0] for o in (*options[:1] * 2, options[1]))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@every_task
def test_outcomes_read_final_states(task):
    if task.outcomes is None:
        assert not isinstance(task.make(), NavigationEnvironment)
        return
    uniforms = np.random.default_rng(6).random((3, task.reset_size))
    states = np.array([start(task, numbers) for numbers in uniforms])
    for values in task.outcomes(states).values():
        assert len(values) == 3
