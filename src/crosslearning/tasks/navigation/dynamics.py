"""The physics of the navigation task, compiled: reset, observe, step and ended.

The functions work on two flat float64 vectors: the state, indexed by :class:`State`, and the
parameters: those of :class:`Slot`, then the goals (x, y) and the obstacles, six numbers each, as in
:mod:`crosslearning.tasks.navigation.obstacles`.
"""

from __future__ import annotations

import math
from enum import IntEnum

from crosslearning._base.compiled import compiled
from crosslearning.tasks.environment import Physics, clipped
from crosslearning.tasks.navigation import obstacles
from crosslearning.tasks.navigation.obstacles import ROW, Row, wrap_angle
from crosslearning.tasks.task import Floats

# Choices of a user; the parameter vector holds their numbers.
StartInObstacle = IntEnum("StartInObstacle", "REDRAW CRASH", start=0)
Arrival = IntEnum("Arrival", "CONTINUE TERMINATE", start=0)
Crash = IntEnum("Crash", "ABSORBING TERMINATE CONTINUE", start=0)
ObstacleDistance = IntEnum("ObstacleDistance", "SURFACE CENTRE", start=0)
GoalChoice = IntEnum("GoalChoice", "ORDERED REDRAWN", start=0)
CHOICES: dict[str, type[IntEnum]] = {
    "start_in_obstacle": StartInObstacle,
    "arrival": Arrival,
    "crash": Crash,
    "obstacle_distance": ObstacleDistance,
    "goal_choice": GoalChoice,
}

#: Indices into the parameter vector. START and HEADING are lower bounds, and a width of 0 is a
#: fixed start; NEAR_SHARE of the starts are within NEAR_DISTANCE of an obstacle; FREE is the start
#: if every drawn one is covered; SWEPT is 1 if the whole path is tested for collisions; GOALS and
#: OBSTACLES are counts; the goals begin at END.
Slot = IntEnum(
    "Slot",
    "TIME_STEP SPEED_LOW SPEED_HIGH TURN_LOW TURN_HIGH START_X START_Y START_WIDTH START_HEIGHT "
    "HEADING HEADING_WIDTH NEAR_SHARE NEAR_DISTANCE START_IN_OBSTACLE FREE_X FREE_Y "
    "ARRIVAL_RADIUS ARRIVAL CRASH SWEPT OBSTACLE_DISTANCE CRASH_REWARD GOAL_REWARD "
    "DISTANCE_COST GOAL_CHOICE GOALS OBSTACLES END",
    start=0,
)


#: Indices into the state vector. HEADING is in [-π, π); GOAL is the index of the current goal;
#: CRASHED is 1 after a collision, ARRIVED after the last goal, which a redrawn one is;
#: ARRIVAL_STEP is −1 before.
State = IntEnum("State", "X Y HEADING GOAL CRASHED ARRIVED ARRIVAL_STEP PATH_LENGTH STEPS", start=0)

STATE_SIZE, OBSERVATION_SIZE = len(State), 5
#: Candidate start places of a reset, and its uniform numbers: x, y, heading, then x, y of the
#: other candidates.
CANDIDATES = 8
RESET_SIZE = 1 + 2 * CANDIDATES
#: The observed distance without obstacles.
FAR_AWAY = 100.0


@compiled
def _contact(parameters: Floats, x: float, y: float, to_x: float, to_y: float) -> float:
    """Return the fraction of the segment at which it first touches an obstacle, or infinity."""
    begin, count = Slot.END + 2 * int(parameters[Slot.GOALS]), int(parameters[Slot.OBSTACLES])
    return obstacles.first_contact(parameters, begin, count, x, y, to_x, to_y)


