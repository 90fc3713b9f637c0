"""The figure of a fleet of pendulums, one row per kind of dynamics models, at any step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle as Disc
from PIL import Image

from crosslearning._base.files import write_atomically
from crosslearning.analysis.fleet import Fleet
from crosslearning.figures.animation import gif
from crosslearning.figures.parts import MIDDLE, minus
from crosslearning.figures.style import DARK, GREY, MODELS, figure_style
from crosslearning.tasks.pendulum import TIME_STEP, UPRIGHT

#: The first tasks of a larger fleet are shown.
MOST_SHOWN = 10
#: Sizes of a cell, a row and the text beside it, in metres of the pendulums, and inches per metre.
_CELL, _ROW, _TEXT, _INCHES = 3.0, 3.1, 6.1, 0.29
#: The disc behind a pendulum that is upright from all starts, and from none.
_UPRIGHT, _NOT = np.array(to_rgb("#CDEFE0")), np.array(to_rgb("#F2F4F7"))
#: Length of the animation in seconds, later nothing changes, and its width in pixels.
_SECONDS, _WIDTH = 6.5, 820
#: Milliseconds of a frame and of the last one.
_FRAME, _LAST_FRAME = 50, 2000
#: Few colours keep the file small, and edges stay smooth.
_COLOURS = 48
_LEFT = 0.45 - _TEXT


class FleetPicture:
    """A figure of a fleet that can be drawn at any step: each task from all its starts at once."""

    @figure_style()
    def __init__(self, fleet: Fleet) -> None:
        tasks = fleet.tasks[:MOST_SHOWN]
        self.angles = np.stack([result.angles[: len(tasks)] for result in fleet.results])
        rows, N, starts, steps = self.angles.shape
        width, height = _TEXT + _CELL * N, _ROW * rows + 3.25
        self.figure = Figure((_INCHES * width, _INCHES * height))
        axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0), aspect="equal")
        axes.set(xlim=(-_TEXT, width - _TEXT), ylim=(1.0 - height, 1.0))
        axes.set_axis_off()
        x, y = _CELL * (np.arange(N) + 0.5), -_ROW * (np.arange(rows) + 0.5) - 0.55
        self.pivots = np.stack(np.broadcast_arrays(x, y[:, None]), axis=-1)  # (rows, N, 2)
        self.lengths = np.array([task.context["l"] for task in tasks])
        sizes = np.tile(np.repeat([30.0 * task.context["m"] for task in tasks], starts), rows)
        colours = [MODELS[result.kind] for result in fleet.results]
        places = self.pivots.reshape(-1, 2)
        self.discs = PatchCollection([Disc(tuple(at), 1.38) for at in places], linewidths=0.0)
        style: dict[str, Any] = {"linewidths": 1.6, "capstyle": "round", "alpha": 0.55}
        self.rods = LineCollection([], colors=DARK, zorder=3, **style)
        axes.add_collection(self.discs)
        axes.add_collection(self.rods)
        white: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.7}
        pins = axes.scatter(places[:, 0], places[:, 1], s=12.0, color=DARK, zorder=5, **white)
        x_bob, y_bob = np.repeat(places, starts, axis=0).T
        colour = np.repeat(colours, N * starts)
        self.bobs = axes.scatter(x_bob, y_bob, s=sizes, c=colour, zorder=4, **white)

        def write(x: float, y: float, text: str, size: float, colour: str, **look: Any) -> Any:
            return axes.text(x, y, text, fontsize=size, color=colour, **{"va": "center"} | look)

        title = (
            f"{len(fleet.tasks)} pendulums, no two alike, each learned from {fleet.seconds:g} "
            f"seconds of operation; {starts} starts each"
        )
        write(_LEFT, 0.2, title, 10.5, DARK, weight="bold")
        self.clock = write(width - _TEXT - 0.45, 0.2, "", 9, GREY, ha="right")
        for place, task in zip(x, tasks, strict=True):
            numbers = "\n".join(f"{name} = {value:.3g}" for name, value in task.context.items())
            write(place, 1.9 - height, numbers, 7, GREY, linespacing=1.25, **MIDDLE)
        self.counts = []
        for result, row in zip(fleet.results, y, strict=True):
            kind = f"{result.kind} models"
            write(_LEFT, row + 0.7, kind, 9.5, MODELS[result.kind], weight="bold")
            write(_LEFT, row, minus(f"mean return {result.mean_return.value:.0f}"), 8, GREY)
            self.counts.append(write(_LEFT, row - 0.65, "", 8, GREY))
        #: The steps of the animation.
        self.frames = range(min(steps - 1, round(_SECONDS / TIME_STEP)) + 1)
        #: The artists that change from step to step, or lie on those.
        self.moving: list[Artist] = [self.discs, self.rods, self.bobs, pins]
        self.moving += [self.clock, *self.counts]
        self.draw(0)

    @figure_style()
    def draw(self, step: int) -> None:
        """Show the pendulums after so many steps."""
        self.clock.set_text(f"{step * TIME_STEP:.1f} s")
        angles = self.angles[..., step]  # (rows, N, starts)
        direction = np.stack([-np.sin(angles), np.cos(angles)], axis=-1)
        bobs = self.pivots[:, :, None] + self.lengths[:, None, None] * direction
        rods = np.stack(np.broadcast_arrays(self.pivots[:, :, None], bobs), axis=3)
        self.rods.set_segments(list(rods.reshape(-1, 2, 2)))
        self.bobs.set_offsets(bobs.reshape(-1, 2))
        upright = np.abs((angles + np.pi) % (2.0 * np.pi) - np.pi) < UPRIGHT
        shares = upright.mean(axis=2).reshape(-1, 1)
        self.discs.set_facecolor(list(_NOT + shares * (_UPRIGHT - _NOT)))
        for text, row in zip(self.counts, upright, strict=True):
            text.set_text(f"{np.count_nonzero(row)} of {row.size} upright now")

    def save(self, path: Path, callback: Callable[[], object]) -> Path:
        """Write a GIF that repeats, calling back after every frame; the path has no suffix.

        Only the moving artists are drawn for each frame, all others once, behind them.
        """
        canvas: Any = FigureCanvasAgg(self.figure)
        self.figure.set_dpi(_WIDTH / self.figure.get_figwidth())
        ordered = sorted(self.moving, key=lambda artist: artist.get_zorder())
        images = []
        with figure_style():
            for artist in ordered:
                artist.set_animated(True)
            canvas.draw()
            background = canvas.copy_from_bbox(self.figure.bbox)
            for step in self.frames:
                canvas.restore_region(background)
                self.draw(step)
                for artist in ordered:
                    self.figure.draw_artist(artist)
                images.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
                callback()
            for artist in ordered:
                artist.set_animated(False)
        written = path.with_name(f"{path.name}.gif")
        durations = [_FRAME] * (len(images) - 1) + [_LAST_FRAME]
        write_atomically(written, gif(images, durations, _COLOURS))
        return written
