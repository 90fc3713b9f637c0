"""Figures that only a report has: runs beside one another."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from crosslearning._base.statistics import mean_of_known
from crosslearning.figures import parts
from crosslearning.figures.style import GREY, figure_style

#: Evaluations of a run's tasks: its own and the central policy's, as JSON holds them.
Rows = Sequence[Mapping[str, Any]]
#: Letters of a task's name on one line.
_LONGEST_LINE = 18


@figure_style()
def returns_figure(runs: Mapping[str, Rows]) -> Figure:
    """Draw returns with their intervals, a row a task: own policies full, central ones hollow."""
    tasks = list(dict.fromkeys(row["task"] for rows in runs.values() for row in rows))
    colours = parts.task_colours(runs)
    # Long names on several lines: they would take the room of the returns.
    named = [textwrap.fill(task, _LONGEST_LINE) for task in tasks]
    lines = max((name.count("\n") + 1 for name in named), default=1)
    height = 1.2 + max(1, len(tasks)) * max(0.22 + 0.16 * len(runs), 0.06 + 0.16 * lines)
    figure, axes = parts.new_figure((6.4, height))
    marks = 2 * len(runs)
    places = 0.6 * (np.arange(marks) - (marks - 1) / 2) / marks
    for number, (run, rows) in enumerate(runs.items()):
        for shift, policy in enumerate(("own", "central")):
            at = [tasks.index(row["task"]) + places[2 * number + shift] for row in rows]
            found = [parts.read_interval(row[policy]["discounted_return"]) for row in rows]
            fill = {} if policy == "own" else {"markerfacecolor": "white"}
            look: dict[str, Any] = {"marker": "o", "markersize": 5, "color": colours[run], **fill}
            parts.error_bars(axes, at, found, horizontal=True, **look)
    axes.set_yticks(range(len(tasks)), named)
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.set_xlabel("discounted return, with 95 % interval")
    handles = [parts.entry(run, color=colour) for run, colour in colours.items()]
    dot: dict[str, Any] = {"color": GREY, "marker": "o", "linestyle": "none"}
    handles = handles if len(runs) > 1 else []
    handles += [
        parts.entry("the task's own policy", **dot),
        parts.entry("the central policy", markerfacecolor="white", **dot),
    ]
    parts.legend_outside(figure, handles)
    return figure


@figure_style()
def progress_figure(runs: Mapping[str, Sequence[parts.Line]]) -> Figure:
    """Draw the returns of runs while exploring, means over their tasks, over environment steps."""
    colours = parts.task_colours(runs)
    figure, axes = parts.new_figure((6.4, 3.2))
    for run, lines in runs.items():
        if not lines:
            continue
        every = [parts.column(lines, "return", task) for task in lines[0]["return"]]
        mean, steps = mean_of_known(every), parts.column(lines, "steps")
        axes.plot(steps, mean, color=colours[run], linewidth=0.5, alpha=0.35)
        axes.plot(steps, parts.running_mean(mean), color=colours[run], linewidth=1.5)
    axes.set(
        xlabel="environment steps", title="Discounted return while exploring, mean of the tasks"
    )
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlim(left=0.0)
    parts.legend_outside(figure, [parts.entry(run, color=c) for run, c in colours.items()])
    return figure
