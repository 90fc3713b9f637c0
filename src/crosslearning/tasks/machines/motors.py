"""Electric motors whose speed is held: brushed DC motors and permanent-magnet synchronous ones.

The drive limits the current: at the limit it takes back the voltage that would raise it further.
The equations are those of Krause, Wasynczuk and Sudhoff, "Analysis of Electric Machinery".
"""

from __future__ import annotations

import math

import numpy as np

from crosslearning._base.compiled import compiled
from crosslearning.tasks.controllers import PID
from crosslearning.tasks.environment import CompiledEnvironment, Parameters, Physics, clipped
from crosslearning.tasks.machines.parts import STAGES, Context, advance, box, metadata, see_state
from crosslearning.tasks.task import Floats

# DC motors ---------------------------------------------------------------------------------------

DC_RANGES = {
    "resistance": (0.28, 0.4),
    "constant": (0.028, 0.0324),
    "inertia": (0.8e-4, 1.6e-4),
    "load": (0.0, 0.1),
}
#: The speed to hold [rad/s], limits of voltage [V] and current [A], and [s].
DC_SPEED, DC_VOLTAGE, DC_CURRENT, DC_STEP = 300.0, 24.0, 20.0, 0.005


class DCMotors(Parameters):
    """Resistance [Ω], inductance [H], constant [N m/A], inertia [kg m²], friction, load [N m].

    About a motor of 150 W at 24 V, as catalogues list it (maxon RE 40: 0.299 Ω, 0.082 mH,
    30.2 mN m/A), with what it drives. The friction is in N m s.
    """

    RESISTANCE = 0.299
    INDUCTANCE = 8.2e-5
    CONSTANT = 0.0302
    INERTIA = 1.2e-4
    FRICTION = 5e-5
    LOAD = 0.05


@compiled
def dc_held(parameters: Floats) -> tuple[float, float]:
    """Return the current and the voltage that hold the speed."""
    torque = parameters[DCMotors.FRICTION] * DC_SPEED + parameters[DCMotors.LOAD]
    current = torque / parameters[DCMotors.CONSTANT]
    voltage = parameters[DCMotors.RESISTANCE] * current + parameters[DCMotors.CONSTANT] * DC_SPEED
    return current, voltage


