"""Pendulums to swing up: Gymnasium's, with gravity, mass and length as contexts.

The compiled environment has the dynamics of ``Pendulum-v1`` in double precision; there is a family
of ``Pendulum-v1`` itself, too.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from crosslearning._base.compiled import compiled
from crosslearning.tasks.environment import CompiledEnvironment, Parameters, Physics, clipped
from crosslearning.tasks.families.members import Ranges, TaskFamily
from crosslearning.tasks.task import Floats

TIME_STEP = 0.05
MAX_SPEED = 8.0
MAX_TORQUE = 2.0
#: A pendulum counts as upright within this angle.
UPRIGHT = 0.3


class Pendula(Parameters):
    """The contexts of a pendulum."""

    G = 10.0
    M = 1.0
    L = 1.0


@compiled
def _start(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    state[0] = math.pi * (2.0 * uniforms[0] - 1.0)
    state[1] = 2.0 * uniforms[1] - 1.0


@compiled
def _observe(parameters: Floats, state: Floats, observation: Floats) -> None:
    observation[0] = math.cos(state[0])
    observation[1] = math.sin(state[0])
    observation[2] = state[1]


@compiled
def _step(parameters: Floats, state: Floats, action: Floats) -> float:
    g, m, length = parameters[Pendula.G], parameters[Pendula.M], parameters[Pendula.L]
    angle, speed = state[0], state[1]
    torque = clipped(action[0], -MAX_TORQUE, MAX_TORQUE)
    upright = (angle + math.pi) % (2.0 * math.pi) - math.pi
    cost = upright**2 + 0.1 * speed**2 + 0.001 * torque**2
    pull = 1.5 * g / length * math.sin(angle) + 3.0 / (m * length**2) * torque
    state[1] = clipped(speed + pull * TIME_STEP, -MAX_SPEED, MAX_SPEED)
    state[0] = angle + state[1] * TIME_STEP
    return float(-cost)


def _is_upright(angles: Any) -> Any:
    return np.abs((angles + np.pi) % (2 * np.pi) - np.pi) < UPRIGHT


class Pendulum(CompiledEnvironment):
    """A pendulum that a torque swings up, compiled; contexts ``g``, ``m`` and ``l``."""

    metadata = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": round(1.0 / TIME_STEP),
        "observation_names": ["cosine of the angle", "sine of the angle", "speed [rad/s]"],
        "action_names": ["torque [N m]"],
        "rate": 1.0 / TIME_STEP,
    }
    physics = Physics(_start, _observe, _step, state_size=2, reset_size=2, parameters=Pendula)
    observation_space = gymnasium.spaces.Box(
        np.array([-1.0, -1.0, -MAX_SPEED]), np.array([1.0, 1.0, MAX_SPEED]), dtype=np.float64
    )
    action_space = gymnasium.spaces.Box(-MAX_TORQUE, MAX_TORQUE, (1,), dtype=np.float64)

    def outcomes(self, states: Floats) -> dict[str, Any]:
        """Return which pendulums ended upright."""
        return {"upright": _is_upright(states[:, 0])}

    def picture(self) -> NDArray[np.uint8]:
        """Return a picture of the pendulum, shape (height, width, 3)."""
        # Only pictures need the drawing library.
        from crosslearning.tasks.families.rendering import Pole, pendulum_picture

        angle = float(self.state[0])
        push = None if self.last_action is None else float(self.last_action[0]) / MAX_TORQUE
        pole = Pole(angle, bool(_is_upright(angle)), push)
        g, mass, length = (float(self.parameters[n]) for n in (Pendula.G, Pendula.M, Pendula.L))
        return pendulum_picture(pole, g, mass, length)


def gymnasium_pendulum(render_mode: str | None = None, **context: float) -> gymnasium.Env[Any, Any]:
    """Return Gymnasium's ``Pendulum-v1`` with other gravity ``g``, mass ``m`` and length ``l``."""
    environment = gymnasium.make("Pendulum-v1", g=context.get("g", 10.0), render_mode=render_mode)
    pendulum: Any = environment.unwrapped
    pendulum.m, pendulum.l = context.get("m", 1.0), context.get("l", 1.0)
    return environment


#: As different as eight machines of one model may be.
RANGES: Ranges = {"g": (7.0, 13.0), "m": (0.8, 1.25), "l": (0.8, 1.25)}
pendulums = TaskFamily("pendulum", RANGES, Pendulum, count=8, horizon=200)
gymnasium_pendulums = TaskFamily("pendulum", RANGES, gymnasium_pendulum, count=8)
