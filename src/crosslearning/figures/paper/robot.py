"""The picture of the robot model: what the robot observes, drawn from what it observes.

Distances and angles are not drawn by hand: they are the observation that the compiled task
gives for the drawn place, so that the picture is also a picture of the code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc, FancyArrowPatch, Polygon, Wedge

from crosslearning.figures.paper.common import GREY, NARROW
from crosslearning.figures.run import draw_map
from crosslearning.figures.style import GOAL, TASKS, figure_style
from crosslearning.tasks import Circle, Navigation
from crosslearning.tasks.navigation.dynamics import OBSERVATION_SIZE, STATE_SIZE, State, observe

#: The drawn scene: an obstacle to the left of the heading and a goal to the right of it.
SCENE = Navigation(obstacles=(Circle((3.2, 3.3), 0.8),), goals=((5.5, 0.3),))
PLACE = (0.9, 1.1)
HEADING = math.radians(10.0)
_OBSTACLE, _OPENING, _HEADING = "#344054", TASKS[4], TASKS[0]
#: Radii of the arcs of φ_o, φ_g and φ_obs.
_ARCS = {"obstacle": 1.3, "goal": 1.9, "opening": 1.8}

Observation = tuple[float, float, float, float, float]


def observation() -> Observation:
    """Return (d_o, φ_o, d_g, φ_g, φ_obs) at the drawn place."""
    state = np.zeros(STATE_SIZE)
    state[[State.X, State.Y, State.HEADING]] = *PLACE, HEADING
    seen = np.empty(OBSERVATION_SIZE)
    observe(SCENE.parameters, state, seen)
    d_o, phi_o, d_g, phi_g, phi_obs = (float(value) for value in seen)
    return d_o, phi_o, d_g, phi_g, phi_obs


def robot_model_figure() -> Figure:
    """Draw the robot, an obstacle and a goal, with the observation and the actions named."""
    d_o, phi_o, d_g, phi_g, phi_obs = observation()
    to_obstacle, to_goal = HEADING + phi_o, HEADING + phi_g
    with figure_style():
        figure = Figure(figsize=(NARROW, 3.2), layout="constrained")
        axes = figure.subplots()
        draw_map(axes, SCENE)
        _draw_tangents(axes, to_obstacle, phi_obs)
        _draw_ray(axes, HEADING, 3.9, GREY, (0, (5, 3)))
        _measure(axes, to_obstacle, d_o, _OBSTACLE, "$d_o$", 0.87, -1)
        _measure(axes, to_goal, d_g, GOAL, "$d_g$", 0.66, -1)
        _angle(axes, HEADING, phi_o, _ARCS["obstacle"], _OBSTACLE, r"$\phi_o$", 0.27)
        _angle(axes, HEADING, phi_g, _ARCS["goal"], GOAL, r"$\phi_g$", 0.5)
        _draw_robot(axes)
        axes.annotate(
            "heading", _at(HEADING, 3.5), xytext=(0, 4), textcoords="offset points",
            rotation=math.degrees(HEADING), ha="center", va="bottom", color=GREY, fontsize=8.5,
        )  # fmt: skip
        axes.annotate(
            "obstacle", SCENE.obstacles[0].centre, ha="center", va="center", color=_OBSTACLE
        )
        axes.annotate(
            "goal", SCENE.goals[0], xytext=(0, -13), textcoords="offset points",
            ha="center", va="top", color=GOAL,
        )  # fmt: skip
        axes.set_axis_off()
        axes.set_xlim(0.0, 6.1)
        axes.set_ylim(-0.3, 4.2)
    return figure


def _at(angle: float, distance: float) -> tuple[float, float]:
    """Return the place at a distance from the robot in a direction of the plane."""
    return PLACE[0] + distance * math.cos(angle), PLACE[1] + distance * math.sin(angle)


def _draw_ray(axes: Axes, angle: float, length: float, colour: str, style: object) -> None:
    (x, y), (to_x, to_y) = PLACE, _at(angle, length)
    axes.plot([x, to_x], [y, to_y], color=colour, linestyle=style, linewidth=0.9, zorder=2)


def _draw_tangents(axes: Axes, middle: float, opening: float) -> None:
    """Draw the two tangents of the obstacle, and the angle between them."""
    circle = SCENE.obstacles[0]
    distance = math.dist(circle.centre, PLACE)
    touch = math.sqrt(distance**2 - circle.semi_axes[0] ** 2)
    low, high = (math.degrees(middle + side * opening / 2) for side in (-1, 1))
    radius = _ARCS["opening"]
    axes.add_patch(
        Wedge(PLACE, touch, low, high, facecolor=_OPENING, alpha=0.14, linewidth=0, zorder=0)
    )
    for side in (-1, 1):
        edge = middle + side * opening / 2
        _draw_ray(axes, edge, 1.13 * touch, _OPENING, "-")
        axes.plot(*_at(edge, touch), "o", color=_OPENING, markersize=3, zorder=4)
    axes.add_patch(
        Arc(PLACE, 2 * radius, 2 * radius, theta1=low, theta2=high, color=_OPENING, linewidth=1.4)
    )
    axes.annotate(
        r"$\phi_{obs}$", _at(middle + 0.5 * opening, radius), xytext=(-6, 3),
        textcoords="offset points", ha="right", va="center", color="#9A5B00", fontsize=11,
    )  # fmt: skip


def _measure(
    axes: Axes, angle: float, length: float, colour: str, text: str, share: float, side: int
) -> None:
    """Draw a distance from the robot as a line with two heads, named on one side of it."""
    axes.add_patch(
        FancyArrowPatch(
            PLACE, _at(angle, length), arrowstyle="<|-|>", mutation_scale=8, shrinkA=0, shrinkB=0,
            color=colour, linewidth=1.1, zorder=3,
        )
    )  # fmt: skip
    normal = angle + side * math.pi / 2
    axes.annotate(
        text, _at(angle, share * length), xytext=(10 * math.cos(normal), 10 * math.sin(normal)),
        textcoords="offset points", ha="center", va="center", color=colour, fontsize=11,
    )  # fmt: skip


def _angle(
    axes: Axes, start: float, turn: float, radius: float, colour: str, text: str, share: float
) -> None:
    """Draw the angle ``turn`` from the direction ``start`` as an arc, named at a share of it."""
    steps = start + np.linspace(0.0, turn, 40)
    x, y = PLACE[0] + radius * np.cos(steps), PLACE[1] + radius * np.sin(steps)
    axes.plot(x, y, color=colour, linewidth=1.2, zorder=3, label=text)
    axes.add_patch(
        FancyArrowPatch(
            (x[-3], y[-3]), (x[-1], y[-1]), arrowstyle="-|>", mutation_scale=8, shrinkA=0,
            shrinkB=0, color=colour, linewidth=1.2, zorder=3,
        )
    )  # fmt: skip
    axes.annotate(
        text, _at(start + share * turn, radius + 0.2), ha="center", va="center", color=colour,
        fontsize=11,
    )  # fmt: skip


def _draw_robot(axes: Axes) -> None:
    """Draw the robot as an arrow head, its speed along the heading, and its turn rate."""
    shape = np.array([[0.30, 0.0], [-0.22, 0.19], [-0.12, 0.0], [-0.22, -0.19]])
    cosine, sine = math.cos(HEADING), math.sin(HEADING)
    turned = shape @ np.array([[cosine, sine], [-sine, cosine]]) + PLACE
    axes.add_patch(Polygon(turned, facecolor=_HEADING, edgecolor="white", linewidth=0.8, zorder=6))
    speed: dict[str, Any] = {"color": _HEADING, "linewidth": 1.8, "mutation_scale": 11, "zorder": 5}
    begin, end = HEADING + math.radians(100.0), HEADING + math.radians(205.0)
    bow = math.tan((end - begin) / 4)  # an arc3 of this radius is close to the circle's arc
    for where, to, bend in (
        (_at(HEADING, 0.2), _at(HEADING, 1.0), 0.0),
        (_at(begin, 0.5), _at(end, 0.5), bow),
    ):
        axes.add_patch(
            FancyArrowPatch(
                where, to, arrowstyle="-|>", connectionstyle=f"arc3,rad={bend}", shrinkA=0,
                shrinkB=0, **speed,
            )
        )  # fmt: skip
    for text, place in (
        (r"$\dot z$", _at(HEADING - 0.185, 1.14)),
        (r"$\dot\psi$", _at(end - 0.9, 0.72)),
    ):
        axes.annotate(text, place, ha="center", va="center", color=_HEADING, fontsize=11)
