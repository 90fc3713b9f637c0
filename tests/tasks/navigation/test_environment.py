"""The Gymnasium side: the checker, seeds, options, states and the errors users see."""

import copy
import math
import pickle
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from crosslearning.errors import InputError
from crosslearning.tasks import ENVIRONMENT_ID, HORIZON, Circle, Navigation, NavigationEnvironment
from crosslearning.tasks.navigation.dynamics import RESET_SIZE, STATE_SIZE


@pytest.fixture
def environment():
    environment = NavigationEnvironment()
    environment.reset(seed=0)
    return environment


@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
@pytest.mark.parametrize("crash", ["absorbing", "terminate"])
def test_gymnasium_finds_nothing_wrong(render_mode, crash):
    environment = gymnasium.make(ENVIRONMENT_ID, render_mode=render_mode, crash=crash)
    with warnings.catch_warnings():
        # Speed and turn rate keep their units; this one recommendation does not apply.
        warnings.filterwarnings("ignore", message=".*symmetric and normalized space.*")
        check_env(environment.unwrapped)


def test_observations_stay_in_their_space_even_inside_obstacles():
    environment = NavigationEnvironment(
        obstacles=[(5, 3, 2.0), (2, 7, 0.5, 2, 0.4)], crash="continue", goals=[(9, 9)]
    )
    generator = np.random.default_rng(0)
    deepest = 0.0
    for seed in range(30):
        observation, _ = environment.reset(seed=seed)
        for _ in range(40):
            assert environment.observation_space.contains(observation)
            deepest = min(deepest, observation[0])
            observation, *_ = environment.step(generator.normal([1.0, 0.0], [0.5, 1.0]))
    assert deepest < -1.0


def test_the_registered_environment_has_a_horizon():
    environment = gymnasium.make(ENVIRONMENT_ID, obstacles=(), arrival="continue")
    environment.reset(seed=0)
    for step in range(1, HORIZON + 1):
        _, _, terminated, truncated, _ = environment.step(np.zeros(2))
        assert not terminated
        assert truncated == (step == HORIZON)
    longer = gymnasium.make(ENVIRONMENT_ID, max_episode_steps=200)
    assert longer.spec.max_episode_steps == 200


def test_plain_forms_describe_the_same_task():
    plain = gymnasium.make(
        ENVIRONMENT_ID,
        obstacles=[[7, 2, 0.5], {"centre": [2, 3], "semi_axes": [0.5, 2], "angle": 0.1}],
        goals=[[5, 6]],
    )
    assert plain.spec.to_json()  # so that it can be written to a file
    same = Navigation(obstacles=((7, 2, 0.5), (2, 3, 0.5, 2, 0.1)), goals=((5, 6),))
    assert plain.unwrapped.navigation == same
    np.testing.assert_array_equal(same.parameters, pickle.loads(pickle.dumps(same)).parameters)


def test_the_seed_alone_decides_the_start(environment):
    first, _ = environment.reset(seed=5)
    second, _ = environment.reset()
    again, _ = NavigationEnvironment().reset(seed=5)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, environment.reset(seed=6)[0])


def test_a_state_put_back_gives_the_same_continuation(environment):
    generator = np.random.default_rng(1)
    actions = generator.normal([1.0, 0.0], 1.0, size=(30, 2))
    for action in actions[:10]:
        environment.step(action)
    kept = environment.state
    once = [environment.step(action) for action in actions[10:]]
    other = NavigationEnvironment()
    observation, information = other.reset(options={"state": kept})
    np.testing.assert_array_equal(other.state, kept)
    twice = [other.step(action) for action in actions[10:]]
    for (seen, reward, *_), (seen_again, reward_again, *_) in zip(once, twice, strict=True):
        np.testing.assert_array_equal(seen, seen_again)
        assert reward == reward_again
    assert np.isfinite(observation).all()
    assert set(information) == {"crashed", "arrived", "goal", "position"}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
