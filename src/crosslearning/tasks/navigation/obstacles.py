"""Obstacles, circles and rotated ellipses, and their exact geometry.

Compiled code takes an obstacle as the six numbers of :class:`Row`: the centre, the semi-axes (a, b)
and the cosine and sine of the rotation of its first axis. A circle has a = b. Functions of one
obstacle work in its frame, where the centre is the origin and the axes are the coordinate axes;
see :func:`to_frame`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from crosslearning._base.compiled import compiled
from crosslearning.errors import InputError
from crosslearning.tasks.numbers import check_names, read_number, read_numbers
from crosslearning.tasks.task import Floats

#: Indices into the row of an obstacle, and its length.
Row = IntEnum("Row", "X Y FIRST_AXIS SECOND_AXIS COSINE SINE", start=0)
ROW = len(Row)

#: Newton's method usually takes two or three steps, and took at most 25 in 300,000 hard cases; the
#: cap guards against numbers that are not finite.
_MOST_STEPS = 64

#: Closer to the long axis than this fraction of the short one, a point counts as on it, because
#: smaller numbers lose their digits.
_ON_AXIS = 1e-290


@dataclass(frozen=True)
class Circle:
    """A round obstacle, with a radius greater than 0.

    Examples
    --------
    >>> from crosslearning.tasks import Circle, Navigation
    >>> Navigation(obstacles=[Circle((4.0, 4.0), 1.0)]).task("pillar").name
    'pillar'
    """

    centre: tuple[float, float]
    radius: float
    #: A circle is not turned.
    angle: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        radius = read_number("a circle's radius", self.radius, positive=True)
        object.__setattr__(self, "centre", read_numbers("a circle's centre", self.centre, 2))
        object.__setattr__(self, "radius", radius)

    @property
    def semi_axes(self) -> tuple[float, float]:
        """The two semi-axes, which are both the radius."""
        return self.radius, self.radius


@dataclass(frozen=True)
class Ellipse:
    """An elliptical obstacle with semi-axes greater than 0, rotated counterclockwise in radians.

    Examples
    --------
    >>> from crosslearning.tasks import Ellipse, Navigation
    >>> Navigation(obstacles=[Ellipse((4.0, 4.0), (0.3, 2.0))]).task("wall").name
    'wall'
    """

    centre: tuple[float, float]
    semi_axes: tuple[float, float]
    angle: float = 0.0

    def __post_init__(self) -> None:
        axes = read_numbers("an ellipse's semi_axes", self.semi_axes, 2)
        object.__setattr__(self, "centre", read_numbers("an ellipse's centre", self.centre, 2))
        object.__setattr__(self, "semi_axes", axes)
        object.__setattr__(self, "angle", read_number("an ellipse's angle", self.angle))
        if min(axes) <= 0.0:
            raise InputError(f"an ellipse's semi_axes are {axes}; both must be greater than 0")


Obstacle: TypeAlias = Circle | Ellipse


def read_obstacle(given: Any) -> Obstacle:
    """Return the obstacle that ``given`` describes.

    Besides a :class:`Circle` or :class:`Ellipse` it may be a mapping with their fields, or plain
    numbers, as in JSON and TOML files: (x, y, radius), (x, y, a, b) or (x, y, a, b, angle).
    """
    if isinstance(given, Circle | Ellipse):
        return given
    if isinstance(given, Mapping):
        check_names("field of an obstacle", given, ("centre", "radius", "semi_axes", "angle"))
        if given.keys() == {"centre", "radius"}:
            return Circle(**given)
        if given.keys() - {"angle"} == {"centre", "semi_axes"}:
            return Ellipse(**given)
    elif isinstance(given, Iterable) and not isinstance(given, str):
        numbers = tuple(given)
        if len(numbers) == 3:
            return Circle(numbers[:2], numbers[2])
        if len(numbers) in (4, 5):
            return Ellipse(numbers[:2], numbers[2:4], *numbers[4:])
    raise InputError(
        f"cannot read the obstacle {given!r}; give Circle(centre, radius), Ellipse(centre, "
        "semi_axes, angle), a mapping with these fields, (x, y, radius) or (x, y, a, b[, angle])"
    )


def obstacle_rows(obstacles: Iterable[Obstacle]) -> Floats:
    """Return the rows of obstacles, shape (6 · obstacles,)."""
    rows = [(*o.centre, *o.semi_axes, math.cos(o.angle), math.sin(o.angle)) for o in obstacles]
    return np.array(rows, dtype=np.float64).ravel()


def clearances(points: ArrayLike, obstacles: Iterable[Obstacle]) -> Floats:
    """Return the distance of each point, shape (n, 2), to the obstacles; negative inside."""
    places = np.array(points, dtype=np.float64, order="C").reshape(-1, 2)
    return _clearances(places, obstacle_rows(obstacles))


def bounding_box(obstacle: Obstacle) -> tuple[float, float, float, float]:
    """Return the bounding box (x low, y low, x high, y high) of an obstacle."""
    (x, y), (a, b) = obstacle.centre, obstacle.semi_axes
    cosine, sine = math.cos(obstacle.angle), math.sin(obstacle.angle)
    half_width, half_height = math.hypot(a * cosine, b * sine), math.hypot(a * sine, b * cosine)
    return x - half_width, y - half_height, x + half_width, y + half_height


def outline(obstacle: Obstacle, points: int = 96) -> Floats:
    """Return points on the boundary, shape (points, 2), counterclockwise."""
    turn = np.linspace(0.0, 2.0 * math.pi, points, endpoint=False)
    (x, y), (a, b) = obstacle.centre, obstacle.semi_axes
    u, v = a * np.cos(turn), b * np.sin(turn)
    cosine, sine = math.cos(obstacle.angle), math.sin(obstacle.angle)
    return np.stack([x + cosine * u - sine * v, y + sine * u + cosine * v], axis=-1)


@compiled
def wrap_angle(angle: float) -> float:
    """Return the equivalent angle in [-π, π)."""
    turn = 2.0 * math.pi
    wrapped = angle - turn * math.floor((angle + math.pi) / turn)
    # Rounding may carry an angle just below the upper end onto it.
    if wrapped >= math.pi or wrapped < -math.pi:
        return -math.pi
    return wrapped


@compiled
def to_frame(rows: Floats, row: int, x: float, y: float) -> tuple[float, float]:
    """Return the point (x, y) in the frame of the obstacle whose row begins at ``rows[row]``."""
    across, along = x - rows[row + Row.X], y - rows[row + Row.Y]
    cosine, sine = rows[row + Row.COSINE], rows[row + Row.SINE]
    return cosine * across + sine * along, cosine * along - sine * across


@compiled
def beside(rows: Floats, row: int, turn: float, away: float) -> tuple[float, float]:
    """Return the place at distance ``away`` from the outline point (a cos, b sin) of ``turn``.

    It lies on the normal there, so that the outline has no nearer point.
    """
    a, b = rows[row + Row.FIRST_AXIS], rows[row + Row.SECOND_AXIS]
    u, v = math.cos(turn), math.sin(turn)
    length = math.sqrt(b * b * u * u + a * a * v * v)
    u, v = a * u + away * b * u / length, b * v + away * a * v / length
    cosine, sine = rows[row + Row.COSINE], rows[row + Row.SINE]
    x, y = rows[row + Row.X], rows[row + Row.Y]
    return x + cosine * u - sine * v, y + sine * u + cosine * v


@compiled
def surface_distance(x: float, y: float, a: float, b: float) -> float:
    """Return the distance from (x, y) to the ellipse (x/a)² + (y/b)² = 1, negative inside.

    With a ≥ b, r = (a/b)² and the point in the first quadrant, the foot of the perpendicular is
    (r·x/(u + r − 1), y/u), where u > 0 solves ‖p(u)‖ = 1 for p(u) = (r·(x/a)/(u + r − 1), (y/b)/u).
    The function 1/‖p‖ is concave and close to linear, so that Newton's method on it climbs quickly
    from any u below the root. Counting u from the pole, not as u − 1, keeps all digits when the
    root lies close to the pole: at points near the long axis and in very flat ellipses.
    """
    x, y = abs(x), abs(y)
    if a == b:
        return math.sqrt(x * x + y * y) - a
    if a < b:
        x, y, a, b = y, x, b, a
    ratio = (a / b) * (a / b)
    excess = (a - b) * (a + b) / (b * b)
    first = ratio * (x / a)
    second = y / b
    if second < _ON_AXIS:
        # On the long axis the nearest point is the vertex, unless the point lies so far inside
        # that two points, mirrored in the axis, are nearer.
        if first >= excess:
            return x - a
        share = first / excess
        foot = a * share
        return -math.sqrt((foot - x) * (foot - x) + b * b * (1.0 - share * share))
    # Each component of p alone is at most 1 at the root: two lower bounds of it.
    u = max(second, first - excess)
    for step in range(_MOST_STEPS):
        p, q = first / (u + excess), second / u
        squared = p * p + q * q
        slope = p * p / (u + excess) + q * q / u
        before = u
        u = max(second, u + (math.sqrt(squared) - 1.0) * squared / slope)
        # After the first step the iterates only climb, until rounding takes over.
        if abs(u - before) <= 4e-16 * u or (step > 0 and u <= before):
            break
    p, q = x / (u + excess), y / u
    return (u - 1.0) * math.sqrt(p * p + q * q)


@compiled
def tangent_cone(
    x: float, y: float, a: float, b: float, cosine: float, sine: float
) -> tuple[float, float]:
    """Return the middle direction and the opening angle of the tangent cone from (x, y).

    The point is given in the obstacle's frame, the direction in the frame of the world. The
    opening angle is in [0, π]: π on the surface and, by convention, inside, where the middle
    is the inward normal of the similar ellipse through the point.

    An affine map keeps tangents tangent, so they are computed on the unit circle: from w
    with m = √(|w|² − 1) they run along −m·w ± w⊥. Nothing cancels there as m goes to 0.
    """
    w, v = x / a, y / b
    squared = w * w + v * v
    m = math.sqrt(max(squared - 1.0, 0.0))
    right_x, right_y = a * (-m * w - v), b * (-m * v + w)
    left_x, left_y = a * (-m * w + v), b * (-m * v - w)
    opening = math.pi
    if m > 0.0:
        # The cross product of the two directions, in closed form.
        opening = math.atan2(2.0 * a * b * m * squared, right_x * left_x + right_y * left_y)
    right = math.atan2(sine * right_x + cosine * right_y, cosine * right_x - sine * right_y)
    # Half the opening added to one side stays well defined where the two sides are opposite,
    # which the sum of the two directions would not.
    return right + 0.5 * opening, opening


@compiled
def contact(x: float, y: float, to_x: float, to_y: float, a: float, b: float) -> float:
    """Return the fraction of the segment, in [0, 1], at which it first touches the ellipse.

    It is infinity without contact, and 0 for a segment that starts on the ellipse or inside. Both
    ends are in the obstacle's frame.
    """
    w, v = x / a, y / b
    outside = w * w + v * v - 1.0
    if outside <= 0.0:
        return 0.0
    dw, dv = (to_x - x) / a, (to_y - y) / b
    approach = -(w * dw + v * dv)
    if approach <= 0.0:
        return math.inf
    cross = w * dv - v * dw
    discriminant = dw * dw + dv * dv - cross * cross
    if discriminant < 0.0:
        return math.inf
    # The smaller root of the quadratic, in the form that does not cancel.
    share = outside / (approach + math.sqrt(discriminant))
    return share if share <= 1.0 else math.inf


@compiled
def nearest_obstacle(rows: Floats, begin: int, count: int, x: float, y: float) -> tuple[int, float]:
    """Return where the row of the obstacle nearest to (x, y) begins, and its surface distance.

    The obstacles begin at ``rows[begin]``. Without obstacles the result is (−1, infinity).
    """
    nearest, least = -1, math.inf
    for index in range(count):
        row = begin + ROW * index
        u, v = to_frame(rows, row, x, y)
        a, b = rows[row + Row.FIRST_AXIS], rows[row + Row.SECOND_AXIS]
        # The circle around the obstacle is never farther than the obstacle itself.
        if math.sqrt(u * u + v * v) - max(a, b) >= least:
            continue
        distance = surface_distance(u, v, a, b)
        if distance < least:
            nearest, least = row, distance
    return nearest, least


@compiled
def first_contact(
    rows: Floats, begin: int, count: int, x: float, y: float, to_x: float, to_y: float
) -> float:
    """Return the fraction of the segment at which it first touches an obstacle, or infinity."""
    first = math.inf
    for index in range(count):
        row = begin + ROW * index
        u, v = to_frame(rows, row, x, y)
        to_u, to_v = to_frame(rows, row, to_x, to_y)
        a, b = rows[row + Row.FIRST_AXIS], rows[row + Row.SECOND_AXIS]
        first = min(first, contact(u, v, to_u, to_v, a, b))
    return first


@compiled
def _clearances(points: Floats, rows: Floats) -> Floats:
    distances = np.empty(len(points))
    for i in range(len(points)):
        _, distances[i] = nearest_obstacle(rows, 0, rows.size // ROW, points[i, 0], points[i, 1])
    return distances
