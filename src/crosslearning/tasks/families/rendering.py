"""Pictures of pendulums and cart-poles, which tell members of a family apart."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.tasks.drawing import (
    BLUE,
    EDGE,
    GREEN,
    GRID,
    INK,
    ORANGE,
    SCALE,
    TICK,
    WHITE,
    Draw,
    Place,
    disc,
    finished,
    font,
    line,
    sheet,
)

#: Metres from the pivot to the border of a pendulum's picture; longer ones get more.
_PENDULUM_REACH = 1.4
#: Metres from the middle of a cart-pole's picture to its sides, above and below.
_ASIDE, _POLE_REACH = 1.7, 0.95
#: What is heavier than usual is larger: kilograms of carts and poles, pixels of a rod.
_USUAL_MASS, _THICK = 0.5, 9.0


class Pole(NamedTuple):
    """A rod at a moment: its angle from upright, whether it counts as such, and what pushes it.

    ``push`` is the last action as a share of the largest; None before the first.
    """

    angle: float
    upright: bool
    push: float | None


def pendulum_picture(
    pole: Pole, g: float, mass: float, length: float, size: int = 480
) -> NDArray[np.uint8]:
    """Return a picture of a pendulum, shape (size, size, 3), with the last torque at its pivot."""
    image, draw = sheet(size, size)
    pen, middle = SCALE * size / 480.0, 0.5 * SCALE * size
    unit = middle / max(_PENDULUM_REACH, 1.2 * length)
    pivot = (middle, middle)
    # Where the tip goes round, and where it is to stand.
    disc(draw, pivot, length * unit, WHITE, EDGE, 1.6 * pen)
    for end, ink in ((0.0, GREEN), (math.pi, EDGE)):
        mark = [_turned(pivot, share * length * unit, end) for share in (0.94, 1.06)]
        line(draw, mark, ink, 3.0 * pen)
    _rod(draw, pivot, pole, length * unit, _THICK * math.sqrt(mass) * pen)
    if pole.push is not None:
        _torque(draw, pivot, pole.push, 0.3 * unit, pen)
    disc(draw, pivot, 5.0 * pen, INK)
    _caption(draw, f"gravity {g:.1f}     {mass:.2f} kg     {length:.2f} m", size, size, pen)
    return finished(image)


def cart_pole_picture(
    pole: Pole, x: float, track: float, contexts: tuple[float, ...], width: int = 480
) -> NDArray[np.uint8]:
    """Return a picture of a cart-pole, shape (height, width, 3), with the last force at it.

    The track ends at ±``track``; the contexts are the masses of cart and pole, length and friction.
    """
    cart, mass, length, friction = contexts
    unit, above = width / (2.0 * _ASIDE), max(_POLE_REACH, 1.35 * length)
    height = 2 * round(unit * above)
    image, draw = sheet(width, height)
    pen, unit, level = SCALE * width / 480.0, SCALE * unit, 0.5 * SCALE * height
    # The track is far longer than a pole: the picture goes along with the cart, and is at the end
    # of the track when the cart is.
    middle = x * (track + 0.3 - _ASIDE) / track

    def at(metres: float) -> float:
        return 0.5 * SCALE * width + (metres - middle) * unit

    for mark in range(-math.floor(track), math.floor(track) + 1):
        line(draw, [(at(mark), 0.0), (at(mark), SCALE * height)], GRID, pen)
        draw.text((at(mark) + 5 * pen, 8 * pen), f"{mark} m", TICK, font(11.0 * pen), anchor="lt")
    line(draw, [(at(-track), level), (at(track), level)], TICK, 2.0 * pen)
    for end in (-track, track):
        line(draw, [(at(end), level - 16 * pen), (at(end), level + 16 * pen)], INK, 4.0 * pen)
    wide, high = (side * math.sqrt(cart / _USUAL_MASS) * pen for side in (25.0, 12.0))
    joint = (at(x), level)
    box = (joint[0] - wide, joint[1] - high, joint[0] + wide, joint[1] + high)
    draw.rounded_rectangle(box, 3.0 * pen, INK)
    if pole.push is not None:
        _force(draw, joint, pole.push, wide, pen)
    _rod(draw, joint, pole, length * unit, _THICK * math.sqrt(mass / _USUAL_MASS) * pen)
    disc(draw, joint, 3.0 * pen, WHITE)
    told = f"cart {cart:.2f} kg     pole {mass:.2f} kg, {length:.2f} m     friction {friction:.2f}"
    _caption(draw, told, width, height, pen)
    return finished(image)


def _turned(place: Place, reach: float, angle: float) -> Place:
    """Return the place so far away in a direction; angle 0 is up, and angles go clockwise."""
    return place[0] + reach * math.sin(angle), place[1] - reach * math.cos(angle)


def _rod(draw: Draw, foot: Place, pole: Pole, length: float, thick: float) -> None:
    """Draw a rod with round ends."""
    colour, tip = GREEN if pole.upright else BLUE, _turned(foot, length, pole.angle)
    line(draw, [foot, tip], colour, thick)
    for end in (foot, tip):
        disc(draw, end, 0.5 * thick, colour)


def _torque(draw: Draw, pivot: Place, share: float, radius: float, pen: float) -> None:
    """Draw an arc around the pivot, as long as the torque is large; positive goes clockwise."""
    share = min(max(share, -1.0), 1.0)
    if abs(share) < 0.05:
        return
    end = 0.75 * math.pi * share
    places = [_turned(pivot, radius, angle) for angle in np.linspace(0.0, end, 40).tolist()]
    line(draw, places, ORANGE, 3.0 * pen)
    # The head points along the tangent at its end.
    _head(draw, places[-1], end + math.copysign(0.5 * math.pi, share), pen)


def _force(draw: Draw, cart: Place, share: float, wide: float, pen: float) -> None:
    """Draw an arrow from the side of the cart that the force points to."""
    share = min(max(share, -1.0), 1.0)
    if abs(share) < 0.02:
        return
    side = math.copysign(1.0, share)
    begin = (cart[0] + side * (wide + 3.0 * pen), cart[1])
    end = (begin[0] + 45.0 * pen * share, cart[1])
    line(draw, [begin, end], ORANGE, 3.0 * pen)
    _head(draw, end, side * 0.5 * math.pi, pen)


def _head(draw: Draw, tip: Place, angle: float, pen: float) -> None:
    sides = [_turned(tip, 5.5 * pen, angle + turn) for turn in (-0.5 * math.pi, 0.5 * math.pi)]
    draw.polygon([_turned(tip, 9.0 * pen, angle), *sides], ORANGE)


def _caption(draw: Draw, text: str, width: int, height: int, pen: float) -> None:
    place = (0.5 * SCALE * width, SCALE * height - 10.0 * pen)
    draw.text(place, text, TICK, font(15.0 * pen), anchor="ms")
