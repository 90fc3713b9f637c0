"""Figures of numbers: costs and constraints over training, rates, adaptation and readings.

Bands and intervals are over seeds. Only the wide bands of the costs are, as in the paper, over the
random starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from crosslearning._base.statistics import student
from crosslearning.errors import InputError
from crosslearning.figures import parts
from crosslearning.figures.style import (
    CENTRAL,
    GREY,
    LIGHT,
    NARROW,
    PALE,
    TASKS,
    WIDE,
    figure_style,
)
from crosslearning.reproduction.paper import adapt
from crosslearning.reproduction.paper.experiment import AVERAGE, CROSS, LABELS, POLICIES, RADII
from crosslearning.reproduction.paper.measure import Measurements

#: By seed, the answers of :func:`measurement`, by policy, and of :func:`adaptation`.
Results = Mapping[int, Measurements]
Adaptation = Mapping[int, Mapping[str, Any]]

#: The colour of a policy, and of the task of that name, in every figure.
POLICY_COLOURS = dict(zip(RADII, TASKS, strict=False)) | {AVERAGE: TASKS[3], CROSS: CENTRAL}
#: Blocks of neighbouring iterations, over which curves of training are averaged.
BLOCKS = 60
#: The bands of a cost: the wide one over starts, the narrow one over seeds.
_OVER_STARTS, _OVER_SEEDS = 0.08, 0.2
#: Colours that differ in grey too: dark for claims that hold, medium for those that do not.
VERDICTS = {"holds": TASKS[0], "does not hold": TASKS[4], "undecided": "#ECEEF2"}
_TITLES = {"trained": "a trained task, not known which", "unseen": "maps never trained for"}


def line_style(policy: str) -> dict[str, Any]:
    """Return the line style of a policy; dashes are for prints without colour."""
    return {
        "color": POLICY_COLOURS[policy],
        "ls": (0, (4, 1.5)) if policy == AVERAGE else "-",
        "lw": 2.2 if policy == CROSS else 1.2,
        "zorder": 3.5 if policy == CROSS else 3.0,
    }


#: Starts of adaptation, and the styles of their curves.
_STARTS: dict[str, dict[str, Any]] = {
    adapt.CENTRAL: {"label": "from the central policy $g$", **line_style(CROSS)},
    **{r: {"label": f"from the task policy of {r}", **line_style(r)} for r in RADII},
    AVERAGE: {"label": "from the average policy (ε = 0)", **line_style(AVERAGE)},
    adapt.ZERO: {"label": "from nothing", "color": LIGHT, "ls": ":", "lw": 1.4},
}


def over_seeds(results: Results, policy: str, *keys: str) -> parts.Floats:
    """Return a nested entry of a policy's results for every seed, shape (seeds[, points])."""
    entries: list[Any] = [reduce(getitem, keys, m[policy]) for m in results.values()]
    rows = [np.asarray(values, dtype=np.float64) for values in entries]
    if len({row.shape for row in rows}) != 1:
        sizes, name = [row.size for row in rows], "/".join((policy, *keys))
        raise InputError(f"seeds with different numbers of points of {name}: {sizes}; finish all")
    return np.stack(rows)


@figure_style()
def cost_by_task_figure(results: Results) -> Figure:
    """Draw the cost −U against the iteration, one panel for each radius."""
    panels = {f"obstacle of radius {radius.removeprefix('r=')}": [radius] for radius in RADII}
    return _costs(results, (WIDE, 2.5), panels, "cost")


@figure_style()
def cost_average_figure(results: Results) -> Figure:
    """Draw the cost averaged over the three radii against the iteration, as for each radius."""
    return _costs(results, (NARROW, 2.7), {"": RADII}, "cost, mean of the three radii")


