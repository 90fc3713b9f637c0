"""Processes: tanks whose levels are held, and stirred-tank reactors."""

from __future__ import annotations

import math

import numpy as np

from crosslearning._base.compiled import compiled
from crosslearning.tasks.controllers import PID
from crosslearning.tasks.environment import CompiledEnvironment, Parameters, Physics, clipped
from crosslearning.tasks.machines.parts import (
    STAGES,
    Context,
    advance,
    box,
    metadata,
    see_state,
)
from crosslearning.tasks.task import Floats

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

    metadata = metadata(["upper level [cm]", "lower level [cm]"], ["voltage [V]"], 1.0 / TANK_STEP)
    physics = Physics(_pour, see_state, _drain, state_size=2, reset_size=2, parameters=Tanks)
    observation_space = box([0.0, 0.0], [MAX_LEVEL, MAX_LEVEL])
    action_space = box([0.0], [MAX_VOLTAGE])


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


# Four coupled tanks ------------------------------------------------------------------------------

FOUR_TANK_RANGES = {
    "pump_1": (3.0, 3.66),
    "pump_2": (3.0, 3.7),
    "split_1": (0.65, 0.75),
    "split_2": (0.55, 0.65),
    "outlet_1": (0.064, 0.078),
    "outlet_2": (0.052, 0.062),
}
#: Set-points of the lower tanks [cm], the height of all [cm], the pumps' range [V], and [s].
FOUR_LEVELS, FOUR_HEIGHT, FOUR_VOLTAGE, FOUR_STEP = (12.4, 12.7), 20.0, 6.0, 5.0


class FourTanks(Parameters):
    """Flow of the pumps [cm³/(s V)], shares that go to the lower tanks, outlets and areas [cm²].

    The numbers of the minimum-phase operating point of Johansson (2000), "The quadruple-tank
    process: a multivariable laboratory process with an adjustable zero", IEEE Transactions on
    Control Systems Technology 8(3), 456-465. Outlets 3 and 4 are as wide as 1 and 2 there.
    """

    PUMP_1 = 3.33
    PUMP_2 = 3.35
    SPLIT_1 = 0.7
    SPLIT_2 = 0.6
    OUTLET_1 = 0.071
    OUTLET_2 = 0.057
    OUTLET_3 = 0.071
    OUTLET_4 = 0.057
    AREA_1 = 28.0
    AREA_2 = 32.0
    AREA_3 = 28.0
    AREA_4 = 32.0


@compiled
def four_tank_voltages(parameters: Floats) -> tuple[float, float]:
    """Return the voltages at which what flows into the lower tanks flows out at the set-points."""
    split_1, split_2 = parameters[FourTanks.SPLIT_1], parameters[FourTanks.SPLIT_2]
    out_1 = parameters[FourTanks.OUTLET_1] * math.sqrt(2.0 * 981.0 * FOUR_LEVELS[0])
    out_2 = parameters[FourTanks.OUTLET_2] * math.sqrt(2.0 * 981.0 * FOUR_LEVELS[1])
    rest = split_1 + split_2 - 1.0
    first = (split_2 * out_1 - (1.0 - split_2) * out_2) / (parameters[FourTanks.PUMP_1] * rest)
    second = (split_1 * out_2 - (1.0 - split_1) * out_1) / (parameters[FourTanks.PUMP_2] * rest)
    return first, second


