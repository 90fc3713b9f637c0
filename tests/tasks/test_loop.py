"""The loop between a policy and a machine: what a policy sees, and what reaches the machine."""

import dataclasses
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning import PID, StateFeedback, Task, check_task, task_set
from crosslearning.errors import InputError
from crosslearning.tasks.loop import Loop
from crosslearning.tasks.loop_spec import LoopSpec
from crosslearning.tasks.vector import InvalidResult


class Echo(gymnasium.Env):
    """Shows a counter, an angle and the last action, so that a test can read what arrived."""

    metadata = {  # noqa: RUF012
        "observation_names": ["level [m]", "angle [rad]", "wanted [m]"],
        "action_names": ["valve [%]", "pump"],
        "rate": 4.0,
    }
    observation_space = Box(
        np.array([-1e4, -np.pi, -100.0]), np.array([1e4, np.pi, 100.0]), dtype=np.float64
    )
    action_space = Box(np.array([-2.0, 0.0]), np.array([2.0, 1.0]), dtype=np.float64)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.actions = 0, []
        return self._see(), {}

    def step(self, action):
        self.t += 1
        self.actions.append(np.array(action))
        return self._see(), -float(np.sum(action**2)), False, False, {}

    def _see(self):
        turned = (3.0 + 0.5 * self.t + np.pi) % (2 * np.pi) - np.pi
        return np.array([0.1 * self.t**2, turned, 1.0])


def echo(**fields):
    return Task("echo", lambda render_mode=None: Echo(), horizon=20, **fields)


def run_states(task, actions):
    environment = task.make()
    seen = [environment.reset(seed=0)[0]]
    seen += [environment.step(action)[0] for action in actions]
    return np.array(seen), environment


def run(task, actions):
    seen, environment = run_states(task, actions)
    return seen, np.array(environment.unwrapped.actions)


ACTIONS = np.random.default_rng(0).uniform([-2.0, 0.0], [2.0, 1.0], (8, 2))
LEVELS = 0.1 * np.arange(9.0) ** 2


def test_lags_are_differences_of_successive_observations():
    seen, _ = run(echo(lags=2), ACTIONS)
    assert seen.shape == (9, 3 * 3)
    changes = np.diff(LEVELS)
    np.testing.assert_allclose(seen[1:, 3], changes)
    np.testing.assert_allclose(seen[2:, 6], changes[:-1])
    np.testing.assert_array_equal(seen[0, 3:], 0.0)
    np.testing.assert_allclose(seen[1:, 4], 0.5)  # an angle's, also where it turns round


def test_of_a_cosine_and_its_sine_the_angle_changes():
    task = dataclasses.replace(task_set("pendulums:1")[0], lags=2)
    assert task.circles == [(0, 1)]
    assert task.observation_names[3:5] == (
        "change 1 of the angle of cosine of the angle [rad]",
        "change 1 of speed [rad/s]",
    )
    seen, _ = run_states(task, np.full((30, 1), 2.0))
    speeds = seen[1:, 2] / 20.0  # a step turns by the new speed
    np.testing.assert_allclose(seen[1:, 3], speeds, atol=1e-12)
    np.testing.assert_allclose(seen[2:, 5], speeds[:-1], atol=1e-12)
    # The change of an angle is learned; all others follow.
    known = [one.coordinate for one in task.loop.known_changes(np.zeros(1), np.ones(1))]
    assert known == [4, 5, 6]


def test_past_actions_are_what_reached_the_machine():
    seen, arrived = run(echo(past_actions=2), ACTIONS)
    np.testing.assert_array_equal(seen[1:, 3:5], arrived)
    np.testing.assert_array_equal(seen[2:, 5:7], arrived[:-1])
    np.testing.assert_array_equal(seen[0, 3:], [0.0, 0.5, 0.0, 0.5])  # the middle of the ranges


def test_a_set_point_adds_the_integral_of_its_error_in_seconds():
    inside = np.clip(ACTIONS, [-1.9, 0.1], [1.9, 0.9])
    seen, _ = run(echo(setpoints={"level": 2.0}), inside)
    np.testing.assert_allclose(seen[1:, 3], np.cumsum(2.0 - LEVELS[1:]) / 4.0)
    seen, _ = run(echo(setpoints={"level": "wanted"}), inside)
    np.testing.assert_allclose(seen[:, 3], 1.0 - LEVELS)
    np.testing.assert_allclose(seen[1:, 4], np.cumsum(1.0 - LEVELS[1:]) / 4.0)


