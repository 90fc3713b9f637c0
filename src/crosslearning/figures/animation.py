"""Animations and stills of policies: GIF, MP4 and PNG files."""

from __future__ import annotations

import io
import math
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from crosslearning._base.files import write_atomically
from crosslearning.analysis.recording import Frame, Recording
from crosslearning.errors import InputError, MissingExtraError
from crosslearning.figures.parts import new_figure
from crosslearning.figures.style import figure_style, save_figure

#: The most frames per second: browsers slow down faster GIFs, and films only grow.
_MOST_RATE = {".gif": 25.0, ".mp4": 60.0}
#: How long the last frame of an episode is shown, in seconds.
_PAUSE = 1.0
#: Frames per episode in a still, and the most episodes.
_MOMENTS, _ROWS = 6, 6
#: The size of a GIF's palette.
_COLOURS = 128


def check_format(path: Path) -> None:
    """Refuse a file that no recording can be written to, before one is made."""
    if path.suffix not in (".png", *_MOST_RATE):
        raise InputError(f"{path} does not end with .png, .gif or .mp4: a still, or an animation")
    if path.suffix == ".mp4":
        _mp4_writer()


def save_recording(recording: Recording, path: Path) -> Path:
    """Write a recording as ``.gif`` or ``.mp4``, or moments of it as ``.png``."""
    check_format(path)
    if path.suffix == ".png":
        return save_figure(stills_figure(recording), path.with_suffix(""), ("png",))[0]
    every = math.ceil(recording.rate / _MOST_RATE[path.suffix])
    rate = recording.rate / every
    # The last frame of an episode is always shown.
    episodes = [[*frames[:-1:every], frames[-1]] for frames in recording.episodes]
    if path.suffix == ".gif":
        images = [Image.fromarray(frame) for frames in episodes for frame in frames]
        each, last = round(1000.0 / rate), round(1000.0 * _PAUSE)
        durations = [ms for frames in episodes for ms in [*[each] * (len(frames) - 1), last]]
        write_atomically(path, gif(images, durations, _COLOURS))
    else:
        pause = round(_PAUSE * rate) - 1
        shown = (f for frames in episodes for f in (*frames, *[frames[-1]] * pause))
        write_atomically(path, _mp4(shown, recording.episodes[0][0].shape, rate))
    return path


def _mp4(frames: Iterable[Frame], shape: tuple[int, ...], rate: float) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "film.mp4"
        options: dict[str, Any] = {"fps": rate, "quality": 7, "macro_block_size": 2}
        writer = _mp4_writer()(str(file), (shape[1], shape[0]), **options)
        writer.send(None)
        for frame in frames:
            writer.send(np.ascontiguousarray(frame))
        writer.close()
        return file.read_bytes()


def _mp4_writer() -> Any:
    try:
        from imageio_ffmpeg import write_frames
    except ImportError as problem:
        raise MissingExtraError(
            "MP4 needs the extra 'film': pip install 'crosslearning[film]', or in a checkout "
            "'.[film]'. A GIF needs nothing more: let the file end with .gif"
        ) from problem
    return write_frames


@figure_style()
def stills_figure(recording: Recording) -> Figure:
    """Draw moments of every episode from start to end, one row per episode."""
    shown = recording.episodes[:_ROWS]
    columns = min(_MOMENTS, max(map(len, shown)))
    height, width = shown[0][0].shape[:2]
    size = (1.75 * columns, len(shown) * (1.75 * height / width + 0.28) + 0.35)
    figure, grid = new_figure(size, len(shown), columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for row, frames in zip(grid, shown, strict=True):
        moments = np.unique(np.linspace(0, len(frames) - 1, columns).round().astype(int))
        for axes, moment in zip(row, moments, strict=False):
            axes.imshow(frames[moment], interpolation="antialiased")
            axes.set_title("start" if moment == 0 else f"step {moment}", fontsize=8)
    figure.suptitle(f"The {recording.policy} policy in task {recording.task}", fontsize=10)
    return figure


def gif(images: Sequence[Image.Image], durations: Sequence[int], colours: int) -> bytes:
    """Return a GIF that repeats, with durations in milliseconds.

    One palette for all frames gives equal numbers where nothing moves: the file stays small.
    """
    some = images[:: max(1, len(images) // 6)]
    palette = Image.fromarray(np.concatenate([np.asarray(one) for one in some])).quantize(colours)
    first, *rest = (one.quantize(palette=palette, dither=Image.Dither.NONE) for one in images)
    options: dict[str, Any] = {"save_all": True, "append_images": rest, "optimize": True, "loop": 0}
    content = io.BytesIO()
    first.save(content, format="GIF", duration=list(durations), **options)
    return content.getvalue()