def test_a_copy_goes_on_by_itself(copied, render_mode):
    environment = NavigationEnvironment(render_mode=render_mode)
    assert copied(environment).reset(seed=3)[0].shape == (5,)
    environment.reset(seed=3)
    environment.step([1.0, 0.3])
    environment.render()
    twin = copied(environment)
    ahead = [environment.step([1.0, 0.1 * k])[0] for k in range(5)]
    np.testing.assert_array_equal(ahead, [twin.step([1.0, 0.1 * k])[0] for k in range(5)])
    np.testing.assert_array_equal(environment.render(), twin.render())
    np.testing.assert_array_equal(environment.reset()[0], twin.reset()[0])


def test_reading_the_state_does_not_touch_it(environment):
    before = environment.state
    environment.state[:] = 99.0
    np.testing.assert_array_equal(environment.state, before)


def test_a_start_can_be_given(environment):
    environment.reset(options={"start": (1.0, 2.0, 0.5)})
    np.testing.assert_array_equal(environment.state[:3], [1.0, 2.0, 0.5])
    observation, reward, *_, information = environment.step([1.0, 0.0])
    assert information["position"] == pytest.approx(
        (1 + 0.5 * math.cos(0.5), 2 + 0.5 * math.sin(0.5))
    )
    assert reward == pytest.approx(10.0 - 10.0 * observation[2])


def test_uniforms_can_be_given(environment):
    uniforms = np.random.default_rng(7).random(RESET_SIZE)
    by_seed, _ = environment.reset(seed=7)
    by_numbers, _ = environment.reset(options={"uniforms": uniforms})
    np.testing.assert_array_equal(by_seed, by_numbers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"begin": (0, 0, 0)}, "no such reset option 'begin'"),
        ({"starts": (0, 0, 0)}, "did you mean 'start'"),
        ({"start": (0, 0)}, "give 3 finite numbers"),
        ({"start": (0, math.nan, 0)}, "give 3 finite numbers"),
        ({"start": (7.0, 2.1, 0)}, "lies in an obstacle"),
        ({"start": (0, 0, 0), "state": np.zeros(STATE_SIZE)}, "exclude one another"),
        ({"state": np.zeros(4)}, f"give {STATE_SIZE} finite numbers"),
        ({"state": [0, 0, 0, 1, 0, 0, -1, 0, 0]}, "at goal 1.0, but the task has 1"),
        ({"state": [0, 0, 0, 0, 0.5, 0, -1, 0, 0]}, "must be 0 or 1"),
        ({"uniforms": np.zeros(3)}, f"give {RESET_SIZE} finite numbers"),
        ({"uniforms": np.ones(RESET_SIZE)}, r"numbers in \[0, 1\)"),
    ],
)
def test_bad_options_are_refused_and_change_nothing(environment, options, message):
    before = environment.state
    with pytest.raises(InputError, match=message):
        environment.reset(options=options)
    np.testing.assert_array_equal(environment.state, before)


@pytest.mark.parametrize("action", [[1.0], [[1.0, 2.0]], [math.nan, 0.0], "fast", None, [1, 2, 3]])
def test_bad_actions_are_refused(environment, action):
    before = environment.state
    with pytest.raises(InputError, match="give 2 finite numbers"):
        environment.step(action)
    np.testing.assert_array_equal(environment.state, before)


def test_after_the_end_nothing_moves_and_nothing_is_paid():
    environment = NavigationEnvironment(crash="terminate")
    environment.reset(options={"start": (5.9, 2.0, 0.0)})
    observation, reward, terminated, *_ = environment.step([2.0, 0.0])
    assert (reward, terminated) == (-100.0, True)
    over, again = environment.state, NavigationEnvironment(crash="terminate")
    again.reset(options={"state": over})
    for ended in (environment, again):
        seen, reward, terminated, truncated, _ = ended.step([2.0, 1.0])
        np.testing.assert_array_equal(seen, observation)
        np.testing.assert_array_equal(ended.state, over)
        assert (reward, terminated, truncated) == (0.0, True, False)
    assert environment.reset(seed=1)[0].shape == (5,)
    assert environment.step([0.0, 0.0])[1] != 0.0


