"""The physics of the navigation task, compiled: reset, observe, step and ended.

This is the only place where the robot moves. It works on two flat float64 vectors.

Parameters, in this order: the numbers of :class:`Slot`; the goals (x, y), one after another;
the obstacles, six numbers each, as in :mod:`crosslearning.tasks.navigation.geometry`.

State: the numbers of :class:`State`.
"""

from __future__ import annotations

import functools
import math
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.compiled import FunctionPointer, compiled
from crosslearning.tasks.navigation.geometry import (
    first_contact,
    nearest_obstacle,
    tangent_cone,
    to_frame,
    wrap_angle,
)
from crosslearning.tasks.task import ENDED, OBSERVE, RESET, STEP, Dynamics, Floats


class Slot(IntEnum):
    """Where each number stands in the parameter vector."""

    TIME_STEP = 0
    SPEED_LOW = 1
    SPEED_HIGH = 2
    TURN_LOW = 3
    TURN_HIGH = 4
    START_X = 5  #: low end of the start area
    START_Y = 6
    START_WIDTH = 7  #: 0 for a fixed start
    START_HEIGHT = 8
    HEADING = 9  #: low end of the start heading
    HEADING_WIDTH = 10  #: 0 for a fixed heading
    REDRAW = 11  #: 1: a start inside an obstacle is replaced
    FREE_X = 12  #: the free place that is taken when every drawn start is covered
    FREE_Y = 13
    ARRIVAL_RADIUS = 14
    ARRIVAL = 15  #: index into ARRIVAL_WORDS
    CRASH = 16  #: index into CRASH_WORDS
    SWEPT = 17  #: 1: the whole path is tested for collisions
    OBSTACLE_DISTANCE = 18  #: index into DISTANCE_WORDS
    CRASH_REWARD = 19
    GOAL_REWARD = 20
    DISTANCE_COST = 21
    GOALS = 22  #: how many
    OBSTACLES = 23  #: how many
    END = 24  #: the goals begin here


class State(IntEnum):
    """Where each number stands in the state vector."""

    X = 0
    Y = 1
    HEADING = 2  #: in [-π, π)
    GOAL = 3  #: index of the current goal
    CRASHED = 4  #: 1 once a collision has happened
    ARRIVED = 5  #: 1 once the last goal has been reached
    ARRIVAL_STEP = 6  #: the step in which that happened, −1 before
    PATH_LENGTH = 7
    STEPS = 8


STATE_SIZE = len(State)
OBSERVATION_SIZE = 5
#: How many start places a reset can choose from.
CANDIDATES = 8
#: Uniform numbers of a reset: x, y, heading, then x, y of the other candidates.
RESET_SIZE = 1 + 2 * CANDIDATES
#: The distance that is observed where there is no obstacle.
FAR_AWAY = 100.0

CRASH_WORDS = ("absorbing", "terminate", "continue")
ARRIVAL_WORDS = ("continue", "terminate")
DISTANCE_WORDS = ("surface", "centre")


@compiled
def _covered(parameters: Floats, x: float, y: float) -> bool:
    """Tell whether (x, y) lies in or on an obstacle."""
    begin = Slot.END + 2 * int(parameters[Slot.GOALS])
    count = int(parameters[Slot.OBSTACLES])
    return first_contact(parameters, begin, count, x, y, x, y) == 0.0


@compiled
def _clipped(number: float, low: float, high: float) -> float:
    """Return the number moved into [low, high]; a NaN stays one, so that it is seen."""
    if number < low:
        return low
    if number > high:
        return high
    return number


@compiled
def _turn_to(x: float, y: float, heading: float) -> float:
    """Return the angle from the heading to the direction (x, y); 0 if that has no length."""
    if x == 0.0 and y == 0.0:
        return 0.0
    return wrap_angle(math.atan2(y, x) - heading)


