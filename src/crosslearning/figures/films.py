"""Films and stills of policies at work, as files that browsers and slides take."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from crosslearning._base.files import write_atomically
from crosslearning.analysis.recording import Film, Frame
from crosslearning.errors import InputError, MissingExtraError
from crosslearning.figures.moving import gif_of
from crosslearning.figures.parts import new_figure
from crosslearning.figures.style import figure_style, save_figure

#: What can be written, by the ending of the file.
FORMATS = (".png", ".gif", ".mp4")
#: Pictures a second, at most: above, browsers slow GIFs down and films grow for nothing.
_MOST_RATE = {".gif": 25.0, ".mp4": 60.0}
#: How long the last picture of an episode stands, in seconds.
_REST = 1.0
#: Moments of an episode in a still, and the most episodes.
_MOMENTS, _ROWS = 6, 6
_COLOURS = 128


def check_format(path: Path) -> None:
    """Refuse a file that no film can be written to, before a film is made for it."""
    if path.suffix not in FORMATS:
        raise InputError(
            f"{path} does not end with {', '.join(FORMATS[:-1])} or {FORMATS[-1]}: a still, or a "
            "film of one of two kinds"
        )
    if path.suffix == ".mp4":
        _film_writer()


def save_film(film: Film, path: Path) -> Path:
    """Write a film as ``.gif`` or ``.mp4``, or moments of it as ``.png``."""
    check_format(path)
    if path.suffix == ".png":
        return save_figure(stills_figure(film), path.with_suffix(""), ("png",))[0]
    every = math.ceil(film.rate / _MOST_RATE[path.suffix])
    rate = film.rate / every
    # The last picture of an episode is shown, whatever is left out before it.
    episodes = [[*own[: len(own) - 1 : every], own[-1]] for own in film.episodes]
    if path.suffix == ".gif":
        pictures = [Image.fromarray(frame) for own in episodes for frame in own]
        stands = [
            round(1000.0 * (_REST if frame is own[-1] else 1.0 / rate))
            for own in episodes
            for frame in own
        ]
        write_atomically(path, gif_of(pictures, stands, _COLOURS))
        return path
    frames = (
        frame
        for own in episodes
        for frame in (*own, *(own[-1] for _ in range(round(_REST * rate) - 1)))
    )
    write_atomically(path, _mp4_of(frames, film.episodes[0][0].shape, rate))
    return path


def _mp4_of(frames: Iterator[Frame], shape: tuple[int, ...], rate: float) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "film.mp4"
        options: dict[str, Any] = {"fps": rate, "quality": 7, "macro_block_size": 2}
        writer = _film_writer()(str(file), (shape[1], shape[0]), **options)
        writer.send(None)
        for frame in frames:
            writer.send(np.ascontiguousarray(frame))
        writer.close()
        return file.read_bytes()


def _film_writer() -> Any:
    """Return what writes MP4, or say what to install."""
    try:
        from imageio_ffmpeg import write_frames
    except ImportError as problem:
        raise MissingExtraError(
            "MP4 needs the extra 'film': pip install 'crosslearning[film]', or in a checkout pip "
            "install -e '.[film]'. A GIF needs nothing more: let the file end with .gif"
        ) from problem
    return write_frames


@figure_style()
def stills_figure(film: Film) -> Figure:
    """Draw moments of every episode from its start to its end, one row an episode."""
    shown = film.episodes[:_ROWS]
    columns = min(_MOMENTS, max(map(len, shown)))
    height, width = shown[0][0].shape[:2]
    size = (1.75 * columns, len(shown) * (1.75 * height / width + 0.28) + 0.35)
    figure, grid = new_figure(size, len(shown), columns, squeeze=False)
    for row, own in zip(grid, shown, strict=True):
        moments = np.unique(np.linspace(0, len(own) - 1, columns).round().astype(int))
        for axes in row:
            axes.set_axis_off()
        for axes, moment in zip(row, moments, strict=False):
            axes.imshow(own[moment], interpolation="antialiased")
            axes.set_title("start" if moment == 0 else f"step {moment}", fontsize=8)
    figure.suptitle(f"The {film.policy} policy in task {film.task}", fontsize=10)
    return figure
