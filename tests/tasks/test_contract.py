"""The checker of tasks: what it passes, and that it reports each fault."""

import dataclasses
import math
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from crosslearning.errors import InputError
from crosslearning.tasks import CompiledEnvironment, Physics, Task, check_task, clipped, compiled


class Place(gymnasium.Env):
    """A place on a line, pushed by actions; it ends beyond ±3. ``faults`` replaces results."""

    def __init__(self, render_mode=None, space=None, pushes=None, late=1, **faults):
        self.observation_space = space or Box(-9.0, 9.0, (1,), np.float32)
        self.action_space = pushes or Box(-1.0, 1.0, (1,), np.float32)
        self.faults, self.late, self.steps, self.total = faults, late, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = self.np_random.uniform(-1.0, 1.0, 1), 0
        return self.faults.get("start", (self.place.astype(np.float32), {}))

    def step(self, action):
        assert self.action_space.contains(action)
        assert abs(self.place[0]) <= 3.0, "stepped after the end"
        assert self.steps <= 60, "stepped after a time limit"
        self.steps += 1
        self.total += 1
        self.place = self.place + action
        if self.steps >= self.late and "drift" in self.faults:
            self.place = self.place + self.faults["drift"](self)
        result = {
            "observation": self.place.astype(np.float32),
            "reward": -float(abs(self.place[0])),
            "terminated": bool(abs(self.place[0]) > 3.0),
            "truncated": self.steps > 60,
        }
        if self.steps >= self.late:
            result |= {key: value for key, value in self.faults.items() if key in result}
        return *result.values(), {}


class Wide(Place):
    def reset(self, **keywords):
        return super().reset(**keywords)[0][None], {}

    def step(self, action):
        observation, *rest = super().step(action)
        return observation[None], *rest


def test_a_sound_environment_passes():
    check_task(Task("place", Place))
    check_task(Task("rewards of NumPy", partial(Place, reward=np.float32(1.0))))
    check_task(Task("whole rewards", partial(Place, reward=1)))
    check_task(Task("rewards in arrays", partial(Place, reward=np.array([1.0]))))
    check_task(Task("ends of NumPy", partial(Place, truncated=np.array([False]), late=1)))
    check_task(Task("ends as numbers", partial(Place, truncated=0)))
    check_task(Task("two axes", partial(Wide, space=Box(-9.0, 9.0, (1, 1), np.float32))))


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ({"space": Discrete(3)}, "observation_space is Discrete.*Box of numbers"),
        ({"space": Box(-9.0, 9.0, (1, 2))}, r"the start is of .*shape \(1,\).*\(1, 2\)"),
        ({"pushes": Box(-3, 3, (1,), np.int64)}, "action_space is .*give floats"),
        ({"pushes": Box(1.0, 1.0, (1,))}, "action_space is .*low ends below the high"),
        ({"start": np.zeros(1, np.float32)}, r"reset\(\) returned .*give \(observation, info\)"),
        ({"start": (np.zeros(2, np.float32), {})}, r"the start is .*shape \(2,\)"),
        ({"observation": np.zeros((1, 1), np.float32), "late": 30}, r"step 30 is .*shape \(1, 1\)"),
        ({"observation": [0.0, 1.0]}, r"is of type list and shape \(2,\)"),
        ({"observation": "far"}, "is of type str"),
        ({"observation": np.full(1, np.nan, np.float32)}, "observations must be finite"),
        ({"reward": None}, "reward of step 1 is None; give a finite number"),
        ({"reward": np.ones(2)}, r"reward of step 1 is array\(\[1., 1.\]\)"),
        ({"reward": "1.0"}, "reward of step 1 is '1.0'"),
        ({"reward": np.inf, "late": 4}, "reward of step 4 is inf"),
        ({"terminated": "False"}, "terminated is 'False' at step 1; give True or False"),
        ({"truncated": 2}, "truncated is 2"),
        ({"drift": lambda e: {}["no such"]}, "step 1 raised KeyError: 'no such' .*test_contract"),
    ],
)
def test_faults_of_environments_are_reported(faults, message):
    if "late" not in faults:
        faults = {**faults, "late": 1}
    steady = {} if "drift" in faults else {"pushes": Box(-0.01, 0.01, (1,), np.float32)}
    with pytest.raises(InputError, match=f"(?s)task 'faulty': .*{message}"):
        check_task(Task("faulty", partial(Place, **(steady | faults))))


