"""Pictures of the navigation task; the background is drawn once and copied for every frame."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.tasks import drawing as palette
from crosslearning.tasks.drawing import SCALE, Canvas, Colour, Place
from crosslearning.tasks.navigation.dynamics import OBSERVATION_SIZE, State, observe
from crosslearning.tasks.navigation.obstacles import bounding_box, outline
from crosslearning.tasks.task import Floats

if TYPE_CHECKING:
    from crosslearning.tasks.navigation.environment import Navigation

_MARGIN = 0.9

_OBSTACLE, _OBSTACLE_EDGE = (203, 210, 222), (108, 121, 142)
_GOAL_SOFT, _GOAL_PAST = (*palette.GREEN, 34), (164, 199, 185)
_CRASH = (214, 48, 49)
_TRAIL_OLD, _TRAIL_NEW = (190, 206, 246), (84, 124, 236)
_CONE = (240, 158, 33, 62)

#: Outlines in pixels of a picture of 600, heading to the right.
_DART = ((7.4, 0.0), (-4.6, 5.0), (-2.2, 0.0), (-4.6, -5.0))
_ARROW = ((8.0, 0.0), (-6.0, 8.0), (-2.0, 0.0), (-6.0, -8.0))


class Painter:
    """Draws one navigation task, in pictures of ``size`` pixels along the longer side."""

    def __init__(self, navigation: Navigation, size: int = 600) -> None:
        self.navigation = navigation
        self._low, self._high = _view(navigation)
        sides = self._high - self._low
        pixels_per_unit = size / sides.max()
        self._unit = SCALE * pixels_per_unit
        # Line widths and letters grow with the picture, not with the width of the view.
        self._pen = SCALE * size / 600.0
        self._width, self._height = (round(side * pixels_per_unit) for side in sides)

    def picture(
        self, state: Floats, trail: Floats | None = None, *, show_observation: bool = False
    ) -> NDArray[np.uint8]:
        """Return a picture of a state, shape (height, width, 3).

        ``trail``, shape (n, 2), holds the places where the robot has been.
        """
        canvas = self._background.copy()
        if trail is not None and len(trail) > 1:
            self._draw_trail(canvas, [self._place(x, y) for x, y in trail])
        self._draw_goals(canvas, int(state[State.GOAL]), bool(state[State.ARRIVED]))
        if show_observation:
            self._draw_observation(canvas, state)
        self._draw_robot(canvas, state)
        return canvas.array()

    @functools.cached_property
    def _background(self) -> Canvas:
        canvas = Canvas(self._width, self._height, self._pen)
        navigation = self.navigation
        (x_low, x_high), (y_low, y_high) = navigation.start_area
        if navigation.start is None:
            corners = (*self._place(x_low, y_high), *self._place(x_high, y_low))
            canvas.draw.rectangle(corners, fill=palette.WHITE)
        (left, low), (right, high) = self._low, self._high
        for x in _whole_numbers(left, right):
            canvas.line([self._place(x, high), self._place(x, low)], palette.GRID, 1.0)
        for y in _whole_numbers(low, high):
            canvas.line([self._place(left, y), self._place(right, y)], palette.GRID, 1.0)
        if navigation.start is None:
            canvas.draw.rectangle(corners, outline=palette.EDGE, width=round(1.3 * self._pen))
        else:
            canvas.disc(self._place(*navigation.start), 5.0, None, palette.TICK, 2.0)
        self._draw_ticks(canvas)
        self._draw_obstacles(canvas)
        return canvas

    def _draw_obstacles(self, canvas: Canvas) -> None:
        for obstacle in self.navigation.obstacles:
            edge = [self._place(x, y) for x, y in outline(obstacle, 240)]
            canvas.draw.polygon(edge, fill=_OBSTACLE)
            canvas.line([*edge, edge[0], edge[1]], _OBSTACLE_EDGE, 2.2)

    def _draw_ticks(self, canvas: Canvas) -> None:
        """Write every second whole number along the left and the lower side."""
        aside = 12.0 * self._pen
        for axis in (0, 1):
            for value in _whole_numbers(self._low[axis] + 0.5, self._high[axis] - 0.5):
                across, down = self._place(value, value)
                place = (aside, down) if axis else (across, SCALE * self._height - aside)
                if value % 2 == 0:
                    canvas.text(place, str(value), palette.TICK, 11.0, "mm")

    def _draw_goals(self, canvas: Canvas, current: int, arrived: bool) -> None:
        radius = self.navigation.arrival_radius * self._unit / self._pen
        for index, goal in enumerate(self.navigation.goals):
            place = self._place(*goal)
            colour = _GOAL_PAST if index < current else palette.GREEN
            if index >= current:
                canvas.disc(place, radius, _GOAL_SOFT, _GOAL_PAST, 1.4)
            filled = index <= current or arrived
            canvas.disc(place, 10.5, colour if filled else palette.WHITE, colour, 2.4)
            canvas.text(place, str(index + 1), palette.WHITE if filled else colour, 13.0, "mm")

    def _draw_trail(self, canvas: Canvas, places: Sequence[Place]) -> None:
        for index, (before, after) in enumerate(itertools.pairwise(places)):
            share = (index + 1) / (len(places) - 1)
            ends = zip(_TRAIL_OLD, _TRAIL_NEW, strict=True)
            colour = tuple(round(old + share * (new - old)) for old, new in ends)
            canvas.line([before, after], colour, 2.6)
            canvas.disc(before, 2.6, colour)

    def _draw_robot(self, canvas: Canvas, state: Floats) -> None:
        x, y, heading = state[State.X], state[State.Y], state[State.HEADING]
        inside = np.clip((x, y), self._low + 0.25, self._high - 0.25)
        place = self._place(*inside)
        if (inside != (x, y)).any():
            # The robot has left the picture: an arrow at the border points to it.
            heading = math.atan2(y - inside[1], x - inside[0])
            canvas.shape(place, heading, _ARROW, palette.BLUE)
            return
        crashed = state[State.CRASHED] == 1.0
        canvas.disc(place, 11.5, palette.WHITE)
        canvas.disc(place, 10.0, _CRASH if crashed else palette.BLUE)
        if not crashed:
            canvas.shape(place, heading, _DART, palette.WHITE)
            return
        arm = 4.2 * self._pen
        for slope in (-arm, arm):
            ends = [(place[0] - arm, place[1] - slope), (place[0] + arm, place[1] + slope)]
            canvas.line(ends, palette.WHITE, 3.2)
        canvas.disc(place, 15.5, None, _CRASH, 2.2)

    def _draw_observation(self, canvas: Canvas, state: Floats) -> None:
        observation = np.empty(OBSERVATION_SIZE)
        observe(self.navigation.parameters, state, observation)
        distance, obstacle_angle, goal_distance, goal_angle, opening = observation
        x, y, heading = state[State.X], state[State.Y], state[State.HEADING]

        def at(angle: float, distance: float) -> Place:
            turned = heading + angle
            return self._place(x + distance * math.cos(turned), y + distance * math.sin(turned))

        def arc(begin: float, end: float, distance: float) -> list[Place]:
            return [at(angle, distance) for angle in np.linspace(begin, end, 60)]

        here = self._place(x, y)
        if self.navigation.obstacles:
            edges = np.concatenate([outline(o, 720) for o in self.navigation.obstacles])
            nearest = edges[np.argmin(np.hypot(edges[:, 0] - x, edges[:, 1] - y))]
            sides = (obstacle_angle - 0.5 * opening, obstacle_angle + 0.5 * opening)
            reach = distance + 2.0 * max(max(o.semi_axes) for o in self.navigation.obstacles)
            canvas.draw.polygon([here, *arc(*sides, reach)], fill=_CONE)
            for side in sides:
                canvas.line([here, at(side, reach)], palette.ORANGE, 1.5)
            self._draw_obstacles(canvas)
            canvas.line(arc(*sides, 0.85), palette.ORANGE, 1.8)
            canvas.line([here, at(obstacle_angle, 1.75)], palette.INK, 1.0)
            canvas.line(arc(0.0, obstacle_angle, 1.45), palette.INK, 1.6)
            canvas.line([here, self._place(*nearest)], palette.INK, 2.2)
            canvas.disc(self._place(*nearest), 3.2, palette.INK)
            self._label(canvas, at(sides[1] + 0.3, 0.95), "φ", "obs", palette.ORANGE)
            self._label(canvas, at(0.45 * obstacle_angle, 1.7), "φ", "o", palette.INK)
            over, down = self._place(*(0.08 * np.array([x, y]) + 0.92 * nearest))
            self._label(
                canvas, (over - 6.0 * self._pen, down - 9.0 * self._pen), "d", "o", palette.INK
            )
        canvas.line([here, at(0.0, 2.9)], palette.INK, 1.4)
        canvas.line([here, at(goal_angle, goal_distance)], palette.GREEN, 2.0)
        canvas.line(arc(0.0, goal_angle, 2.3), palette.GREEN, 1.8)
        self._label(canvas, at(0.6 * goal_angle, 2.65), "φ", "g", palette.GREEN)
        self._label(canvas, at(goal_angle - 0.07, 0.7 * goal_distance), "d", "g", palette.GREEN)

    def _place(self, x: float, y: float) -> Place:
        return (x - self._low[0]) * self._unit, (self._high[1] - y) * self._unit

    def _label(self, canvas: Canvas, place: Place, letter: str, index: str, colour: Colour) -> None:
        halo: dict[str, Any] = {
            "stroke_width": round(3.0 * self._pen),
            "stroke_fill": palette.WHITE,
        }
        x, y = place
        canvas.text((x - canvas.text_width(letter, 19.0), y), letter, colour, 19.0, "ls", **halo)
        canvas.text((x, y + 4.0 * self._pen), index, colour, 12.5, "ls", **halo)


def _view(navigation: Navigation) -> tuple[Floats, Floats]:
    """Return the lower left and the upper right corner of the view."""
    corners = list(navigation.goals)
    for obstacle in navigation.obstacles:
        box = bounding_box(obstacle)
        corners += [box[:2], box[2:]]
    # The columns of the start area are its low and its high corner.
    area = zip(*navigation.start_area, strict=True)
    corners += area if navigation.start is None else [navigation.start]
    return np.min(corners, axis=0) - _MARGIN, np.max(corners, axis=0) + _MARGIN


def _whole_numbers(low: float, high: float) -> range:
    return range(math.ceil(low), math.floor(high) + 1)


#: Keeps the painters of the last tasks, with their backgrounds.
painter_of = functools.lru_cache(8)(Painter)
