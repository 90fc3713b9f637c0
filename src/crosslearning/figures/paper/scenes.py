"""Figures of the plane: the policies' paths from one fixed start, and the robot model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc, FancyArrowPatch, Polygon, Wedge

from crosslearning.figures.paper.curves import POLICY_COLOURS, line_style
from crosslearning.figures.parts import HALO, MIDDLE, entry, legend_outside, new_figure, write
from crosslearning.figures.paths import draw_end, draw_map, end_handles
from crosslearning.figures.style import DARK, GOAL, GREY, NARROW, TASKS, WIDE, figure_style
from crosslearning.reproduction.paper.experiment import LABELS, POLICIES
from crosslearning.reproduction.paper.measure import Drive, SceneDrives
from crosslearning.tasks import Circle, Navigation
from crosslearning.tasks.navigation.dynamics import OBSERVATION_SIZE, STATE_SIZE, State, observe

#: The most by which the frame grows for a path that leaves it.
_BEYOND = 2.0
_BUNDLE: dict[str, Any] = {"color": GREY, "lw": 0.8, "alpha": 0.6}
#: The scene of the robot model: an obstacle to the left of the heading, a goal to the right.
SCENE = Navigation(obstacles=(Circle((3.2, 3.3), 0.8),), goals=((5.5, 0.3),))
PLACE = (0.9, 1.1)
HEADING = math.radians(10.0)
_OPENING, _ROBOT = TASKS[4], TASKS[0]


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
                axes.plot(*other.path[-1], marker="x", ms=4.5, color=GREY, zorder=2)
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
        text.set(zorder=8, path_effects=HALO)
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
    axes.plot(*start, marker="o", ms=4.5, color=DARK, zorder=7)
    write(axes, "start", start, (4, -5), DARK, va="top")


def _frame(
    axes: Axes, drives: Iterable[Drive], lowest: tuple[float, float], highest: tuple[float, float]
) -> None:
    """Show this part of the plane, and up to ``_BEYOND`` more where a path leaves it."""
    together = np.concatenate([one.path for one in drives])
    low = np.clip(together.min(axis=0) - 0.2, np.subtract(lowest, _BEYOND), lowest)
    high = np.clip(together.max(axis=0) + 0.2, highest, np.add(highest, _BEYOND))
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))


# The robot model, with distances and angles from the compiled observation ------------------------


def observation() -> list[float]:
    """Return [d_o, φ_o, d_g, φ_g, φ_obs] at the drawn place."""
    state = np.zeros(STATE_SIZE)
    state[[State.X, State.Y, State.HEADING]] = *PLACE, HEADING
    seen = np.empty(OBSERVATION_SIZE)
    observe(SCENE.parameters, state, seen)
    return seen.tolist()


@figure_style()
def robot_model_figure(to_centre: bool = False) -> Figure:
    """Draw the robot, an obstacle and a goal, with the observation and the actions named.

    d_o is the distance to the obstacle's surface, or to its centre.
    """
    d_o, phi_o, d_g, phi_g, phi_obs = observation()
    middle = SCENE.obstacles[0].centre
    if to_centre:
        d_o = math.dist(middle, PLACE)
    figure, axes = new_figure((NARROW, 3.2))
    draw_map(axes, SCENE)
    _draw_tangents(axes, HEADING + phi_o, phi_obs)
    axes.plot(*_at(HEADING, np.array([0.0, 3.9])), color=GREY, ls=(0, (5, 3)), lw=0.9)
    _write(axes, "heading", _at(HEADING + 0.045, 3.5), GREY, 8.5, rotation=math.degrees(HEADING))
    # Distances and angles, and where along each its name is written.
    for name, distance, turn, colour, along, radius, share in (
        ("o", d_o, phi_o, DARK, 0.6 if to_centre else 0.87, 1.3, 0.27),
        ("g", d_g, phi_g, GOAL, 0.66, 1.9, 0.5),
    ):
        angle, text = HEADING + turn, rf"$\phi_{name}$"
        _arrow(axes, PLACE, _at(angle, distance), "<|-|>", color=colour)
        x, y = _at(angle, along * distance)
        beside = (x + 0.18 * math.sin(angle), y - 0.18 * math.cos(angle))
        _write(axes, f"$d_{name}$", beside, colour)
        arc = _at(HEADING + np.linspace(0.0, turn, 40), radius)
        axes.plot(*arc, color=colour, lw=1.2, zorder=3, label=text)
        _arrow(axes, (arc[0][-3], arc[1][-3]), (arc[0][-1], arc[1][-1]), "-|>", color=colour)
        _write(axes, text, _at(HEADING + share * turn, radius + 0.2), colour)
    _draw_robot(axes)
    _write(axes, "obstacle", (middle[0], middle[1] + 0.3 * to_centre), DARK, size=9)
    x, y = SCENE.goals[0]
    _write(axes, "goal", (x, y - 0.32), GOAL, size=9)
    axes.set_axis_off()
    axes.set(xlim=(0.0, 6.1), ylim=(-0.3, 4.2))
    return figure


def _at(angle: Any, distance: Any) -> tuple[Any, Any]:
    """Return places at distances from the robot in directions of the plane."""
    return PLACE[0] + distance * np.cos(angle), PLACE[1] + distance * np.sin(angle)


def _write(axes: Axes, text: str, at: Any, colour: str, size: float = 11, **look: Any) -> None:
    write(axes, text, at, (0, 0), colour, fontsize=size, **MIDDLE, **look)


def _arrow(axes: Axes, start: Any, end: Any, look: str, **style: Any) -> None:
    style = {"mutation_scale": 8, "lw": 1.2, "zorder": 3} | style
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle=look, shrinkA=0, shrinkB=0, **style))


def _draw_tangents(axes: Axes, middle: float, opening: float) -> None:
    """Draw the two tangents of the obstacle, and the angle between them."""
    circle = SCENE.obstacles[0]
    touch = math.sqrt(math.dist(circle.centre, PLACE) ** 2 - circle.semi_axes[0] ** 2)
    edges = np.array([middle - opening / 2, middle + opening / 2])
    low, high = np.degrees(edges)
    axes.add_patch(Wedge(PLACE, touch, low, high, fc=_OPENING, alpha=0.14, lw=0, zorder=0))
    for edge in edges:
        axes.plot(*_at(edge, np.array([0.0, 1.13 * touch])), color=_OPENING, lw=0.9)
        axes.plot(*_at(edge, touch), "o", color=_OPENING, ms=3, zorder=4)
    axes.add_patch(Arc(PLACE, 3.6, 3.6, theta1=low, theta2=high, color=_OPENING, lw=1.4))
    _write(axes, r"$\phi_{obs}$", _at(edges[1] + 0.17, 1.8), "#9A5B00")


def _draw_robot(axes: Axes) -> None:
    """Draw the robot as an arrow head, its speed along the heading, and its turn rate."""
    shape = np.array([0.30, -0.22 + 0.19j, -0.12, -0.22 - 0.19j]) * np.exp(1j * HEADING)
    corners = np.stack([shape.real, shape.imag], axis=1) + PLACE
    axes.add_patch(Polygon(corners, facecolor=_ROBOT, edgecolor="white", lw=0.8, zorder=6))
    thick: dict[str, Any] = {"color": _ROBOT, "lw": 1.8, "mutation_scale": 11, "zorder": 5}
    _arrow(axes, _at(HEADING, 0.2), _at(HEADING, 1.0), "-|>", **thick)
    begin, end = HEADING + math.radians(100.0), HEADING + math.radians(205.0)
    # An arc3 of this radius approximates the circle's arc.
    curved = f"arc3,rad={math.tan((end - begin) / 4)}"
    _arrow(axes, _at(begin, 0.5), _at(end, 0.5), "-|>", connectionstyle=curved, **thick)
    _write(axes, r"$\dot z$", _at(HEADING - 0.185, 1.14), _ROBOT)
    _write(axes, r"$\dot\psi$", _at(end - 0.9, 0.72), _ROBOT)
