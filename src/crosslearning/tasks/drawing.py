"""What all pictures of tasks are drawn with.

Pictures are drawn :data:`SCALE` times too large and then averaged down, which smooths all edges.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Draw = ImageDraw.ImageDraw
Colour = tuple[int, ...]
Ink = Colour | None
Place = tuple[float, float]

SCALE = 3

PAPER, GRID, EDGE = (246, 247, 249), (228, 232, 238), (205, 212, 222)
WHITE, TICK, INK = (255, 255, 255), (140, 149, 163), (52, 60, 75)
GREEN, BLUE, ORANGE = (22, 150, 106), (43, 88, 222), (203, 122, 8)


def sheet(width: int, height: int, colour: Colour = PAPER) -> tuple[Image.Image, Draw]:
    """Return an empty picture, too large, and what draws on it; :func:`finished` ends it."""
    image = Image.new("RGB", (SCALE * width, SCALE * height), colour)
    return image, ImageDraw.Draw(image, "RGBA")


def finished(image: Image.Image) -> NDArray[np.uint8]:
    """Return a picture averaged down, shape (height, width, 3)."""
    return np.asarray(image.reduce(SCALE))


def line(draw: Draw, places: Sequence[Place], colour: Colour, width: float) -> None:
    """Draw a line through places, all in pixels of the large picture."""
    draw.line(list(places), colour, max(1, round(width)), joint="curve")


def disc(
    draw: Draw, at: Place, radius: float, fill: Ink, edge: Ink = None, width: float = 0.0
) -> None:
    """Draw a disc, a circle or both."""
    x, y = at
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill, edge, round(width))


font = functools.cache(ImageFont.load_default)