@compiled
def _pour_four(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    first, second = four_tank_voltages(parameters)
    upper_3 = (1.0 - parameters[FourTanks.SPLIT_2]) * parameters[FourTanks.PUMP_2] * second
    upper_4 = (1.0 - parameters[FourTanks.SPLIT_1]) * parameters[FourTanks.PUMP_1] * first
    state[0] = FOUR_LEVELS[0] + 6.0 * uniforms[0] - 3.0
    state[1] = FOUR_LEVELS[1] + 6.0 * uniforms[1] - 3.0
    state[2] = (upper_3 / parameters[FourTanks.OUTLET_3]) ** 2 / 1962.0 * (0.5 + uniforms[2])
    state[3] = (upper_4 / parameters[FourTanks.OUTLET_4]) ** 2 / 1962.0 * (0.5 + uniforms[3])


@compiled
def _drain_four(parameters: Floats, state: Floats, action: Floats) -> float:
    voltages = clipped(action[0], 0.0, FOUR_VOLTAGE), clipped(action[1], 0.0, FOUR_VOLTAGE)
    held = four_tank_voltages(parameters)
    cost = 0.0
    for i in range(2):
        cost += 0.1 * (state[i] - FOUR_LEVELS[i]) ** 2 + 0.05 * (voltages[i] - held[i]) ** 2
    pumped_1 = parameters[FourTanks.PUMP_1] * voltages[0]
    pumped_2 = parameters[FourTanks.PUMP_2] * voltages[1]
    split_1, split_2 = parameters[FourTanks.SPLIT_1], parameters[FourTanks.SPLIT_2]
    out, work = np.zeros(4), np.zeros((2, 4))
    for _ in range(5):
        for stage in range(STAGES):
            for i in range(4):  # Torricelli
                out[i] = parameters[FourTanks.OUTLET_1 + i] * math.sqrt(1962.0 * max(state[i], 0.0))
            work[0, 0] = split_1 * pumped_1 + out[2] - out[0]
            work[0, 1] = split_2 * pumped_2 + out[3] - out[1]
            work[0, 2] = (1.0 - split_2) * pumped_2 - out[2]
            work[0, 3] = (1.0 - split_1) * pumped_1 - out[3]
            for i in range(4):
                work[0, i] /= parameters[FourTanks.AREA_1 + i]
            advance(stage, FOUR_STEP / 5, work[0], work[1], state)
        for i in range(4):
            state[i] = clipped(state[i], 0.0, FOUR_HEIGHT)  # what is more spills
    return float(-cost)


class FourTankProcess(CompiledEnvironment):
    """Johansson's quadruple tank: each pump fills a lower tank and the upper one of the other."""

    metadata = metadata(
        [f"level {i} [cm]" for i in (1, 2, 3, 4)],
        ["voltage 1 [V]", "voltage 2 [V]"],
        1.0 / FOUR_STEP,
    )
    physics = Physics(
        _pour_four, see_state, _drain_four, state_size=4, reset_size=4, parameters=FourTanks
    )
    observation_space = box([0.0] * 4, [FOUR_HEIGHT] * 4)
    action_space = box([0.0, 0.0], [FOUR_VOLTAGE, FOUR_VOLTAGE])


def four_tank_pi(context: Context) -> PID:
    """Return a PI for each lower level, as gentle as Johansson's (30 and 40 s) on his own tanks."""
    own, usual = FourTankProcess(**context).parameters, FourTanks.vector()
    gains = [
        gain * (usual[pump] * usual[split] / usual[area]) / (own[pump] * own[split] / own[area])
        for gain, pump, split, area in (
            (1.5, FourTanks.PUMP_1, FourTanks.SPLIT_1, FourTanks.AREA_1),
            (1.35, FourTanks.PUMP_2, FourTanks.SPLIT_2, FourTanks.AREA_2),
        )
    ]
    return PID(
        np.diag(gains),
        np.diag([gains[0] / 30.0, gains[1] / 40.0]),
        setpoint=FOUR_LEVELS,
        measured=[0, 1],
        bias=four_tank_voltages(own),
    )


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

    metadata = metadata(
        ["concentration [mol/L]", "temperature [K]"], ["coolant temperature [K]"], 1.0 / 6.0
    )
    physics = Physics(_charge, see_state, _react, state_size=2, reset_size=2, parameters=Reactors)
    observation_space = box([0.0, 250.0], [2.0, 700.0])
    action_space = box([COOLANT[0]], [COOLANT[1]])


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
