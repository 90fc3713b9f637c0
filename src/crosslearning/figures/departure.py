"""The picture for whoever approves a learned controller: bound, change, returns, violations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crosslearning.analysis.departure import Departure
from crosslearning.figures.parts import dot, entry, legend_outside, new_figure
from crosslearning.figures.style import ALARM, GREY, LIGHT, TASKS, WIDE, figure_style

_BEFORE, _AFTER = GREY, TASKS[0]
#: Names of machines are cut to so many characters.
_LONGEST = 28


@figure_style()
def departure_figure(machines: Sequence[Departure]) -> Figure:
    """Draw the returns of every machine before and after, the changes of actions, and crossings."""
    limited = any(one.crossed is not None for one in machines)
    columns = 2 + limited
    size = (WIDE, max(1.9, 0.34 * len(machines) + 1.3))
    figure, panels = new_figure(size, 1, columns, sharey=True)
    rows = np.arange(len(machines))[::-1]
    _draw_returns(panels[0], machines, rows)
    _draw_changes(panels[1], machines, rows)
    if limited:
        _draw_crossings(panels[2], machines, rows)
    names = [
        one.task if len(one.task) <= _LONGEST else f"{one.task[:_LONGEST]}…" for one in machines
    ]
    panels[0].set_yticks(rows, names)
    panels[0].set_ylim(-0.6, len(machines) - 0.4)
    handles = [dot("controller in use", _BEFORE), dot("learned around it", _AFTER)]
    handles.append(entry("bound", color=ALARM, ls="--", lw=1.2))
    legend_outside(figure, handles)
    return figure


def _draw_returns(axes: Axes, machines: Sequence[Departure], rows: np.ndarray) -> None:
    for row, one in zip(rows, machines, strict=True):
        for shift, result, colour in (
            (0.13, one.controller, _BEFORE),
            (-0.13, one.learned, _AFTER),
        ):
            axes.plot([result.low, result.high], [row + shift] * 2, color=colour, lw=1.4)
            axes.plot(result.value, row + shift, "o", ms=4, color=colour)
    axes.set(title="Return", xlabel="undiscounted, 95 %")
    axes.locator_params(axis="x", nbins=4)
    axes.grid(axis="x", color=LIGHT, alpha=0.4, lw=0.5)


def _draw_changes(axes: Axes, machines: Sequence[Departure], rows: np.ndarray) -> None:
    """Draw changes as shares of their bounds: one scale for actions of different units."""
    for row, one in zip(rows, machines, strict=True):
        for k, action in enumerate(one.actions):
            unit = action.bound if 0.0 < action.bound < math.inf else max(action.largest, 1e-300)
            y = row + 0.24 * (0.5 * (len(one.actions) - 1) - k)
            axes.plot([0.0, action.largest / unit], [y] * 2, color=_AFTER, lw=3.5, alpha=0.35)
            axes.plot(action.typical / unit, y, "o", ms=3.5, color=_AFTER)
    axes.axvline(1.0, color=ALARM, ls="--", lw=1.2)
    bounds = machines[0].actions
    text = "; ".join(f"{one.action}: ±{one.bound:.3g}" for one in bounds if one.bound < math.inf)
    axes.set(
        title="Change of the action",
        xlabel=f"of its bound: largest, ● typical\n{text}",
        xlim=(0.0, 1.08),
    )
    axes.grid(axis="x", color=LIGHT, alpha=0.4, lw=0.5)


def _draw_crossings(axes: Axes, machines: Sequence[Departure], rows: np.ndarray) -> None:
    for row, one in zip(rows, machines, strict=True):
        for shift, share, colour in (
            (0.13, one.crossed_before, _BEFORE),
            (-0.13, one.crossed, _AFTER),
        ):
            if share is not None:
                axes.plot([100 * share.low, 100 * share.high], [row + shift] * 2, color=colour)
                axes.plot(100 * share.value, row + shift, "o", ms=4, color=colour)
        if one.allowed is not None:
            axes.plot([100 * one.allowed] * 2, [row - 0.4, row + 0.4], color=ALARM, ls="--", lw=1.2)
    axes.set(title="Limits crossed", xlabel="% of episodes, 95 %")
    axes.set_xlim(left=0.0)
    axes.grid(axis="x", color=LIGHT, alpha=0.4, lw=0.5)
