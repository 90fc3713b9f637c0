"""The figure of a fleet of pendulums, one row per kind of dynamics models, at any step."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle as Disc

from crosslearning.analysis.fleet import Fleet, FleetResult
from crosslearning.figures.parts import MIDDLE, minus
from crosslearning.figures.style import DARK, GREY, MODELS, figure_style
from crosslearning.tasks.pendulum import TIME_STEP, UPRIGHT

#: The first tasks of a larger fleet are shown.
MOST_SHOWN = 10
#: Sizes of a cell, a row and the text beside it, in metres of the pendulums, and inches per metre.
_CELL, _ROW, _TEXT, _INCHES = 3.0, 3.1, 6.1, 0.29
#: The disc behind a pendulum that is upright from all starts, and from none.
_UPRIGHT, _NOT = np.array(to_rgb("#CDEFE0")), np.array(to_rgb("#F2F4F7"))
#: Length of the animation in seconds; later nothing changes.
_SECONDS = 6.5
_LEFT = 0.45 - _TEXT


class FleetPicture:
    """A figure of a fleet that can be drawn at any step."""

    @figure_style()
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.shown = min(len(fleet.tasks), MOST_SHOWN)
        width, height = _TEXT + _CELL * self.shown, _ROW * len(fleet.results) + 3.0
        self.figure = Figure((_INCHES * width, _INCHES * height))
        self.axes: Axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self.axes.set(xlim=(-_TEXT, width - _TEXT), ylim=(1.0 - height, 1.0))
        self.axes.set_aspect("equal")
        self.axes.set_axis_off()
        self._write_text(width)
        self.rows = [
            _Row(self.axes, fleet, result, -_ROW * (place + 0.5) - 0.55)
            for place, result in enumerate(fleet.results)
        ]
        self.draw(0)

    def _write_text(self, width: float) -> None:
        fleet = self.fleet
        title = (
            f"{len(fleet.tasks)} pendulums, no two alike, each learned from {fleet.seconds:g} "
            f"seconds of operation; {fleet.results[0].angles.shape[1]} starts each"
        )
        self.axes.text(_LEFT, 0.2, title, fontsize=10.5, color=DARK, va="center", weight="bold")
        right = width - _TEXT - 0.45
        self.clock = self.axes.text(right, 0.2, "", fontsize=9, color=GREY, ha="right", va="center")
        below = 1.0 - _ROW * len(fleet.results) - 2.35
        for i, task in enumerate(fleet.tasks[: self.shown]):
            numbers = "\n".join(f"{name} = {value:.3g}" for name, value in task.context.items())
            place = (_CELL * (i + 0.5), below)
            self.axes.text(*place, numbers, fontsize=7, color=GREY, linespacing=1.25, **MIDDLE)

    @property
    def frames(self) -> range:
        """The steps of the animation."""
        steps = self.fleet.results[0].angles.shape[2] - 1
        return range(min(steps, round(_SECONDS / TIME_STEP)) + 1)

    @property
    def moving(self) -> list[Artist]:
        """The artists that change from step to step."""
        return [self.clock, *(part for row in self.rows for part in row.moving)]

    @figure_style()
    def draw(self, step: int) -> None:
        """Show the pendulums after so many steps."""
        self.clock.set_text(f"{step * TIME_STEP:.1f} s")
        for row in self.rows:
            row.draw(step)


class _Row:
    """The tasks under one kind of models, each from all its starts at once."""

    def __init__(self, axes: Axes, fleet: Fleet, result: FleetResult, y: float) -> None:
        self.angles = result.angles
        colour, tasks = MODELS[result.kind], fleet.tasks[:MOST_SHOWN]
        self.pivots = np.array([(_CELL * (i + 0.5), y) for i in range(len(tasks))])
        self.lengths = np.array([task.context["l"] for task in tasks])
        masses = np.array([task.context["m"] for task in tasks])
        self.discs = PatchCollection([Disc(tuple(at), 1.38) for at in self.pivots], linewidths=0.0)
        style: dict[str, Any] = {"linewidths": 1.6, "capstyle": "round", "alpha": 0.55}
        self.rods = LineCollection([], colors=DARK, zorder=3, **style)
        axes.add_collection(self.discs)
        axes.add_collection(self.rods)
        starts = result.angles.shape[1]
        sizes = np.repeat(30.0 * masses, starts)
        x, heights = np.repeat(self.pivots, starts, axis=0).T
        white: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.7}
        self.bobs = axes.scatter(x, heights, s=sizes, color=colour, zorder=4, **white)
        pins = axes.scatter(*self.pivots.T[:2], color=DARK, zorder=5, **white)
        pins.set_sizes([12.0])
        name, mean = f"{result.kind} models", f"mean return {result.mean_return.value:.0f}"
        axes.text(_LEFT, y + 0.7, name, fontsize=9.5, color=colour, weight="bold", va="center")
        axes.text(_LEFT, y, minus(mean), fontsize=8, color=GREY, va="center")
        self.count = axes.text(_LEFT, y - 0.65, "", fontsize=8, color=GREY, va="center")
        self.moving = [self.discs, self.rods, self.bobs, pins, self.count]

    def draw(self, step: int) -> None:
        """Show the pendulums after so many steps."""
        angles = self.angles[: len(self.pivots), :, step]  # (N, starts)
        direction = np.stack([-np.sin(angles), np.cos(angles)], axis=-1)
        bobs = self.pivots[:, None] + self.lengths[:, None, None] * direction
        rods = np.stack([np.broadcast_to(self.pivots[:, None], bobs.shape), bobs], axis=2)
        self.rods.set_segments(list(rods.reshape(-1, 2, 2)))
        self.bobs.set_offsets(bobs.reshape(-1, 2))
        upright = np.abs((angles + np.pi) % (2.0 * np.pi) - np.pi) < UPRIGHT
        shares = upright.mean(axis=1)[:, None]
        self.discs.set_facecolor(list(_NOT + shares * (_UPRIGHT - _NOT)))
        self.count.set_text(f"{np.count_nonzero(upright)} of {upright.size} upright now")
