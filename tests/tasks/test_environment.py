"""The base of compiled environments: what a subclass of a few lines gets from it."""

import dataclasses

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from crosslearning.errors import InputError
from crosslearning.tasks import CompiledEnvironment, Parameters, Physics, clipped, compiled


class Tank(Parameters):
    AREA = 2.0
    LEAK = 0.5
    DROP = 0.5


@compiled
def fill(parameters, uniforms, state):
    state[0] = 1.0 + uniforms[0]


@compiled
def gauge(parameters, state, observation):
    observation[0] = state[0]


@compiled
def flow(parameters, state, action):
    inflow = clipped(action[0], 0.0, 1.0)
    state[0] += (inflow - parameters[Tank.LEAK] * state[0]) / parameters[Tank.AREA]
    return 0.1 * inflow - state[0] * state[0]


@compiled
def empty(parameters, state):
    return state[0] < 0.1


class TankEnvironment(CompiledEnvironment):
    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012
    physics = Physics(fill, gauge, flow, empty, state_size=1, reset_size=1, parameters=Tank)
    observation_space = Box(0.0, 10.0, (1,), np.float64)
    action_space = Box(0.0, 1.0, (1,), np.float64)

    def picture(self):
        return f"{self.state[0]:.2f}"

    def information(self):
        return {"level": float(self.state[0])}


def test_parameters_have_names_places_and_defaults():
    np.testing.assert_array_equal(TankEnvironment().parameters, [2.0, 0.5, 0.5])
    np.testing.assert_array_equal(TankEnvironment(leak=0.7).parameters, [2.0, 0.7, 0.5])
    assert [int(Tank.AREA), int(Tank.DROP), Tank.DROP.default] == [0, 2, 0.5]
    with pytest.raises(InputError, match="no such parameter 'laek'; did you mean 'leak'"):
        TankEnvironment(laek=1.0)
    with pytest.raises(InputError, match="leak is nan; give a finite number"):
        TankEnvironment(leak=np.nan)
    with pytest.raises(InputError, match="vector or by their names, not both"):
        TankEnvironment([1.0, 2.0, 3.0], leak=1.0)
    with pytest.raises(InputError, match="the parameter vector is"):
        TankEnvironment([np.inf, 2.0, 3.0])


def test_an_episode_is_the_physics():
    environment = TankEnvironment(area=4.0)
    observation, information = environment.reset(options={"uniforms": [0.25]})
    assert observation.tolist() == [1.25]
    assert information == {"level": 1.25}
    observation, reward, terminated, truncated, _ = environment.step([3.0])
    level = 1.25 + (1.0 - 0.5 * 1.25) / 4.0
    assert observation[0] == pytest.approx(level, rel=1e-15)
    assert reward == pytest.approx(0.1 - level**2, rel=1e-14)
    assert not terminated
    assert not truncated
    environment.reset(options={"state": [0.101]})
    assert environment.step([0.0])[2]
    assert environment.step([1.0])[1:3] == (0.0, True)


def test_pictures_and_their_modes():
    environment = TankEnvironment(render_mode="ansi")
    with pytest.raises(gymnasium.error.ResetNeeded):
        environment.render()
    environment.reset(options={"state": [1.5]})
    assert environment.render() == "1.50"
    assert TankEnvironment().render() is None
    with pytest.raises(InputError, match="no such render mode 'human'; known: ansi"):
        TankEnvironment(render_mode="human")


def test_a_task_has_both_paths_and_its_environments_are_new():
    environment = TankEnvironment(area=4.0)
    environment.reset(seed=3)
    task = environment.task("large", horizon=70)
    assert (task.name, task.horizon, task.state_size, task.reset_size) == ("large", 70, 1, 1)
    assert task.outcomes is None
    made = task.make(render_mode="ansi")
    assert made.render_mode == "ansi"
    with pytest.raises(gymnasium.error.ResetNeeded):
        made.step([0.0])
    np.testing.assert_array_equal(made.parameters, environment.parameters)
    # A seed given to the one is not the other's.
    assert made.reset(seed=3)[0] == TankEnvironment().reset(seed=3)[0]
    assert task.make().reset()[0] != environment.reset()[0]
    # Later changes are not the task's.
    environment.parameters[Tank.AREA] = 9.0
    assert task.make().parameters[Tank.AREA] == task.dynamics.parameters[Tank.AREA] == 4.0
    # Tasks of one kind have the same machine code, and run as one group.
    assert task.dynamics[1:] == TankEnvironment(leak=0.1).task("other").dynamics[1:]


def test_physics_must_be_stated():
    class Bare(CompiledEnvironment):
        pass

    with pytest.raises(InputError, match="Bare has no physics"):
        Bare()


def test_functions_that_cannot_be_compiled_are_refused():
    def wild(parameters, state, action):
        return undefined  # noqa: F821

    physics = dataclasses.replace(TankEnvironment.physics, step=wild)
    with pytest.raises(InputError, match="'wild' cannot be compiled"):
        physics.dynamics(np.zeros(3))
