"""A canvas for pictures of tasks.

Pictures are drawn :data:`SCALE` times too large and then averaged down, which smooths all edges.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, ...]
Place = tuple[float, float]

SCALE = 3

PAPER, GRID, EDGE = (246, 247, 249), (228, 232, 238), (205, 212, 222)
WHITE, TICK, INK = (255, 255, 255), (140, 149, 163), (52, 60, 75)
GREEN, BLUE, ORANGE = (22, 150, 106), (43, 88, 222), (203, 122, 8)

_font = functools.cache(ImageFont.load_default)


class Canvas:
    """A picture of ``width`` × ``height`` pixels.

    Places are in pixels of the large picture; widths, radii and letters in units of ``pen``.
    """

    def __init__(self, width: int, height: int, pen: float) -> None:
        self.pen = pen
        self._image = Image.new("RGB", (SCALE * width, SCALE * height), PAPER)
        self.draw = ImageDraw.Draw(self._image, "RGBA")

    def copy(self) -> Canvas:
        """Return a canvas with the same picture."""
        twin = object.__new__(Canvas)
        twin.pen, twin._image = self.pen, self._image.copy()
        twin.draw = ImageDraw.Draw(twin._image, "RGBA")
        return twin

    def array(self) -> NDArray[np.uint8]:
        """Return the picture averaged down, shape (height, width, 3)."""
        return np.asarray(self._image.reduce(SCALE))

    def line(self, places: Iterable[Place], colour: Colour, width: float) -> None:
        """Draw a line through places."""
        self.draw.line(list(places), colour, max(1, round(width * self.pen)), joint="curve")

    def disc(
        self,
        place: Place,
        radius: float,
        fill: Colour | None,
        edge: Colour | None = None,
        width: float = 0.0,
    ) -> None:
        """Draw a disc, a circle or both."""
        (x, y), r = place, radius * self.pen
        self.draw.ellipse((x - r, y - r, x + r, y + r), fill, edge, round(width * self.pen))

    def shape(self, place: Place, heading: float, corners: Iterable[Place], colour: Colour) -> None:
        """Draw a polygon turned counterclockwise by ``heading``; its corners are in pens."""
        (x, y), cosine, sine = place, math.cos(heading) * self.pen, math.sin(heading) * self.pen
        turned = [(x + cosine * u - sine * v, y - sine * u - cosine * v) for u, v in corners]
        self.draw.polygon(turned, colour)

    def text(
        self, place: Place, text: str, colour: Colour, size: float, anchor: str, **options: Any
    ) -> None:
        """Write a text."""
        self.draw.text(place, text, colour, _font(size * self.pen), anchor, **options)

    def text_width(self, text: str, size: float) -> float:
        """Return the width of a text, in pixels of the large picture."""
        return self.draw.textlength(text, _font(size * self.pen))
