"""Figures of the five policies' paths from one fixed start and heading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from crosslearning.figures.paper import POLICY_COLOURS, line_style
from crosslearning.figures.parts import entry, legend_outside, new_figure, write
from crosslearning.figures.paths import draw_end, draw_map, end_handles
from crosslearning.figures.style import DARK, GREY, WIDE, figure_style
from crosslearning.reproduction.paper.experiment import LABELS, POLICIES
from crosslearning.reproduction.paper.measure import Drive, SceneDrives

#: The most by which the frame grows for a path that leaves it.
_BEYOND = 2.0
_BUNDLE: dict[str, Any] = {"color": GREY, "linewidth": 0.8, "alpha": 0.6}

Point = tuple[float, float]


@figure_style()
def trajectories_figure(scenes: Mapping[str, SceneDrives]) -> Figure:
    """Draw a path of each policy around circle and ellipse, other seeds' as a thin grey bundle."""
    figure, panels = new_figure((WIDE, 3.45), 1, 2, sharey=True)
    shown = {name: scenes[name] for name in ("circle", "ellipse")}
    for axes, (name, scene) in zip(panels, shown.items(), strict=True):
        draw_map(axes, scene.navigation)
        for other in scene.others:
            axes.plot(*other.path.T, zorder=2, label="_bundle", **_BUNDLE)
            if other.crashed:
                axes.plot(*other.path[-1], marker="x", markersize=4.5, color=GREY, zorder=2)
        _draw_drives(axes, scene)
        axes.set_title(f"{name} obstacle")
    every = [drive for scene in shown.values() for drive in scene.drives.values()]
    for axes in panels:
        _frame(axes, every, (-0.3, 0.3), (6.3, 7.0))
    panels[1].set_ylabel("")
    marks = end_handles()
    if shown["circle"].others:
        marks.append(entry("cross-learned, other seeds", **_BUNDLE))
    panels[0].legend(handles=marks, loc="lower right", fontsize=8, handlelength=1.4)
    legend_outside(figure, [entry(LABELS[p], **line_style(p)) for p in POLICIES], "upper")
    return figure


@figure_style()
def mission_figure(scenes: Mapping[str, SceneDrives]) -> Figure:
    """Draw a path of each policy through the map with three goals, and the goals reached."""
    scene = scenes["mission"]
    figure, axes = new_figure((WIDE, 4.1))
    draw_map(axes, scene.navigation)
    _draw_drives(axes, scene)
    _frame(axes, scene.drives.values(), (-0.3, -0.3), (12.0, 8.6))
    for text in axes.texts:
        text.set(zorder=8, path_effects=[withStroke(linewidth=2.5, foreground="white")])
    handles = []
    for policy, one in scene.drives.items():
        reached = f"{one.goals} of {len(scene.navigation.goals)} goals{one.ending}"
        handles.append(entry(f"{LABELS[policy]}\n{reached}", **line_style(policy)))
    figure.legend(handles=[*handles, *end_handles()], loc="outside right center", labelspacing=0.9)
    return figure


def _draw_drives(axes: Axes, scene: SceneDrives) -> None:
    """Draw paths in their policies' colours, marked where they did not arrive, and the start."""
    for policy, one in scene.drives.items():
        axes.plot(*one.path.T, label=LABELS[policy], **line_style(policy))
        if not one.arrived:
            draw_end(axes, one.path[-1], one.crashed, POLICY_COLOURS[policy])
    start = scene.navigation.start
    assert start is not None
    axes.plot(*start, marker="o", markersize=4.5, color=DARK, zorder=7)
    write(axes, "start", start, (4, -5), DARK, va="top")


def _frame(axes: Axes, drives: Iterable[Drive], lowest: Point, highest: Point) -> None:
    """Show this part of the plane, and up to ``_BEYOND`` more where a path leaves it."""
    together = np.concatenate([one.path for one in drives])
    low = np.clip(together.min(axis=0) - 0.2, np.subtract(lowest, _BEYOND), lowest)
    high = np.clip(together.max(axis=0) + 0.2, highest, np.add(highest, _BEYOND))
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