def test_nothing_works_before_the_first_reset():
    environment = NavigationEnvironment(render_mode="rgb_array")
    for use in (lambda: environment.step([0, 0]), lambda: environment.state, environment.render):
        with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
            use()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"obstacles": [(7, 2, -0.5)]}, "radius is -0.5; it must be greater than 0"),
        ({"obstacles": [(7, 2, 0.0, 1.0)]}, "both must be greater than 0"),
        ({"obstacles": [(7, 2)]}, "cannot read the obstacle"),
        ({"obstacles": ["circle"]}, "cannot read the obstacle 'circle'"),
        ({"obstacles": [{"centre": (1, 1), "radios": 2}]}, "did you mean 'radius'"),
        ({"obstacles": [{"centre": (1, 1)}]}, "cannot read the obstacle"),
        ({"obstacles": [{"centre": (1, 1), "radius": 1, "angle": 1}]}, "cannot read the obst"),
        ({"obstacles": 3}, "give a sequence"),
        ({"obstacles": [(math.inf, 2, 1)]}, "give 2 finite numbers"),
        ({"goals": ()}, "no goal was given"),
        ({"goals": [(1, 2, 3)]}, "give 2 finite numbers"),
        ({"goals": [(7.0, 2.3)]}, r"the goal \(7.0, 2.3\) lies in an obstacle"),
        ({"goals": "gird"}, "goals is 'gird'; give a sequence"),
        ({"goals": "grid", "arrival_radius": 20.0}, "no goal was given"),
        ({"goal_choice": "redraw"}, "did you mean 'redrawn'"),
        ({"start": (7.0, 2.3)}, r"the start \(7.0, 2.3\) lies in an obstacle"),
        ({"start": (7.0,)}, "start is"),
        ({"heading": "north"}, "heading is 'north'"),
        ({"start_area": ((6.9, 7.1), (1.9, 2.1))}, "cover the whole start area"),
        ({"start_area": ((0, 10),)}, "x low, x high"),
        ({"start_area": ((10, 0), (0, 10))}, "must be the lower one"),
        ({"time_step": 0.0}, "time_step is 0.0; it must be greater than 0"),
        ({"arrival_radius": -1}, "arrival_radius is -1.0"),
        ({"near_share": 1.5}, "near_share is 1.5; give a probability"),
        ({"near_share": 0.5, "start": (1, 1)}, "but every episode starts at"),
        ({"near_distance": 0.0}, "near_distance is 0.0; it must be greater than 0"),
        ({"speed_bounds": (2.0, 2.0)}, "speed_bounds is"),
        ({"turn_bounds": None}, "turn_bounds is None"),
        ({"crash": "absorb"}, "did you mean 'absorbing'"),
        ({"crash": "explode"}, "known: absorbing, continue, terminate"),
        ({"arrival": "stop"}, "choice for arrival"),
        ({"obstacle_distance": "center"}, "did you mean 'centre'"),
        ({"start_in_obstacle": "maybe"}, "choice for start_in_obstacle"),
        ({"swept": "no"}, "give True or False"),
        ({"crash_reward": math.nan}, "crash_reward is nan"),
        ({"obstacle": ()}, "did you mean 'obstacles'"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        NavigationEnvironment(**parameters)


def test_an_unknown_render_mode_is_refused():
    with pytest.raises(InputError, match="did you mean 'rgb_array'"):
        NavigationEnvironment(render_mode="rgb_arrays")


def test_parameters_beside_a_task_change_it():
    base = Navigation(obstacles=(Circle((1.0, 1.0), 0.5),), time_step=0.1)
    changed = NavigationEnvironment(base, time_step=0.2).navigation
    assert (changed.obstacles, changed.time_step) == (base.obstacles, 0.2)
    assert base.time_step == 0.1
