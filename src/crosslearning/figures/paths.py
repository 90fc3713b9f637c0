"""Maps of navigation tasks, and the paths of a policy on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle as Disc
from matplotlib.patches import Ellipse as EllipsePatch

from crosslearning.errors import InputError
from crosslearning.figures.parts import Floats, legend_outside
from crosslearning.figures.style import ALARM, CENTRAL, GOAL, GREY, LIGHT, figure_style
from crosslearning.tasks import Navigation
from crosslearning.trajectories import Trajectories

#: The most panels beside one another.
_COLUMNS = 5
_CRASH: dict[str, Any] = {"marker": "X", "markeredgecolor": "white", "linestyle": "none"}
_RING: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "linestyle": "none"}


def draw_map(axes: Axes, navigation: Navigation) -> None:
    """Draw the obstacles and goals of a navigation task."""
    for obstacle in navigation.obstacles:
        a, b = obstacle.semi_axes
        turn = float(np.degrees(obstacle.angle))
        shape = EllipsePatch(obstacle.centre, 2 * a, 2 * b, angle=turn)
        shape.set(facecolor="#CBCFDC", edgecolor=GREY, linewidth=1.0, zorder=1)
        axes.add_patch(shape)
    for count, goal in enumerate(navigation.goals, start=1):
        axes.add_patch(
            Disc(goal, navigation.arrival_radius, facecolor=GOAL, alpha=0.18, linewidth=0, zorder=1)
        )
        axes.plot(*goal, marker="*", markersize=9, color=GOAL, zorder=4, linestyle="none")
        if len(navigation.goals) > 1:
            axes.annotate(str(count), goal, xytext=(6, 6), textcoords="offset points", color=GOAL)
    axes.set_aspect("equal")
    axes.set_xlabel("x")
    axes.set_ylabel("y")


def draw_end(axes: Axes, place: Floats, crashed: bool, colour: str, size: float = 9.0) -> None:
    """Mark where a path ended without arriving: a cross at a crash, a ring where time ran out.

    The white of the marks sets them off from the paths that they lie on.
    """
    mark, share = (_CRASH, 1.0) if crashed else (_RING, 0.6)
    edge = "white" if crashed else colour
    axes.plot(
        *place, **{**mark, "markeredgecolor": edge}, markersize=share * size, color=colour, zorder=6
    )


def end_handles(crash: str = GREY, ring: str = GREY) -> list[Line2D]:
    """Return the legend's entries for the marks of :func:`draw_end`."""
    return [
        Line2D([], [], color=crash, label="crash", markersize=8, **_CRASH),
        Line2D([], [], color=ring, label="out of time", markersize=5.5, **_RING),
    ]


@figure_style()
def trajectory_figure(policy: str, found: Sequence[Trajectories]) -> Figure:
    """Draw a policy's paths from random starts, one panel per task.

    Grey dots are starts. Paths that crash are red and end in a cross; those of robots that
    neither crash nor arrive in time end in a ring.
    """
    if not found:
        raise InputError("there are no paths to draw: no task was given")
    columns = min(len(found), _COLUMNS)
    rows = math.ceil(len(found) / columns)
    size = (max(3.1 * columns, 4.2), 3.3 * rows + 0.3)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, one in zip(panels, found, strict=False):
        draw_map(axes, one.navigation)
        for path, crashed, out in zip(one.paths, one.crashed, one.out_of_time, strict=True):
            colour = ALARM if crashed else CENTRAL
            axes.plot(path[:, 0], path[:, 1], color=colour, linewidth=0.7, alpha=0.6)
            axes.plot(*path[0], marker="o", markersize=2.5, color=LIGHT, zorder=3)
            if crashed or out:
                draw_end(axes, path[-1], bool(crashed), colour, 7.0)
        (x_low, x_high), (y_low, y_high) = one.navigation.start_area
        axes.set_xlim(x_low - 0.5, x_high + 0.5)
        axes.set_ylim(y_low - 0.5, y_high + 0.5)
        arrived, crashes, out = map(np.sum, (one.arrived, one.crashed, one.out_of_time))
        ends = f"{arrived} of {len(one.paths)} arrive, {crashes} crash, {out} out of time"
        axes.set_title(f"task {one.task}\n{ends}")
    for place, axes in enumerate(panels):
        if place >= len(found):
            axes.set_axis_off()
        if place % columns:
            axes.set_ylabel("")
        if place + columns < len(found):
            axes.set_xlabel("")
    start: dict[str, Any] = {"marker": "o", "markersize": 3.0, "linestyle": "none"}
    handles = [
        Line2D([], [], color=LIGHT, label="start", **start),
        Line2D([], [], color=CENTRAL, label="path", linewidth=0.8),
        *end_handles(ALARM, CENTRAL),
    ]
    legend_outside(figure, handles)
    figure.suptitle(f"The {policy} policy from random starts", fontsize=10.5)
    return figure
