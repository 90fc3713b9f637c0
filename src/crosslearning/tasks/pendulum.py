"""Pendulums to swing up: the dynamics of Gymnasium's ``Pendulum-v1``, in double precision."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import ArrayLike, NDArray

from crosslearning._base.compiled import compiled
from crosslearning.tasks.environment import CompiledEnvironment, Parameters, Physics, clipped
from crosslearning.tasks.task import Floats

#: As different as eight machines of one model may be.
RANGES = {"g": (7.0, 13.0), "m": (0.8, 1.25), "l": (0.8, 1.25)}
HORIZON = 200
TIME_STEP = 0.05
MAX_SPEED = 8.0
MAX_TORQUE = 2.0
#: A pendulum counts as upright within this angle.
UPRIGHT = 0.3


class Pendula(Parameters):
    """Gravity, mass and length."""

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
    _ends = np.array([1.0, 1.0, MAX_SPEED])
    observation_space = Box(-_ends, _ends, dtype=np.float64)
    action_space = Box(-MAX_TORQUE, MAX_TORQUE, (1,), dtype=np.float64)

    def outcomes(self, states: Floats) -> dict[str, Any]:
        """Return which pendulums ended upright."""
        return {"upright": np.abs((states[:, 0] + np.pi) % (2 * np.pi) - np.pi) < UPRIGHT}

    def picture(self) -> NDArray[np.uint8]:
        """Return a picture of the pendulum, shape (height, width, 3)."""
        # Only pictures need the drawing library.
        from crosslearning.tasks.rendering import Pole, pendulum_picture

        upright = bool(self.outcomes(self.state[None])["upright"][0])
        push = 0.0 if self.last_action is None else float(self.last_action[0]) / MAX_TORQUE
        pole = Pole(float(self.state[0]), upright, push)
        return pendulum_picture(pole, *self.parameters.tolist())


@dataclass(frozen=True)
class SwingUp:
    """Swings a pendulum up by its energy, and holds it by an LQR, if the torque suffices for it."""

    g: float = 10.0
    m: float = 1.0
    l: float = 1.0  # noqa: E741  (the name of the context)

    def __call__(self, observation: ArrayLike) -> Floats:
        """Return the torque for cosine, sine and speed."""
        cosine, sine, speed = np.asarray(observation, dtype=np.float64)
        inertia, weight = self.m * self.l**2 / 3.0, 0.5 * self.m * self.g * self.l
        if cosine > 0.9:
            # Poles at −√(weight/inertia), twice.
            damping = 2.0 * math.sqrt(weight * inertia)
            torque = -2.0 * weight * sine - damping * speed
        else:
            missing = weight * (1.0 - cosine) - 0.5 * inertia * speed**2
            torque = MAX_TORQUE * np.sign(speed or 1.0) * np.clip(missing, -1.0, 1.0)
        return np.array([clipped(torque, -MAX_TORQUE, MAX_TORQUE)])
