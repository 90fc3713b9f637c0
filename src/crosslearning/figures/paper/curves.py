"""Figures of numbers: costs and constraints over training, and rates on held-out maps.

Bands and intervals are over seeds: what a band says is how much another seed may differ. Only
the wide bands of the costs are, as in the paper, over the random starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from crosslearning.figures.paper.common import (
    GREY,
    LEGEND_ROW,
    NARROW,
    POLICY_COLOURS,
    WIDE,
    Floats,
    Results,
    deviation,
    line_style,
    over_seeds,
    policy_handles,
)
from crosslearning.figures.style import CENTRAL, figure_style
from crosslearning.paper.experiment import CROSS, LABELS, POLICIES, RADII
from crosslearning.statistics import student

_BAND: dict[str, Any] = {"alpha": 0.16, "linewidth": 0.0}
#: Blocks of neighbouring iterations that curves over training are averaged in.
BLOCKS = 60
#: More blocks than there are points, for a curve that needs no averaging.
_EVERY = 1_000_000
_MAPS = ("final", "maps", "maps")


def cost_by_task_figure(results: Results) -> Figure:
    """Draw the cost −U against the iteration, one panel for each radius.

    Lines are means over seeds and starts; the bands are standard deviations of the
    cross-learned policy: the wide one over starts, the narrow one over seeds.
    """
    with figure_style():
        figure = Figure(figsize=(WIDE, 2.75), layout="constrained")
        panels = figure.subplots(1, len(RADII), sharey=True)
        for axes, radius in zip(panels, RADII, strict=True):
            for policy in POLICIES:
                _draw_costs(axes, results, policy, [radius])
            axes.set_title(f"obstacle of radius {radius.removeprefix('r=')}")
        _finish_costs(list(panels))
        panels[0].set_ylabel("cost")
        figure.legend(handles=policy_handles(), loc="outside upper center", **LEGEND_ROW)
    return figure


def cost_average_figure(results: Results) -> Figure:
    """Draw the cost averaged over the three radii against the iteration."""
    with figure_style():
        figure = Figure(figsize=(NARROW, 3.2), layout="constrained")
        axes = figure.subplots()
        for policy in POLICIES:
            _draw_costs(axes, results, policy, RADII)
        _finish_costs([axes])
        axes.set_ylabel("cost, mean of the three radii")
        layout: dict[str, Any] = {
            "ncols": 3,
            "columnspacing": 1.2,
            "handlelength": 1.8,
            "fontsize": 8.5,
        }
        figure.legend(handles=policy_handles(), loc="outside upper center", **layout)
    return figure


def _curve(results: Results, policy: str, radius: str, key: str) -> Floats:
    return over_seeds(results, policy, "curves", "radii", radius, key)


def _draw_costs(axes: Axes, results: Results, policy: str, radii: Sequence[str]) -> None:
    """Draw one policy's cost, averaged over some radii, with its bands."""
    iterations = _curve(results, policy, radii[0], "iteration")[0]
    costs = np.mean([_curve(results, policy, r, "cost") for r in radii], axis=0)
    mean = costs.mean(axis=0)
    if policy == CROSS:
        spreads = [_curve(results, policy, r, "deviation") for r in radii]
        over_starts = np.sqrt(np.mean(np.square(spreads), axis=(0, 1)))
        for spread, shade in ((over_starts, 0.5), (deviation(costs), 1.0)):
            style = {**_BAND, "alpha": shade * _BAND["alpha"]}
            axes.fill_between(
                iterations, mean - spread, mean + spread, color=POLICY_COLOURS[policy], **style
            )
    axes.plot(iterations, mean, **line_style(policy), label=LABELS[policy])


def _finish_costs(panels: list[Axes]) -> None:
    """Give panels of costs one scale: logarithmic, unless some cost is not positive."""
    lines = [line for axes in panels for line in axes.get_lines()]
    lowest = min(float(np.min(line.get_ydata())) for line in lines)
    for axes in panels:
        if lowest > 0.0:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(_plain))
            axes.yaxis.set_minor_formatter(FuncFormatter(_plain_of_few))
        _iteration_axis(axes, float(np.max(lines[0].get_xdata())))
    if lowest > 0.0:
        panels[0].set_ylim(bottom=0.75 * lowest)


def _plain(value: float, _: int) -> str:
    return f"{value:g}"


def _powers_of_few(value: float, _: int) -> str:
    """Write 2 and 5 times a power of ten, and leave out the rest."""
    power = int(np.floor(np.log10(value)))
    digit = round(value / 10.0**power)
    return f"${digit} \\times 10^{{{power}}}$" if digit in (2, 5) else ""


def _plain_of_few(value: float, _: int) -> str:
    """Write 20 and 50 between 10 and 100, and leave out the rest."""
    return f"{value:g}" if round(value / 10.0 ** np.floor(np.log10(value))) in (2, 5) else ""


def _iteration_axis(axes: Axes, last: float) -> None:
    axes.set_xlim(0.0, last)
    axes.set_xlabel("iteration")
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def constraint_figure(results: Results, epsilon: float) -> Figure:
    """Draw distances to the central policy and multipliers against the iteration.

    Parameters
    ----------
    results : Results
    epsilon : float
        The bound on the distances, drawn as a line.
    """
    with figure_style():
        figure = Figure(figsize=(WIDE, 2.75), layout="constrained")
        distances, multipliers = figure.subplots(1, 2)
        for radius in RADII:
            _draw_training(distances, results, POLICY_COLOURS[radius], "distance", radius)
            _draw_training(multipliers, results, POLICY_COLOURS[radius], "multiplier", radius)
        lowest = min(float(np.min(line.get_ydata())) for line in distances.get_lines())
        below = max(0.0, epsilon - 2.0 * max(epsilon - lowest, 0.002 * epsilon))
        distances.set_ylim(below, epsilon + 0.25 * (epsilon - below))
        _bound(distances, epsilon, f"ε = {epsilon:g}")
        distances.set_ylabel("distance ‖$h_i$ − $g$‖")
        _positive_log(multipliers)
        multipliers.set_ylabel("multiplier $μ_i$")
        handles = [
            Line2D([], [], color=POLICY_COLOURS[radius], linewidth=1.3, label=f"task {radius}")
            for radius in RADII
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(RADII))
    return figure


