"""Cart-poles to swing up and hold: a force pushes the cart; the pole hangs at first.

The equations are those of a frictionless joint on a cart with viscous friction, integrated in
small steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from crosslearning._base.compiled import compiled
from crosslearning.tasks.environment import CompiledEnvironment, Parameters, Physics, clipped
from crosslearning.tasks.task import Floats

RANGES = {
    "cart_mass": (0.4, 0.6),
    "pole_mass": (0.4, 0.6),
    "length": (0.5, 0.7),
    "friction": (0.05, 0.15),
}
GRAVITY = 9.82
TIME_STEP = 0.05
#: Steps of the integrator in a time step.
SUBSTEPS = 5
MAX_FORCE = 10.0
#: The cart stops at the end of the track.
TRACK = 3.0
HORIZON = 100
#: The pole counts as upright while its cosine is above this.
UPRIGHT = 0.95


class CartPoles(Parameters):
    """Masses, length and friction."""

    CART_MASS = 0.5
    POLE_MASS = 0.5
    LENGTH = 0.6
    FRICTION = 0.1


@compiled
def _start(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    state[0] = 0.2 * (2.0 * uniforms[0] - 1.0)
    state[1] = 0.2 * (2.0 * uniforms[1] - 1.0)
    state[2] = math.pi + 0.2 * (2.0 * uniforms[2] - 1.0)
    state[3] = 0.2 * (2.0 * uniforms[3] - 1.0)
    state[4] = 0.0  # steps since the pole became upright


@compiled
def _observe(parameters: Floats, state: Floats, observation: Floats) -> None:
    observation[0] = state[0]
    observation[1] = state[1]
    observation[2] = math.cos(state[2])
    observation[3] = math.sin(state[2])
    observation[4] = state[3]


@compiled
def _step(parameters: Floats, state: Floats, action: Floats) -> float:
    cart, pole = parameters[CartPoles.CART_MASS], parameters[CartPoles.POLE_MASS]
    length, friction = parameters[CartPoles.LENGTH], parameters[CartPoles.FRICTION]
    force = clipped(action[0], -MAX_FORCE, MAX_FORCE)
    h = TIME_STEP / SUBSTEPS
    x, speed, angle, turn = state[0], state[1], state[2], state[3]
    for _ in range(SUBSTEPS):
        # A uniform rod of this length whose joint rides on the cart; angle 0 is upright.
        sine, cosine = math.sin(angle), math.cos(angle)
        mass = cart + pole
        push = force - friction * speed + 0.5 * pole * length * turn * turn * sine
        inertia = length * (2.0 / 3.0 - 0.5 * pole * cosine * cosine / mass)
        bend = (GRAVITY * sine - cosine * push / mass) / inertia
        drive = (push - 0.5 * pole * length * bend * cosine) / mass
        speed += h * drive
        turn += h * bend
        x += h * speed
        angle += h * turn
        if x > TRACK or x < -TRACK:
            x, speed = clipped(x, -TRACK, TRACK), 0.0
    state[0], state[1], state[2], state[3] = x, speed, angle, turn
    state[4] = state[4] + 1.0 if math.cos(angle) > UPRIGHT else 0.0
    return float(-(0.5 * (1.0 - math.cos(angle)) + 0.05 * x * x + 0.0005 * force * force))


class CartPole(CompiledEnvironment):
    """A pole on a cart that a force swings up, compiled."""

    metadata = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": round(1.0 / TIME_STEP),
        "observation_names": [
            "place [m]",
            "speed [m/s]",
            "cosine of the angle",
            "sine of the angle",
            "turning speed [rad/s]",
        ],
        "action_names": ["force [N]"],
        "rate": 1.0 / TIME_STEP,
    }
    physics = Physics(_start, _observe, _step, state_size=5, reset_size=4, parameters=CartPoles)
    _ends = np.array([TRACK, 20.0, 1.0, 1.0, 40.0])
    observation_space = Box(-_ends, _ends, dtype=np.float64)
    action_space = Box(-MAX_FORCE, MAX_FORCE, (1,), dtype=np.float64)

    def outcomes(self, states: Floats) -> dict[str, Any]:
        """Return which poles stood for the last fifth of a full episode."""
        return {"upright": states[:, 4] >= 0.2 * HORIZON}

    def picture(self) -> NDArray[np.uint8]:
        """Return a picture of the cart and its pole, shape (height, width, 3)."""
        from crosslearning.tasks.rendering import Pole, cart_pole_picture

        x, _, angle = self.state[:3].tolist()
        push = 0.0 if self.last_action is None else float(self.last_action[0]) / MAX_FORCE
        pole = Pole(angle, math.cos(angle) > UPRIGHT, push)
        return cart_pole_picture(pole, x, TRACK, *self.parameters.tolist())


@compiled
def _stand(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    for i in range(4):
        state[i] = 0.2 * (2.0 * uniforms[i] - 1.0)
    state[4] = 0.0


class StandingCartPole(CartPole):
    """A cart-pole whose episodes begin near the upright position."""

    physics = Physics(
        _stand,
        _observe,
        _step,
        state_size=5,
        reset_size=4,
        parameters=CartPoles,
    )