def test_the_integral_of_a_set_point_stands_still_while_an_action_is_clipped():
    seen, _ = run(echo(setpoints={"level": 2.0}), np.tile([5.0, 0.5], (8, 1)))
    np.testing.assert_array_equal(seen[:, 3], 0.0)


def test_names_and_units_follow():
    task = echo(lags=1, past_actions=1, setpoints={"level": "wanted"}).around(
        PID([[1.0], [0.0]], ki=1.0)
    )
    assert task.observation_names == (
        "level [m]",
        "angle [rad]",
        "wanted [m]",
        "change 1 of level [m]",
        "change 1 of angle [rad]",
        "change 1 of wanted [m]",
        "valve 1 steps ago [%]",
        "pump 1 steps ago",
        "error of level [m]",
        "integral of the error of level",
        "memory 0 of the controller",
    )
    assert task.action_names == ("correction of valve [%]", "correction of pump")


@settings(max_examples=50)
@given(st.data())
def test_actions_and_rates_hold_exactly(data):
    """Whatever a policy and a controller ask for."""
    rates = {"valve": data.draw(st.floats(1e-3, 3.0)), 1: data.draw(st.floats(1e-3, 3.0))}
    limits = {"valve": (data.draw(st.floats(-2.0, 0.0)), data.draw(st.floats(0.1, 2.0)))}
    task = echo(rates=rates, limits=limits)
    if data.draw(st.booleans()):
        task = task.around(StateFeedback(np.ones((2, 3)), bias=[3.0, 0.0]))
    wild = st.floats(-1e3, 1e3)
    asked = data.draw(st.lists(st.tuples(wild, wild), min_size=2, max_size=20))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, arrived = run(task, np.array(asked))
    low, high = limits["valve"]
    assert np.all((arrived[:, 0] >= low) & (arrived[:, 0] <= high))
    assert np.all((arrived[:, 1] >= 0.0) & (arrived[:, 1] <= 1.0))
    assert np.all(np.abs(np.diff(arrived, axis=0)) <= [*rates.values()])


def test_a_correction_of_zero_is_todays_plant_to_the_last_bit():
    pid = PID(kp=[[0.3], [0.01]], ki=[[0.1], [0.0]], kd=[[0.05], [0.0]], setpoint=1.0)
    plain = [task_set("pendulums:1")[0], echo()]
    controllers = [PID(kp=1.7, ki=0.3, kd=0.1, measured=1), pid]
    for task, controller in zip(plain, controllers, strict=True):
        around = task.around(controller)
        loop, environment = around.make(), task.make()
        own = Loop(around.loop).controller
        seen, _ = loop.reset(seed=3)
        observation, _ = environment.reset(seed=3)
        q = len(observation)
        for _ in range(15):
            np.testing.assert_array_equal(seen[:q], observation)
            given_ = np.clip(own.act(observation), task.action_space.low, task.action_space.high)
            observation, reward, *_ = environment.step(given_)
            seen, other, *_ = loop.step(np.zeros(task.action_size))
            assert reward == other


def test_a_logged_episode_is_seen_as_the_loop_showed_it():
    fields = {"lags": 2, "past_actions": 1, "setpoints": {"level": 2.0}}
    pid = PID([[0.1], [0.02]], ki=[[0.05], [0.0]], setpoint=1.0, bias=[0.0, 0.5])
    task = echo(**fields).around(pid)
    corrections = 0.05 * np.random.default_rng(1).normal(size=(8, 2))
    seen, arrived = run(task, corrections)
    again, found = Loop(task.loop).replay(seen[:, :3], arrived)
    np.testing.assert_allclose(again, seen, atol=1e-12)
    np.testing.assert_allclose(found, corrections, atol=1e-12)


def test_known_changes_are_those_of_the_loop():
    fields = {"lags": 3, "past_actions": 2, "setpoints": {"level": 2.0}}
    task = echo(**fields)
    centre, half = np.array([0.0, 0.5]), np.array([2.0, 0.5])
    inside = np.clip(ACTIONS, [-1.9, 0.1], [1.9, 0.9])
    seen, _ = run(task, inside)
    units = (inside - centre) / half
    changes = task.loop.known_changes(centre, half)
    assert [change.coordinate for change in changes] == list(range(3, 3 + 9 + 4 + 1))
    for t in range(8):
        change = seen[t + 1] - seen[t]
        change[1] = 0.5  # the angle's
        for j, source, gain, slope in changes:
            expected = slope @ np.concatenate([[1.0], seen[t], units[t]])
            expected += gain * change[source] if source >= 0 else 0.0
            np.testing.assert_allclose(seen[t + 1, j] - seen[t, j], expected, atol=1e-12)


