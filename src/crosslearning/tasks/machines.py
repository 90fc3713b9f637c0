"""Machines that a controller runs today: hovering masses, tanks, quadrotors, reactors, cart-poles.

Members of a family differ in a few numbers, as machines of one model do. For each machine there is
the controller that an engineer would have, from the numbers that he believes in: those of the
machine itself, or those of the nominal one, in the middle of the ranges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.linalg
from gymnasium.spaces import Box
from numpy.typing import ArrayLike

from crosslearning._base.compiled import compiled
from crosslearning.tasks import cart_pole, pendulum
from crosslearning.tasks.controllers import PID, StateFeedback
from crosslearning.tasks.environment import CompiledEnvironment, Parameters, Physics, clipped
from crosslearning.tasks.task import Floats

Context = Mapping[str, Any]
GRAVITY = 9.81


def _box(low: ArrayLike, high: ArrayLike) -> Box:
    return Box(np.array(low, dtype=np.float64), np.array(high, dtype=np.float64), dtype=np.float64)


def _metadata(observations: list[str], actions: list[str], rate: float) -> dict[str, Any]:
    names = {"observation_names": observations, "action_names": actions}
    return {"render_modes": [], **names, "rate": rate}


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
def _see_two(parameters: Floats, state: Floats, observation: Floats) -> None:
    observation[0], observation[1] = state[0], state[1]


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

    metadata = _metadata(["height [m]", "speed [m/s]"], ["thrust [N]"], 10.0)
    physics = Physics(_lift_off, _see_two, _hover, state_size=3, reset_size=2, parameters=Hovering)
    observation_space = _box([-MAX_HEIGHT, -50.0], [MAX_HEIGHT, 50.0])
    action_space = _box([0.0], [MAX_THRUST])


def hovering_pd(context: Context) -> StateFeedback:
    """Return a PD: critically damped at 2 rad/s, with the thrust that carries the weight."""
    mass, gain, drag, _ = HoveringMass(**context).parameters
    return StateFeedback([[4.0 * mass / gain, (4.0 * mass - drag) / gain]], bias=mass * 9.81 / gain)


# The level of the lower of two tanks -------------------------------------------------------------

TANK_RANGES = {
    "upper_area": (13.0, 18.0),
    "lower_area": (13.0, 18.0),
    "upper_outlet": (0.16, 0.2),
    "lower_outlet": (0.16, 0.2),
    "pump": (3.0, 3.6),
}
MAX_LEVEL, LEVEL, MAX_VOLTAGE, TANK_STEP = 30.0, 15.0, 18.0, 2.0


class Tanks(Parameters):
    """Areas of tanks and outlets [cm²], and the pump's flow [cm³/s] per volt."""

    UPPER_AREA = 15.5
    LOWER_AREA = 15.5
    UPPER_OUTLET = 0.18
    LOWER_OUTLET = 0.18
    PUMP = 3.3


