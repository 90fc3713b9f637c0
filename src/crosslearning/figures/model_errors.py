"""Figures of dynamics models: predictions beside real paths, error growth, and the radius ε_m.

All figures take the content of ``models.json``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from crosslearning.figures import parts
from crosslearning.figures.style import CENTRAL, GREY, LIGHT, MODELS, TASKS, figure_style

#: Panels in a row, coordinates of paths, and the width of a panel in inches.
_COLUMNS, _ROWS, _WIDTH = 4, 4, 2.35
_CROSS = "cross-learned"
_COLOUR = MODELS[_CROSS]
_DASHED: dict[str, Any] = {"lw": 1.1, "ls": (0, (4, 2))}


@figure_style()
def paths_figure(content: Mapping[str, Any]) -> Figure:
    """Draw real paths of some tasks, and the predictions of every kind of models."""
    paths = content["paths"]
    coordinates = min(len(paths[0]["real"][0]), _ROWS)
    size = (_WIDTH * max(2, len(paths)), 1.45 * coordinates + 0.5)
    options: dict[str, Any] = {"squeeze": False, "sharex": True, "sharey": "row"}
    figure, grid = parts.new_figure(size, coordinates, len(paths), **options)
    kinds = dict.fromkeys(paths[0]["told"], _DASHED) | {_CROSS: {"lw": 1.6}}
    for column, path in enumerate(paths):
        real, low, high = (np.array(path[key]) for key in ("real", "low", "high"))
        step = np.arange(float(len(real)))
        title = path["task"] if len(path["task"]) <= 16 else path["task"].replace(" ", "\n", 1)
        grid[0, column].set_title(title, fontsize=8.5)
        for d, axes in enumerate(grid[:, column]):
            parts.draw_band(axes, step, low[:, d], high[:, d], _COLOUR, 0.22)
            for kind, predicted in path["told"].items():
                axes.plot(step, np.array(predicted)[:, d], color=_colour(kind), **kinds[kind])
            axes.plot(step, real[:, d], color=CENTRAL, marker=".", ms=3.2, lw=0.0)
        grid[-1, column].set_xlabel("step")
        grid[-1, column].xaxis.set_major_locator(MaxNLocator(5, integer=True))
    for d, axes in enumerate(grid[:, 0]):
        # The panels frame the real paths; wrong predictions may leave them.
        values = np.concatenate([np.array(one["real"])[:, d] for one in paths])
        pad = 0.35 * np.ptp(values) or 1.0
        axes.set(ylim=(values.min() - pad, values.max() + pad), ylabel=f"observation {d}")
    handles = [
        parts.dot("real path", CENTRAL, ".", ms=5),
        parts.entry(_CROSS, color=_COLOUR, **kinds.pop(_CROSS)),
        parts.band_handle("90 % of posterior samples", _COLOUR, 0.22),
        *(parts.entry(kind, color=_colour(kind), **style) for kind, style in kinds.items()),
    ]
    parts.legend_outside(figure, handles)
    return figure


@figure_style()
def errors_figure(content: Mapping[str, Any]) -> Figure:
    """Draw the one-step errors by output, and how errors grow with the steps."""
    kinds = content["kinds"]
    outputs = list(kinds[0]["one_step"])
    figure, (left, right) = parts.new_figure((7.4, 2.9), 1, 2, width_ratios=[1.15, 1.0])
    handles: list[Any] = []
    for place, kind in enumerate(kinds):
        colour = _colour(kind["kind"])
        shift = 0.2 * (place - 0.5 * (len(kinds) - 1))
        errors = [parts.read_interval(kind["one_step"][name]) for name in outputs]
        # A logarithmic axis cannot show intervals that reach zero.
        within = (0.2 * min(one.value for one in errors), math.inf)
        at = [o + shift for o in range(len(outputs))]
        parts.error_bars(left, at, errors, within=within, color=colour, marker="o")
        growth = [parts.read_interval(one) for one in kind["growth"]]
        steps = np.arange(1.0, len(growth) + 1.0)
        low, high = zip(*(parts.ends(one, 0.0) for one in growth), strict=True)
        parts.draw_band(right, steps, low, high, colour)
        right.plot(steps, [one.value for one in growth], color=colour, lw=1.6)
        label = f"{kind['kind']} models"
        handles.append(parts.entry(label, color=colour, marker="o", lw=1.6))
    left.set_yscale("log")
    parts.log_axis(left.yaxis)
    left.set_xticks(range(len(outputs)), [o.replace("observation ", "obs. ") for o in outputs])
    left.set(title="One step ahead, by output", ylabel="relative error")
    right.set(title="Observations, ahead in an open loop", xlabel="steps ahead", ylim=(0.0, None))
    right.set_xlim(1, max(2, content["steps"]))
    right.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    parts.legend_outside(figure, [*handles, parts.band_handle("95 % over tasks")])
    return figure


@figure_style()
def radius_figure(content: Mapping[str, Any]) -> Figure:
    """Draw the error of every output over the radius ε_m, with the one that the data chose."""
    curves = content["curves"]
    figure, panels = parts.panel_grid(len(curves), _COLUMNS, (_WIDTH, 2.3), 2 * _WIDTH)
    for axes, curve in zip(panels, curves, strict=True):
        _draw_curve(axes, curve)
    for axes in panels[::_COLUMNS]:
        axes.set_ylabel("relative error")
    error = "error one step ahead, held-out episodes"
    handles = [
        parts.entry(error, color=GREY, marker=".", ms=4),
        parts.dot("ε chosen from the data", _COLOUR),
        parts.dot("pooled (0)", _colour("pooled"), "s"),
        parts.dot("separate (∞)", _colour("separate"), "s"),
    ]
    parts.legend_outside(figure, handles)
    return figure


def _draw_curve(axes: Axes, curve: Mapping[str, Any]) -> None:
    radii = np.array([parts.number(radius, math.inf) for radius in curve["radii"]])
    errors = np.array(curve["errors"], dtype=np.float64)
    # 0 and ∞ have no place on a logarithmic axis: each stands a little beyond its end.
    radii[0], radii[-1] = radii[1] / 6.0, radii[-2] * 6.0
    axes.set(xscale="log", yscale="log", xlim=(radii[0] / 2.0, radii[-1] * 2.0))
    chosen = float(np.clip(parts.number(curve["chosen"], math.inf), radii[0], radii[-1]))
    x, y = np.append(radii[1:-1], chosen), np.append(errors[1:-1], curve["error"])
    order = np.argsort(x)
    axes.plot(x[order], y[order], color=GREY, lw=1.3, zorder=2)
    axes.plot(radii[1:-1], errors[1:-1], ".", color=GREY, ms=4)
    for end, kind in ((slice(2), "pooled"), (slice(-1, -3, -1), "separate")):
        axes.plot(radii[end], errors[end], color=LIGHT, ls=":")
        axes.plot(radii[end][0], errors[end][0], "s", color=_colour(kind), ms=5, zorder=3)
    axes.axvline(chosen, color=_COLOUR, lw=0.8, ls="--", alpha=0.6, zorder=1)
    axes.plot(chosen, curve["error"], "o", color=_COLOUR, ms=7, mec="white", zorder=4)
    powers = [k for k in range(-9, 10) if radii[1] <= 10.0**k <= radii[-2]]
    powers = powers[1 : -1 if len(powers) > 4 else None : max(1, math.ceil(len(powers) / 3))]
    ticks = {radii[0]: "0", **{10.0**k: f"$10^{{{k}}}$" for k in powers}, radii[-1]: "∞"}
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.xaxis.set_minor_locator(NullLocator())
    parts.log_axis(axes.yaxis)
    low, high = float(np.min(errors)), float(np.max(errors))
    axes.set_ylim(low / 1.4, max(high * 1.4, low * 4.0))
    axes.set(title=curve["output"], xlabel="radius ε")


def _colour(kind: str) -> str:
    return MODELS.get(kind, TASKS[2])
