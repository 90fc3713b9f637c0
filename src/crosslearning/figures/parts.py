"""What figures share: reading plain data, means, bands, bars, bounds, axes and legends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from crosslearning._base.statistics import Interval
from crosslearning.figures.style import CENTRAL, GREY, LIGHT, TASKS

Floats = NDArray[np.float64]
Line = Mapping[str, Any]
Shift = tuple[float, float]

#: How words are centred where they are written.
MIDDLE: dict[str, Any] = {"ha": "center", "va": "center"}
#: More tasks than this are named in a legend by the first and the last alone.
_MOST_NAMED = 24
#: More tasks than this are drawn as a spread, with no line of their own.
MOST_DRAWN = 60
#: A running mean takes one line in so many, so that it follows the run's length.
_WINDOWS = 20
#: Curves closer than this share of the axis cannot be told apart by their height.
_TOGETHER = 0.01
#: In so many stretches, or three a task, coincident curves take turns.
_TURNS = 36


def number(value: float | str | None, missing: float = math.nan) -> float:
    """Return a number as JSON holds it: null is ``missing``, and infinity is a word."""
    return missing if value is None else float(value)


def column(lines: Sequence[Line], field: str, task: str | None = None) -> Floats:
    """Return a field of all lines of metrics, of one task; NaN where a line does not have it."""
    values = [line.get(field) for line in lines]
    if task is not None:
        values = [(by_task or {}).get(task) for by_task in values]
    return np.array([number(value) for value in values], dtype=np.float64)


def read_interval(plain: Mapping[str, Any]) -> Interval:
    """Return an interval as JSON holds it; what is null is not known."""
    low, high = number(plain.get("low"), -math.inf), number(plain.get("high"), math.inf)
    return Interval(number(plain["value"]), low, high)


def ends(interval: Interval, low: float = -math.inf, high: float = math.inf) -> tuple[float, float]:
    """Return the ends to draw, within where the number can be; the number if they are unknown."""
    if not interval.known:
        return interval.value, interval.value
    cut = interval.within(low, high)
    return cut.low, cut.high


def window_of(lines: int) -> int:
    """Return how many lines of a run the running mean takes together, an odd number."""
    return 2 * (lines // (2 * _WINDOWS)) + 1


def running_mean(values: Floats) -> Floats:
    """Return means of values and their neighbours on both sides, which do not lag, without NaN."""
    window = np.ones(window_of(len(values)))
    known = np.isfinite(values)
    found = np.convolve(known, window, "same")
    totals = np.convolve(np.where(known, values, 0.0), window, "same")
    return np.asarray(np.where(found > 0.0, totals / np.maximum(found, 1.0), np.nan))


def new_figure(size: tuple[float, float], *grid: int, **options: Any) -> tuple[Figure, Any]:
    """Return a figure of so many inches and its panels: one, or rows and columns of them."""
    figure = Figure(size, layout="constrained")
    return figure, figure.subplots(*grid, **options)


def task_colours(names: Iterable[str]) -> dict[str, str]:
    """Return the colour of every task: told apart by anyone for seven, by hue for more."""
    given = list(names)
    if len(given) <= len(TASKS):
        return dict(zip(given, TASKS, strict=False))
    hues = mpl.colormaps["turbo"](np.linspace(0.04, 0.96, len(given)))
    return {name: to_hex(hue) for name, hue in zip(given, hues, strict=True)}


def draw_apart(
    axes: Axes,
    x: Floats,
    curves: Mapping[str, Floats],
    colours: Mapping[str, str],
    height: float,
    width: float = 1.2,
) -> list[Line2D]:
    """Draw curves that may coincide; where they do, colours take turns, so that none is hidden.

    The axis's ``height`` decides which curves, of shape (n,) by name, are too close to be told
    apart. Return a legend's entry, if some coincide on more than a tenth of the way.
    """
    values = np.array(list(curves.values())).reshape(len(curves), len(x))
    marker = "." if len(x) == 1 else ""
    for name, curve in zip(curves, values, strict=True):
        axes.plot(x, curve, color=colours[name], linewidth=width, marker=marker, label=name)
    stretches = min(len(x), max(_TURNS, 3 * len(curves)))
    if stretches < 2:
        return []
    stretch = np.arange(len(x)) * stretches // len(x)
    begin, turns = np.searchsorted(stretch, np.arange(stretches)), np.arange(stretches)
    coincide = False
    for place, (name, curve) in enumerate(curves.items()):
        gaps = np.maximum.reduceat(np.abs(values - curve), begin, axis=1)  # (N, stretches)
        near = gaps <= _TOGETHER * height
        # Curves that only cross hide nothing: two stretches on end must be together.
        together = near[:, 1:] & near[:, :-1]
        lasting = np.pad(together, ((0, 0), (1, 0))) | np.pad(together, ((0, 0), (0, 1)))
        size, rank = np.sum(lasting, axis=0), np.sum(lasting[:place], axis=0)
        turn = ((size > 1) & (turns % np.maximum(size, 1) == rank))[stretch]
        if np.any(turn):
            coincide = coincide or bool(np.mean(size > 1) > 0.1)
            turn[1:] |= turn[:-1]  # up to where the next stretch begins
            shown = np.where(turn, curve, np.nan)
            axes.plot(x, shown, color=colours[name], linewidth=width, zorder=2.5, label="_turn")
    dashed = entry("equal: colours take turns", color=GREY, linestyle=(0, (2, 2)))
    return [dashed] if coincide else []


def draw_spread(axes: Axes, x: Floats, curves: Mapping[str, Floats]) -> list[Any]:
    """Draw how very many curves, of shape (n,) by name, are spread; return the legend's entries."""
    values = np.array(list(curves.values())).reshape(len(curves), len(x))
    told = np.any(np.isfinite(values), axis=0)
    levels = np.full((5, len(x)), np.nan)
    if np.any(told):
        levels[:, told] = np.nanquantile(values[:, told], [0.0, 0.1, 0.5, 0.9, 1.0], axis=0)
    least, low, middle, high, most = levels
    draw_band(axes, x, least, most, GREY, 0.14)
    draw_band(axes, x, low, high, GREY, 0.28)
    axes.plot(x, middle, color=CENTRAL, linewidth=1.2, marker="." if len(x) == 1 else "")
    words = f"all {len(curves)} tasks", "80 % of them", "median task"
    # The inner band lies upon the outer one.
    bands = [band_handle(words[0], alpha=0.14), band_handle(words[1], alpha=0.38)]
    return [*bands, entry(words[2], color=CENTRAL, linewidth=1.2)]


