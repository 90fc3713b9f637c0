"""The physics of the navigation task, compiled: reset, observe, step and ended.

This is the only place where the robot moves. It works on two flat float64 vectors.

Parameters, in this order: the numbers of :class:`Slot`; the goals (x, y), one after another;
the obstacles, six numbers each, as in :mod:`crosslearning.tasks.navigation.geometry`.

State: the numbers of :class:`State`.
"""

from __future__ import annotations

import math
from enum import IntEnum

from crosslearning.compiled import compiled
from crosslearning.errors import unknown_name
from crosslearning.tasks.environment import Physics, clipped
from crosslearning.tasks.navigation.geometry import (
    Row,
    first_contact,
    nearest_obstacle,
    tangent_cone,
    to_frame,
    wrap_angle,
)
from crosslearning.tasks.task import Floats


class Choice(IntEnum):
    """Words that a user chooses from; in the parameter vector stands the chosen one's number."""

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """Return the words, as users write them."""
        return tuple(member.name.lower() for member in cls)

    @classmethod
    def of(cls, what: str, word: object) -> Choice:
        """Return the member that a word names, or say which words there are."""
        if word not in cls.words():
            raise unknown_name(f"choice for {what}", str(word), cls.words())
        return cls[str(word).upper()]


class StartInObstacle(Choice):
    """What becomes of a start that falls into an obstacle."""

    REDRAW = 0
    CRASH = 1


class Arrival(Choice):
    """What follows at the last goal."""

    CONTINUE = 0
    TERMINATE = 1


class Crash(Choice):
    """What follows a collision."""

    ABSORBING = 0
    TERMINATE = 1
    CONTINUE = 2


class ObstacleDistance(Choice):
    """To what the distance of the nearest obstacle is observed."""

    SURFACE = 0
    CENTRE = 1


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
    START_IN_OBSTACLE = 11  #: a choice
    FREE_X = 12  #: the free place that is taken when every drawn start is covered
    FREE_Y = 13
    ARRIVAL_RADIUS = 14
    ARRIVAL = 15  #: a choice
    CRASH = 16  #: a choice
    SWEPT = 17  #: 1: the whole path is tested for collisions
    OBSTACLE_DISTANCE = 18  #: a choice
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


@compiled
def _covered(parameters: Floats, x: float, y: float) -> bool:
    """Tell whether (x, y) lies in or on an obstacle."""
    begin = Slot.END + 2 * int(parameters[Slot.GOALS])
    count = int(parameters[Slot.OBSTACLES])
    return first_contact(parameters, begin, count, x, y, x, y) == 0.0


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
    keep_covered = int(parameters[Slot.START_IN_OBSTACLE]) == StartInObstacle.CRASH
    for candidate in range(CANDIDATES):
        first = 0 if candidate == 0 else 1 + 2 * candidate
        x = parameters[Slot.START_X] + uniforms[first] * parameters[Slot.START_WIDTH]
        y = parameters[Slot.START_Y] + uniforms[first + 1] * parameters[Slot.START_HEIGHT]
        if keep_covered or not _covered(parameters, x, y):
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
            parameters[row + Row.FIRST_AXIS],
            parameters[row + Row.SECOND_AXIS],
            parameters[row + Row.COSINE],
            parameters[row + Row.SINE],
        )
        if int(parameters[Slot.OBSTACLE_DISTANCE]) == ObstacleDistance.CENTRE:
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
    if state[State.CRASHED] == 1.0 and int(parameters[Slot.CRASH]) == Crash.TERMINATE:
        return True
    return state[State.ARRIVED] == 1.0 and int(parameters[Slot.ARRIVAL]) == Arrival.TERMINATE


@compiled
def step(parameters: Floats, state: Floats, action: Floats) -> float:
    """Move ``state`` one step on and return the reward.

    The reward reads the state after the move: whether the move crashed is known only then, and
    so an action is paid for its own effect. Paying for the state before the move would change
    nothing but the scale: the discounted sum would be r(s₀) + γ times the one here.
    """
    state[State.STEPS] += 1.0
    crash_rule = int(parameters[Slot.CRASH])
    if state[State.CRASHED] == 1.0 and crash_rule == Crash.ABSORBING:
        return float(parameters[Slot.CRASH_REWARD])

    # The dynamics of the paper: the move uses the heading from before the turn.
    time_step = parameters[Slot.TIME_STEP]
    speed = clipped(action[0], parameters[Slot.SPEED_LOW], parameters[Slot.SPEED_HIGH])
    turn = clipped(action[1], parameters[Slot.TURN_LOW], parameters[Slot.TURN_HIGH])
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
        if crash_rule != Crash.CONTINUE:
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


NAVIGATION = Physics(
    start_episode, observe, step, ended, state_size=STATE_SIZE, reset_size=RESET_SIZE
)
