"""Machines that move: masses that hover, quadrotors, cart-poles that stand and pendulums."""

from __future__ import annotations

import math

import numpy as np

from crosslearning._base.compiled import compiled
from crosslearning.tasks import cart_pole, pendulum
from crosslearning.tasks.controllers import StateFeedback
from crosslearning.tasks.environment import CompiledEnvironment, Parameters, Physics, clipped
from crosslearning.tasks.machines.parts import GRAVITY, Context, box, lqr, metadata, see_state
from crosslearning.tasks.task import Floats


@compiled
def _within(place: float, speed: float, end: float) -> tuple[float, float]:
    """Return place and speed of a body that stops at walls."""
    if -end <= place <= end:
        return place, speed
    return clipped(place, -end, end), 0.0


# A mass that a thrust holds in the air -----------------------------------------------------------

HOVERING_RANGES = {"mass": (0.9, 1.1), "gain": (0.95, 1.05), "drag": (0.1, 0.5)}
MAX_THRUST, MAX_HEIGHT = 20.0, 5.0


class Hovering(Parameters):
    """Mass [kg], thrust per unit asked for, drag [N s/m], and the thrust's lag [s]."""

    MASS = 1.0
    GAIN = 1.0
    DRAG = 0.3
    LAG = 0.0


@compiled
def _lift_off(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    state[0] = 2.0 * uniforms[0] - 1.0
    state[1] = uniforms[1] - 0.5
    state[2] = parameters[Hovering.MASS] * GRAVITY / parameters[Hovering.GAIN]


@compiled
def _hover(parameters: Floats, state: Floats, action: Floats) -> float:
    mass, gain = parameters[Hovering.MASS], parameters[Hovering.GAIN]
    drag, lag = parameters[Hovering.DRAG], parameters[Hovering.LAG]
    asked, h = clipped(action[0], 0.0, MAX_THRUST), 0.01
    height, speed, thrust = state[0], state[1], state[2]
    cost = height**2 + 0.1 * speed**2 + 0.01 * (asked - mass * GRAVITY / gain) ** 2
    for _ in range(10):
        thrust = asked if lag < h else thrust + h / lag * (asked - thrust)
        speed += h * ((gain * thrust - drag * speed) / mass - GRAVITY)
        height, speed = _within(height + h * speed, speed, MAX_HEIGHT)
    state[0], state[1], state[2] = height, speed, thrust
    return float(-cost)


class HoveringMass(CompiledEnvironment):
    """A mass that a thrust holds at height 0; the thrust that acts is not observed."""

    metadata = metadata(["height [m]", "speed [m/s]"], ["thrust [N]"], 10.0)
    physics = Physics(_lift_off, see_state, _hover, state_size=3, reset_size=2, parameters=Hovering)
    observation_space = box([-MAX_HEIGHT, -50.0], [MAX_HEIGHT, 50.0])
    action_space = box([0.0], [MAX_THRUST])


def hovering_pd(context: Context) -> StateFeedback:
    """Return a PD: critically damped at 2 rad/s, with the thrust that carries the weight."""
    mass, gain, drag, _ = HoveringMass(**context).parameters
    return StateFeedback([[4.0 * mass / gain, (4.0 * mass - drag) / gain]], bias=mass * 9.81 / gain)


# A quadrotor in the plane ------------------------------------------------------------------------

QUADROTOR_RANGES = {
    "mass": (0.42, 0.56),
    "inertia": (0.003, 0.0046),
    "arm": (0.21, 0.29),
    "gain": (0.9, 1.1),
}
MAX_ROTOR, ROOM, FLIGHT_STEP = 5.0, 5.0, 0.05
#: What a second of flight costs: of x, z, pitch and their speeds, and of each rotor's thrust.
FLIGHT_COST, ROTOR_COST = (1.0, 1.0, 0.2, 0.1, 0.1, 0.01), 0.1


class Quadrotors(Parameters):
    """Mass [kg], inertia [kg m²], arm [m], and thrust per unit asked for."""

    MASS = 0.486
    INERTIA = 0.00383
    ARM = 0.25
    GAIN = 1.0


@compiled
def _take_off(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    for i in range(6):
        state[i] = (0.5 if i < 2 else 0.2) * (2.0 * uniforms[i] - 1.0)


@compiled
def _fly(parameters: Floats, state: Floats, action: Floats) -> float:
    mass, gain = parameters[Quadrotors.MASS], parameters[Quadrotors.GAIN]
    hover, h = 0.5 * mass * GRAVITY / gain, FLIGHT_STEP / 10
    left, right = clipped(action[0], 0.0, MAX_ROTOR), clipped(action[1], 0.0, MAX_ROTOR)
    cost = ROTOR_COST * ((left - hover) ** 2 + (right - hover) ** 2)
    for i in range(6):
        cost += FLIGHT_COST[i] * state[i] ** 2
    lift = gain * (left + right) / mass
    turn = gain * (right - left) * parameters[Quadrotors.ARM] / parameters[Quadrotors.INERTIA]
    x, z, pitch, speed, climb, turning = state
    for _ in range(10):
        speed -= h * lift * math.sin(pitch)
        climb += h * (lift * math.cos(pitch) - GRAVITY)
        turning = clipped(turning + h * turn, -30.0, 30.0)
        x, speed = _within(x + h * speed, speed, ROOM)
        z, climb = _within(z + h * climb, climb, ROOM)
        pitch = (pitch + h * turning + math.pi) % (2.0 * math.pi) - math.pi
    state[0], state[1], state[2], state[3], state[4], state[5] = x, z, pitch, speed, climb, turning
    return float(-cost)


class Quadrotor(CompiledEnvironment):
    """A quadrotor in the plane that hovers at the origin; walls stop it."""

    metadata = metadata(
        ["x [m]", "z [m]", "pitch [rad]", "speed [m/s]", "climb [m/s]", "turning speed [rad/s]"],
        ["left thrust [N]", "right thrust [N]"],
        1.0 / FLIGHT_STEP,
    )
    physics = Physics(_take_off, see_state, _fly, state_size=6, reset_size=6, parameters=Quadrotors)
    _ends = np.array([ROOM, ROOM, math.pi, 50.0, 50.0, 30.0])
    observation_space = box(-_ends, _ends)
    action_space = box([0.0, 0.0], [MAX_ROTOR, MAX_ROTOR])


def quadrotor_lqr(context: Context) -> StateFeedback:
    """Return the LQR about hovering, with the costs of the task."""
    quadrotor = Quadrotor(**context)
    hover = 0.5 * quadrotor.parameters[0] * GRAVITY / quadrotor.parameters[3]
    gain = lqr(quadrotor, np.zeros(6), [hover, hover], (FLIGHT_COST, ROTOR_COST))
    return StateFeedback(gain, bias=hover)


# Cart-poles that stand, and pendulums ------------------------------------------------------------


def cart_pole_lqr(context: Context) -> StateFeedback:
    """Return an LQR about the upright position, whose angle is read as its sine."""
    gain = lqr(
        cart_pole.StandingCartPole(**context), np.zeros(5), 0.0, ([1.0, 1.0, 10.0, 1.0], 1.0)
    )
    return StateFeedback(np.insert(gain, 2, 0.0, axis=1))


def pendulum_swing_up(context: Context) -> pendulum.SwingUp:
    """Return the swing-up for a pendulum's gravity, mass and length."""
    return pendulum.SwingUp(**context)
