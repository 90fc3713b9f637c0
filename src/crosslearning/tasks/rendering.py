"""Pictures of tasks: navigation, pendulums and cart-poles.

Pictures are drawn :data:`SCALE` times too large and then averaged down, which smooths all edges.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from crosslearning.tasks.navigation.dynamics import State
from crosslearning.tasks.navigation.obstacles import bounding_box, outline
from crosslearning.tasks.task import Floats

if TYPE_CHECKING:
    from crosslearning.tasks.navigation.environment import Navigation

Colour = tuple[int, ...]
Ink = Colour | None
Place = tuple[float, float]
Picture = NDArray[np.uint8]

SCALE = 3
PAPER, GRID, EDGE = (246, 247, 249), (228, 232, 238), (205, 212, 222)
WHITE, TICK, INK = (255, 255, 255), (140, 149, 163), (52, 60, 75)
GREEN, BLUE, ORANGE, RED = (22, 150, 106), (43, 88, 222), (203, 122, 8), (214, 48, 49)

_font = functools.cache(ImageFont.load_default)


class Canvas:
    """A picture to draw on.

    Places are in pixels of the large picture; widths, radii and letters in units of ``pen``.
    """

    def __init__(self, image: Image.Image, pen: float) -> None:
        self.image, self.pen, self.draw = image, pen, ImageDraw.Draw(image, "RGBA")

    @classmethod
    def blank(cls, width: int, height: int, pen: float = SCALE) -> Canvas:
        """Return an empty canvas of ``width`` × ``height`` pixels."""
        return cls(Image.new("RGB", (SCALE * width, SCALE * height), PAPER), pen)

    def picture(self) -> Picture:
        """Return the picture averaged down, shape (height, width, 3)."""
        return np.asarray(self.image.reduce(SCALE))

    def line(self, places: Iterable[Place], colour: Colour, width: float) -> None:
        """Draw a line through places."""
        self.draw.line(list(places), colour, max(1, round(width * self.pen)), joint="curve")

    def disc(
        self, place: Place, radius: float, fill: Ink, edge: Ink = None, width: float = 0.0
    ) -> None:
        """Draw a disc, a circle or both."""
        (x, y), r = place, radius * self.pen
        self.draw.ellipse((x - r, y - r, x + r, y + r), fill, edge, round(width * self.pen))

    def shape(self, place: Place, heading: float, corners: Iterable[Place], colour: Colour) -> None:
        """Draw a polygon turned counterclockwise by ``heading``; its corners are in pens."""
        (x, y), cosine, sine = place, math.cos(heading) * self.pen, math.sin(heading) * self.pen
        turned = [(x + cosine * u - sine * v, y - sine * u - cosine * v) for u, v in corners]
        self.draw.polygon(turned, colour)

    def text(self, place: Place, text: str, colour: Colour, size: float, anchor: str) -> None:
        """Write a text."""
        self.draw.text(place, text, colour, _font(size * self.pen), anchor)


# Pendulums and cart-poles ----------------------------------------------------------------

#: Pixels along the longer side.
_SIZE = 480
#: Metres from the pivot to the border of a pendulum's picture; longer ones get more.
_PENDULUM_REACH = 1.4
#: Metres from the middle of a cart-pole's picture to its sides, and above and below.
_ASIDE, _POLE_REACH = 1.7, 0.95
#: Sizes grow with the square root of the mass: the usual mass in kg, the usual rod in pixels.
_USUAL_MASS, _THICK = 0.5, 9.0


class Pole(NamedTuple):
    """A rod: its angle from upright, whether it counts as upright, and the last action.

    ``push`` is the action as a fraction of the largest, 0 before the first.
    """

    angle: float
    upright: bool
    push: float


def pendulum_picture(pole: Pole, g: float, mass: float, length: float) -> Picture:
    """Return a picture of a pendulum, with the last torque at its pivot."""
    canvas, middle = Canvas.blank(_SIZE, _SIZE), 0.5 * SCALE * _SIZE
    unit, pivot = middle / max(_PENDULUM_REACH, 1.2 * length), (middle, middle)
    canvas.disc(pivot, length * unit / SCALE, WHITE, EDGE, 1.6)
    for end, ink in ((0.0, GREEN), (math.pi, EDGE)):
        mark = [_polar(pivot, share * length * unit, end) for share in (0.94, 1.06)]
        canvas.line(mark, ink, 3.0)
    _draw_rod(canvas, pivot, pole, length * unit, _THICK * math.sqrt(mass))
    share = min(max(pole.push, -1.0), 1.0)
    if abs(share) >= 0.05:
        # An arc as long as the torque is large; positive goes clockwise.
        end = 0.75 * math.pi * share
        arc = [_polar(pivot, 0.3 * unit, angle) for angle in np.linspace(0.0, end, 40).tolist()]
        _draw_arrow(canvas, arc, end + math.copysign(0.5 * math.pi, share))
    canvas.disc(pivot, 5.0, INK)
    _draw_caption(canvas, f"gravity {g:.1f}     {mass:.2f} kg     {length:.2f} m", _SIZE)
    return canvas.picture()


def cart_pole_picture(
    pole: Pole, x: float, track: float, cart: float, mass: float, length: float, friction: float
) -> Picture:
    """Return a picture of a cart-pole on a track that ends at ±``track``, with the last force."""
    unit = _SIZE / (2.0 * _ASIDE)
    height = 2 * round(unit * max(_POLE_REACH, 1.35 * length))
    canvas, unit, level = Canvas.blank(_SIZE, height), SCALE * unit, 0.5 * SCALE * height
    # The track is far longer than a pole: the view follows the cart, and reaches the end of the
    # track when the cart does.
    middle = x * (track + 0.3 - _ASIDE) / track

    def at(metres: float) -> float:
        return 0.5 * SCALE * _SIZE + (metres - middle) * unit

    for mark in range(-math.floor(track), math.floor(track) + 1):
        canvas.line([(at(mark), 0.0), (at(mark), SCALE * height)], GRID, 1.0)
        canvas.text((at(mark) + 5 * SCALE, 8 * SCALE), f"{mark} m", TICK, 11.0, "lt")
    canvas.line([(at(-track), level), (at(track), level)], TICK, 2.0)
    for end in (at(-track), at(track)):
        canvas.line([(end, level - 16 * SCALE), (end, level + 16 * SCALE)], INK, 4.0)
    wide, high = (side * math.sqrt(cart / _USUAL_MASS) * SCALE for side in (25.0, 12.0))
    joint = (at(x), level)
    box = (joint[0] - wide, level - high, joint[0] + wide, level + high)
    canvas.draw.rounded_rectangle(box, 3.0 * SCALE, INK)
    share = min(max(pole.push, -1.0), 1.0)
    if abs(share) >= 0.02:
        # From the side of the cart that the force points to.
        side = math.copysign(1.0, share)
        begin = joint[0] + side * (wide + 3.0 * SCALE)
        arrow = [(begin, level), (begin + 45.0 * SCALE * share, level)]
        _draw_arrow(canvas, arrow, side * 0.5 * math.pi)
    _draw_rod(canvas, joint, pole, length * unit, _THICK * math.sqrt(mass / _USUAL_MASS))
    canvas.disc(joint, 3.0, WHITE)
    about = f"cart {cart:.2f} kg     pole {mass:.2f} kg, {length:.2f} m     friction {friction:.2f}"
    _draw_caption(canvas, about, height)
    return canvas.picture()


def _polar(place: Place, reach: float, angle: float) -> Place:
    """Return the place at a distance in a direction; angle 0 is up, and angles go clockwise."""
    return place[0] + reach * math.sin(angle), place[1] - reach * math.cos(angle)


def _draw_rod(canvas: Canvas, foot: Place, pole: Pole, length: float, thick: float) -> None:
    colour, tip = GREEN if pole.upright else BLUE, _polar(foot, length, pole.angle)
    canvas.line([foot, tip], colour, thick)
    for end in (foot, tip):
        canvas.disc(end, 0.5 * thick, colour)


def _draw_arrow(canvas: Canvas, places: list[Place], angle: float) -> None:
    canvas.line(places, ORANGE, 3.0)
    canvas.shape(places[-1], -angle, ((0.0, 9.0), (-5.5, 0.0), (5.5, 0.0)), ORANGE)


def _draw_caption(canvas: Canvas, text: str, height: int) -> None:
    canvas.text((0.5 * SCALE * _SIZE, SCALE * (height - 10.0)), text, TICK, 15.0, "ms")


# Navigation ------------------------------------------------------------------------------

_MARGIN = 0.9
_OBSTACLE, _OBSTACLE_EDGE = (203, 210, 222), (108, 121, 142)
_GOAL_SOFT, _GOAL_PAST = (*GREEN, 34), (164, 199, 185)
_TRAIL_OLD, _TRAIL_NEW = (190, 206, 246), (84, 124, 236)
#: Outlines in pixels of a picture of 600, heading to the right.
_DART = ((7.4, 0.0), (-4.6, 5.0), (-2.2, 0.0), (-4.6, -5.0))
_ARROW = ((8.0, 0.0), (-6.0, 8.0), (-2.0, 0.0), (-6.0, -8.0))


class Painter:
    """Draws one navigation task, in pictures of ``size`` pixels along the longer side."""

    def __init__(self, navigation: Navigation, size: int = 600) -> None:
        self.navigation = navigation
        corners = list(navigation.goals)
        for obstacle in navigation.obstacles:
            box = bounding_box(obstacle)
            corners += [box[:2], box[2:]]
        # The columns of the start area are its low and its high corner.
        area = zip(*navigation.start_area, strict=True)
        corners += area if navigation.start is None else [navigation.start]
        self._low, self._high = np.min(corners, axis=0) - _MARGIN, np.max(corners, axis=0) + _MARGIN
        sides = self._high - self._low
        self._unit = SCALE * size / sides.max()
        # Line widths and letters grow with the picture, not with the width of the view.
        self._pen = SCALE * size / 600.0
        self._width, self._height = (round(side * size / sides.max()) for side in sides)

    def picture(self, state: Floats, trail: Floats | None = None) -> Picture:
        """Return a picture of a state, shape (height, width, 3).

        ``trail``, shape (n, 2), holds the places where the robot has been.
        """
        canvas = Canvas(self._background.copy(), self._pen)
        if trail is not None and len(trail) > 1:
            self._draw_trail(canvas, trail)
        self._draw_goals(canvas, int(state[State.GOAL]), bool(state[State.ARRIVED]))
        self._draw_robot(canvas, state)
        return canvas.picture()

    def _place(self, x: float, y: float) -> Place:
        return (x - self._low[0]) * self._unit, (self._high[1] - y) * self._unit

    @functools.cached_property
    def _background(self) -> Image.Image:
        canvas, navigation = Canvas.blank(self._width, self._height, self._pen), self.navigation
        (x_low, x_high), (y_low, y_high) = navigation.start_area
        area = (*self._place(x_low, y_high), *self._place(x_high, y_low))
        if navigation.start is None:
            canvas.draw.rectangle(area, fill=WHITE)
        (left, low), (right, high) = self._low, self._high
        for x in _whole_numbers(left, right):
            canvas.line([self._place(x, high), self._place(x, low)], GRID, 1.0)
        for y in _whole_numbers(low, high):
            canvas.line([self._place(left, y), self._place(right, y)], GRID, 1.0)
        if navigation.start is None:
            canvas.draw.rectangle(area, outline=EDGE, width=round(1.3 * self._pen))
        else:
            canvas.disc(self._place(*navigation.start), 5.0, None, TICK, 2.0)
        # Every second whole number is written along the left and the lower side.
        aside = 12.0 * self._pen
        for axis in (0, 1):
            for value in _whole_numbers(self._low[axis] + 0.5, self._high[axis] - 0.5):
                across, down = self._place(value, value)
                place = (aside, down) if axis else (across, SCALE * self._height - aside)
                if value % 2 == 0:
                    canvas.text(place, str(value), TICK, 11.0, "mm")
        for obstacle in navigation.obstacles:
            edge = [self._place(x, y) for x, y in outline(obstacle, 240)]
            canvas.draw.polygon(edge, fill=_OBSTACLE)
            canvas.line([*edge, edge[0], edge[1]], _OBSTACLE_EDGE, 2.2)
        return canvas.image

    def _draw_goals(self, canvas: Canvas, current: int, arrived: bool) -> None:
        radius = self.navigation.arrival_radius * self._unit / self._pen
        redrawn = self.navigation.goal_choice == "redrawn"
        for index, goal in enumerate(self.navigation.goals):
            if redrawn and index != current:
                continue
            place = self._place(*goal)
            colour = _GOAL_PAST if index < current else GREEN
            if index >= current:
                canvas.disc(place, radius, _GOAL_SOFT, _GOAL_PAST, 1.4)
            filled = index <= current or arrived
            canvas.disc(place, 10.5, colour if filled else WHITE, colour, 2.4)
            number = "1" if redrawn else str(index + 1)
            canvas.text(place, number, WHITE if filled else colour, 13.0, "mm")

    def _draw_trail(self, canvas: Canvas, trail: Floats) -> None:
        places = [self._place(x, y) for x, y in trail]
        for index, (before, after) in enumerate(itertools.pairwise(places), start=1):
            share = index / (len(places) - 1)
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
            canvas.shape(place, heading, _ARROW, BLUE)
            return
        crashed = state[State.CRASHED] == 1.0
        canvas.disc(place, 11.5, WHITE)
        canvas.disc(place, 10.0, RED if crashed else BLUE)
        if not crashed:
            canvas.shape(place, heading, _DART, WHITE)
            return
        arm = 4.2 * self._pen
        for slope in (-arm, arm):
            ends = [(place[0] - arm, place[1] - slope), (place[0] + arm, place[1] + slope)]
            canvas.line(ends, WHITE, 3.2)
        canvas.disc(place, 15.5, None, RED, 2.2)


def _whole_numbers(low: float, high: float) -> range:
    return range(math.ceil(low), math.floor(high) + 1)


#: Keeps the painters of the last tasks, with their backgrounds.
painter_of = functools.lru_cache(8)(Painter)