def _costs(
    results: Results, size: tuple[float, float], titles: Mapping[str, Sequence[str]], label: str
) -> Figure:
    """Draw a panel of costs for each title, averaged over its radii, logarithmic if positive."""
    figure, (panels,) = parts.new_figure(size, 1, len(titles), sharey=True, squeeze=False)
    for axes, (title, radii) in zip(panels, titles.items(), strict=True):
        axes.set_title(title)
        for policy in POLICIES:
            _draw_cost(axes, results, policy, radii)
    lines = [line for axes in panels for line in axes.get_lines()]
    lowest = min(float(np.min(line.get_ydata())) for line in lines)
    for axes in panels:
        if lowest > 0.0:
            axes.set_yscale("log")
            parts.log_axis(axes.yaxis)
            axes.set_ylim(bottom=0.75 * lowest)
        parts.iteration_axis(axes, float(np.max(lines[0].get_xdata())), 3)
    panels[0].set_ylabel(label)
    handles: list[Any] = [parts.entry(LABELS[p], **line_style(p)) for p in POLICIES]
    handles.append(parts.band_handle("its deviation over starts", CENTRAL, _OVER_STARTS))
    if len(results) > 1:
        # The narrow band lies on the wide one.
        handles.append(parts.band_handle("and over seeds", CENTRAL, _OVER_SEEDS + _OVER_STARTS))
    parts.legend_outside(figure, handles, "upper")
    return figure


def _draw_cost(axes: Axes, results: Results, policy: str, radii: Sequence[str]) -> None:
    """Draw a policy's cost, averaged over some radii, and the cross-learned one's bands."""
    x, costs, spreads = (
        np.array([over_seeds(results, policy, "curves", "radii", radius, key) for radius in radii])
        for key in ("iteration", "cost", "deviation")
    )  # (radii, seeds, points)
    by_seed = costs.mean(axis=0)
    mean = by_seed.mean(axis=0)
    if policy == CROSS:
        bands = {_OVER_STARTS: np.sqrt(np.mean(np.square(spreads), axis=(0, 1)))}
        if len(by_seed) > 1:
            bands[_OVER_SEEDS] = np.std(by_seed, axis=0, ddof=1)
        for shade, spread in bands.items():
            parts.draw_band(axes, x[0, 0], mean - spread, mean + spread, CENTRAL, shade)
    axes.plot(x[0, 0], mean, **line_style(policy), label=LABELS[policy])


@figure_style()
def constraint_figure(results: Results, epsilon: float) -> Figure:
    """Draw distances to the central policy, under their bound, and multipliers."""
    figure, (distances, multipliers) = parts.new_figure((WIDE, 2.5), 1, 2)
    colours = {radius: POLICY_COLOURS[radius] for radius in RADII}
    apart = {}
    for radius, colour in colours.items():
        iterations, apart[radius] = _draw_range(distances, results, colour, "distance", radius)
        pulls = _draw_range(multipliers, results, colour, "multiplier", radius)
        multipliers.plot(*pulls, color=colour, lw=1.2)
    lowest = float(np.min(list(apart.values())))
    below = max(0.0, epsilon - 2.0 * max(epsilon - lowest, 0.002 * epsilon))
    height = 1.25 * (epsilon - below)
    distances.set(ylabel="distance ‖$h_i$ − $g$‖", ylim=(below, below + height))
    parts.draw_bound(distances, epsilon, f"ε = {epsilon:g}")
    turns = parts.draw_tasks(distances, iterations, apart, colours, height)
    _positive_log(multipliers)
    multipliers.set_ylabel("multiplier $μ_i$")
    handles = [*parts.task_handles(colours), *_range_handles(results), *turns]
    parts.legend_outside(figure, handles, "upper")
    return figure


@figure_style()
def model_order_figure(results: Results, budget: float, max_knots: int) -> Figure:
    """Draw knots, pruning error and forced removals, with the budget and the cap as lines."""
    figure, panels = parts.new_figure((WIDE, 2.3), 1, 3)
    knots, error, forced = panels
    for axes, field in zip(panels, ("knots", "pruning_error", "forced_by_cap"), strict=True):
        axes.plot(*_draw_range(axes, results, CENTRAL, field), color=CENTRAL, lw=1.2)
    parts.draw_bound(knots, max_knots, f"cap {max_knots}")
    knots.set(title="knots", ylim=(0, 1.15 * max_knots))
    _positive_log(error, budget)
    parts.draw_bound(error, budget, f"budget β = {budget:g}")
    error.set(title="pruning error", ylabel="in an iteration")
    forced.set(title="forced removals", ylabel="in an iteration", ylim=(0, None))
    mean = parts.entry("mean over seeds", color=CENTRAL, lw=1.2)
    parts.legend_outside(figure, [mean, *_range_handles(results)])
    return figure