@compiled
def _spin_up(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    state[0] = DC_SPEED + 200.0 * uniforms[0] - 100.0
    state[1] = dc_held(parameters)[0] + 4.0 * uniforms[1] - 2.0


@compiled
def _drive(parameters: Floats, state: Floats, action: Floats) -> float:
    constant, voltage = parameters[DCMotors.CONSTANT], clipped(action[0], -DC_VOLTAGE, DC_VOLTAGE)
    error, held = state[0] - DC_SPEED, dc_held(parameters)[1]
    cost = 1e-4 * error**2 + 1e-3 * (voltage - held) ** 2
    work = np.zeros((2, 2))
    for _ in range(25):  # the current settles in 0.3 ms
        for stage in range(STAGES):
            drop = parameters[DCMotors.RESISTANCE] * state[1] + constant * state[0]
            drag = parameters[DCMotors.FRICTION] * state[0] + parameters[DCMotors.LOAD]
            work[0, 0] = (constant * state[1] - drag) / parameters[DCMotors.INERTIA]
            work[0, 1] = (voltage - drop) / parameters[DCMotors.INDUCTANCE]
            advance(stage, DC_STEP / 25, work[0], work[1], state)
            state[1] = clipped(state[1], -DC_CURRENT, DC_CURRENT)
        state[0] = clipped(state[0], -1500.0, 1500.0)
    return float(-cost)


class DCMotor(CompiledEnvironment):
    """A DC motor that a voltage drives at 300 rad/s, against a load that is not known."""

    metadata = metadata(["speed [rad/s]", "current [A]"], ["voltage [V]"], 1.0 / DC_STEP)
    physics = Physics(_spin_up, see_state, _drive, state_size=2, reset_size=2, parameters=DCMotors)
    observation_space = box([-1500.0, -DC_CURRENT], [1500.0, DC_CURRENT])
    action_space = box([-DC_VOLTAGE], [DC_VOLTAGE])


def dc_motor_pi(context: Context) -> PID:
    """Return a PI of the speed by Skogestad's rules, with a closed loop of 20 ms."""
    own = DCMotor(**context).parameters
    resistance, inductance, constant, inertia, friction, _ = own
    stiffness = constant**2 + resistance * friction
    lag, delay = inertia * resistance / stiffness, 0.5 * DC_STEP + inductance / resistance
    gain = lag * stiffness / (constant * (0.02 + delay))
    integral = gain / min(lag, 4.0 * (0.02 + delay))
    return PID(gain, integral, setpoint=DC_SPEED, bias=dc_held(own)[1])


# Permanent-magnet synchronous motors -------------------------------------------------------------

SYNCHRONOUS_RANGES = {
    "resistance": (1.2, 1.8),
    "flux": (0.14, 0.17),
    "inertia": (0.0014, 0.0024),
    "load": (0.0, 2.0),
}
#: The speed to hold [rad/s], limits of voltages [V] and of the current [A], pairs of poles, [s].
PM_SPEED, PM_VOLTAGE, PM_CURRENT, PAIRS, PM_STEP = 100.0, 100.0, 10.0, 3, 0.001
_EDGE = 1500.0


class SynchronousMotors(Parameters):
    """Resistance [Ω], inductances [H], flux [Wb], inertia [kg m²], friction [N m s], load [N m].

    A motor like that of Pillay and Krishnan (1989), "Modeling, simulation, and analysis of
    permanent-magnet motor drives, part I", IEEE Transactions on Industry Applications 25(2),
    265-273, with a load.
    """

    RESISTANCE = 1.4
    INDUCTANCE_D = 0.0066
    INDUCTANCE_Q = 0.0058
    FLUX = 0.1546
    INERTIA = 0.00176
    FRICTION = 0.000388
    LOAD = 1.0


@compiled
def synchronous_held(parameters: Floats) -> tuple[float, float, float]:
    """Return i_q, u_d and u_q that hold the speed without i_d."""
    torque = parameters[SynchronousMotors.FRICTION] * PM_SPEED + parameters[SynchronousMotors.LOAD]
    flux, turning = parameters[SynchronousMotors.FLUX], PAIRS * PM_SPEED
    current = torque / (1.5 * PAIRS * flux)
    d = -turning * parameters[SynchronousMotors.INDUCTANCE_Q] * current
    return current, d, parameters[SynchronousMotors.RESISTANCE] * current + turning * flux


@compiled
def _rotate(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    state[0] = 2.0 * uniforms[0] - 1.0
    state[1] = synchronous_held(parameters)[0] + 2.0 * uniforms[1] - 1.0
    state[2] = PM_SPEED * (0.5 + uniforms[2])


@compiled
def _turn_field(parameters: Floats, state: Floats, action: Floats) -> float:
    u_d = clipped(action[0], -PM_VOLTAGE, PM_VOLTAGE)
    u_q = clipped(action[1], -PM_VOLTAGE, PM_VOLTAGE)
    resistance, flux = parameters[SynchronousMotors.RESISTANCE], parameters[SynchronousMotors.FLUX]
    L_d = parameters[SynchronousMotors.INDUCTANCE_D]
    L_q = parameters[SynchronousMotors.INDUCTANCE_Q]
    _, held_d, held_q = synchronous_held(parameters)
    cost = 4e-4 * (state[2] - PM_SPEED) ** 2 + 0.01 * state[0] ** 2
    cost += 1e-4 * ((u_d - held_d) ** 2 + (u_q - held_q) ** 2)
    work = np.zeros((2, 3))
    for _ in range(4):
        for stage in range(STAGES):
            i_d, i_q, turning = state[0], state[1], PAIRS * state[2]
            torque = 1.5 * PAIRS * (flux + (L_d - L_q) * i_d) * i_q
            drag = parameters[SynchronousMotors.FRICTION] * state[2]
            drag += parameters[SynchronousMotors.LOAD]
            work[0, 0] = (u_d - resistance * i_d + turning * L_q * i_q) / L_d
            work[0, 1] = (u_q - resistance * i_q - turning * (L_d * i_d + flux)) / L_q
            work[0, 2] = (torque - drag) / parameters[SynchronousMotors.INERTIA]
            advance(stage, PM_STEP / 4, work[0], work[1], state)
            scale = PM_CURRENT / max(PM_CURRENT, math.hypot(state[0], state[1]))
            state[0], state[1] = scale * state[0], scale * state[1]
        state[2] = clipped(state[2], -_EDGE, _EDGE)
    return float(-cost)


class SynchronousMotor(CompiledEnvironment):
    """A synchronous motor in rotor coordinates, held at 100 rad/s without field current."""

    metadata = metadata(
        ["current d [A]", "current q [A]", "speed [rad/s]"],
        ["voltage d [V]", "voltage q [V]"],
        1.0 / PM_STEP,
    )
    physics = Physics(
        _rotate, see_state, _turn_field, state_size=3, reset_size=3, parameters=SynchronousMotors
    )
    _ends = np.array([PM_CURRENT + 1e-9, PM_CURRENT + 1e-9, _EDGE])
    observation_space = box(-_ends, _ends)
    action_space = box([-PM_VOLTAGE, -PM_VOLTAGE], [PM_VOLTAGE, PM_VOLTAGE])


def synchronous_pi(context: Context) -> PID:
    """Return the usual cascade: current loops at 500 rad/s, and a PI of the speed at 100 rad/s."""
    own = SynchronousMotor(**context).parameters
    current, *voltages = synchronous_held(own)
    gain_d, gain_q = 500.0 * own[1:3]
    speed = gain_q * 100.0 * own[4] / (1.5 * PAIRS * own[3])
    return PID(
        [[gain_d, 0.0, 0.0], [0.0, gain_q, speed]],
        [[100.0 * gain_d, 0.0, 0.0], [0.0, 0.0, 25.0 * speed]],
        setpoint=[0.0, current, PM_SPEED],
        measured=[0, 1, 2],
        bias=voltages,
    )