def _bound(axes: Axes, value: float, text: str) -> None:
    """Draw a dashed line at a value that something must not exceed, and name it above."""
    axes.axhline(value, color=GREY, linestyle="--", linewidth=1.0, zorder=1.5)
    axes.annotate(
        text,
        (1.0, value),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 3),
        textcoords="offset points",
        ha="right",
        color=GREY,
    )


def in_blocks(values: Floats, blocks: int = BLOCKS) -> Floats:
    """Return the means of neighbouring points, shape (seeds, blocks or fewer).

    Single iterations scatter so much that nothing could be seen behind them.
    """
    parts = np.array_split(values, min(blocks, values.shape[1]), axis=1)
    return np.stack([part.mean(axis=1) for part in parts], axis=1)


def _draw_training(
    axes: Axes, results: Results, colour: str, *keys: str, blocks: int = BLOCKS
) -> None:
    """Draw the mean over seeds and the range between the least and the greatest of them."""
    every = over_seeds(results, CROSS, "training", "iteration")[:1]
    iterations = in_blocks(every, blocks)[0]
    values = in_blocks(over_seeds(results, CROSS, "training", *keys), blocks)
    axes.fill_between(iterations, values.min(axis=0), values.max(axis=0), color=colour, **_BAND)
    axes.plot(iterations, values.mean(axis=0), color=colour, linewidth=1.2)
    _iteration_axis(axes, float(every[0, -1]))


def _positive_log(axes: Axes, *shown: float) -> None:
    """Make an axis logarithmic that shows the positive means and ``shown``; zeros fall below.

    With nothing positive to show it stays linear.
    """
    means = np.concatenate([np.asarray(line.get_ydata()) for line in axes.get_lines()])
    positive = [*means[means > 0.0]]
    if positive:
        axes.set_yscale("log")
        low, high = min([*positive, *shown]), max([*positive, *shown])
        if high < 80.0 * low:
            # Powers of ten alone would be too few.
            axes.yaxis.set_minor_formatter(FuncFormatter(_powers_of_few))
        axes.set_ylim(bottom=0.6 * low)


def model_order_figure(results: Results, budget: float, max_knots: int) -> Figure:
    """Draw knots, pruning error and forced removals against the iteration.

    Parameters
    ----------
    results : Results
    budget : float
        The error that pruning may make in an iteration, drawn as a line.
    max_knots : int
        The cap on the knots, drawn as a line.
    """
    with figure_style():
        figure = Figure(figsize=(WIDE, 2.5), layout="constrained")
        knots, error, forced = figure.subplots(1, 3)
        _draw_training(knots, results, CENTRAL, "knots", blocks=_EVERY)
        _bound(knots, max_knots, f"cap {max_knots}")
        knots.set_ylim(0, 1.15 * max_knots)
        knots.set_title("knots")
        _draw_training(error, results, CENTRAL, "pruning_error")
        _positive_log(error, budget)
        _bound(error, budget, f"budget β = {budget:g}")
        error.set_title("pruning error of an iteration")
        _draw_training(forced, results, CENTRAL, "forced_by_cap")
        forced.set_ylim(bottom=0)
        forced.set_title("removals forced in an iteration")
    return figure


def held_out_maps_figure(results: Results) -> Figure:
    """Draw the rates of arrivals and of crashes on random maps, one row for each policy.

    Small dots are seeds; large ones their mean with Student's 95 % interval, cut at 0 and 1.
    """
    rows = np.arange(len(POLICIES))[::-1]
    with figure_style():
        figure = Figure(figsize=(WIDE, 2.3), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        titles = {"arrived": "episodes that arrive", "crashed": "episodes that crash"}
        for axes, (rate, title) in zip(panels, titles.items(), strict=True):
            for row, policy in zip(rows, POLICIES, strict=True):
                _draw_rate(axes, float(row), policy, over_seeds(results, policy, *_MAPS, rate))
            axes.set_title(title)
            axes.set_ylim(-0.6, len(rows) - 0.4)
            axes.grid(axis="x", color="#E4E7EC", linewidth=0.7)
            axes.set_axisbelow(True)
            axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
        panels[0].set_xlim(-0.02, 1.02)
        panels[1].set_xlim(left=-0.02 * panels[1].get_xlim()[1])
        panels[0].set_yticks(rows, labels=[LABELS[policy] for policy in POLICIES])
    return figure


def _draw_rate(axes: Axes, row: float, policy: str, rates: Floats) -> None:
    colour, mean = POLICY_COLOURS[policy], float(rates.mean())
    ends = student(rates).within(0.0, 1.0)
    low, high = ends.low, ends.high
    axes.plot(rates, np.full(len(rates), row - 0.27), ".", color=colour, markersize=4, alpha=0.45)
    axes.errorbar(
        mean,
        row,
        xerr=[[mean - low], [high - mean]],
        fmt="o",
        color=colour,
        markersize=6.5 if policy == CROSS else 5.5,
        elinewidth=2.0 if policy == CROSS else 1.3,
        capsize=2.5,
    )
