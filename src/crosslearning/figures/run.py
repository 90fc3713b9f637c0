"""Figures of runs: learning curves, evaluations, and several runs side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter

from crosslearning._base.statistics import mean_of_known
from crosslearning.errors import InputError
from crosslearning.figures import parts
from crosslearning.figures.style import CENTRAL, GREY, TASKS, figure_style

#: The size of a panel in inches.
_PANEL = (3.1, 3.1)
#: Fields that other panels or other figures show.
_ELSEWHERE = ("return", "distance", "multiplier", "gradient_norm", "gap", "gap_bound")
#: Ends of an interval, by what is added to a field's name.
_ENDS = ("_low", "_high")
#: Titles of the methods' fields; any other field is an outcome of the tasks.
_TITLES = {
    "return": "Discounted return while exploring",
    "total_return": "Total return while exploring",
    "imagined_return": "Imagined: discounted return",
    "seen_reward": "Reward of a real step, last round",
    "imagined_reward": "Imagined: reward of a step",
    "model_distance": "Models: distance to the central one",
    "model_multiplier": "Models: multiplier",
    "length": "Length of an episode, steps",
    "explained_variance": "Critic: explained share of variance",
    "entropy": "Entropy of the exploration noise, nats",
    "limit_crossed": "Newest episodes that cross a limit",
    "limit_crossed_so_far": "All episodes that crossed a limit, 95 %",
    "limit_multiplier": "Limits: largest multiplier",
    "kl": "Move of the policy: KL divergence, nats",
    "reliability": "Reliability of the direction",
    "step_share": "Length of the step, share of the longest",
    "correlation": "Correlation of the tasks' directions",
    "critic_correlation": "Correlation of the tasks' critics",
}
#: Fields that hold for a whole round of the method models.
_BY_ROUND = ("seen_reward", "model_distance", "model_multiplier")
_REAL = ("return", "total_return", "length")
#: Characters of a task's name on one line.
_LONGEST_LINE = 18


@figure_style()
def learning_figure(
    metrics: Sequence[parts.Line],
    epsilon: float,
    aims: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """Draw returns, distances under their bound ε, and model order from a run's metrics.

    Other fields per task, such as episode lengths or crash rates, get panels of their own. A thin
    line shows the ``aims`` of a field, one for every line of metrics.
    """
    if not metrics:
        raise InputError("there are no metrics to draw yet")
    colours = parts.task_colours(metrics[0]["return"])
    fields = dict.fromkeys(
        name for line in metrics for name, value in line.items() if isinstance(value, Mapping)
    )
    others = [
        name
        for name in fields
        if name not in _ELSEWHERE
        and not (name.endswith(_ENDS) and name.rpartition("_")[0] in fields)
    ]
    figure, panels = parts.panel_grid(3 + len(others), 3, _PANEL, 2 * _PANEL[0])
    returns, distances, knots, *more = panels
    handles: list[Any] = [*parts.task_handles(colours)]
    iterations = parts.column(metrics, "iteration")
    for axes, name in zip((returns, *more), ("return", *others), strict=True):
        outcome = f"{name[:1].upper()}{name[1:].replace('_', ' ')}, mean of the episodes"
        axes.set_title(_TITLES.get(name, outcome))
        aim = (aims or {}).get(name, ())
        rounds = name in _BY_ROUND or (name in _REAL and "seen_reward" in fields)
        drawn = parts.draw_noisy(axes, metrics, colours, name, *aim, by_round=rounds)
        if all(name + end in fields for end in _ENDS):
            _draw_bands(axes, metrics, colours, name)
        if aim:
            style: dict[str, Any] = {"color": GREY, "ls": "--", "lw": 0.8, "zorder": 1.5}
            drawn += axes.plot(iterations, aim, label="dashed: requested", **style)
        if not axes.lines:
            parts.explain(axes, f"no {'returns' if name == 'return' else 'numbers'} are known")
        handles += drawn
    handles += parts.draw_distances(distances, metrics, colours, epsilon)
    order = parts.column(metrics, "knots")
    knots.plot(iterations, order, color=CENTRAL, lw=1.2)
    most = max(1.0, np.nanmax(order, initial=0.0))
    knots.set(title="Knots in the common dictionary", ylim=(0, 1.1 * most))
    return _finished(figure, panels, metrics, handles)


def _draw_bands(
    axes: Axes, metrics: Sequence[parts.Line], colours: Mapping[str, str], name: str
) -> None:
    """Draw the intervals of a share; of many tasks only the axis that holds them."""
    iterations = parts.column(metrics, "iteration")
    ends = {task: [parts.column(metrics, name + end, task) for end in _ENDS] for task in colours}
    for task, (low, high) in ends.items() if len(colours) <= len(TASKS) else ():
        parts.draw_band(axes, iterations, low, high, colours[task])
    highest = np.nanmax([high for _, high in ends.values()], initial=0.0)
    axes.set_ylim(-0.02, min(1.0, highest) + 0.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))


@figure_style()
def evaluation_figure(evaluations: Sequence[parts.Line]) -> Figure:
    """Draw a run's evaluations: returns and outcome rates, with 95 % bands."""
    if not evaluations:
        raise InputError("there are no evaluations to draw yet")
    by_task: list[dict[str, Any]] = [
        {one["task"]: {"": one.get("discounted_return"), **one["rates"]} for one in line["results"]}
        for line in evaluations
    ]
    colours = parts.task_colours(by_task[0])
    names = dict.fromkeys(
        ["", *(name for results in by_task for numbers in results.values() for name in numbers)]
    )
    figure, panels = parts.panel_grid(len(names), 3, _PANEL, 2 * _PANEL[0])
    handles: list[Any] = [*parts.task_handles(colours)]
    iterations = parts.column(evaluations, "iteration")
    for axes, name in zip(panels, names, strict=True):
        axes.set_title(f"Episodes: {name}" if name else "Discounted return, evaluated")
        if name:
            axes.set_ylim(-0.03, 1.03)
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        curves = {}
        for task, colour in colours.items():
            numbers = [results.get(task, {}).get(name) or {"value": None} for results in by_task]
            intervals = [parts.read_interval(one) for one in numbers]
            curves[task] = np.array([one.value for one in intervals])
            if len(colours) <= len(TASKS):
                low, high = np.array([parts.ends(one) for one in intervals]).T
                parts.draw_band(axes, iterations, low, high, colour)
        height = float(np.ptp(axes.get_ylim()))
        handles += parts.draw_tasks(axes, iterations, curves, colours, height)
    if len(colours) <= len(TASKS):
        handles.append(parts.band_handle("95 % interval"))
    means = parts.column(evaluations, "mean_return")
    if np.any(np.isfinite(means)):
        for axes in panels:
            parts.draw_bound(axes, iterations[np.nanargmax(means)], "", vertical=True)
        handles.append(parts.entry("best mean return", color=GREY, ls="--", lw=1.0))
    return _finished(figure, panels, evaluations, handles)


