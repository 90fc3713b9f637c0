"""The race as a picture: return against steps and against seconds, with intervals over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, NullFormatter

from benchmarks.race.entrants import METHODS, Engineer, Ours, Rival
from benchmarks.race.reading import Entry
from crosslearning.figures import parts
from crosslearning.figures.style import CENTRAL, GREY, TASKS, WIDE, figure_style

#: Colours of methods and algorithms; how an algorithm is used is the kind of its line.
_COLOURS = {
    "models": TASKS[0],
    "trust-region": TASKS[2],
    "policy-gradient": TASKS[5],
    "sac": TASKS[1],
    "sac-bullet": "#8C6D46",
    "sac20": "#882255",
    "crossq": "#808000",
    "mbpo": "#332288",
    "tqc": TASKS[4],
    "ppo": TASKS[3],
}
_LINES: dict[str, Any] = {"separate": ":", "mixed": "--", "context": "-"}


@figure_style()
def race_figure(found: Sequence[Entry], threshold: float) -> Figure:
    """Draw the methods of one family; of ours those with the default radii alone."""
    drawn = [one for one in found if one.method in _COLOURS or _is(one, Rival)]
    figure, panels = parts.new_figure((WIDE, 3.3), 1, 2, sharey=True)
    for axes, what in zip(panels, ("steps", "seconds"), strict=True):
        for one in drawn:
            _curve(axes, one, what)
        parts.draw_bound(axes, threshold, "")
        axes.set_xscale("log")
        short = EngFormatter(sep="") if what == "steps" else FuncFormatter(lambda x, _: f"{x:g}")
        axes.xaxis.set_major_formatter(short)
        axes.xaxis.set_minor_formatter(NullFormatter())
    engineers = [one for one in found if _is(one, Engineer)]
    for one in engineers:
        _controller(panels, one)
    panels[0].set(xlabel="environment steps over all tasks", ylabel="mean return on the tasks")
    panels[1].set(xlabel="seconds of learning, one core")
    ends = [threshold, *(mark.value for one in drawn for mark in one.along("returns"))]
    room = max(ends) - min(ends) or 1.0
    # A controller that fails altogether would leave no room for the rest.
    controlled = [one.along("returns")[-1].value for one in engineers]
    ends += [value for value in controlled if value > min(ends) - room]
    lowest, highest = min(ends), max(ends)
    room = highest - lowest or 1.0
    panels[0].set_ylim(lowest - 0.05 * room, highest + 0.12 * room)
    handles: list[Any] = [parts.entry(one.label, **_look(one)) for one in drawn]
    handles += [parts.entry(one.label, **_look(one)) for one in engineers]
    handles.append(parts.entry("threshold", color=GREY, linestyle="--", linewidth=1.0))
    handles.append(parts.band_handle("95 % intervals over seeds"))
    parts.legend_outside(figure, handles)
    return figure


def _is(one: Entry, kind: type) -> bool:
    return isinstance(METHODS[one.method], kind)


def _look(one: Entry) -> dict[str, Any]:
    entrant = METHODS[one.method]
    if isinstance(entrant, Ours):
        return {"color": _COLOURS[one.method], "linewidth": 2.0, "marker": "o", "markersize": 4}
    if isinstance(entrant, Rival):
        colour, line = _COLOURS[entrant.algorithm], _LINES[entrant.way]
        return {
            "color": colour,
            "linestyle": line,
            "linewidth": 1.2,
            "marker": ".",
            "markersize": 4,
        }
    return {
        "color": CENTRAL if entrant.knows_machine else GREY,
        "linestyle": "-.",
        "linewidth": 1.0,
    }


def _curve(axes: Axes, one: Entry, what: str) -> None:
    """Draw a method's mean returns at its marks."""
    intervals, look = one.along("returns"), _look(one)
    x = np.array([mark.value for mark in one.along(what)])
    axes.plot(x, [interval.value for interval in intervals], **look)
    ends = np.array([parts.ends(interval) for interval in intervals]).T
    parts.draw_band(axes, x, *ends, look["color"], alpha=0.09)


def _controller(panels: Sequence[Axes], one: Entry) -> None:
    for axes in panels:
        axes.axhline(one.along("returns")[-1].value, **_look(one), zorder=1.4)
