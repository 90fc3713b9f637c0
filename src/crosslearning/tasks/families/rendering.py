"""Pictures of pendulums and cart-poles that show how members of a family differ."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.tasks import drawing as palette
from crosslearning.tasks.drawing import SCALE, Canvas, Place

#: Pixels along the longer side.
_SIZE = 480
#: Metres from the pivot to the border of a pendulum's picture; longer ones get more.
_PENDULUM_REACH = 1.4
#: Metres from the middle of a cart-pole's picture to its sides, and above and below.
_ASIDE, _POLE_REACH = 1.7, 0.95
#: Sizes grow with the square root of the mass: the usual mass in kg, the usual rod in pixels.
_USUAL_MASS, _THICK = 0.5, 9.0


class Pole(NamedTuple):
    """The angle of a rod from upright, whether it counts as upright, and the last action.

    ``push`` is the action as a fraction of the largest; None before the first.
    """

    angle: float
    upright: bool
    push: float | None


def pendulum_picture(pole: Pole, g: float, mass: float, length: float) -> NDArray[np.uint8]:
    """Return a picture of a pendulum, with the last torque at its pivot."""
    canvas, middle = Canvas(_SIZE, _SIZE, SCALE), 0.5 * SCALE * _SIZE
    unit, pivot = middle / max(_PENDULUM_REACH, 1.2 * length), (middle, middle)
    canvas.disc(pivot, length * unit / SCALE, palette.WHITE, palette.EDGE, 1.6)
    for end, ink in ((0.0, palette.GREEN), (math.pi, palette.EDGE)):
        mark = [_polar(pivot, share * length * unit, end) for share in (0.94, 1.06)]
        canvas.line(mark, ink, 3.0)
    _draw_rod(canvas, pivot, pole, length * unit, _THICK * math.sqrt(mass))
    if pole.push is not None:
        _draw_torque(canvas, pivot, pole.push, 0.3 * unit)
    canvas.disc(pivot, 5.0, palette.INK)
    _draw_caption(canvas, f"gravity {g:.1f}     {mass:.2f} kg     {length:.2f} m", _SIZE)
    return canvas.array()


def cart_pole_picture(
    pole: Pole, x: float, track: float, contexts: tuple[float, ...]
) -> NDArray[np.uint8]:
    """Return a picture of a cart-pole, with the last force at its side.

    The track ends at ±``track``; the contexts are the masses of cart and pole, length and friction.
    """
    cart, mass, length, friction = contexts
    unit = _SIZE / (2.0 * _ASIDE)
    height = 2 * round(unit * max(_POLE_REACH, 1.35 * length))
    canvas, unit, level = Canvas(_SIZE, height, SCALE), SCALE * unit, 0.5 * SCALE * height
    # The track is far longer than a pole: the view follows the cart, and reaches the end of the
    # track when the cart does.
    middle = x * (track + 0.3 - _ASIDE) / track

    def at(metres: float) -> float:
        return 0.5 * SCALE * _SIZE + (metres - middle) * unit

    for mark in range(-math.floor(track), math.floor(track) + 1):
        canvas.line([(at(mark), 0.0), (at(mark), SCALE * height)], palette.GRID, 1.0)
        canvas.text((at(mark) + 5 * SCALE, 8 * SCALE), f"{mark} m", palette.TICK, 11.0, "lt")
    canvas.line([(at(-track), level), (at(track), level)], palette.TICK, 2.0)
    for end in (-track, track):
        canvas.line(
            [(at(end), level - 16 * SCALE), (at(end), level + 16 * SCALE)], palette.INK, 4.0
        )
    wide, high = (side * math.sqrt(cart / _USUAL_MASS) * SCALE for side in (25.0, 12.0))
    joint = (at(x), level)
    box = (joint[0] - wide, joint[1] - high, joint[0] + wide, joint[1] + high)
    canvas.draw.rounded_rectangle(box, 3.0 * SCALE, palette.INK)
    if pole.push is not None:
        _draw_force(canvas, joint, pole.push, wide)
    _draw_rod(canvas, joint, pole, length * unit, _THICK * math.sqrt(mass / _USUAL_MASS))
    canvas.disc(joint, 3.0, palette.WHITE)
    caption = (
        f"cart {cart:.2f} kg     pole {mass:.2f} kg, {length:.2f} m     friction {friction:.2f}"
    )
    _draw_caption(canvas, caption, height)
    return canvas.array()


def _polar(place: Place, reach: float, angle: float) -> Place:
    """Return the place at a distance in a direction; angle 0 is up, and angles go clockwise."""
    return place[0] + reach * math.sin(angle), place[1] - reach * math.cos(angle)


def _draw_rod(canvas: Canvas, foot: Place, pole: Pole, length: float, thick: float) -> None:
    colour, tip = palette.GREEN if pole.upright else palette.BLUE, _polar(foot, length, pole.angle)
    canvas.line([foot, tip], colour, thick)
    for end in (foot, tip):
        canvas.disc(end, 0.5 * thick, colour)


def _draw_torque(canvas: Canvas, pivot: Place, share: float, radius: float) -> None:
    """Draw an arc around the pivot, as long as the torque is large; positive goes clockwise."""
    share = min(max(share, -1.0), 1.0)
    if abs(share) < 0.05:
        return
    end = 0.75 * math.pi * share
    places = [_polar(pivot, radius, angle) for angle in np.linspace(0.0, end, 40).tolist()]
    canvas.line(places, palette.ORANGE, 3.0)
    # The head points along the tangent at its end.
    _draw_head(canvas, places[-1], end + math.copysign(0.5 * math.pi, share))


def _draw_force(canvas: Canvas, cart: Place, share: float, wide: float) -> None:
    """Draw an arrow from the side of the cart that the force points to."""
    share = min(max(share, -1.0), 1.0)
    if abs(share) < 0.02:
        return
    side = math.copysign(1.0, share)
    begin = (cart[0] + side * (wide + 3.0 * SCALE), cart[1])
    end = (begin[0] + 45.0 * SCALE * share, cart[1])
    canvas.line([begin, end], palette.ORANGE, 3.0)
    _draw_head(canvas, end, side * 0.5 * math.pi)


def _draw_head(canvas: Canvas, tip: Place, angle: float) -> None:
    corners = ((0.0, 9.0), (-5.5, 0.0), (5.5, 0.0))
    canvas.shape(tip, -angle, corners, palette.ORANGE)


def _draw_caption(canvas: Canvas, text: str, height: int) -> None:
    canvas.text(
        (0.5 * SCALE * _SIZE, SCALE * height - 10.0 * SCALE), text, palette.TICK, 15.0, "ms"
    )