def draw_band(axes: Axes, x: Floats, low: Any, high: Any, colour: str, alpha: float = 0.16) -> None:
    """Fill between two curves; a legend explains it by :func:`band_handle`."""
    axes.fill_between(x, low, high, color=colour, alpha=alpha, linewidth=0.0)


def error_bars(
    axes: Axes,
    at: Sequence[float],
    intervals: Sequence[Interval],
    horizontal: bool = False,
    within: tuple[float, float] = (-math.inf, math.inf),
    **style: Any,
) -> None:
    """Draw numbers with their intervals, cut to where the numbers can be."""
    values = np.array([interval.value for interval in intervals])
    reach = np.array([ends(interval, *within) for interval in intervals])
    lengths = np.abs(reach - values[:, None]).T
    x, y = (values, at) if horizontal else (at, values)
    axes.errorbar(x, y, **{"xerr" if horizontal else "yerr": lengths, "linestyle": "none"}, **style)


def draw_bound(
    axes: Axes, value: float, text: str, colour: str = GREY, vertical: bool = False
) -> None:
    """Draw a dashed line at a value that something must not exceed, and name it beside."""
    line: dict[str, Any] = {"color": colour, "linestyle": "--", "linewidth": 1.0, "zorder": 1.5}
    if vertical:
        axes.axvline(value, **line)
        write(axes, text, (value, 1.0), (4, -10), colour, xycoords=("data", "axes fraction"))
    else:
        axes.axhline(value, **line)
        place = ("axes fraction", "data")
        write(axes, text, (1.0, value), (-2, 3), colour, xycoords=place, ha="right")


def draw_distances(
    axes: Axes, lines: Sequence[Line], colours: Mapping[str, str], epsilon: float
) -> list[Any]:
    """Draw distances to the central policy over training; return what a legend explains."""
    curves = {name: column(lines, "distance", name) for name in colours}
    heights = np.array([*np.ravel(list(curves.values())), epsilon])
    tallest = 1.2 * float(np.max(heights, where=np.isfinite(heights), initial=0.0))
    axes.set(title="Distance to the central policy", ylim=(0.0, tallest or 1.0))
    if not tallest:
        axes.set_yticks([0.0])
    if epsilon == 0.0:
        say(axes, "zero: with ε = 0 all policies are one")
    elif math.isfinite(epsilon):
        draw_bound(axes, epsilon, f"ε = {epsilon:g}")
    iterations = column(lines, "iteration")
    if len(curves) > MOST_DRAWN:
        return draw_spread(axes, iterations, curves)
    explained = draw_apart(axes, iterations, curves, colours, axes.get_ylim()[1])
    return explained if tallest else []