@compiled
def _near_place(parameters: Floats, first: float, second: float) -> tuple[float, float]:
    """Return a place near an obstacle, from two uniform numbers.

    The first selects the obstacle and a point of its outline, the second the distance from there.
    """
    begin, count = Slot.END + 2 * int(parameters[Slot.GOALS]), int(parameters[Slot.OBSTACLES])
    chosen = min(int(first * count), count - 1)
    turn = 2.0 * math.pi * (first * count - chosen)
    away = second * parameters[Slot.NEAR_DISTANCE]
    return obstacles.beside(parameters, begin + chosen * ROW, turn, away)


@compiled
def start_episode(parameters: Floats, uniforms: Floats, state: Floats) -> None:
    """Fill ``state`` with a start, a pure function of ``uniforms``, shape (RESET_SIZE,).

    It is the first free candidate, or a place known to be free if all are covered, which has
    probability (covered fraction of the start area)⁸. With a NEAR_SHARE or goals that are redrawn,
    the last candidate is not used: its first number decides whether the start is near an obstacle,
    its second one selects the goal.
    """
    state[:] = 0.0
    state[State.ARRIVAL_STEP] = -1.0
    heading = parameters[Slot.HEADING] + uniforms[2] * parameters[Slot.HEADING_WIDTH]
    state[State.HEADING] = wrap_angle(heading)
    state[State.X], state[State.Y] = parameters[Slot.FREE_X], parameters[Slot.FREE_Y]
    keep_covered = int(parameters[Slot.START_IN_OBSTACLE]) == StartInObstacle.CRASH
    share = parameters[Slot.NEAR_SHARE]
    near = uniforms[RESET_SIZE - 2] < share and parameters[Slot.OBSTACLES] > 0.0
    redrawn = int(parameters[Slot.GOAL_CHOICE]) == GoalChoice.REDRAWN
    if redrawn:
        goals = int(parameters[Slot.GOALS])
        state[State.GOAL] = min(int(uniforms[RESET_SIZE - 1] * goals), goals - 1)
    for candidate in range(CANDIDATES - 1 if share > 0.0 or redrawn else CANDIDATES):
        first = 0 if candidate == 0 else 1 + 2 * candidate
        if near:
            x, y = _near_place(parameters, uniforms[first], uniforms[first + 1])
            across, along = x - parameters[Slot.START_X], y - parameters[Slot.START_Y]
            if not 0.0 <= across <= parameters[Slot.START_WIDTH]:
                continue
            if not 0.0 <= along <= parameters[Slot.START_HEIGHT]:
                continue
        else:
            x = parameters[Slot.START_X] + uniforms[first] * parameters[Slot.START_WIDTH]
            y = parameters[Slot.START_Y] + uniforms[first + 1] * parameters[Slot.START_HEIGHT]
        if keep_covered or _contact(parameters, x, y, x, y) > 0.0:
            state[State.X], state[State.Y] = x, y
            break


@compiled
def observe(parameters: Floats, state: Floats, observation: Floats) -> None:
    """Fill ``observation`` with (d_o, φ_o, d_g, φ_g, φ_obs)."""
    x, y, heading = state[State.X], state[State.Y], state[State.HEADING]
    begin, count = Slot.END + 2 * int(parameters[Slot.GOALS]), int(parameters[Slot.OBSTACLES])
    row, distance = obstacles.nearest_obstacle(parameters, begin, count, x, y)
    if row < 0:
        observation[0], observation[1], observation[4] = FAR_AWAY, 0.0, 0.0
    else:
        u, v = obstacles.to_frame(parameters, row, x, y)
        a, b = parameters[row + Row.FIRST_AXIS], parameters[row + Row.SECOND_AXIS]
        cosine, sine = parameters[row + Row.COSINE], parameters[row + Row.SINE]
        middle, opening = obstacles.tangent_cone(u, v, a, b, cosine, sine)
        if int(parameters[Slot.OBSTACLE_DISTANCE]) == ObstacleDistance.CENTRE:
            distance = math.sqrt(u * u + v * v)
        observation[0] = distance
        observation[1] = wrap_angle(middle - heading)
        observation[4] = opening
    goal = Slot.END + 2 * int(state[State.GOAL])
    to_x, to_y = parameters[goal] - x, parameters[goal + 1] - y
    observation[2] = math.sqrt(to_x * to_x + to_y * to_y)
    # At the goal itself, which lies in no direction, the angle is 0.
    at_goal = to_x == 0.0 and to_y == 0.0
    observation[3] = 0.0 if at_goal else wrap_angle(math.atan2(to_y, to_x) - heading)


