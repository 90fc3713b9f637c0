"""Figures of the two projections in R², computed by :func:`crosslearning.rkhs.project`.

R² is the function space of the linear kernel on the knots (1, 0) and (0, 1), where the weights are
the coordinates and the norm is the length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from crosslearning.figures.parts import MIDDLE, Floats, dot, legend_outside, new_figure, write
from crosslearning.figures.style import GREY, TASKS, figure_style
from crosslearning.rkhs import Family, Linear, project

BLUE, VERMILLION = TASKS[0], TASKS[1]
_LETTER = {**MIDDLE, "zorder": 6}
#: Four points, their centre, and the radius ε.
POINTS = np.array([[-2.6, 0.9], [0.9, 2.5], [2.7, -0.5], [0.05, -0.25]])
CENTRE = np.array([-0.9, -1.0])
EPSILON = 1.0
#: They are the functions s ↦ ⟨point, s⟩, the centre last.
_GIVEN = Family(Linear(std=(1.0, 1.0)), np.eye(2), np.vstack([POINTS, CENTRE]).T[:, :, None])
#: Where the letters of the given points go, in typographic points from each.
_LETTERS = ((-14, 4), (4, 13), (14, -4), (4, -15))


@figure_style()
def exact_projection_figure() -> tuple[Figure, str]:
    """Draw the exact projection; return the figure and its caption."""
    projected, outcome = project(_GIVEN, EPSILON)
    figure, axes = new_figure((5.0, 3.5))
    points, centre = _draw_projected(axes, projected, VERMILLION, "-")
    _draw_given(figure, axes, projected=VERMILLION)
    _arrow(axes, CENTRE, centre, GREY, (6, 6))
    edge = centre + EPSILON * np.array([np.cos(2.4), np.sin(2.4)])
    _arrow(axes, centre, edge, VERMILLION, (5, 0))
    write(axes, r"$\epsilon$", 0.45 * centre + 0.55 * edge, (5, 5), VERMILLION, **_LETTER)
    for i, shift in enumerate([(-11, -8), (12, 5), (12, 7)]):
        write(axes, rf"$h_{i + 1}$", points[i], shift, VERMILLION, **_LETTER)
    write(axes, "$g$", centre, (11, 6), VERMILLION, **_LETTER)
    moved = int(np.sum(outcome.active))
    return figure, (
        f"The exact projection. {len(points)} points and their centre move as little as possible "
        f"until every point is within ε = {EPSILON:g} of the centre: {moved} end on the circle, "
        f"{len(points) - moved} was inside and stays."
    )


@figure_style()
def relaxed_projection_figure() -> tuple[Figure, str]:
    """Draw the relaxed projection over the exact one; return the figure and its caption."""
    exact, relaxed = (project(_GIVEN, EPSILON, kind)[0] for kind in ("exact", "relaxed"))
    figure, axes = new_figure((5.0, 3.5))
    _, exact_centre = _draw_projected(axes, exact, VERMILLION, "-")
    _, relaxed_centre = _draw_projected(axes, relaxed, BLUE, "--")
    _draw_given(figure, axes, exact=VERMILLION, relaxed=BLUE)
    write(axes, "$g$", exact_centre, (-8, -9), VERMILLION, **_LETTER)
    write(axes, "$g'$", relaxed_centre, (11, 6), BLUE, **_LETTER)
    distances = relaxed.distances()
    return figure, (
        "The relaxed projection, dashed blue, over the exact one, vermillion. It bounds only the "
        f"mean square of the distances: {int(np.sum(distances > EPSILON))} of {len(distances)} "
        f"points end outside the circle of radius ε, the farthest at {distances.max():.2f} ε."
    )


def _arrow(axes: Axes, start: Floats, end: Floats, colour: str, gaps: tuple[float, float]) -> None:
    """Draw an arrow that leaves the given gaps, in typographic points, at its two ends."""
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.1}
    style |= {"shrinkA": gaps[0], "shrinkB": gaps[1]}
    axes.annotate("", tuple(end), xytext=tuple(start), arrowprops=style)


def _draw_given(figure: Figure, axes: Axes, **colours: str) -> None:
    """Draw the given points h̄_i and their centre ḡ, hollow, and the legend of all sets."""
    hollow: dict[str, Any] = {"facecolor": "white", "edgecolor": GREY, "linewidth": 1.4}
    axes.scatter(POINTS[:, 0], POINTS[:, 1], s=66, zorder=4, **hollow)
    axes.scatter(CENTRE[0], CENTRE[1], s=60, marker="s", zorder=4, **hollow)
    for i, shift in enumerate(_LETTERS):
        write(axes, rf"$\bar h_{i + 1}$", POINTS[i], shift, GREY, **_LETTER)
    write(axes, r"$\bar g$", CENTRE, (-15, -3), GREY, **_LETTER)
    axes.set(aspect="equal", xlim=(-3.1, 3.2), ylim=(-1.35, 3.0))
    axes.set_axis_off()
    given = dot("given", GREY, mfc="white", markeredgewidth=1.4, ms=8)
    legend_outside(figure, [given, *(dot(name, colour) for name, colour in colours.items())])


def _draw_projected(axes: Axes, projected: Family, colour: str, line: str) -> tuple[Floats, Floats]:
    """Draw the points h_i, their moves, and the ball around g; return h, shape (N, 2), and g."""
    coordinates = projected.weights[:, :, 0].T
    points, centre = coordinates[:-1], coordinates[-1]
    if line == "-":
        axes.add_patch(Circle(tuple(centre), EPSILON, color=colour, alpha=0.07, lw=0, zorder=0))
    axes.add_patch(Circle(tuple(centre), EPSILON, fill=False, ec=colour, lw=1.2, ls=line))
    for start, end in zip(POINTS, points, strict=True):
        axes.plot(*np.stack([start, end]).T, color=colour, lw=1.5, ls=line, zorder=2)
        axes.plot(*np.stack([end, centre]).T, color=colour, lw=0.9, ls=":", zorder=2)
    axes.scatter(points[:, 0], points[:, 1], s=32, color=colour, zorder=5)
    axes.scatter(centre[0], centre[1], s=44, marker="s", color=colour, zorder=5)
    return points, centre
