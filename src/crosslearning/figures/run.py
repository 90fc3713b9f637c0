"""The figures of a run: how its policies learned, and what they achieved on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from crosslearning._base.statistics import Interval, mean_of_known
from crosslearning.errors import InputError
from crosslearning.figures import parts
from crosslearning.figures.style import CENTRAL, GREY, TASKS, figure_style

#: Panels in a row, and the size of a row in inches.
_COLUMNS, _ROW = 3, (9.3, 3.1)
#: Numbers of every task that other panels or other figures tell.
_ELSEWHERE = ("return", "distance", "multiplier", "gradient_norm", "gap", "gap_bound")
#: Titles of what the methods tell; anything else is an outcome of the tasks.
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


@figure_style()
def learning_figure(
    metrics: Sequence[parts.Line],
    epsilon: float,
    aims: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """Draw returns, distances under their bound ε, and model order from a run's metrics.

    What else a method tells of every task, such as lengths of episodes or shares of crashes, gets
    panels of its own; a thin line shows its ``aims``, by its name and for every line of metrics.
    """
    if not metrics:
        raise InputError("there are no metrics to draw yet")
    iterations = parts.column(metrics, "iteration")
    colours = parts.task_colours(metrics[0]["return"])
    fields = dict.fromkeys(
        name for line in metrics for name, value in line.items() if isinstance(value, Mapping)
    )
    others = [name for name in fields if name not in _ELSEWHERE]
    figure, (returns, distances, knots, *more) = _panels(3 + len(others))
    handles = [*parts.task_handles(colours), *_draw_noisy(returns, metrics, colours, "return")]
    handles += parts.draw_distances(distances, metrics, colours, epsilon)
    order = parts.column(metrics, "knots")
    knots.plot(iterations, order, color=CENTRAL, linewidth=1.2)
    most = max(1.0, np.nanmax(order, initial=0.0))
    knots.set(title="Knots in the common dictionary", ylim=(0, 1.1 * most))
    for axes, name in zip(more, others, strict=True):
        handles += _draw_noisy(axes, metrics, colours, name, (aims or {}).get(name))
    _finish(figure, (returns, distances, knots, *more), metrics, handles)
    return figure


@figure_style()
def evaluation_figure(evaluations: Sequence[parts.Line]) -> Figure:
    """Draw the evaluations on a run's way: returns and rates of outcomes, with 95 % bands."""
    if not evaluations:
        raise InputError("there are no evaluations to draw yet")
    by_task: list[dict[str, Any]] = [
        {result["task"]: result for result in line["results"]} for line in evaluations
    ]
    colours = parts.task_colours(by_task[0])
    rates = dict.fromkeys(
        name for results in by_task for result in results.values() for name in result["rates"]
    )
    figure, panels = _panels(1 + len(rates))
    handles: list[Any] = [*parts.task_handles(colours)]
    for axes, name in zip(panels, (None, *rates), strict=True):
        numbers = {
            task: [_interval(results.get(task), name) for results in by_task] for task in colours
        }
        axes.set_title("Discounted return, evaluated" if name is None else f"Episodes: {name}")
        if name is not None:
            axes.set_ylim(-0.03, 1.03)
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        iterations = parts.column(evaluations, "iteration")
        handles += _draw_evaluated(axes, iterations, numbers, colours)
    means = parts.column(evaluations, "mean_return")
    if np.any(np.isfinite(means)):
        best = float(evaluations[int(np.nanargmax(means))]["iteration"])
        for axes in panels:
            parts.draw_bound(axes, best, "", vertical=True)
        look: dict[str, Any] = {"color": GREY, "linestyle": "--", "linewidth": 1.0}
        handles.append(parts.entry("best mean return", **look))
    _finish(figure, panels, evaluations, handles)
    return figure