@compiled
def _pour(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    outlets = parameters[Tanks.LOWER_OUTLET] / parameters[Tanks.UPPER_OUTLET]
    state[0] = LEVEL * outlets**2 + 8.0 * uniforms[0] - 4.0
    state[1] = LEVEL + 8.0 * uniforms[1] - 4.0


@compiled
def _drain(parameters: Floats, state: Floats, action: Floats) -> float:
    upper_outlet, lower_outlet = parameters[Tanks.UPPER_OUTLET], parameters[Tanks.LOWER_OUTLET]
    voltage, h = clipped(action[0], 0.0, MAX_VOLTAGE), 0.1
    held = lower_outlet * math.sqrt(2.0 * 981.0 * LEVEL) / parameters[Tanks.PUMP]
    cost = 0.1 * (state[1] - LEVEL) ** 2 + 0.01 * (voltage - held) ** 2
    for _ in range(20):
        between = upper_outlet * math.sqrt(2.0 * 981.0 * state[0])  # Torricelli
        out = lower_outlet * math.sqrt(2.0 * 981.0 * state[1])
        upper = (parameters[Tanks.PUMP] * voltage - between) / parameters[Tanks.UPPER_AREA]
        lower = (between - out) / parameters[Tanks.LOWER_AREA]
        state[0] = clipped(state[0] + h * upper, 0.0, MAX_LEVEL)
        state[1] = clipped(state[1] + h * lower, 0.0, MAX_LEVEL)
    return float(-cost)


class TwoTanks(CompiledEnvironment):
    """A pump fills the upper tank, which drains into the lower one, whose level shall be 15 cm."""

    metadata = _metadata(["upper level [cm]", "lower level [cm]"], ["voltage [V]"], 1.0 / TANK_STEP)
    physics = Physics(_pour, _see_two, _drain, state_size=2, reset_size=2, parameters=Tanks)
    observation_space = _box([0.0, 0.0], [MAX_LEVEL, MAX_LEVEL])
    action_space = _box([0.0], [MAX_VOLTAGE])


def tank_pi(context: Context) -> PID:
    """Return a PI of the lower level by Skogestad's rules for two lags in series."""
    upper_area, lower_area, upper_outlet, lower_outlet, pump = TwoTanks(**context).parameters
    voltage = lower_outlet * math.sqrt(2.0 * 981.0 * LEVEL) / pump
    upper_level = LEVEL * (lower_outlet / upper_outlet) ** 2
    lags = [
        area / outlet * math.sqrt(2.0 * level / 981.0)
        for area, outlet, level in (
            (upper_area, upper_outlet, upper_level),
            (lower_area, lower_outlet, LEVEL),
        )
    ]
    # Half of the smaller lag counts as a delay, half to the larger one; a step holds for a while.
    delay, lag = 0.5 * (min(lags) + TANK_STEP), max(lags) + 0.5 * min(lags)
    gain = lag / (2.0 * LEVEL / voltage * 2.0 * delay)
    return PID(gain, gain / min(lag, 8.0 * delay), setpoint=LEVEL, measured=1, bias=voltage)


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
def _see_six(parameters: Floats, state: Floats, observation: Floats) -> None:
    for i in range(6):
        observation[i] = state[i]


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

    metadata = _metadata(
        ["x [m]", "z [m]", "pitch [rad]", "speed [m/s]", "climb [m/s]", "turning speed [rad/s]"],
        ["left thrust [N]", "right thrust [N]"],
        1.0 / FLIGHT_STEP,
    )
    physics = Physics(_take_off, _see_six, _fly, state_size=6, reset_size=6, parameters=Quadrotors)
    _ends = np.array([ROOM, ROOM, math.pi, 50.0, 50.0, 30.0])
    observation_space = _box(-_ends, _ends)
    action_space = _box([0.0, 0.0], [MAX_ROTOR, MAX_ROTOR])


def lqr(
    environment: CompiledEnvironment,
    state: ArrayLike,
    action: ArrayLike,
    costs: tuple[ArrayLike, ArrayLike],
) -> Floats:
    """Return the gain of the LQR about a state and an action that holds it, shape (p, n).

    The environment is linearised by central differences. ``costs`` are the weights of the squares
    of the first n coordinates of the state, and of the actions.
    """
    here, held = np.array(state, dtype=np.float64), np.atleast_1d(np.array(action, dtype=float))
    n, size = len(np.atleast_1d(costs[0])), 1e-5

    def after(change: Floats) -> Floats:
        environment.reset(options={"state": here + np.append(change[:n], np.zeros(len(here) - n))})
        environment.step(held + change[n:])
        return environment.state[:n]

    both = [after(size * one) - after(-size * one) for one in np.eye(n + len(held))]
    A, B = np.split(np.transpose(both) / (2.0 * size), [n], axis=1)
    Q, R = np.diag(costs[0]), np.diag(np.broadcast_to(costs[1], len(held)))
    P = scipy.linalg.solve_discrete_are(A, B, Q, R)
    return np.asarray(np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A))


