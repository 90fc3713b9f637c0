"""Maps of navigation tasks, and the paths of a policy on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Ellipse

from crosslearning.analysis.trajectories import Trajectories
from crosslearning.errors import InputError
from crosslearning.figures.parts import Floats, dot, entry, legend_outside, panel_grid, write
from crosslearning.figures.style import ALARM, CENTRAL, GOAL, GREY, LIGHT, figure_style
from crosslearning.tasks import Navigation

#: The most panels beside one another.
_COLUMNS = 5
_CRASH: dict[str, Any] = {"marker": "X", "mec": "white"}
_RING: dict[str, Any] = {"marker": "o", "mfc": "white"}


def draw_map(axes: Axes, navigation: Navigation) -> None:
    """Draw the obstacles and goals of a navigation task."""
    for obstacle in navigation.obstacles:
        a, b = obstacle.semi_axes
        angle = math.degrees(obstacle.angle)
        axes.add_patch(Ellipse(obstacle.centre, 2 * a, 2 * b, angle=angle, fc="#CBCFDC", ec=GREY))
    if navigation.goal_choice == "redrawn":
        axes.plot(*zip(*navigation.goals, strict=True), ".", ms=3, color=GOAL, alpha=0.5)
        axes.set(aspect="equal", xlabel="x", ylabel="y")
        return
    for count, goal in enumerate(navigation.goals, start=1):
        axes.add_patch(Circle(goal, navigation.arrival_radius, fc=GOAL, alpha=0.18, lw=0))
        axes.plot(*goal, marker="*", ms=9, color=GOAL, zorder=4, ls="none")
        if len(navigation.goals) > 1:
            write(axes, str(count), goal, (6, 6), GOAL)
    axes.set(aspect="equal", xlabel="x", ylabel="y")


def draw_end(axes: Axes, place: Floats, crashed: bool, colour: str, size: float = 9.0) -> None:
    """Mark where a path ended without arriving: a cross at a crash, a ring where time ran out."""
    mark = _CRASH if crashed else _RING
    axes.plot(*place, **mark, ms=size if crashed else 0.6 * size, color=colour, zorder=6)


def end_handles(crash: str = GREY, ring: str = GREY) -> list[Line2D]:
    """Return the legend entries of :func:`draw_end`."""
    return [
        dot("crash", crash, ms=8, **_CRASH),
        dot("out of time", ring, ms=5.5, **_RING),
    ]


@figure_style()
def trajectory_figure(policy: str, trajectories: Sequence[Trajectories]) -> Figure:
    """Draw a policy's paths from random starts, one panel per task; paths that crash are red."""
    if not trajectories:
        raise InputError("there are no paths to draw: no task was given")
    figure, panels = panel_grid(len(trajectories), _COLUMNS, (3.1, 3.35), narrowest=4.2)
    figure.set_figheight(figure.get_figheight() + 0.6)
    for axes, one in zip(panels, trajectories, strict=True):
        draw_map(axes, one.navigation)
        for path, crashed, out in zip(one.paths, one.crashed, one.out_of_time, strict=True):
            colour = ALARM if crashed else CENTRAL
            axes.plot(*path.T, color=colour, lw=0.7, alpha=0.6)
            axes.plot(*path[0], marker="o", ms=2.5, color=LIGHT, zorder=3)
            if crashed or out:
                draw_end(axes, path[-1], bool(crashed), colour, 7.0)
        x, y = ((low - 0.5, high + 0.5) for low, high in one.navigation.start_area)
        axes.set(xlim=x, ylim=y)
        arrived, crashes, out = map(np.sum, (one.arrived, one.crashed, one.out_of_time))
        ends = f"{arrived} of {len(one.paths)} arrive, {crashes} crash, {out} out of time"
        axes.set_title(f"task {one.task}\n{ends}")
        if axes not in panels[::_COLUMNS]:
            axes.set_ylabel("")
        if axes not in panels[-_COLUMNS:]:
            axes.set_xlabel("")
    handles = [dot("start", LIGHT, ms=3.0), entry("path", color=CENTRAL, lw=0.8)]
    legend_outside(figure, [*handles, *end_handles(ALARM, CENTRAL)])
    # The panels have titles of two lines.
    figure.suptitle(f"The {policy} policy from random starts\n", fontsize=10.5)
    return figure
