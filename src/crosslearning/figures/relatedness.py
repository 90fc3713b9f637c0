"""A map of the policies, and the directions in which they pull."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle as Disc

from crosslearning.figures.style import CENTRAL, TASKS, figure_style
from crosslearning.relatedness import Relatedness

_GREY, _PALE = "#667085", "#D0D5DD"
_LIKE, _APART = TASKS[0], TASKS[1]
#: More tasks than this leave no room for numbers in the cells of the matrix.
_MOST_NUMBERS = 8


def relatedness_figure(found: Relatedness) -> Figure:
    """Draw the policies as points around the central one, and the cosines of their pulls.

    Tasks go by their numbers, which the matrix explains; those that stand apart are orange and
    carry their names. The circle has the radius ε: in space every policy lies within it.
    """
    N = len(found.tasks)
    side = min(5.0, max(3.3, 0.28 * N + 1.2))
    with figure_style():
        figure = Figure(figsize=(2.0 * side + 1.4, side + 0.35), layout="constrained")
        plane, matrix = figure.subplots(1, 2, width_ratios=[side, side + 1.4])
        _draw_map(plane, found)
        _draw_matrix(figure, matrix, found)
    return figure


def _draw_map(axes: Axes, found: Relatedness) -> None:
    places = found.places
    reach = float(np.max(np.abs(places)))
    if math.isfinite(found.epsilon) and found.epsilon <= 2.0 * reach:
        axes.add_patch(Disc((0.0, 0.0), found.epsilon, fill=False, edgecolor=_PALE, linestyle="--"))
        reach = max(reach, found.epsilon)
    for number, (task, (x, y)) in enumerate(zip(found.tasks, places[:-1], strict=True), start=1):
        colour = _APART if task.stands_apart else _LIKE
        axes.plot([0.0, x], [0.0, y], color=colour, linewidth=0.7, alpha=0.5, zorder=1)
        axes.plot(x, y, marker="o", markersize=12, color=colour, markeredgecolor="white", zorder=2)
        axes.annotate(
            str(number), (x, y), ha="center", va="center", color="white", fontsize=7.5, zorder=3
        )
        if task.stands_apart:
            right = x <= 0.3 * reach
            axes.annotate(
                task.task,
                (x, y),
                xytext=(4 if right else -4, 9),
                textcoords="offset points",
                ha="left" if right else "right",
                color=colour,
            )
    axes.plot(0.0, 0.0, marker="+", markersize=10, markeredgewidth=1.8, color=CENTRAL, zorder=4)
    axes.annotate("g", (0.0, 0.0), xytext=(5, 5), textcoords="offset points", color=CENTRAL)
    axes.set_xlim(-1.15 * reach, 1.15 * reach)
    axes.set_ylim(-1.15 * reach, 1.15 * reach)
    axes.set_aspect("equal")
    axes.set_xlabel("RKHS distance")
    axes.set_title(f"The policies in a plane ({100 * found.map_share:.0f} % of their spread)")


def _draw_matrix(figure: Figure, axes: Axes, found: Relatedness) -> None:
    N = len(found.tasks)
    image = axes.imshow(found.cosines, cmap="RdBu", vmin=-1.0, vmax=1.0)
    numbers = [str(number) for number in range(1, N + 1)]
    axes.set_xticks(range(N), numbers)
    axes.set_yticks(
        range(N), [f"{name}  {k}" for name, k in zip(found.names, numbers, strict=True)]
    )
    for label, task in zip(axes.get_yticklabels(), found.tasks, strict=True):
        label.set_color(_APART if task.stands_apart else CENTRAL)
    if N <= _MOST_NUMBERS:
        for i, j in np.ndindex(N, N):
            value = found.cosines[i, j]
            colour = "white" if abs(value) > 0.6 else CENTRAL
            # Not a negative zero.
            text = f"{round(float(value), 1) + 0.0:.1f}".replace("-", "−")
            axes.annotate(text, (j, i), ha="center", va="center", color=colour, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title("Cosines of the pulls: 1 together, −1 against")
    bar = figure.colorbar(image, ax=axes, shrink=0.8, ticks=[-1, 0, 1])
    bar.outline.set_visible(False)
