"""Obstacles: circles, and rotated ellipses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.errors import InputError
from crosslearning.tasks.navigation import geometry
from crosslearning.tasks.numbers import check_names, read_number, read_numbers
from crosslearning.tasks.task import Floats


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
        object.__setattr__(self, "centre", read_numbers("a circle's centre", self.centre, 2))
        object.__setattr__(self, "radius", read_number("a circle's radius", self.radius))
        if self.radius <= 0.0:
            raise InputError(f"a circle's radius is {self.radius}; it must be greater than 0")

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
        object.__setattr__(self, "centre", read_numbers("an ellipse's centre", self.centre, 2))
        axes = read_numbers("an ellipse's semi_axes", self.semi_axes, 2)
        object.__setattr__(self, "semi_axes", axes)
        object.__setattr__(self, "angle", read_number("an ellipse's angle", self.angle))
        if min(axes) <= 0.0:
            raise InputError(
                f"an ellipse's semi_axes are {axes}; both must be greater than 0 "
                "(for a circle use Circle(centre, radius))"
            )


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
        if given.keys() == {"centre", "radius", "angle"}:
            raise InputError(
                f"the obstacle {dict(given)} is a circle, which takes no angle; drop it"
            )
        if given.keys() - {"angle"} == {"centre", "semi_axes"}:
            return Ellipse(**given)
    elif isinstance(given, Iterable) and not isinstance(given, str):
        numbers = tuple(given)
        if len(numbers) == 3:
            return Circle(numbers[:2], numbers[2])
        if len(numbers) in (4, 5):
            return Ellipse(numbers[:2], numbers[2:4], *numbers[4:])
    raise InputError(
        f"cannot read the obstacle {given!r}; give Circle(centre, radius), "
        "Ellipse(centre, semi_axes, angle), a mapping with these fields, (x, y, radius) "
        "or (x, y, a, b[, angle])"
    )


def obstacle_rows(obstacles: Iterable[Obstacle]) -> Floats:
    """Return the obstacles as rows for :mod:`geometry`, shape (6 · obstacles,)."""
    rows = [(*o.centre, *o.semi_axes, math.cos(o.angle), math.sin(o.angle)) for o in obstacles]
    return np.array(rows, dtype=np.float64).ravel()


def clearances(points: ArrayLike, obstacles: Iterable[Obstacle]) -> Floats:
    """Return the distance of each point, shape (n, 2), to the obstacles; negative inside."""
    places = np.array(points, dtype=np.float64, order="C").reshape(-1, 2)
    return geometry.clearances(places, obstacle_rows(obstacles))


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