@compiled
def ended(parameters: Floats, state: Floats) -> bool:
    """Return whether the episode has terminated."""
    if state[State.CRASHED] == 1.0 and int(parameters[Slot.CRASH]) == Crash.TERMINATE:
        return True
    return state[State.ARRIVED] == 1.0 and int(parameters[Slot.ARRIVAL]) == Arrival.TERMINATE


@compiled
def step(parameters: Floats, state: Floats, action: Floats) -> float:
    """Advance ``state`` and return the reward.

    The reward depends on the state after the move, since only then a crash is known. With the
    state before the move the discounted sum would be r(s₀) + γ times the one here.
    """
    state[State.STEPS] += 1.0
    crash_rule = int(parameters[Slot.CRASH])
    if state[State.CRASHED] == 1.0 and crash_rule == Crash.ABSORBING:
        return float(parameters[Slot.CRASH_REWARD])

    # The dynamics of the paper: the move uses the heading from before the turn.
    time_step = parameters[Slot.TIME_STEP]
    speed = clipped(action[0], parameters[Slot.SPEED_LOW], parameters[Slot.SPEED_HIGH])
    turn = clipped(action[1], parameters[Slot.TURN_LOW], parameters[Slot.TURN_HIGH])
    x, y, heading = state[State.X], state[State.Y], state[State.HEADING]
    to_x = x + time_step * speed * math.cos(heading)
    to_y = y + time_step * speed * math.sin(heading)

    if parameters[Slot.SWEPT] == 1.0:
        touch = _contact(parameters, x, y, to_x, to_y)
    else:
        # Only the end of the path counts.
        touch = max(1.0, _contact(parameters, to_x, to_y, to_x, to_y))
    crashed = touch <= 1.0
    if crashed:
        state[State.CRASHED] = 1.0
        if crash_rule != Crash.CONTINUE:
            # Stuck where the path met the obstacle, without the turn.
            state[State.X], state[State.Y] = x + touch * (to_x - x), y + touch * (to_y - y)
            state[State.PATH_LENGTH] += touch * time_step * abs(speed)
            return float(parameters[Slot.CRASH_REWARD])
    state[State.X], state[State.Y] = to_x, to_y
    state[State.HEADING] = wrap_angle(heading + time_step * turn)
    state[State.PATH_LENGTH] += time_step * abs(speed)

    current = int(state[State.GOAL])
    goal = Slot.END + 2 * current
    off_x, off_y = parameters[goal] - to_x, parameters[goal + 1] - to_y
    distance = math.sqrt(off_x * off_x + off_y * off_y)
    if distance <= parameters[Slot.ARRIVAL_RADIUS]:
        redrawn = int(parameters[Slot.GOAL_CHOICE]) == GoalChoice.REDRAWN
        if current < int(parameters[Slot.GOALS]) - 1 and not redrawn:
            state[State.GOAL] = current + 1.0
        elif state[State.ARRIVED] == 0.0:
            state[State.ARRIVED] = 1.0
            state[State.ARRIVAL_STEP] = state[State.STEPS]
    if crashed:
        return float(parameters[Slot.CRASH_REWARD])
    # For the goal of this move: arriving must not cost the distance to the next goal.
    return float(parameters[Slot.GOAL_REWARD] - parameters[Slot.DISTANCE_COST] * distance)


NAVIGATION = Physics(
    start_episode, observe, step, ended, state_size=STATE_SIZE, reset_size=RESET_SIZE
)