def in_blocks(values: parts.Floats) -> parts.Floats:
    """Return the means of blocks of neighbouring points, shape (seeds, blocks)."""
    split = np.array_split(values, min(BLOCKS, values.shape[1]), axis=1)
    return np.stack([block.mean(axis=1) for block in split], axis=1)


def _draw_range(
    axes: Axes, results: Results, colour: str, *keys: str
) -> tuple[parts.Floats, parts.Floats]:
    """Draw the range over seeds of a number of training; return the iterations and the means."""
    every = over_seeds(results, CROSS, "training", "iteration")[:1]
    iterations, values = in_blocks(every)[0], over_seeds(results, CROSS, "training", *keys)
    if keys == ("knots",):
        iterations = every[0]  # it is no noise that blocks would average
    else:
        values = in_blocks(values)
    parts.draw_band(axes, iterations, values.min(axis=0), values.max(axis=0), colour)
    parts.iteration_axis(axes, float(every[0, -1]), 3)
    return iterations, np.asarray(values.mean(axis=0))


def _range_handles(results: Results) -> list[Any]:
    return [parts.band_handle("range over seeds")] if len(results) > 1 else []


def _positive_log(axes: Axes, *shown: float) -> None:
    """Make an axis logarithmic, if there are positive means, to show these and ``shown``."""
    means = np.concatenate([np.asarray(line.get_ydata()) for line in axes.get_lines()])
    positive = [*means[means > 0.0], *shown]
    if len(positive) > len(shown):
        axes.set_yscale("log")
        if max(positive) < 80.0 * min(positive):
            # Powers of ten alone would be too few.
            parts.log_axis(axes.yaxis, powers=True)
        axes.set_ylim(bottom=0.6 * min(positive))


@figure_style()
def held_out_maps_figure(results: Results) -> Figure:
    """Draw the rates of arrivals and of crashes on random maps, one row for each policy."""
    rows = np.arange(len(POLICIES))[::-1]
    figure, panels = parts.new_figure((WIDE, 2.1), 1, 2, sharey=True)
    titles = {"arrived": "episodes that arrive", "crashed": "episodes that crash"}
    for axes, (rate, title) in zip(panels, titles.items(), strict=True):
        for row, policy in zip(rows, POLICIES, strict=True):
            rates = over_seeds(results, policy, "final", "maps", "maps", rate)
            colour = POLICY_COLOURS[policy]
            axes.plot(rates, np.full(len(rates), row - 0.27), ".", ms=4, alpha=0.45, color=colour)
            size, width = (6.5, 2.0) if policy == CROSS else (5.5, 1.3)
            style = {"color": colour, "marker": "o", "ms": size, "elinewidth": width}
            parts.error_bars(axes, [float(row)], [student(rates)], True, (0.0, 1.0), **style)
        axes.set(title=title, ylim=(-0.6, len(rows) - 0.4), axisbelow=True)
        axes.grid(axis="x", color=PALE, lw=0.5)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    panels[0].set_xlim(-0.02, 1.02)
    panels[1].set_xlim(left=-0.02 * panels[1].get_xlim()[1])
    panels[0].set_yticks(rows, labels=[LABELS[policy] for policy in POLICIES])
    label = "mean over seeds" + (" with its 95 % interval" if len(results) > 1 else "")
    parts.legend_outside(figure, [parts.dot("one seed", GREY, ".", ms=4), parts.dot(label, GREY)])
    return figure