def _draw_evaluated(
    axes: Axes,
    iterations: parts.Floats,
    numbers: Mapping[str, Sequence[Interval]],
    colours: Mapping[str, str],
) -> list[Any]:
    """Draw numbers of every task with their bands, of many tasks with their mean; explain them."""
    curves = {task: np.array([number.value for number in own]) for task, own in numbers.items()}
    if len(colours) > parts.MOST_DRAWN:
        return parts.draw_spread(axes, iterations, curves)
    if len(colours) > len(TASKS):
        for task, curve in curves.items():
            axes.plot(iterations, curve, color=colours[task], linewidth=0.8, label=task)
        mean, words = mean_of_known(list(curves.values())), "mean of the tasks"
        return [*axes.plot(iterations, mean, color=CENTRAL, label=words)]
    for task, own in numbers.items():
        low, high = np.array([parts.ends(number) for number in own]).T
        parts.draw_band(axes, iterations, low, high, colours[task])
    height = float(np.ptp(axes.get_ylim()))
    turns = parts.draw_apart(axes, iterations, curves, colours, height)
    return [parts.band_handle("95 % interval"), *turns]


def _interval(result: Mapping[str, Any] | None, rate: str | None) -> Interval:
    """Return the return of a task's evaluation, or a rate; NaN where it is not known."""
    numbers = {} if result is None else result["rates"] if rate else result
    nothing = {"value": None}
    return parts.read_interval(numbers.get(rate or "discounted_return", nothing))


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure and so many panels, in rows."""
    rows = -(-count // _COLUMNS)
    columns = min(count, _COLUMNS)
    width, height = _ROW
    size = (width * max(2, columns) / _COLUMNS, height * rows)
    figure, grid = parts.new_figure(size, rows, columns, squeeze=False)
    panels = list(grid.flat)
    for axes in panels[count:]:
        axes.remove()
    return figure, panels[:count]


def _finish(
    figure: Figure, panels: Sequence[Axes], lines: Sequence[parts.Line], handles: Sequence[Any]
) -> None:
    """Draw the axes of iterations and steps, and the legend, in which every word stands once."""
    last = float(parts.column(lines, "iteration")[-1])
    for axes in panels:
        parts.iteration_axis(axes, last)
        parts.steps_axis(axes, lines)
    parts.legend_outside(figure, list({one.get_label(): one for one in handles}.values()))


def _draw_noisy(
    axes: Axes,
    metrics: Sequence[parts.Line],
    colours: Mapping[str, str],
    field: str,
    aim: Sequence[float] | None = None,
) -> list[Any]:
    """Draw a number of every task, thin, and its running means, thick; return what these are."""
    words = f"{field[:1].upper()}{field[1:].replace('_', ' ')}, mean of the episodes"
    axes.set_title(_TITLES.get(field, words))
    iterations = parts.column(metrics, "iteration")
    window, many = parts.window_of(len(iterations)), len(colours) > len(TASKS)
    means: dict[str, parts.Floats] = {}
    spread = len(colours) > parts.MOST_DRAWN
    for name, colour in colours.items():
        values = parts.column(metrics, field, name)
        means[f"task {name}"] = parts.running_mean(values)
        if window > 1 and not spread:
            axes.plot(iterations, values, color=colour, linewidth=0.4, alpha=0.3)
    known = np.concatenate([*means.values(), np.array(aim or ())])
    known = known[np.isfinite(known)]
    if len(known) == 0:
        parts.say(axes, "no numbers are known" if field != "return" else "no returns are known")
        return []
    # The scatter of the thin lines may leave the panel; the means never do.
    low, high = float(known.min()), float(known.max())
    pad = 0.1 * (high - low) or 0.1 * abs(high) or 1.0
    axes.set_ylim(low - pad, high + pad)
    handles: list[Any] = []
    if aim is not None:
        look: dict[str, Any] = {"color": GREY, "linestyle": "--", "linewidth": 0.8, "zorder": 1.5}
        handles += axes.plot(iterations, aim, label="dashed: what was asked for", **look)
    if spread:
        return [*handles, *parts.draw_spread(axes, iterations, means)]
    tasks = {f"task {name}": colour for name, colour in colours.items()}
    turns = parts.draw_apart(
        axes, iterations, means, tasks, high - low + 2.0 * pad, 0.8 if many else 1.5
    )
    if many:
        mean = mean_of_known(list(means.values()))
        handles += axes.plot(iterations, mean, color=CENTRAL, label="mean of the tasks")
    return [*handles, *parts.mean_handles(iterations), *turns]