def quadrotor_lqr(context: Context) -> StateFeedback:
    """Return the LQR about hovering, with the costs of the task."""
    quadrotor = Quadrotor(**context)
    hover = 0.5 * quadrotor.parameters[0] * GRAVITY / quadrotor.parameters[3]
    gain = lqr(quadrotor, np.zeros(6), [hover, hover], (FLIGHT_COST, ROTOR_COST))
    return StateFeedback(gain, bias=hover)


# A stirred-tank reactor --------------------------------------------------------------------------

REACTOR_RANGES = {
    "heat_transfer": (45.0, 55.0),
    "feed_temperature": (347.0, 353.0),
    "feed_concentration": (0.95, 1.05),
}
COOLANT, REACTOR_STEP = (270.0, 330.0), 0.1


class Reactors(Parameters):
    """Seborg's example: heat transfer [kJ/(min K)], feed [K] and [mol/L], and the aim [mol/L]."""

    HEAT_TRANSFER = 50.0
    FEED_TEMPERATURE = 350.0
    FEED_CONCENTRATION = 1.0
    AIM = 0.35


#: Of the reaction [1/min] and [K]; of its heat, in K per mol/L; and of a volume, in kJ/K.
RATE, ACTIVATION, HEAT, CAPACITY = 7.2e10, 8750.0, 5e4 / 239.0, 23.9


@compiled
def _charge(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    state[0] = 0.5 + 0.1 * (2.0 * uniforms[0] - 1.0)
    state[1] = 350.0 + 3.0 * (2.0 * uniforms[1] - 1.0)


@compiled
def _react(parameters: Floats, state: Floats, action: Floats) -> float:
    coolant, h = clipped(action[0], COOLANT[0], COOLANT[1]), REACTOR_STEP / 50
    cost = 10.0 * (state[0] - parameters[Reactors.AIM]) ** 2 + 1e-4 * (coolant - 300.0) ** 2
    for _ in range(50):
        # One volume a minute flows through. The reaction is implicit: it may ignite.
        k = RATE * math.exp(-ACTIVATION / state[1])
        state[0] = (state[0] + h * parameters[Reactors.FEED_CONCENTRATION]) / (1.0 + h + h * k)
        cooling = parameters[Reactors.HEAT_TRANSFER] / CAPACITY * (coolant - state[1])
        feeding = parameters[Reactors.FEED_TEMPERATURE] - state[1]
        state[1] += h * (feeding + HEAT * k * state[0] + cooling)
    return float(-cost)


class Reactor(CompiledEnvironment):
    """A stirred tank with an exothermic reaction about its unstable steady state at 350 K.

    The less concentration than there, the hotter: a limit of the temperature opposes the aim.
    """

    metadata = _metadata(
        ["concentration [mol/L]", "temperature [K]"], ["coolant temperature [K]"], 1.0 / 6.0
    )
    physics = Physics(_charge, _see_two, _react, state_size=2, reset_size=2, parameters=Reactors)
    observation_space = _box([0.0, 250.0], [2.0, 700.0])
    action_space = _box([COOLANT[0]], [COOLANT[1]])


def reactor_pi(context: Context, temperature: float = 350.0) -> PID:
    """Return a PI that holds a temperature, with the coolant that does so in the steady state."""
    transfer, feed, concentration, _ = Reactor(**context).parameters
    k, cooling = RATE * math.exp(-ACTIVATION / temperature), transfer / CAPACITY
    held = concentration / (1.0 + k)
    slope = k * held * ACTIVATION / temperature**2
    bias = temperature - (feed - temperature + HEAT * k * held) / cooling
    # The sum of the two poles is −6/min; it would be positive without a controller.
    gain = (6.0 - 1.0 - k - 1.0 - cooling + HEAT * slope) / cooling
    return PID(gain, gain / 60.0, setpoint=temperature, measured=1, bias=bias)


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