def write(axes: Axes, text: str, at: Any, shift: Shift, colour: str, **look: Any) -> None:
    """Write beside a point, shifted by so many typographic points."""
    axes.annotate(text, at, xytext=shift, textcoords="offset points", color=colour, **look)


def say(axes: Axes, words: str, height: float = 0.5) -> None:
    """Write in the middle of a panel, or at another height of it, why it is empty."""
    axes.text(0.5, height, words, transform=axes.transAxes, color=GREY, **MIDDLE)


#: Share of an axis that a tick needs for its words.
_LEAST_APART = 0.12


def iteration_axis(axes: Axes, last: float, most: int = 4) -> None:
    """Let the axis below go from 0 to the last iteration, in at most so many parts."""
    axes.set_xlabel("iteration")
    if last > 0.0:
        axes.set_xlim(0.0, last)
    axes.xaxis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10], integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def steps_axis(axes: Axes, lines: Sequence[Line]) -> None:
    """Add an axis of environment steps above one of iterations, if the lines tell them."""
    steps = np.insert(column(lines, "steps"), 0, 0.0)
    if len(steps) == 1 or not np.all(np.isfinite(steps)) or np.any(np.diff(steps) < 0.0):
        return
    iterations = np.insert(column(lines, "iteration"), 0, 0.0)
    ticks = np.asarray(MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(0.0, steps[-1]))
    shown = ticks[(ticks >= 0.0) & (ticks <= steps[-1])]
    # Steps that come all at once, such as a round's of the method models, are at their iteration.
    amounts, first = np.unique(steps, return_index=True)
    places = np.interp(shown, amounts, iterations[first])
    # What would be written over its neighbour is left out.
    kept = [0]
    for number in range(1, len(places)):
        if places[number] - places[kept[-1]] >= _LEAST_APART * iterations[-1]:
            kept.append(number)
    if len(kept) == 1:
        return
    above = axes.secondary_xaxis("top")
    short = EngFormatter(sep="")
    above.set_ticks(places[kept], [short(shown[number]) for number in kept])
    above.set_xlabel("environment steps", color=GREY, fontsize=8)
    above.tick_params(colors=GREY, labelsize=7.5, length=2.5)
    above.spines["top"].set_color(LIGHT)


def entry(label: str, **look: Any) -> Line2D:
    """Return the legend's entry for a line or a mark that looks so."""
    return Line2D([], [], label=label, **look)


def band_handle(label: str, colour: str = GREY, alpha: float = 0.16) -> Patch:
    """Return the legend's entry for a band of :func:`draw_band`."""
    return Patch(color=colour, alpha=alpha, linewidth=0.0, label=label)


def task_handles(colours: Mapping[str, str]) -> list[Line2D]:
    """Return the legend's entries of tasks; of many, the first and the last; of a spread, none."""
    if len(colours) > MOST_DRAWN:
        return []
    named = [entry(f"task {name}", color=colour) for name, colour in colours.items()]
    if len(named) <= _MOST_NAMED:
        return named
    between = entry(f"… {len(named) - 2} more by hue …", linestyle="none")
    return [named[0], between, named[-1]]


def mean_handles(iterations: Floats) -> list[Line2D]:
    """Return the legend's entries for lines of metrics, thin, and their running means, thick."""
    window = window_of(len(iterations))
    if window == 1:
        return []
    every = round(float(iterations[-1]) / len(iterations))
    words = "each iteration" if every == 1 else f"means of {every} iterations"
    thin = entry(f"thin: {words}", color=GREY, linewidth=0.6, alpha=0.6)
    return [thin, entry(f"thick: means of {window * every}", color=GREY)]


def legend_outside(figure: Figure, handles: Sequence[Any], where: str = "lower") -> None:
    """Write a legend below or above all panels, in a figure that grows by its rows."""
    lengths = [len(handle.get_label()) + 7 for handle in handles]
    columns, room = len(handles), 16.0 * figure.get_figwidth()
    while columns > 1 and sum(map(max, np.array_split(lengths, columns))) > room:
        columns -= 1
    rows = math.ceil(len(handles) / columns)
    figure.set_figheight(figure.get_figheight() + 0.1 + 0.17 * rows)
    layout: dict[str, Any] = {"loc": f"outside {where} center", "ncols": columns}
    figure.legend(handles=handles, columnspacing=1.2, handlelength=1.7, **layout)