def test_a_controller_or_a_rate_leaves_past_actions_to_be_learned():
    limited = echo(past_actions=1, rates={"valve": 0.1})
    assert limited.loop.known_changes(np.zeros(2), np.ones(2)) == []


def test_tasks_behind_a_loop_pass_the_checker():
    check_task(task_set("pendulums:1")[0].around(PID(kp=2.0, ki=0.1, measured=1)))
    check_task(echo(lags=2, past_actions=2, rates={"pump": 0.2}, setpoints={0: 1.0}))


def test_a_copy_of_a_task_has_one_loop():
    task = dataclasses.replace(echo(lags=1), name="other")
    assert task.observation_size == 6
    assert (
        task.around(StateFeedback(np.zeros((2, 3))))
        .around(StateFeedback(np.ones((2, 3))))
        .make()
        .env.unwrapped.__class__
        is Echo
    )


def test_lags_of_what_no_action_changes_are_changed_by_none():
    assert echo().exogenous == ()
    assert echo(disturbances=["wanted"]).exogenous == (2,)
    task = echo(disturbances=["wanted", 0], lags=2)
    names = [task.observation_names[d] for d in task.exogenous]
    assert names == ["level [m]", "wanted [m]"] + [
        f"change {k} of {name} [m]" for k in (1, 2) for name in ("level", "wanted")
    ]
    assert task.around(PID(np.ones((2, 1)))).exogenous == task.exogenous
    (room,) = task_set("two-rooms:1")
    assert room.exogenous == (2, 3)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"lags": -1}, "lags is -1"),
        ({"lags": 1.5}, "lags is 1.5"),
        ({"past_actions": True}, "past_actions is True"),
        ({"setpoints": {"levle": 1.0}}, "did you mean 'level'"),
        ({"setpoints": {"level": "wnated"}}, "did you mean 'wanted'"),
        ({"limits": {"pressure": (0.0, 1.0)}}, "no such limit"),
        ({"limits": {"level": (2.0, 1.0)}}, r"limits of 'level' are \(2.0, 1.0\)"),
        ({"limits": {"level": 3.0}}, "a pair"),
        ({"rates": {"valve": 0.0}}, "rate of 'valve' is 0.0"),
        ({"rates": {"level": 1.0}}, "no such rate"),
        ({"chance": 1.0}, "chance is 1.0"),
        ({"disturbances": ["wnated"]}, "did you mean 'wanted'"),
        ({"lags": 1, "observation_names": ["one"]}, "give 3 different names"),
        ({"controller": 3}, "the controller is 3"),
    ],
)
def test_wrong_fields_are_named(fields, problem):
    with pytest.raises(InputError, match=problem):
        echo(**fields)


@pytest.mark.parametrize(
    ("controller", "problem"),
    [
        (lambda o: [np.nan, 0.0], "returned .nan"),
        (lambda o: 1.0, "returned 1.0 .*observation"),
        (lambda o: 1 / 0, "raised ZeroDivisionError"),
        (lambda o: "up", "raised ValueError"),
    ],
)
def test_a_bad_controller_is_named_with_the_observation_and_the_step(controller, problem):
    environment = echo().around(controller).make()
    environment.reset(seed=0)
    with pytest.raises(InvalidResult, match=f"its controller {problem}.*at step 0"):
        environment.step([0.0, 0.0])


def test_a_controller_beyond_the_bounds_is_clipped_with_one_warning():
    environment = echo().around(lambda o: [9.0, 0.5]).make()
    environment.reset(seed=0)
    with pytest.warns(UserWarning, match=r"asks for the action \[9.  0.5\].*at step 0"):
        environment.step([0.0, 0.0])
    environment.step([0.0, 0.0])  # a second warning would be an error
    np.testing.assert_array_equal(environment.unwrapped.actions, [[2.0, 0.5]] * 2)


def test_a_vector_environment_is_refused():
    def make(render_mode=None):
        return gymnasium.make_vec("Pendulum-v1", num_envs=2)

    with pytest.raises(InputError, match="a vector environment has no lags"):
        Task("many", make, lags=1).make()


def test_a_loop_that_changes_nothing():
    spec = LoopSpec.whole(Echo.observation_space, Echo.action_space)
    loop = Loop(spec)
    np.testing.assert_array_equal(loop.reset([1.0, 2.0, 3.0]), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(loop.act([0.5, 0.25]), [0.5, 0.25])
