"""What models tell beside what happened, how their errors grow, and what the radius does to them.

All figures take what ``models.json`` holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from crosslearning.figures import parts
from crosslearning.figures.style import CENTRAL, GREY, LIGHT, MODELS, TASKS, figure_style

#: Panels in a row, rows of paths, and the size of a panel in inches.
_COLUMNS, _ROWS, _PANEL = 4, 4, (2.35, 1.75)
#: Longer names are broken at a space.
_LONG = 16
_DASHED: dict[str, Any] = {"linewidth": 1.1, "linestyle": (0, (4, 2))}


@figure_style()
def paths_figure(found: Mapping[str, Any]) -> Figure:
    """Draw real paths of some tasks, and what every kind of models tells of them."""
    paths = found["paths"]
    coordinates = min(len(paths[0]["real"][0]), _ROWS)
    size = (_PANEL[0] * max(2, len(paths)), 1.45 * coordinates + 0.5)
    figure, grid = parts.new_figure(
        size, coordinates, len(paths), squeeze=False, sharex=True, sharey="row"
    )
    for column, path in enumerate(paths):
        real = np.array(path["real"])
        step = np.arange(float(len(real)))
        low, high = np.array(path["low"]), np.array(path["high"])
        grid[0, column].set_title(_broken(path["task"]), fontsize=8.5)
        for d in range(coordinates):
            axes: Axes = grid[d, column]
            parts.draw_band(axes, step, low[:, d], high[:, d], _colour("cross-learned"), 0.22)
            for kind, told in path["told"].items():
                curve, look = np.array(told)[:, d], _DASHED
                if kind == "cross-learned":
                    look = {"linewidth": 1.6}
                axes.plot(step, curve, color=_colour(kind), **look)
            axes.plot(step, real[:, d], color=CENTRAL, marker=".", markersize=3.2, linewidth=0.0)
            _frame_real(axes, [np.array(one["real"])[:, d] for one in paths])
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            if column == 0:
                axes.set_ylabel(f"observation {d}")
            if d == coordinates - 1:
                axes.set_xlabel("step")
    colour = _colour("cross-learned")
    handles = [
        parts.entry("what happened", color=CENTRAL, marker=".", markersize=5, linestyle="none"),
        parts.entry("cross-learned", color=colour, linewidth=1.6),
        parts.band_handle("90 % of the models possible after the data", colour, 0.22),
    ]
    others = [kind for kind in paths[0]["told"] if kind != "cross-learned"]
    handles += [parts.entry(kind, color=_colour(kind), **_DASHED) for kind in others]
    parts.legend_outside(figure, handles)
    return figure


@figure_style()
def errors_figure(found: Mapping[str, Any]) -> Figure:
    """Draw the errors one step ahead by output, and how they grow with the steps."""
    kinds = found["kinds"]
    outputs = list(kinds[0]["one_step"])
    figure, (left, right) = parts.new_figure((7.4, 2.9), 1, 2, width_ratios=[1.15, 1.0])
    apart = 0.2
    for place, kind in enumerate(kinds):
        colour = _colour(kind["kind"])
        shift = apart * (place - 0.5 * (len(kinds) - 1))
        numbers = [parts.read_interval(kind["one_step"][name]) for name in outputs]
        at = [o + shift for o in range(len(outputs))]
        parts.error_bars(
            left, at, numbers, within=(_least(numbers), math.inf), color=colour, marker="o"
        )
        growth = [parts.read_interval(one) for one in kind["growth"]]
        steps = np.arange(1.0, len(growth) + 1.0)
        ends = np.array([parts.ends(one, 0.0) for one in growth])
        parts.draw_band(right, steps, ends[:, 0], ends[:, 1], colour)
        right.plot(steps, [one.value for one in growth], color=colour, linewidth=1.6)
    left.set_yscale("log")
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    left.yaxis.set_minor_formatter(NullFormatter())
    names = [name.replace("observation ", "obs. ") for name in outputs]
    left.set_xticks(range(len(outputs)), names)
    left.set_title("One step ahead, by output")
    left.set_ylabel("relative error")
    right.set(title="Observations, ahead in an open loop", xlabel="steps ahead", ylim=(0.0, None))
    right.set_xlim(1, max(2, found["steps"]))
    right.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    look = {"marker": "o", "linewidth": 1.6}
    handles = [parts.entry(f"{k['kind']} models", color=_colour(k["kind"]), **look) for k in kinds]
    parts.legend_outside(figure, [*handles, parts.band_handle("95 % over tasks")])
    return figure


@figure_style()
def radius_figure(found: Mapping[str, Any]) -> Figure:
    """Draw the error of every output over the radius ε_m, with the one that the data chose."""
    curves = found["curves"]
    rows = -(-len(curves) // _COLUMNS)
    columns = min(len(curves), _COLUMNS)
    size = (_PANEL[0] * max(2, columns), 2.3 * rows)
    figure, grid = parts.new_figure(size, rows, columns, squeeze=False)
    panels = list(grid.flat)
    for axes in panels[len(curves) :]:
        axes.remove()
    for place, (axes, curve) in enumerate(zip(panels, curves, strict=False)):
        _draw_curve(axes, curve)
        if place % columns == 0:
            axes.set_ylabel("relative error")
    colour = _colour("cross-learned")
    handles = [
        parts.entry(
            "error one step ahead, held-out episodes", color=GREY, marker=".", markersize=4
        ),
        parts.entry("ε that the data chose", color=colour, marker="o", linestyle="none"),
        parts.entry("pooled (0)", color=_colour("pooled"), marker="s", linestyle="none"),
        parts.entry("separate (∞)", color=_colour("separate"), marker="s", linestyle="none"),
    ]
    parts.legend_outside(figure, handles)
    return figure


def _draw_curve(axes: Axes, curve: Mapping[str, Any]) -> None:
    radii = np.array([parts.number(radius, math.inf) for radius in curve["radii"]])
    errors = np.array(curve["errors"], dtype=np.float64)
    between = radii[1:-1]
    # 0 and ∞ have no place on a logarithmic axis: each stands a little beyond its end.
    ends = between[0] / 6.0, between[-1] * 6.0
    axes.set(xscale="log", yscale="log", xlim=(ends[0] / 2.0, ends[1] * 2.0))
    chosen = float(np.clip(parts.number(curve["chosen"], math.inf), *ends))
    x, y = np.append(between, chosen), np.append(errors[1:-1], curve["error"])
    order = np.argsort(x)
    axes.plot(x[order], y[order], color=GREY, linewidth=1.3, zorder=2)
    axes.plot(between, errors[1:-1], color=GREY, linestyle="none", marker=".", markersize=4)
    for end, nearest, kind, error in (
        (ends[0], 1, "pooled", errors[0]),
        (ends[1], -2, "separate", errors[-1]),
    ):
        axes.plot([end, radii[nearest]], [error, errors[nearest]], color=LIGHT, linestyle=":")
        axes.plot(end, error, marker="s", markersize=5, color=_colour(kind), zorder=3)
    colour = _colour("cross-learned")
    axes.axvline(chosen, color=colour, linewidth=0.8, linestyle="--", alpha=0.6, zorder=1)
    look: dict[str, Any] = {"color": colour, "marker": "o", "markersize": 7, "zorder": 4}
    axes.plot(chosen, curve["error"], markeredgecolor="white", **look)
    powers = [10.0**k for k in range(-9, 10) if between[0] <= 10.0**k <= between[-1]]
    powers = powers[1 : -1 if len(powers) > 4 else None : max(1, math.ceil(len(powers) / 3))]
    labels = [f"$10^{{{round(math.log10(power))}}}$" for power in powers]
    axes.set_xticks([ends[0], *powers, ends[1]], ["0", *labels, "∞"])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    low, high = float(np.min(errors)), float(np.max(errors))
    axes.set_ylim(low / 1.4, max(high * 1.4, low * 4.0))
    axes.set(title=curve["output"], xlabel="radius ε")


def _colour(kind: str) -> str:
    return MODELS.get(kind, TASKS[2])


def _least(numbers: Sequence[Any]) -> float:
    """Return what a logarithmic axis can show of intervals that reach to zero."""
    return 0.2 * min(float(one.value) for one in numbers)


def _frame_real(axes: Axes, real: Sequence[Any]) -> None:
    """Let the panel hold what happened; what is told wrongly may leave it."""
    low, high = min(map(np.min, real)), max(map(np.max, real))
    pad = 0.35 * (high - low) or 1.0
    axes.set_ylim(low - pad, high + pad)


def _broken(name: str) -> str:
    """Return a long name in two lines."""
    if len(name) <= _LONG or " " not in name:
        return name
    head, _, rest = name.partition(" ")
    return f"{head}\n{rest}"