@figure_style()
def adaptation_figure(adaptation: Adaptation) -> Figure:
    """Draw mean returns over seeds against rollouts, one panel for each kind of target."""
    figure, panels = parts.new_figure((WIDE, 2.6), 1, 2)
    for axes, (kind, title) in zip(panels, _TITLES.items(), strict=True):
        targets = [list(one["curves"][kind].values()) for one in adaptation.values()]
        for start, style in reversed(_STARTS.items()):
            episodes = np.array(targets[0][0][start]["episodes"])
            values = np.array([[t[start]["returns"] for t in one] for one in targets]).mean(axis=1)
            axes.plot(episodes, values.mean(axis=0), **style)
            if start == adapt.CENTRAL:
                low, high = zip(*(parts.ends(student(column)) for column in values.T), strict=True)
                parts.draw_band(axes, episodes, low, high, CENTRAL)
        axes.set(title=f"adapting to {title}", xlabel="rollouts", ylabel="discounted return")
        axes.set_xlim(0, episodes[-1])
    handles: list[Any] = [parts.entry(**style) for style in _STARTS.values()]
    if len(adaptation) > 1:
        handles.append(parts.band_handle("its 95 % interval over seeds", CENTRAL))
    parts.legend_outside(figure, handles)
    return figure


@figure_style()
def readings_figure(content: Mapping[str, Any]) -> Figure:
    """Draw the content of ``readings.json`` as a grid: claims down, readings across."""
    readings = content["readings"]
    claims = [claim["key"] for claim in readings[0]["claims"]]
    verdicts = list(VERDICTS)
    grid = np.array([[verdicts.index(c["verdict"]) for c in row["claims"]] for row in readings]).T
    figure, axes = parts.new_figure((2.6 + 0.3 * len(readings), 1.3 + 0.19 * len(claims)))
    colours = ListedColormap(list(VERDICTS.values()))
    axes.imshow(grid, cmap=colours, vmin=-0.5, vmax=len(verdicts) - 0.5, aspect="auto")
    names: dict[str, Any] = {"rotation": 50, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(readings)), [row["name"] for row in readings], **names)
    axes.set_yticks(range(len(claims)), claims)
    axes.tick_params(top=True, bottom=False, labeltop=True, labelbottom=False, length=0)
    axes.set_xticks(np.arange(0.5, len(readings) - 1), minor=True)
    axes.set_yticks(np.arange(0.5, len(claims) - 1), minor=True)
    axes.grid(which="minor", color="white", lw=1.2)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)
    parts.legend_outside(figure, [Patch(color=c, label=verdict) for verdict, c in VERDICTS.items()])
    return figure


@figure_style()
def search_figure(content: Mapping[str, Any]) -> Figure:
    """Draw the content of ``search.json``: main effects on the score and on every claim.

    Below are the strongest interactions on the score.
    """
    effects, pairs = content["effects"], content["interactions"]
    claims = list(effects[0]["claims"])
    grid = np.array([[row["claims"][claim] for row in effects] for claim in claims])
    ends = VERDICTS["does not hold"], "#FFFFFF", VERDICTS["holds"]
    colours = LinearSegmentedColormap.from_list("effects", ends)
    heights = 0.9, 0.19 * len(claims), 0.19 * len(pairs)
    figure, panels = parts.new_figure(
        (3.4 + 0.32 * len(effects), 2.0 + sum(heights)), 3, 1, height_ratios=heights
    )
    scores, table, strongest = panels
    columns = np.arange(len(effects))
    scores.bar(columns, [row["score"] for row in effects], 0.7, color=TASKS[0])
    scores.axhline(0.0, color=GREY, lw=0.8)
    scores.set(xlim=(-0.5, len(effects) - 0.5), xticks=[], ylabel="score")
    scores.set_title("change from the default level, averaged over all readings tried")
    image = table.imshow(grid, cmap=colours, vmin=-2.0, vmax=2.0, aspect="auto")
    names: dict[str, Any] = {"rotation": 50, "ha": "right", "rotation_mode": "anchor"}
    table.set_xticks(columns, [row["level"] for row in effects], **names)
    table.set_yticks(range(len(claims)), claims)
    table.tick_params(length=0)
    table.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=table, ticks=[-2, 0, 2], shrink=0.5)
    bar.ax.set_yticklabels(["holds → does not", "no effect", "does not → holds"])
    rows = np.arange(len(pairs))[::-1]
    strongest.barh(rows, [row["size"] for row in pairs], 0.7, color=GREY)
    strongest.set_yticks(rows, [" × ".join(row["factors"]) for row in pairs])
    strongest.set(xlabel="strongest interactions: deviation of the score from both main effects")
    return figure
