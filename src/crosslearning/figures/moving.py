"""Moving pictures: a figure that is drawn again and again, written as one GIF."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from crosslearning._base.files import write_atomically
from crosslearning.figures.style import figure_style

#: So few colours keep the file of a figure small; edges stay smooth.
_COLOURS = 48


def save_moving(
    figure: Figure,
    moving: Sequence[Artist],
    draw: Callable[[int], object],
    frames: Sequence[int],
    path: Path,
    pixels: int = 820,
    milliseconds: int = 50,
    rest: int = 2000,
    look: Callable[[], object] = lambda: None,
) -> Path:
    """Write a figure as a GIF that begins again after its end, and return the file.

    Parameters
    ----------
    figure : Figure
    moving : sequence of Artist
        What changes. Everything else is drawn once, behind it.
    draw : callable
        ``draw(number)`` makes the figure that of a frame.
    frames : sequence of int
        The numbers, in their order.
    path : Path
        Without a suffix.
    pixels : int
        The width.
    milliseconds, rest : int
        How long a frame stands, and the last one.
    look : callable
        Called after every frame, such as to show progress.
    """
    canvas: Any = FigureCanvasAgg(figure)
    figure.set_dpi(pixels / figure.get_figwidth())
    ordered = sorted(moving, key=lambda artist: artist.get_zorder())
    pictures = []
    with figure_style():
        for artist in ordered:
            artist.set_animated(True)
        canvas.draw()
        behind = canvas.copy_from_bbox(figure.bbox)
        for number in frames:
            canvas.restore_region(behind)
            draw(number)
            for artist in ordered:
                figure.draw_artist(artist)
            pictures.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
            look()
        for artist in ordered:
            artist.set_animated(False)
    written = path.with_name(f"{path.name}.gif")
    stands = [milliseconds] * (len(pictures) - 1) + [rest]
    write_atomically(written, gif_of(pictures, stands, _COLOURS))
    return written


def gif_of(pictures: Sequence[Image.Image], stands: Sequence[int], colours: int) -> bytes:
    """Return the file of a GIF that begins again after its end.

    Every picture stands for so many milliseconds. There is one palette of ``colours`` for all:
    what does not move then has the same numbers in every picture, which keeps the file small.
    """
    some = pictures[:: max(1, len(pictures) // 6)]
    sheet = Image.fromarray(np.concatenate([np.asarray(one) for one in some]))
    palette = sheet.quantize(colours)
    still = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in pictures]
    content = io.BytesIO()
    still[0].save(
        content,
        format="GIF",
        save_all=True,
        append_images=still[1:],
        duration=list(stands),
        loop=0,
        optimize=True,
    )
    return content.getvalue()
