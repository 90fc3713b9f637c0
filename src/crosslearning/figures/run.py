"""Figures of runs: learning curves, evaluations, and several runs side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter

from crosslearning._base.limits import MANY_TASKS
from crosslearning._base.statistics import mean_of_known
from crosslearning.errors import InputError
from crosslearning.figures import parts
from crosslearning.figures.style import CENTRAL, GREY, TASKS, figure_style

#: The size of a panel in inches.
_PANEL = (3.1, 3.1)
#: Fields that other panels or other figures show.
_ELSEWHERE = ("return", "distance", "multiplier", "gradient_norm", "gap", "gap_bound")
#: Titles of the methods' fields; any other field is an outcome of the tasks.
_TITLES = {
    "return": "Discounted return while exploring",
    "total_return": "Total return while exploring",
    "seen_reward": "Reward of a real step, last round",
    "imagined_reward": "Reward of an imagined step",
    "model_distance": "Models: distance to the central one",
    "model_multiplier": "Models: multiplier",
    "length": "Length of an episode, steps",
    "explained_variance": "Critic: explained share of variance",
    "entropy": "Entropy of the exploration noise, nats",
    "kl": "Move of the policy: KL divergence, nats",
}
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
    others = [name for name in fields if name not in _ELSEWHERE]
    figure, panels = _panels(3 + len(others))
    returns, distances, knots, *more = panels
    handles = [*parts.task_handles(colours), *_draw_noisy(returns, metrics, colours, "return")]
    handles += parts.draw_distances(distances, metrics, colours, epsilon)
    order = parts.column(metrics, "knots")
    knots.plot(parts.column(metrics, "iteration"), order, color=CENTRAL, linewidth=1.2)
    most = max(1.0, np.nanmax(order, initial=0.0))
    knots.set(title="Knots in the common dictionary", ylim=(0, 1.1 * most))
    for axes, name in zip(more, others, strict=True):
        handles += _draw_noisy(axes, metrics, colours, name, (aims or {}).get(name))
    return _finished(figure, panels, metrics, handles)


def _draw_noisy(
    axes: Axes,
    metrics: Sequence[parts.Line],
    colours: Mapping[str, str],
    field: str,
    aim: Sequence[float] | None = None,
) -> list[Any]:
    """Draw a field per task, thin, and its running mean, thick; return the legend entries."""
    outcome = f"{field[:1].upper()}{field[1:].replace('_', ' ')}, mean of the episodes"
    axes.set_title(_TITLES.get(field, outcome))
    iterations = parts.column(metrics, "iteration")
    values = {name: parts.column(metrics, field, name) for name in colours}
    means = {name: parts.running_mean(every) for name, every in values.items()}
    if parts.window_of(len(iterations)) > 1 and len(colours) <= MANY_TASKS:
        for name, colour in colours.items():
            axes.plot(iterations, values[name], color=colour, linewidth=0.4, alpha=0.3)
    known = np.concatenate([*means.values(), np.array(aim or ())])
    known = known[np.isfinite(known)]
    if len(known) == 0:
        parts.explain(axes, f"no {'returns' if field == 'return' else 'numbers'} are known")
        return []
    # Thin lines may leave the panel, means never do.
    low, high = float(known.min()), float(known.max())
    pad = 0.1 * (high - low) or 0.1 * abs(high) or 1.0
    axes.set_ylim(low - pad, high + pad)
    handles: list[Any] = []
    if aim is not None:
        style: dict[str, Any] = {"color": GREY, "linestyle": "--", "linewidth": 0.8, "zorder": 1.5}
        handles += axes.plot(iterations, aim, label="dashed: requested", **style)
    drawn = parts.draw_tasks(axes, iterations, means, colours, high - low + 2.0 * pad)
    smooth = parts.mean_handles(iterations) if len(colours) <= MANY_TASKS else []
    return [*handles, *smooth, *drawn]


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
    figure, panels = _panels(len(names))
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
        handles.append(parts.entry("best mean return", color=GREY, linestyle="--", linewidth=1.0))
    return _finished(figure, panels, evaluations, handles)


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    return parts.panel_grid(count, 3, _PANEL, 2 * _PANEL[0])[:2]


def _finished(
    figure: Figure, panels: Sequence[Axes], lines: Sequence[parts.Line], handles: Sequence[Any]
) -> Figure:
    """Draw the axes of iterations and steps, and the legend with every label once."""
    last = float(parts.column(lines, "iteration")[-1])
    for axes in panels:
        parts.iteration_axis(axes, last)
        parts.steps_axis(axes, lines)
    parts.legend_outside(figure, list({one.get_label(): one for one in handles}.values()))
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
    places = iter(0.6 * (np.arange(0.5, 2 * len(runs)) / (2 * len(runs)) - 0.5))
    hollow = {"markerfacecolor": "white"}
    for run, rows in runs.items():
        for policy, fill in (("own", {}), ("central", hollow)):
            shift = next(places)
            at = [tasks.index(row["task"]) + shift for row in rows]
            returns = [parts.read_interval(row[policy]["discounted_return"]) for row in rows]
            style: dict[str, Any] = {"marker": "o", "markersize": 5, "color": colours[run], **fill}
            parts.error_bars(axes, at, returns, horizontal=True, **style)
    axes.set_yticks(range(len(tasks)), labels)
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.set_xlabel("discounted return, with 95 % interval")
    handles = [parts.entry(run, color=c) for run, c in colours.items()] if len(runs) > 1 else []
    dot: dict[str, Any] = {"color": GREY, "marker": "o", "linestyle": "none"}
    handles.append(parts.entry("the task's own policy", **dot))
    handles.append(parts.entry("the central policy", **hollow, **dot))
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
        axes.plot(steps, mean, color=colours[run], linewidth=0.5, alpha=0.35)
        axes.plot(steps, parts.running_mean(mean), color=colours[run], linewidth=1.5)
    title = "Discounted return while exploring, mean of the tasks"
    axes.set(xlabel="environment steps", title=title)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlim(left=0.0)
    parts.legend_outside(figure, [parts.entry(run, color=c) for run, c in colours.items()])
    return figure