def test_bounds_are_as_exact_as_their_type():
    with pytest.warns(UserWarning, match="float64") as caught:
        check_task(Task("odd", partial(Place, observation=np.array([9.0 + 1e-9]))))
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ({"observation": np.zeros(1)}, "of type float64, .*float32.*DtypeObservation"),
        ({"observation": [0.0]}, "of type list, .*nothing is lost"),
        (
            {"observation": np.full(1, 9.5, np.float32)},
            "is 9.5, outside of .* -9 and 9.*Transform",
        ),
        ({"drift": lambda e: 1e-3 * (e.total > 40)}, "differ after .*'baseline': 'antithetic'"),
        ({"drift": lambda e: np.random.default_rng().normal()}, "self.np_random alone"),
    ],
)
def test_what_can_be_learned_with_is_warned_of(faults, message):
    with pytest.warns(UserWarning, match=f"(?s)task 'odd': .*{message}"):
        check_task(Task("odd", partial(Place, **faults)))


class Limited(Place):
    """Its own time limit, as ``truncated`` or as ``terminated``; it must not be outlasted."""

    def __init__(self, kind, limit, render_mode=None):
        super().__init__(pushes=Box(-0.01, 0.01, (1,), np.float32))
        self.kind, self.limit = kind, limit

    def step(self, action):
        assert self.steps < self.limit, "stepped after the end"
        observation, reward, *_, info = super().step(action)
        ended = self.steps == self.limit
        return (
            observation,
            reward,
            self.kind == "terminated" and ended,
            self.kind == "truncated" and ended,
            info,
        )


def test_time_limits_of_its_own_are_seen():
    with pytest.warns(UserWarning, match="truncated after 30 steps, .*say horizon=30"):
        check_task(Task("limited", partial(Limited, "truncated", 30)))
    check_task(Task("limited", partial(Limited, "truncated", 30), horizon=30))
    with pytest.warns(UserWarning, match="all 6 episodes terminated at step 30.*horizon=29"):
        check_task(Task("limited", partial(Limited, "terminated", 30)))
    check_task(Task("one step", partial(Limited, "terminated", 1)))


def test_an_old_interface_is_named_with_what_converts_it():
    def steps(action):
        return np.zeros(1, np.float32), 0.0, False, {}

    old = gymnasium.wrappers.TimeLimit(Place(), 20)
    old.env.step = steps
    with pytest.raises(InputError, match=r"four things.*GymV21CompatibilityV0"):
        check_task(Task("old", lambda render_mode=None: old))
    message = r"reset raised TypeError.*reset\(seed=..., options=...\)"

    class Bare(Place):
        def reset(self, seed=None):
            return super().reset(seed=seed)

    with pytest.raises(InputError, match=message):
        check_task(Task("bare", Bare))


def test_a_number_for_an_action_is_had_by_a_wrapper():
    class Number(Place):
        def step(self, action):
            return super().step(np.array([math.tanh(action)], np.float32))

    with pytest.raises(InputError, match=r"TransformAction.*float"):
        check_task(Task("number", Number))

    def make(render_mode=None):
        inner = Number()
        return gymnasium.wrappers.TransformAction(inner, lambda a: float(a[0]), inner.action_space)

    check_task(Task("wrapped", make))


def test_environments_of_one_task_must_be_alike():
    sizes = iter((9.0, 8.0))
    task = Task("faulty", lambda: Place(space=Box(-next(sizes), 9.0, (1,), np.float32)))
    with pytest.raises(InputError, match="different observation_spaces"):
        check_task(task)


# Compiled dynamics ---------------------------------------------------------------------------


def start(parameters, uniforms, state):
    state[0] = uniforms[0] - 0.5
    state[1] = uniforms[1]


def see(parameters, state, observation):
    observation[0] = state[0]
    observation[1] = state[1]


def push(parameters, state, action):
    state[0] += parameters[0] * clipped(action[0], -1.0, 1.0)
    return -abs(state[0])


