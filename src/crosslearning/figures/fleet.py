"""A fleet of pendulums at work, under every kind of models: one frame, or all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle as Disc

from crosslearning.analysis.fleet import Crew, Fleet
from crosslearning.figures.parts import MIDDLE
from crosslearning.figures.style import DARK, GREY, MODELS, figure_style
from crosslearning.tasks.families.pendulum import TIME_STEP, UPRIGHT

#: Machines that are shown; of more, the first.
MOST_SHOWN = 10
#: Of a cell, and of the words beside the rows, in the machines' metres.
_CELL, _ROW, _WORDS = 3.0, 3.1, 6.1
#: Inches of a metre.
_INCHES = 0.29
#: The disc behind a machine that stands upright from all starts, and from none.
_STANDS, _NOT = np.array(to_rgb("#CDEFE0")), np.array(to_rgb("#F2F4F7"))
#: Seconds of the moving picture: what stands after these keeps standing.
_SECONDS = 6.5


class FleetPicture:
    """A figure of all machines that can be turned to any moment.

    Parameters
    ----------
    fleet : Fleet
    """

    @figure_style()
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.shown = min(len(fleet.tasks), MOST_SHOWN)
        columns, rows = self.shown, len(fleet.crews)
        width, height = _WORDS + _CELL * columns, _ROW * rows + 3.0
        self.figure = Figure((_INCHES * width, _INCHES * height))
        self.axes: Axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self.axes.set(xlim=(-_WORDS, width - _WORDS), ylim=(1.0 - height, 1.0))
        self.axes.set_aspect("equal")
        self.axes.set_axis_off()
        self._write_words(width)
        self.rows = [
            _Row(self.axes, fleet, crew, -_ROW * (place + 0.5) - 0.55)
            for place, crew in enumerate(fleet.crews)
        ]
        self.turn(0)

    def _write_words(self, width: float) -> None:
        fleet = self.fleet
        title = (
            f"{len(fleet.tasks)} pendulums, no two alike, each learned from "
            f"{fleet.seconds:g} seconds of operation; {fleet.crews[0].angles.shape[1]} starts each"
        )
        left = -_WORDS + 0.45
        self.axes.text(left, 0.2, title, fontsize=10.5, color=DARK, va="center", weight="bold")
        right = width - _WORDS - 0.45
        self.clock = self.axes.text(right, 0.2, "", fontsize=9, color=GREY, ha="right", va="center")
        below = 1.0 - _ROW * len(fleet.crews) - 2.35
        for i, task in enumerate(fleet.tasks[: self.shown]):
            numbers = "\n".join(f"{name} = {value:.3g}" for name, value in task.context.items())
            place = (_CELL * (i + 0.5), below)
            self.axes.text(*place, numbers, fontsize=7, color=GREY, linespacing=1.25, **MIDDLE)

    @property
    def frames(self) -> range:
        """The steps of the moving picture."""
        return range(min(self.fleet.crews[0].angles.shape[2] - 1, round(_SECONDS / TIME_STEP)) + 1)

    @property
    def moving(self) -> list[Artist]:
        """What changes from one moment to another."""
        return [self.clock, *(part for row in self.rows for part in row.moving)]

    @figure_style()
    def turn(self, step: int) -> None:
        """Show the machines after so many steps."""
        self.clock.set_text(f"{step * TIME_STEP:.1f} s")
        for row in self.rows:
            row.turn(step)


class _Row:
    """The machines of one crew, each from all its starts at once."""

    def __init__(self, axes: Axes, fleet: Fleet, crew: Crew, y: float) -> None:
        self.crew = crew
        colour, tasks = MODELS[crew.kind], fleet.tasks[:MOST_SHOWN]
        self.pivots = np.array([(_CELL * (i + 0.5), y) for i in range(len(tasks))])
        self.lengths = np.array([task.context["l"] for task in tasks])
        masses = np.array([task.context["m"] for task in tasks])
        self.discs = PatchCollection([Disc(tuple(at), 1.38) for at in self.pivots], linewidths=0.0)
        look: dict[str, Any] = {"linewidths": 1.6, "capstyle": "round", "alpha": 0.55}
        self.rods = LineCollection([], colors=DARK, zorder=3, **look)
        axes.add_collection(self.discs)
        axes.add_collection(self.rods)
        starts = crew.angles.shape[1]
        sizes = np.repeat(30.0 * masses, starts)
        x, heights = np.repeat(self.pivots, starts, axis=0).T
        white: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.7}
        self.bobs = axes.scatter(x, heights, s=sizes, color=colour, zorder=4, **white)
        pins = axes.scatter(*self.pivots.T[:2], color=DARK, zorder=5, **white)
        pins.set_sizes([12.0])
        left = -_WORDS + 0.45
        name = f"{crew.kind} models"
        axes.text(left, y + 0.7, name, fontsize=9.5, color=colour, weight="bold", va="center")
        told = f"mean return {crew.mean_return.value:.0f}".replace("-", "−")
        axes.text(left, y, told, fontsize=8, color=GREY, va="center")
        self.count = axes.text(left, y - 0.65, "", fontsize=8, color=GREY, va="center")
        self.moving = [self.discs, self.rods, self.bobs, pins, self.count]

    def turn(self, step: int) -> None:
        """Show the machines after so many steps."""
        angles = self.crew.angles[: len(self.pivots), :, step]  # (N, starts)
        way = np.stack([-np.sin(angles), np.cos(angles)], axis=-1)
        bobs = self.pivots[:, None] + self.lengths[:, None, None] * way
        rods = np.stack([np.broadcast_to(self.pivots[:, None], bobs.shape), bobs], axis=2)
        self.rods.set_segments(list(rods.reshape(-1, 2, 2)))
        self.bobs.set_offsets(bobs.reshape(-1, 2))
        stands = np.abs((angles + np.pi) % (2.0 * np.pi) - np.pi) < UPRIGHT
        shares = stands.mean(axis=1)[:, None]
        self.discs.set_facecolor(list(_NOT + shares * (_STANDS - _NOT)))
        self.count.set_text(f"{np.count_nonzero(stands)} of {stands.size} upright now")