def _finished(
    figure: Figure, panels: Sequence[Axes], lines: Sequence[parts.Line], handles: Sequence[Any]
) -> Figure:
    """Draw the axes of iterations and steps, and the legend."""
    for axes in panels:
        parts.iteration_axis(axes, lines[-1]["iteration"])
        parts.steps_axis(axes, lines)
    parts.legend_outside(figure, handles)
    return figure


@figure_style()
def returns_figure(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Draw returns with intervals, one row per task: task policies filled, central ones hollow."""
    tasks = list(dict.fromkeys(row["task"] for rows in runs.values() for row in rows))
    colours = parts.task_colours(runs)
    labels = [textwrap.fill(task, _LONGEST_LINE) for task in tasks]
    lines = max((label.count("\n") + 1 for label in labels), default=1)
    height = 1.2 + max(1, len(tasks)) * max(0.22 + 0.16 * len(runs), 0.06 + 0.16 * lines)
    figure, axes = parts.new_figure((6.4, height))
    shifts = 0.6 * (np.arange(0.5, 2 * len(runs)) / (2 * len(runs)) - 0.5)
    for (run, policy), shift in zip(product(runs, ("own", "central")), shifts, strict=True):
        at = [tasks.index(row["task"]) + shift for row in runs[run]]
        returns = [parts.read_interval(row[policy]["discounted_return"]) for row in runs[run]]
        colour = colours[run]
        fill = colour if policy == "own" else "white"
        parts.error_bars(axes, at, returns, True, color=colour, marker="o", ms=5, mfc=fill)
    axes.set_yticks(range(len(tasks)), labels)
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.set_xlabel("discounted return, with 95 % interval")
    handles = [parts.entry(run, color=c) for run, c in colours.items()] if len(runs) > 1 else []
    handles.append(parts.dot("the task's own policy", GREY))
    handles.append(parts.dot("the central policy", GREY, mfc="white"))
    parts.legend_outside(figure, handles)
    return figure


@figure_style()
def progress_figure(runs: Mapping[str, Sequence[parts.Line]]) -> Figure:
    """Draw the returns of runs while exploring, means over tasks, over environment steps."""
    colours = parts.task_colours(runs)
    figure, axes = parts.new_figure((6.4, 3.2))
    for run, lines in runs.items():
        if not lines:
            continue
        mean = mean_of_known([parts.column(lines, "return", task) for task in lines[0]["return"]])
        steps = parts.column(lines, "steps")
        axes.plot(steps, mean, color=colours[run], lw=0.5, alpha=0.35)
        axes.plot(steps, parts.running_mean(mean), color=colours[run], lw=1.5)
    axes.set_title("Discounted return while exploring, mean of the tasks")
    axes.set(xlabel="environment steps", xlim=(0.0, None))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    parts.legend_outside(figure, [parts.entry(run, color=c) for run, c in colours.items()])
    return figure