@compiled
def start_episode(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    """Fill ``state`` with a start, a pure function of ``uniforms``, shape (RESET_SIZE,).

    The first candidate place that is free is taken. A place known to be free stands in when
    all are covered, which happens with probability (covered share of the start area)⁸.
    """
    state[:] = 0.0
    state[State.ARRIVAL_STEP] = -1.0
    state[State.HEADING] = wrap_angle(
        parameters[Slot.HEADING] + uniforms[2] * parameters[Slot.HEADING_WIDTH]
    )
    state[State.X] = parameters[Slot.FREE_X]
    state[State.Y] = parameters[Slot.FREE_Y]
    for candidate in range(CANDIDATES):
        first = 0 if candidate == 0 else 1 + 2 * candidate
        x = parameters[Slot.START_X] + uniforms[first] * parameters[Slot.START_WIDTH]
        y = parameters[Slot.START_Y] + uniforms[first + 1] * parameters[Slot.START_HEIGHT]
        if parameters[Slot.REDRAW] == 0.0 or not _covered(parameters, x, y):
            state[State.X] = x
            state[State.Y] = y
            break


@compiled
def observe(parameters: Floats, state: Floats, observation: Floats) -> None:
    """Fill ``observation`` with (d_o, φ_o, d_g, φ_g, φ_obs)."""
    x = state[State.X]
    y = state[State.Y]
    heading = state[State.HEADING]
    goals = int(parameters[Slot.GOALS])
    row, distance = nearest_obstacle(
        parameters, Slot.END + 2 * goals, int(parameters[Slot.OBSTACLES]), x, y
    )
    if row < 0:
        observation[0] = FAR_AWAY
        observation[1] = 0.0
        observation[4] = 0.0
    else:
        u, v = to_frame(parameters, row, x, y)
        middle, opening = tangent_cone(
            u,
            v,
            parameters[row + 2],
            parameters[row + 3],
            parameters[row + 4],
            parameters[row + 5],
        )
        if parameters[Slot.OBSTACLE_DISTANCE] == 1.0:
            distance = math.sqrt(u * u + v * v)
        observation[0] = distance
        observation[1] = wrap_angle(middle - heading)
        observation[4] = opening
    goal = Slot.END + 2 * int(state[State.GOAL])
    to_x = parameters[goal] - x
    to_y = parameters[goal + 1] - y
    observation[2] = math.sqrt(to_x * to_x + to_y * to_y)
    observation[3] = _turn_to(to_x, to_y, heading)


@compiled
def ended(parameters: Floats, state: Floats) -> bool:
    """Tell whether the episode has terminated."""
    by_crash = state[State.CRASHED] == 1.0 and parameters[Slot.CRASH] == 1.0
    by_arrival = state[State.ARRIVED] == 1.0 and parameters[Slot.ARRIVAL] == 1.0
    return bool(by_crash or by_arrival)


@compiled
def step(parameters: Floats, state: Floats, action: Floats) -> float:
    """Move ``state`` one step on and return the reward.

    The reward reads the state after the move: whether the move crashed is known only then, and
    so an action is paid for its own effect. Paying for the state before the move would change
    nothing but the scale: the discounted sum would be r(s₀) + γ times the one here.
    """
    if ended(parameters, state):
        return 0.0
    state[State.STEPS] += 1.0
    crash_rule = parameters[Slot.CRASH]
    if state[State.CRASHED] == 1.0 and crash_rule == 0.0:
        return float(parameters[Slot.CRASH_REWARD])

    # The dynamics of the paper: the move uses the heading from before the turn.
    time_step = parameters[Slot.TIME_STEP]
    speed = _clipped(action[0], parameters[Slot.SPEED_LOW], parameters[Slot.SPEED_HIGH])
    turn = _clipped(action[1], parameters[Slot.TURN_LOW], parameters[Slot.TURN_HIGH])
    x = state[State.X]
    y = state[State.Y]
    heading = state[State.HEADING]
    to_x = x + time_step * speed * math.cos(heading)
    to_y = y + time_step * speed * math.sin(heading)

    goals = int(parameters[Slot.GOALS])
    touch = math.inf
    if parameters[Slot.SWEPT] == 1.0:
        begin = Slot.END + 2 * goals
        count = int(parameters[Slot.OBSTACLES])
        touch = first_contact(parameters, begin, count, x, y, to_x, to_y)
    elif _covered(parameters, to_x, to_y):
        touch = 1.0
    crashed = touch <= 1.0
    if crashed:
        state[State.CRASHED] = 1.0
        if crash_rule != 2.0:
            # Stuck where the path met the obstacle; the turn does not take place.
            state[State.X] = x + touch * (to_x - x)
            state[State.Y] = y + touch * (to_y - y)
            state[State.PATH_LENGTH] += touch * time_step * abs(speed)
            return float(parameters[Slot.CRASH_REWARD])
    state[State.X] = to_x
    state[State.Y] = to_y
    state[State.HEADING] = wrap_angle(heading + time_step * turn)
    state[State.PATH_LENGTH] += time_step * abs(speed)

    current = int(state[State.GOAL])
    goal = Slot.END + 2 * current
    off_x = parameters[goal] - to_x
    off_y = parameters[goal + 1] - to_y
    distance = math.sqrt(off_x * off_x + off_y * off_y)
    if distance <= parameters[Slot.ARRIVAL_RADIUS]:
        if current < goals - 1:
            state[State.GOAL] = current + 1.0
        elif state[State.ARRIVED] == 0.0:
            state[State.ARRIVED] = 1.0
            state[State.ARRIVAL_STEP] = state[State.STEPS]
    if crashed:
        return float(parameters[Slot.CRASH_REWARD])
    # For the goal that was current during the move: arriving must not be punished by the
    # distance to the goal that comes next.
    return float(parameters[Slot.GOAL_REWARD] - parameters[Slot.DISTANCE_COST] * distance)


# The entry points only pass on, so that all arithmetic is compiled under the one rule of
# `compiled`. They are plain functions, which another process finds by their names.
def _enter_reset(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    start_episode(parameters, uniforms, state)


def _enter_observe(parameters: Floats, state: Floats, observation: Floats) -> None:
    observe(parameters, state, observation)


def _enter_step(parameters: Floats, state: Floats, action: Floats) -> float:
    return step(parameters, state, action)


def _enter_ended(parameters: Floats, state: Floats) -> bool:
    return ended(parameters, state)


@functools.cache
def _pointers() -> tuple[FunctionPointer, FunctionPointer, FunctionPointer, FunctionPointer]:
    # Made on first use: compiling takes seconds, and importing should not.
    return (
        FunctionPointer(_enter_reset, RESET),
        FunctionPointer(_enter_observe, OBSERVE),
        FunctionPointer(_enter_step, STEP),
        FunctionPointer(_enter_ended, ENDED),
    )


def navigation_dynamics(parameters: Floats) -> Dynamics:
    """Return the dynamics of the task that a parameter vector describes."""
    return Dynamics(parameters, *_pointers())


def navigation_outcomes(states: Floats) -> dict[str, NDArray[Any]]:
    """Read final states into named arrays.

    Parameters
    ----------
    states : ndarray, shape (n, STATE_SIZE)

    Returns
    -------
    dict
        ``crashed`` and ``arrived``, bool, shape (n,); ``goals_reached``, int, shape (n,);
        ``arrival_time``, float, shape (n,), in steps, NaN if the robot never arrived;
        ``path_length``, float, shape (n,); ``position``, float, shape (n, 2).
    """
    states = np.atleast_2d(np.asarray(states, dtype=np.float64))
    arrived = states[:, State.ARRIVED] == 1.0
    return {
        "crashed": states[:, State.CRASHED] == 1.0,
        "arrived": arrived,
        "goals_reached": states[:, State.GOAL].astype(np.int64) + arrived,
        "arrival_time": np.where(arrived, states[:, State.ARRIVAL_STEP], np.nan),
        "path_length": states[:, State.PATH_LENGTH].copy(),
        "position": states[:, [State.X, State.Y]],
    }