def beyond(parameters, state):
    return abs(state[0]) > 3.0


class Cart(CompiledEnvironment):
    physics = Physics(start, see, push, beyond, state_size=2, reset_size=2)
    observation_space = Box(-9.0, 9.0, (2,), np.float64)
    action_space = Box(-1.0, 1.0, (1,), np.float64)

    def outcomes(self, states):
        return {"right": states[:, 0] > 0.0}


def half_a_start(parameters, uniforms, state):
    state[0] = uniforms[0] - 0.5


def greedy_start(parameters, uniforms, state):
    state[0] = uniforms[0] - 0.5
    state[1] = uniforms[2]


def far_start(parameters, uniforms, state):
    state[0] = 4.0
    state[1] = 0.0


def half_a_look(parameters, state, observation):
    observation[0] = state[0]


@compiled
def look_into(state, place):
    return state[place]


def long_look(parameters, state, observation):
    observation[0] = state[0]
    observation[1] = 1e-3 * look_into(state, 3)


def long_step(parameters, state, action):
    state[2] = 1.0
    return 0.0


def poor_step(parameters, state, action):
    return parameters[1] * 0.1


def unbounded_step(parameters, state, action):
    state[0] += 0.01 * action[0]
    return -abs(state[0])


def other_step(parameters, state, action):
    state[0] += parameters[0] * clipped(action[0], -1.0, 1.0)
    return -abs(state[0]) * (1.0 + 1e-15)


def wild_step(parameters, state, action):
    state[1] = np.nan
    return 0.0


def nearer(parameters, state):
    return abs(state[0]) > 2.9


def cart(**changes):
    """Return the cart, whose environment stays sound while its dynamics have other functions."""
    task = Cart([0.3]).task("faulty")
    physics = dataclasses.replace(Cart.physics, **changes)
    return dataclasses.replace(task, dynamics=physics.dynamics(task.dynamics.parameters))


class Unbounded(Cart):
    physics = dataclasses.replace(Cart.physics, step=unbounded_step)


def test_sound_dynamics_pass():
    check_task(cart())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reset": half_a_start}, "leaves some of the state as it was"),
        ({"reset": greedy_start}, "read beyond the end of a vector.*reset_size is 2"),
        ({"reset": far_start}, "ended is true at a start"),
        ({"observe": half_a_look}, "the observation unset or not finite"),
        ({"observe": long_look}, "read beyond the end"),
        ({"step": long_step}, "write beyond the end.*state_size is 2"),
        ({"step": poor_step}, "read beyond the end.*there are 1 parameters"),
        ({"step": wild_step}, "the state unset or not finite"),
        ({"step": other_step}, "environment and the dynamics differ after 1 steps"),
        ({"ended": nearer}, "differ after"),
    ],
)
def test_faults_of_dynamics_are_reported(changes, message):
    with pytest.raises(InputError, match=f"(?s)task 'faulty': .*{message}"):
        check_task(cart(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reset_options": None}, "no reset_options"),
        ({"reset_options": lambda u: {"uniforms": 0.5 * u}}, "differ after 0 steps"),
        ({"kernel_covariance": (1.0,)}, "kernel_covariance is .*give 2 numbers"),
        ({"kernel_covariance": (1.0, 0.0)}, "greater than 0"),
        ({"outcomes": lambda states: {"right": True}}, "give one each"),
        ({"outcomes": lambda states: [True]}, "give one each"),
        ({"state_size": 1}, "beyond the end"),
        ({"reset_size": 1}, "read beyond the end"),
        ({"make": partial(Place, space=Box(-9.0, 9.0, (2,), np.float32))}, "must be float64"),
    ],
)
def test_faults_of_descriptions_are_reported(changes, message):
    with pytest.raises(InputError, match=f"(?s)task 'faulty': .*{message}"):
        check_task(dataclasses.replace(cart(), **changes))


def test_dynamics_that_do_not_clip_are_reported():
    # The environment has the same fault, but a rollout hands it actions within the bounds.
    with pytest.raises(InputError, match="does not clip actions"):
        check_task(Unbounded([0.3]).task("unbounded"))
