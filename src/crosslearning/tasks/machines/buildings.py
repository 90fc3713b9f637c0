"""Buildings: the heating of two rooms, in weather that is drawn with the start.

Each room is a heat capacity behind a resistance, as in Madsen and Holst (1995), "Estimation of
continuous-time models for the heat dynamics of a building", Energy and Buildings 22(1), 67-79, and
Bacher and Madsen (2011), "Identifying suitable models for the heat dynamics of buildings", 43(7),
1511-1522; the numbers are of the size that they report for a building of 120 m².
"""

from __future__ import annotations

import math

import numpy as np

from crosslearning._base.compiled import compiled
from crosslearning.tasks.controllers import PID
from crosslearning.tasks.environment import CompiledEnvironment, Parameters, Physics, clipped
from crosslearning.tasks.machines.parts import STAGES, Context, advance, box, metadata
from crosslearning.tasks.task import Floats

ROOM_RANGES = {
    "capacity_1": (1.0, 2.0),
    "capacity_2": (1.0, 2.0),
    "loss_1": (0.06, 0.1),
    "loss_2": (0.06, 0.1),
    "window": (0.5, 1.5),
}
#: Set-points of the rooms [°C], the most power of a heater [kW], its price for a step, and [h].
COMFORT, MAX_POWER, PRICE, HEATING_STEP = (21.0, 19.0), 3.0, 0.02, 0.25
#: Periods [h] and size [°C] of what the weather adds to the day's rhythm.
PERIODS, UNREST = (5.3, 8.7, 14.1), 0.8


class Rooms(Parameters):
    """Capacities [kWh/K], losses to the outside and between the rooms [kW/K], full sun [kW]."""

    CAPACITY_1 = 1.5
    CAPACITY_2 = 1.5
    LOSS_1 = 0.08
    LOSS_2 = 0.08
    WINDOW = 1.0
    COUPLING = 0.1


@compiled
def outdoors(state: Floats) -> float:
    """Return the temperature outside [°C]: the day's rhythm, warmest at 15 h, and its unrest."""
    hour = state[2]
    rhythm = state[4] * math.cos(2.0 * math.pi * (hour - 15.0) / 24.0)
    temperature = state[3] + rhythm
    for i in range(len(PERIODS)):
        temperature += UNREST * math.sin(2.0 * math.pi * (hour / PERIODS[i] + state[6 + i]))
    return float(temperature)


@compiled
def sun(state: Floats) -> float:
    """Return the share of the full sun, which rises at 6 h and sets at 18 h."""
    return float(state[5] * max(0.0, math.sin(2.0 * math.pi * (state[2] - 6.0) / 24.0)))


@compiled
def _draw_weather(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    state[0] = COMFORT[0] - 2.0 + 3.0 * uniforms[0]
    state[1] = COMFORT[1] - 2.0 + 3.0 * uniforms[1]
    state[2] = 24.0 * uniforms[2]
    state[3] = 8.0 * uniforms[3] - 2.0  # the day's mean
    state[4] = 2.0 + 3.0 * uniforms[4]  # half of the range of the day
    for i in range(5, 9):
        state[i] = uniforms[i]  # the clearness of the sky, and phases


@compiled
def _see_rooms(parameters: Floats, state: Floats, observation: Floats) -> None:
    observation[0], observation[1] = state[0], state[1]
    observation[2], observation[3] = outdoors(state), sun(state)


@compiled
def _heat(parameters: Floats, state: Floats, action: Floats) -> float:
    first, second = clipped(action[0], 0.0, MAX_POWER), clipped(action[1], 0.0, MAX_POWER)
    cost = PRICE * (first + second)
    cost += (state[0] - COMFORT[0]) ** 2 + (state[1] - COMFORT[1]) ** 2
    work = np.zeros((2, 3))
    work[0, 2] = 1.0  # the clock
    for stage in range(STAGES):
        outside, through = outdoors(state), parameters[Rooms.COUPLING] * (state[1] - state[0])
        gain_1 = parameters[Rooms.LOSS_1] * (outside - state[0]) + parameters[Rooms.WINDOW] * sun(
            state
        )
        gain_2 = parameters[Rooms.LOSS_2] * (outside - state[1])
        work[0, 0] = (gain_1 + through + first) / parameters[Rooms.CAPACITY_1]
        work[0, 1] = (gain_2 - through + second) / parameters[Rooms.CAPACITY_2]
        advance(stage, HEATING_STEP, work[0], work[1], state)
    return float(-cost)


class TwoRooms(CompiledEnvironment):
    """Two rooms side by side, each with a heater; the first one has the window to the south."""

    metadata = metadata(
        ["room 1 [°C]", "room 2 [°C]", "outdoors [°C]", "sun"],
        ["heater 1 [kW]", "heater 2 [kW]"],
        1.0 / (3600.0 * HEATING_STEP),
        disturbances=["outdoors", "sun"],
    )
    physics = Physics(
        _draw_weather, _see_rooms, _heat, state_size=9, reset_size=9, parameters=Rooms
    )
    observation_space = box([-20.0, -20.0, -20.0, 0.0], [100.0, 100.0, 40.0, 1.0])
    action_space = box([0.0, 0.0], [MAX_POWER, MAX_POWER])


def heating_pi(context: Context) -> PID:
    """Return a PI for each room by Skogestad's rules, with the heat that a day of 2 °C takes.

    A closed loop of twenty minutes is about the best for the nominal rooms.
    """
    capacity_1, capacity_2, loss_1, loss_2, _, coupling = TwoRooms(**context).parameters
    gains, through = (
        np.diag([3.0 * capacity_1, 3.0 * capacity_2]),
        coupling * (COMFORT[0] - COMFORT[1]),
    )
    bias = [loss_1 * (COMFORT[0] - 2.0) + through, loss_2 * (COMFORT[1] - 2.0) - through]
    return PID(gains, gains / (4.0 * 1200.0), setpoint=COMFORT, measured=[0, 1], bias=bias)
