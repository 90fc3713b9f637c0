"""The navigation task of the paper: a robot drives to a goal around obstacles.

:class:`Navigation` describes one task; :meth:`Navigation.task` makes it for the learner, and
``gymnasium.make("crosslearning/Navigation-v0", ...)`` as an environment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.tasks import numbers
from crosslearning.tasks.environment import CompiledEnvironment
from crosslearning.tasks.navigation.dynamics import CHOICES, NAVIGATION, STATE_SIZE, State
from crosslearning.tasks.navigation.obstacles import (
    Circle,
    Obstacle,
    clearances,
    obstacle_rows,
    read_obstacle,
)
from crosslearning.tasks.numbers import read_interval, read_number, read_numbers
from crosslearning.tasks.task import Floats, Task

ENVIRONMENT_ID = "crosslearning/Navigation-v0"

#: Grid points along each side of the start area in the search for a free place.
_SEARCH = 65
#: Cells along each side of the start area whose centres are the goals of ``"grid"``.
_CELLS = 10

Point = tuple[float, float]


@dataclass(frozen=True)
class Navigation:
    """One navigation task; every reading of the paper is a parameter.

    Parameters
    ----------
    obstacles : sequence of Circle, Ellipse, mapping or numbers
        May be empty; :func:`~crosslearning.tasks.navigation.obstacles.read_obstacle` describes
        the plain forms.
    goals : sequence of pairs, or "grid"
        Visited in this order. ``"grid"`` stands for the centres of 10 × 10 cells of ``start_area``
        that are farther than ``arrival_radius`` from every obstacle.
    goal_choice : {"ordered", "redrawn"}
        Whether the goals are visited in order, or every episode has one of them, drawn anew.
    start : pair, optional
        A fixed start; by default it is uniform in ``start_area``.
    start_area : pair of pairs
        ((x low, x high), (y low, y high)); the paper's [0, 10] × [0, 10].
    heading : float, optional
        A fixed initial heading; by default it is uniform in [−π, π).
    near_share, near_distance : float
        With probability ``near_share`` an episode starts within ``near_distance`` of an obstacle.
    start_in_obstacle : {"redraw", "crash"}
        A start in an obstacle is redrawn, or kept, so that the first step is a collision.
    time_step : float
        T_s of the dynamics.
    speed_bounds, turn_bounds : pairs of float
        Bounds of the speed and of the turn rate; ``step`` clips actions to them.
    arrival_radius : float
        A goal is reached when a step ends within this distance of it.
    arrival : {"continue", "terminate"}
        Whether the episode continues or terminates at the last goal.
    crash : {"absorbing", "terminate", "continue"}
        After a collision the robot is stuck, with the crash reward at every later step; or the
        episode terminates; or the robot drives on.
    swept : bool
        Whether the whole path of a step is tested for collisions, or only its end.
    obstacle_distance : {"surface", "centre"}
        Which distance to the obstacle with the nearest surface is observed.
    crash_reward, goal_reward, distance_cost : float
        ``crash_reward`` for a collision, and otherwise ``goal_reward - distance_cost · d_g``.

    Examples
    --------
    >>> from crosslearning.tasks import Circle, Navigation
    >>> pillar = Navigation(obstacles=[Circle((4.0, 4.0), 1.0)], goals=[(8.0, 8.0)])
    >>> pillar.task("pillar").make().action_space.shape
    (2,)
    """

    obstacles: tuple[Obstacle, ...] = (Circle((7.0, 2.0), 0.5),)
    goals: tuple[Point, ...] = ((5.0, 6.0),)
    start: Point | None = None
    start_area: tuple[Point, Point] = ((0.0, 10.0), (0.0, 10.0))
    heading: float | None = None
    near_share: float = 0.0
    near_distance: float = 0.5
    start_in_obstacle: Literal["redraw", "crash"] = "redraw"
    time_step: float = 0.5
    speed_bounds: Point = (0.0, 2.0)
    turn_bounds: Point = (-math.pi, math.pi)
    arrival_radius: float = 0.5
    arrival: Literal["continue", "terminate"] = "continue"
    crash: Literal["absorbing", "terminate", "continue"] = "absorbing"
    swept: bool = True
    obstacle_distance: Literal["surface", "centre"] = "surface"
    goal_choice: Literal["ordered", "redrawn"] = "ordered"
    crash_reward: float = -100.0
    goal_reward: float = 10.0
    distance_cost: float = 10.0

    def __post_init__(self) -> None:
        sides = _items("start_area", self.start_area)
        if len(sides) != 2:
            raise InputError(f"start_area is {sides}; give ((x low, x high), (y low, y high))")
        if not isinstance(self.swept, bool | np.bool_):
            raise InputError(f"swept is {self.swept!r}; give True or False")
        read: dict[str, Any] = {
            "obstacles": tuple(read_obstacle(o) for o in _items("obstacles", self.obstacles)),
            "start_area": tuple(read_interval("a side of start_area", side) for side in sides),
            "near_share": numbers.read_probability("near_share", self.near_share),
            "swept": bool(self.swept),
        }
        if self.start is not None:
            read["start"] = read_numbers("start", self.start, 2)
        if self.heading is not None:
            read["heading"] = read_number("heading", self.heading)
        for name in ("speed_bounds", "turn_bounds"):
            read[name] = read_interval(name, getattr(self, name))
        for name in ("time_step", "arrival_radius", "near_distance"):
            read[name] = read_number(name, getattr(self, name), positive=True)
        for name in ("crash_reward", "goal_reward", "distance_cost"):
            read[name] = read_number(name, getattr(self, name))
        for name, choice in CHOICES.items():
            words = [member.name.lower() for member in choice]
            numbers.check_names(f"choice for {name}", [getattr(self, name)], words)
        for name, value in read.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "goals", self._read_goals())
        if self.near_share > 0.0 and self.start is not None:
            raise InputError(f"near_share > 0, but every episode starts at {self.start}; drop one")
        if not self.goals:
            raise InputError("no goal was given; give at least one, such as goals=((5, 6),)")
        for goal in self.goals:
            if not self.is_free(*goal):
                raise InputError(f"the goal {goal} lies in an obstacle; move one of the two")
        self._free_place()

    def _read_goals(self) -> tuple[Any, ...]:
        given: Any = self.goals
        if isinstance(given, str) and given == "grid":
            cells = (np.arange(_CELLS) + 0.5) / _CELLS
            axes = (low + cells * (high - low) for low, high in self.start_area)
            places = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
            free = clearances(places, self.obstacles) > self.arrival_radius
            return tuple((float(x), float(y)) for x, y in places[free])
        return tuple(read_numbers("a goal", goal, 2) for goal in _items("goals", given))

    def is_free(self, x: float, y: float) -> bool:
        """Return whether (x, y) lies outside every obstacle."""
        return bool(clearances((x, y), self.obstacles)[0] > 0.0)

    def check_start(self, x: float, y: float) -> Point:
        """Return a start, or raise an InputError if it may not be there."""
        if self.start_in_obstacle == "redraw" and not self.is_free(x, y):
            raise InputError(
                f"the start ({x}, {y}) lies in an obstacle; move it, or allow it in the task with "
                "start_in_obstacle='crash'"
            )
        return x, y

    def grid(self, count: int) -> Floats:
        """Return a grid of ``count`` × ``count`` points of the start area, shape (count², 2)."""
        axes = (np.linspace(low, high, count) for low, high in self.start_area)
        return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)

    def _free_place(self) -> Point:
        """Return the place in the start area that is farthest from the obstacles."""
        if self.start is not None:
            return self.check_start(*self.start)
        places = self.grid(_SEARCH)
        free = clearances(places, self.obstacles)
        best = int(np.argmax(free))
        if free[best] <= 0.0 and self.start_in_obstacle == "redraw":
            raise InputError(f"obstacles cover the whole start area {self.start_area}; enlarge it")
        return float(places[best, 0]), float(places[best, 1])

    @property
    def parameters(self) -> Floats:
        """The parameter vector of the compiled dynamics."""
        (x_low, x_high), (y_low, y_high) = self.start_area
        if self.start is not None:
            (x_low, y_low), (x_high, y_high) = self.start, self.start
        heading = (-math.pi, 2.0 * math.pi) if self.heading is None else (self.heading, 0.0)
        chosen = {name: choice[getattr(self, name).upper()] for name, choice in CHOICES.items()}
        parts = (  # the first six in the order of Slot
            [self.time_step, *self.speed_bounds, *self.turn_bounds],
            [x_low, y_low, x_high - x_low, y_high - y_low, *heading],
            [self.near_share, self.near_distance, chosen["start_in_obstacle"], *self._free_place()],
            [self.arrival_radius, chosen["arrival"], chosen["crash"], self.swept],
            [chosen["obstacle_distance"], self.crash_reward, self.goal_reward, self.distance_cost],
            [chosen["goal_choice"], len(self.goals), len(self.obstacles)],
            np.ravel(self.goals),
            obstacle_rows(self.obstacles),
        )
        return np.concatenate(parts)

    def replace(self, /, **changes: Any) -> Navigation:
        """Return a copy with some parameters changed; an unknown name is an error."""
        return numbers.replaced("navigation parameter", self, changes)

    def environment(self, render_mode: str | None = None) -> NavigationEnvironment:
        """Return a new Gymnasium environment of this task, without a time limit."""
        return NavigationEnvironment(self, render_mode=render_mode)

    def task(self, name: str) -> Task:
        """Return this task, with compiled dynamics."""
        return self.environment().task(name)


def _items(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"{name} is {given!r}; give a sequence, such as a tuple")
    return tuple(given)


class NavigationEnvironment(CompiledEnvironment):
    """A robot that drives to a goal around obstacles.

    ``navigation`` is by default the paper's first task; ``parameters`` are those of
    :class:`Navigation` to change in it. The render mode is ``"rgb_array"``.

    An observation is (d_o, φ_o, d_g, φ_g, φ_obs), an action (speed, turn rate). Beside
    ``uniforms`` and ``state``, ``reset(options=...)`` takes ``{"start": (x, y, heading)}``.

    Examples
    --------
    >>> from crosslearning.tasks import NavigationEnvironment
    >>> observation, _ = NavigationEnvironment().reset(seed=0)
    >>> observation.shape
    (5,)
    """

    metadata = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": 8,
        "observation_names": [
            "distance to the obstacle",
            "bearing of the obstacle [rad]",
            "distance to the goal",
            "bearing of the goal [rad]",
            "angle that the obstacle fills [rad]",
        ],
        "action_names": ["speed", "turn rate [rad/s]"],
    }
    physics = NAVIGATION
    #: The paper's Σ_κ over (d_o, φ_o, d_g, φ_g, φ_obs).
    kernel_covariance = (1.0, math.pi / 5, 1.0, math.pi / 5, math.pi / 10)
    reset_options = ("start", "state", "uniforms")

    def __init__(
        self,
        navigation: Navigation | None = None,
        *,
        render_mode: str | None = None,
        **parameters: Any,
    ) -> None:
        self.navigation = (navigation or Navigation()).replace(**parameters)
        super().__init__(self.navigation.parameters, render_mode=render_mode)
        # Gymnasium requires finite bounds. Inside an obstacle the distance to its surface is
        # negative, but never below its smaller semi-axis.
        far = float(np.finfo(np.float64).max)
        deepest = max((min(o.semi_axes) for o in self.navigation.obstacles), default=0.0)
        low = np.array([-deepest, -math.pi, 0.0, -math.pi, 0.0])
        high = np.array([far, math.pi, far, math.pi, math.pi])
        self.observation_space = Box(low, high, dtype=np.float64)
        low, high = np.transpose([self.navigation.speed_bounds, self.navigation.turn_bounds])
        self.action_space = Box(low, high, dtype=np.float64)

    def outcomes(self, states: Floats) -> dict[str, NDArray[Any]]:
        """Return named arrays of length n for final states, shape (n, STATE_SIZE).

        ``arrival_time`` is in steps, NaN without arrival; ``position`` has shape (n, 2).
        """
        states = np.atleast_2d(np.asarray(states, dtype=np.float64))
        arrived = states[:, State.ARRIVED] == 1.0
        ordered = self.navigation.goal_choice == "ordered"
        return {
            "crashed": states[:, State.CRASHED] == 1.0,
            "arrived": arrived,
            "goals_reached": states[:, State.GOAL].astype(np.int64) * ordered + arrived,
            "arrival_time": np.where(arrived, states[:, State.ARRIVAL_STEP], np.nan),
            "path_length": states[:, State.PATH_LENGTH].copy(),
            "position": states[:, [State.X, State.Y]],
        }

    def information(self) -> dict[str, Any]:
        """Return the ``info`` of the current state."""
        state = self.state
        return {
            "crashed": bool(state[State.CRASHED]),
            "arrived": bool(state[State.ARRIVED]),
            "goal": int(state[State.GOAL]),
            "position": (float(state[State.X]), float(state[State.Y])),
        }

    def picture(self) -> NDArray[np.uint8]:
        """Return a picture of the task, shape (height, width, 3)."""
        # Only pictures need the drawing library.
        from crosslearning.tasks.rendering import painter_of

        trail = np.array(self._trail)[:, [State.X, State.Y]]
        return painter_of(self.navigation).picture(self.state, trail)

    def state_from(self, option: str, given: Any) -> Floats:
        """Return the state for a reset option; in addition to the usual ones, "start"."""
        if option == "start":
            x, y, heading = read_numbers("the option 'start', (x, y, heading),", given, 3)
            self.navigation.check_start(x, y)
            state = np.zeros(STATE_SIZE)
            state[[State.X, State.Y, State.HEADING, State.ARRIVAL_STEP]] = x, y, heading, -1.0
            return state
        state = super().state_from(option, given)
        goal, goals = state[State.GOAL], len(self.navigation.goals)
        if goal not in range(goals):
            raise InputError(
                f"the option 'state' is at goal {goal}, but the task has {goals} (counted from "
                "0); use a state that was read from an environment of the same task"
            )
        flags = state[[State.CRASHED, State.ARRIVED]]
        if not np.isin(flags, (0.0, 1.0)).all():
            raise InputError(f"'state' has crashed and arrived {flags}; each must be 0 or 1")
        return state
