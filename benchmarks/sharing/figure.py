"""The map as a picture: what a radius in between gives more than the ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from benchmarks.sharing.gains import Point, Quantity, shown
from crosslearning.figures import parts
from crosslearning.figures.style import CENTRAL, DARK, GREY, figure_style

#: From orange, where an end is better, to purple; safe for colour-blind readers.
_COLOURS = mpl.colormaps["PuOr"]
#: Colours end at this share of the largest numbers, so that one of them does not pale the rest.
_ENOUGH = 0.8
#: The deepest shades are left out, in which black words could not be read.
_DEEPEST = 0.5


@figure_style()
def gain_figure(maps: Mapping[Quantity, Sequence[Point]]) -> Figure:
    """Draw maps of the gains over one function for all, at the left, and over one for each."""
    figure, grid = parts.new_figure((7.4, 0.7 + 2.1 * len(maps)), len(maps), 2, squeeze=False)
    for row, (quantity, points) in zip(grid, maps.items(), strict=True):
        gains = [abs(one.value) for p in points for one in (p.over_together, p.over_apart)]
        most = max(float(np.quantile(gains, _ENOUGH)), 1e-12)
        ends = {"over_together": "one for all (ε = 0)", "over_apart": "one each (ε = ∞)"}
        for axes, (name, end) in zip(row, ends.items(), strict=True):
            _draw(axes, points, name, quantity, most)
            axes.set_title(f"{quantity.title}\ngain over {end}", fontsize=8.5)
        row[0].set_ylabel("spread of the machines")
    for axes in grid[-1]:
        axes.set_xlabel("steps of each machine")
    figure.supxlabel(
        "purple, +: in between is better; orange, −: the end is better\n"
        "framed: the 95 % interval excludes 0",
        fontsize=8.5,
        color=DARK,
    )
    return figure


def _draw(axes: Axes, points: Sequence[Point], name: str, quantity: Quantity, most: float) -> None:
    """Draw one map: a cell for every spread and amount of data, of full colour from ``most`` on."""
    spreads = sorted({point.spread for point in points})
    data = sorted({point.data for point in points})
    for point in points:
        gain = getattr(point, name)
        x, y = data.index(point.data), spreads.index(point.spread)
        # The root: numbers that are small beside others have a colour, too.
        share = math.copysign(math.sqrt(min(abs(gain.value) / most, 1.0)), gain.value)
        colour = _COLOURS(0.5 + 0.5 * _DEEPEST * share)
        sure = shown(gain)
        look: dict[str, Any] = {"facecolor": colour, "edgecolor": CENTRAL if sure else "none"}
        cell = (x - 0.46, y - 0.45), 0.92, 0.9
        axes.add_patch(Rectangle(*cell, linewidth=1.3 if sure else 0.0, **look))
        text = f"{gain.value:+z.{quantity.digits}f}".replace("-", "−")
        text = text if float(text.replace("−", "-")) else "0"
        weight = "bold" if sure else "normal"
        axes.text(x, y, text, fontsize=8.5, weight=weight, color=CENTRAL, **parts.MIDDLE)
    axes.set(xlim=(-0.5, len(data) - 0.5), ylim=(-0.5, len(spreads) - 0.5))
    axes.set_xticks(range(len(data)), [f"{steps:,}" for steps in data])
    axes.set_yticks(range(len(spreads)), [f"{spread:g}" for spread in spreads])
    axes.tick_params(length=0.0, colors=GREY)
    axes.spines[:].set_visible(False)
