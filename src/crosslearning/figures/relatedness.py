"""A map of the policies, and the cosines between their pulls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Circle as Disc

from crosslearning._base.limits import MANY_TASKS
from crosslearning.figures.parts import MIDDLE, minus, new_figure, number, write
from crosslearning.figures.style import CENTRAL, GREY, LIGHT, TASKS, figure_style

_LIKE, _APART = TASKS[0], TASKS[1]
#: The most tasks with numbers in the cells of the matrix.
_MOST_NUMBERS = 8
#: Of many tasks, this many that stand farthest apart are named.
_FEW = 5


@figure_style()
def relatedness_figure(relations: Mapping[str, Any]) -> Figure:
    """Draw the policies around the central one, and the cosines of their pulls, from their JSON.

    Tasks that stand apart are orange. The circle has the radius ε. The cosines of N pulls around
    their centre have the mean −1/(N−1) for any tasks, which is the middle of the colours.
    """
    side = min(5.0, max(3.3, 0.28 * len(relations["tasks"]) + 1.2))
    longest = max(len(task["task"]) for task in relations["tasks"])
    names = 0.07 * max(0, longest - 8) if len(relations["tasks"]) <= MANY_TASKS else 0.0
    beside = side + 1.6 + names
    size, widths = (side + beside, side + 0.35), [side, beside]
    figure, (plane, matrix) = new_figure(size, 1, 2, width_ratios=widths)
    _draw_map(plane, relations)
    _draw_matrix(figure, matrix, relations)
    return figure


def _draw_map(axes: Axes, relations: Mapping[str, Any]) -> None:
    places = np.array(list(relations["map"].values()))  # the centre last
    reach = float(np.max(np.abs(places)))
    epsilon = number(relations["epsilon"], math.inf)
    if epsilon <= 2.0 * reach:
        axes.add_patch(Disc((0.0, 0.0), epsilon, fill=False, edgecolor=LIGHT, ls="--"))
        write(axes, f"ε = {epsilon:g}", (0.71 * epsilon, 0.71 * epsilon), (3, 3), GREY)
        reach = max(reach, epsilon)
    many = len(relations["tasks"]) > MANY_TASKS
    for count, (task, (x, y)) in enumerate(
        zip(relations["tasks"], places[:-1], strict=True), start=1
    ):
        colour = _APART if task["stands_apart"] else _LIKE
        if many:
            axes.plot(x, y, marker="o", ms=3, color=colour, alpha=0.6, zorder=2)
            if task["rank"] <= _FEW and task["stands_apart"]:
                write(axes, task["task"], (x, y), (4, 3), colour, fontsize=7)
            continue
        axes.plot([0.0, x], [0.0, y], color=colour, lw=0.7, alpha=0.5, zorder=1)
        axes.plot(x, y, marker="o", ms=12, color=colour, mec="white", zorder=2)
        write(axes, str(count), (x, y), (0, 0), "white", fontsize=7.5, zorder=3, **MIDDLE)
        if task["stands_apart"]:
            side, shift = ("left", 4) if x <= 0.3 * reach else ("right", -4)
            write(axes, task["task"], (x, y), (shift, 9), colour, ha=side)
    axes.plot(0.0, 0.0, marker="+", ms=10, markeredgewidth=1.8, color=CENTRAL, zorder=4)
    write(axes, "g", (0.0, 0.0), (5, 5), CENTRAL)
    limits = (-1.15 * reach, 1.15 * reach)
    axes.set(xlim=limits, ylim=limits, aspect="equal", xlabel="RKHS distance")
    axes.set_title(
        f"The policies in a plane ({100 * relations['map_share']:.0f} % of their spread)"
    )


def _draw_matrix(figure: Figure, axes: Axes, relations: Mapping[str, Any]) -> None:
    cosines = np.array(relations["cosines"], dtype=np.float64)
    N = len(cosines)
    alone = -1.0 / (N - 1)
    mean = float(np.mean(cosines[~np.eye(N, dtype=bool)]))
    scale = TwoSlopeNorm(alone, -1.0, 1.0)
    image = axes.imshow(cosines, cmap="RdBu", norm=scale)
    if N > MANY_TASKS:
        axes.set(xlabel="task, by its number", ylabel="task, by its number")
    else:
        axes.set_xticks(range(N), [str(k + 1) for k in range(N)])
        names = [f"{task['task']}  {k + 1}" for k, task in enumerate(relations["tasks"])]
        axes.set_yticks(range(N), names)
        for label, task in zip(axes.get_yticklabels(), relations["tasks"], strict=True):
            label.set_color(_APART if task["stands_apart"] else CENTRAL)
    if N <= _MOST_NUMBERS:
        for i, j in np.ndindex(N, N):
            colour = "white" if abs(scale(cosines[i, j]) - 0.5) > 0.3 else CENTRAL
            text = minus(f"{round(float(cosines[i, j]), 1) + 0.0:.1f}")  # not a negative zero
            write(axes, text, (j, i), (0, 0), colour, fontsize=8, **MIDDLE)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(
        "Cosines of the pulls: 1 together, −1 against\n"
        + minus(f"mean of pairs {mean:.2f}; geometry alone gives −1/(N−1) = {alone:.2f}")
    )
    bar = figure.colorbar(image, ax=axes, shrink=0.8, ticks=[-1.0, alone, 1.0])
    bar.ax.set_yticklabels(["−1", f"{minus(f'{alone:.2f}')}:\ngeometry\nalone", "1"])
    bar.ax.tick_params(length=2.5)
    bar.outline.set_visible(False)
