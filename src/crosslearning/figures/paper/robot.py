"""The figure of the robot model, with distances and angles from the compiled observation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc, FancyArrowPatch, Polygon, Wedge

from crosslearning.figures.parts import MIDDLE, new_figure, write
from crosslearning.figures.paths import draw_map
from crosslearning.figures.style import DARK, GOAL, GREY, NARROW, TASKS, figure_style
from crosslearning.tasks import Circle, Navigation
from crosslearning.tasks.navigation.dynamics import OBSERVATION_SIZE, STATE_SIZE, State, observe

#: The drawn scene: an obstacle to the left of the heading and a goal to the right of it.
SCENE = Navigation(obstacles=(Circle((3.2, 3.3), 0.8),), goals=((5.5, 0.3),))
PLACE = (0.9, 1.1)
HEADING = math.radians(10.0)
_OPENING, _ROBOT = TASKS[4], TASKS[0]

Point = tuple[float, float]


def observation() -> list[float]:
    """Return [d_o, φ_o, d_g, φ_g, φ_obs] at the drawn place."""
    state = np.zeros(STATE_SIZE)
    state[[State.X, State.Y, State.HEADING]] = *PLACE, HEADING
    seen = np.empty(OBSERVATION_SIZE)
    observe(SCENE.parameters, state, seen)
    return seen.tolist()


@figure_style()
def robot_model_figure() -> Figure:
    """Draw the robot, an obstacle and a goal, with the observation and the actions named."""
    d_o, phi_o, d_g, phi_g, phi_obs = observation()
    to_obstacle, to_goal = HEADING + phi_o, HEADING + phi_g
    figure, axes = new_figure((NARROW, 3.2))
    draw_map(axes, SCENE)
    _draw_tangents(axes, to_obstacle, phi_obs)
    _draw_ray(axes, HEADING, 3.9, GREY, (0, (5, 3)))
    for text, angle, distance, share, colour in (
        ("$d_o$", to_obstacle, d_o, 0.87, DARK),
        ("$d_g$", to_goal, d_g, 0.66, GOAL),
    ):
        _arrow(axes, PLACE, _at(angle, distance), "<|-|>", color=colour)
        x, y = _at(angle, share * distance)
        _write(axes, text, (x + 0.18 * math.sin(angle), y - 0.18 * math.cos(angle)), colour)
    _angle(axes, phi_o, 1.3, DARK, r"$\phi_o$", 0.27)
    _angle(axes, phi_g, 1.9, GOAL, r"$\phi_g$", 0.5)
    _draw_robot(axes)
    _write(axes, "heading", _at(HEADING + 0.045, 3.5), GREY, 8.5, rotation=math.degrees(HEADING))
    _write(axes, "obstacle", SCENE.obstacles[0].centre, DARK, size=9)
    x, y = SCENE.goals[0]
    _write(axes, "goal", (x, y - 0.32), GOAL, size=9)
    axes.set_axis_off()
    axes.set(xlim=(0.0, 6.1), ylim=(-0.3, 4.2))
    return figure


def _at(angle: float, distance: float) -> Point:
    """Return the place at a distance from the robot in a direction of the plane."""
    return PLACE[0] + distance * math.cos(angle), PLACE[1] + distance * math.sin(angle)


def _write(axes: Axes, text: str, at: Point, colour: str, size: float = 11, **look: Any) -> None:
    write(axes, text, at, (0, 0), colour, fontsize=size, **MIDDLE, **look)


def _arrow(axes: Axes, start: Point, end: Point, look: str, **style: Any) -> None:
    style = {"mutation_scale": 8, "linewidth": 1.2, "zorder": 3} | style
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle=look, shrinkA=0, shrinkB=0, **style))


def _draw_ray(axes: Axes, angle: float, length: float, colour: str, style: object) -> None:
    (x, y), (to_x, to_y) = PLACE, _at(angle, length)
    axes.plot([x, to_x], [y, to_y], color=colour, linestyle=style, linewidth=0.9, zorder=2)


def _draw_tangents(axes: Axes, middle: float, opening: float) -> None:
    """Draw the two tangents of the obstacle, and the angle between them."""
    circle = SCENE.obstacles[0]
    touch = math.sqrt(math.dist(circle.centre, PLACE) ** 2 - circle.semi_axes[0] ** 2)
    edges = [middle + side * opening / 2 for side in (-1, 1)]
    low, high = map(math.degrees, edges)
    axes.add_patch(Wedge(PLACE, touch, low, high, fc=_OPENING, alpha=0.14, lw=0, zorder=0))
    for edge in edges:
        _draw_ray(axes, edge, 1.13 * touch, _OPENING, "-")
        axes.plot(*_at(edge, touch), "o", color=_OPENING, markersize=3, zorder=4)
    axes.add_patch(Arc(PLACE, 3.6, 3.6, theta1=low, theta2=high, color=_OPENING, lw=1.4))
    _write(axes, r"$\phi_{obs}$", _at(edges[1] + 0.17, 1.8), "#9A5B00")


def _angle(axes: Axes, turn: float, radius: float, colour: str, text: str, share: float) -> None:
    """Draw the angle ``turn`` from the heading as an arc, named at a share of it."""
    steps = HEADING + np.linspace(0.0, turn, 40)
    x, y = PLACE[0] + radius * np.cos(steps), PLACE[1] + radius * np.sin(steps)
    axes.plot(x, y, color=colour, linewidth=1.2, zorder=3, label=text)
    _arrow(axes, (x[-3], y[-3]), (x[-1], y[-1]), "-|>", color=colour)
    _write(axes, text, _at(HEADING + share * turn, radius + 0.2), colour)


def _draw_robot(axes: Axes) -> None:
    """Draw the robot as an arrow head, its speed along the heading, and its turn rate."""
    shape = np.array([[0.30, 0.0], [-0.22, 0.19], [-0.12, 0.0], [-0.22, -0.19]])
    cosine, sine = math.cos(HEADING), math.sin(HEADING)
    turned = shape @ np.array([[cosine, sine], [-sine, cosine]]) + PLACE
    axes.add_patch(Polygon(turned, facecolor=_ROBOT, edgecolor="white", linewidth=0.8, zorder=6))
    thick: dict[str, Any] = {"color": _ROBOT, "linewidth": 1.8, "mutation_scale": 11, "zorder": 5}
    _arrow(axes, _at(HEADING, 0.2), _at(HEADING, 1.0), "-|>", **thick)
    begin, end = HEADING + math.radians(100.0), HEADING + math.radians(205.0)
    # An arc3 of this radius approximates the circle's arc.
    curved = f"arc3,rad={math.tan((end - begin) / 4)}"
    _arrow(axes, _at(begin, 0.5), _at(end, 0.5), "-|>", connectionstyle=curved, **thick)
    _write(axes, r"$\dot z$", _at(HEADING - 0.185, 1.14), _ROBOT)
    _write(axes, r"$\dot\psi$", _at(end - 0.9, 0.72), _ROBOT)
