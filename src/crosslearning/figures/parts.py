"""Shared parts of figures: plain data, means, bands, error bars, bounds, axes and legends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import (
    EngFormatter,
    LogFormatterSciNotation,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)
from numpy.typing import NDArray
from scipy.ndimage import binary_opening

from crosslearning._base.limits import MANY_TASKS
from crosslearning._base.statistics import Interval, mean_of_known
from crosslearning.figures.style import CENTRAL, GREY, LIGHT, TASKS

Floats = NDArray[np.float64]
Line = Mapping[str, Any]

#: Alignment of centred text, and a halo for text that curves may pass behind.
MIDDLE: dict[str, Any] = {"ha": "center", "va": "center"}
HALO = [withStroke(linewidth=2.5, foreground="white")]
#: The window of a running mean is the number of lines divided by this.
_WINDOWS = 20
#: Curves closer than this share of the axis coincide for the eye.
_TOGETHER = 0.01
#: Coincident curves alternate in this many segments, or in three per task.
_SEGMENTS = 36
#: Share of an axis that a tick label needs.
_LABEL = 0.12
#: So many rounds are labelled with round numbers of steps, fewer with their own.
_MANY = 10


def number(value: float | str | None, missing: float = math.nan) -> float:
    """Return a number from JSON: null is ``missing``, infinity a string."""
    return missing if value is None else float(value)


def column(lines: Sequence[Line], field: str, task: str | None = None) -> Floats:
    """Return a field of metrics, for one task; NaN where a line lacks it."""
    values = [line.get(field) for line in lines]
    if task is not None:
        values = [(by_task or {}).get(task) for by_task in values]
    return np.array([number(value) for value in values], dtype=np.float64)


def read_interval(plain: Mapping[str, Any]) -> Interval:
    """Return an interval from JSON; null ends are unknown."""
    low, high = number(plain.get("low"), -math.inf), number(plain.get("high"), math.inf)
    return Interval(number(plain["value"]), low, high)


def ends(interval: Interval, low: float = -math.inf, high: float = math.inf) -> tuple[float, float]:
    """Return the ends to draw, clipped to the possible range; the value if they are unknown."""
    if not interval.known:
        return interval.value, interval.value
    cut = interval.within(low, high)
    return cut.low, cut.high


def minus(text: str) -> str:
    """Return text with typographic minus signs."""
    return text.replace("-", "−")


def window_of(lines: int) -> int:
    """Return the odd window of the running mean of a run with this many lines."""
    return 2 * (lines // (2 * _WINDOWS)) + 1


def running_mean(values: Floats) -> Floats:
    """Return centred running means, which do not lag; NaN values are left out."""
    window = np.ones(window_of(len(values)))
    known = np.isfinite(values)
    counts = np.convolve(known, window, "same")
    totals = np.convolve(np.where(known, values, 0.0), window, "same")
    return np.asarray(np.where(counts > 0.0, totals / np.maximum(counts, 1.0), np.nan))


def new_figure(size: tuple[float, float], *grid: int, **options: Any) -> tuple[Figure, Any]:
    """Return a figure of a size in inches and its panels: one, or rows and columns of them."""
    figure = Figure(size, layout="constrained")
    return figure, figure.subplots(*grid, **options)


def panel_grid(
    count: int, columns: int, size: tuple[float, float], narrowest: float = 0.0
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its ``count`` panels of a size, in rows."""
    columns = min(count, columns)
    rows = math.ceil(count / columns)
    inches = (max(size[0] * columns, narrowest), size[1] * rows)
    figure, grid = new_figure(inches, rows, columns, squeeze=False)
    for axes in grid.flat[count:]:
        axes.remove()
    return figure, list(grid.flat[:count])


def task_colours(names: Iterable[str]) -> dict[str, str]:
    """Return a colour per task: distinguishable by anyone up to seven, hues beyond."""
    given = list(names)
    if len(given) <= len(TASKS):
        return dict(zip(given, TASKS, strict=False))
    hues = mpl.colormaps["turbo"](np.linspace(0.04, 0.96, len(given)))
    return {name: to_hex(hue) for name, hue in zip(given, hues, strict=True)}


def draw_tasks(
    axes: Axes,
    x: Floats,
    curves: Mapping[str, Floats],
    colours: Mapping[str, str],
    height: float,
    drawstyle: str = "default",
) -> list[Any]:
    """Draw a curve per task, shape (n,), or the distribution of many; return legend entries.

    Where curves coincide, closer than a share of the axis ``height``, their colours alternate.
    Beyond seven tasks, whose colours are hard to distinguish, the mean is drawn as well.
    """
    if len(curves) > MANY_TASKS:
        return draw_spread(axes, x, curves)
    few = len(curves) <= len(TASKS)
    width, marker = 1.4 if few else 0.8, "." if len(x) == 1 else ""
    values = np.array(list(curves.values())).reshape(len(curves), len(x))
    for name, curve in zip(curves, values, strict=True):
        style: dict[str, Any] = {"marker": marker, "lw": width, "drawstyle": drawstyle}
        axes.plot(x, curve, color=colours[name], label=name, **style)
    handles: list[Any] = []
    if not few:
        handles += axes.plot(x, mean_of_known(values), color=CENTRAL, label="mean of the tasks")
    if len(x) < 2:
        return handles
    segments = min(len(x), max(_SEGMENTS, 3 * len(curves)))
    segment = np.arange(len(x)) * segments // len(x)
    begin = np.searchsorted(segment, np.arange(segments))
    gaps = np.maximum.reduceat(np.abs(values[:, None] - values), begin, axis=2)  # (N, N, segments)
    # Curves that only cross hide nothing: they must coincide in two segments in a row.
    together = binary_opening(gaps <= _TOGETHER * height, np.ones((1, 1, 2)))
    size, rank = np.sum(together, axis=1), np.sum(np.tril(together.T, -1), axis=2).T
    turns = (size > 1) & (np.arange(segments) % np.maximum(size, 1) == rank)
    for name, curve, turn in zip(curves, values, turns[:, segment], strict=True):
        if np.any(turn):
            turn[1:] |= turn[:-1]  # up to the start of the next segment
            shown = np.where(turn, curve, np.nan)
            style = {"zorder": 2.5, "label": "_turn", "lw": width, "drawstyle": drawstyle}
            axes.plot(x, shown, color=colours[name], **style)
    if np.any(np.mean(size > 1, axis=1) > 0.1):
        handles.append(entry("equal: colours take turns", color=GREY, ls=(0, (2, 2))))
    return handles


def draw_noisy(
    axes: Axes,
    lines: Sequence[Line],
    colours: Mapping[str, str],
    field: str,
    *shown: float,
    by_round: bool = False,
) -> list[Any]:
    """Draw a field per task, thin, and its running means, thick; return the legend entries.

    The panel holds the means and the numbers ``shown``; thin lines may leave it. A field that
    holds for a whole round, ``by_round``, is drawn in steps and not averaged.
    """
    if not lines:
        return []
    iterations = column(lines, "iteration")
    values = {name: column(lines, field, name) for name in colours}
    means = values if by_round else {name: running_mean(v) for name, v in values.items()}
    framed = np.array([*np.ravel(list(means.values())), *shown])
    if not np.any(np.isfinite(framed)):
        return []
    low, high = float(np.nanmin(framed)), float(np.nanmax(framed))
    pad = 0.1 * (high - low) or 0.1 * abs(high) or 1.0
    axes.set_ylim(low - pad, high + pad)
    handles, window = [], 1 if by_round else window_of(len(lines))
    if window > 1 and len(colours) <= MANY_TASKS:
        for name, colour in colours.items():
            axes.plot(iterations, values[name], color=colour, lw=0.4, alpha=0.3)
        every = round(float(iterations[-1]) / len(iterations))
        text = "each iteration" if every == 1 else f"means of {every} iterations"
        handles.append(entry(f"thin: {text}", color=GREY, lw=0.6, alpha=0.6))
        handles.append(entry(f"thick: means of {window * every}", color=GREY))
    style = "steps-post" if by_round else "default"
    return handles + draw_tasks(axes, iterations, means, colours, high - low + 2.0 * pad, style)


def draw_spread(axes: Axes, x: Floats, curves: Mapping[str, Floats]) -> list[Any]:
    """Draw the distribution of many curves, shape (n,) by name; return the legend entries."""
    values = np.array(list(curves.values())).reshape(len(curves), len(x))
    known = np.any(np.isfinite(values), axis=0)
    levels = np.full((5, len(x)), np.nan)
    if np.any(known):
        levels[:, known] = np.nanquantile(values[:, known], [0.0, 0.1, 0.5, 0.9, 1.0], axis=0)
    least, low, middle, high, most = levels
    draw_band(axes, x, least, most, GREY, 0.14)
    draw_band(axes, x, low, high, GREY, 0.28)
    axes.plot(x, middle, color=CENTRAL, lw=1.2, marker="." if len(x) == 1 else "")
    return [
        band_handle(f"all {len(curves)} tasks", alpha=0.14),
        band_handle("80 % of them", alpha=0.38),  # this band lies on the other one
        entry("median task", color=CENTRAL, lw=1.2),
    ]


def draw_band(axes: Axes, x: Floats, low: Any, high: Any, colour: str, alpha: float = 0.16) -> None:
    """Fill between two curves; :func:`band_handle` is its legend entry."""
    axes.fill_between(x, low, high, color=colour, alpha=alpha, lw=0.0)


def error_bars(
    axes: Axes,
    at: Sequence[float],
    intervals: Sequence[Interval],
    horizontal: bool = False,
    within: tuple[float, float] = (-math.inf, math.inf),
    **style: Any,
) -> None:
    """Draw values with their intervals, clipped to the possible range."""
    values = np.array([interval.value for interval in intervals])
    reach = np.array([ends(interval, *within) for interval in intervals])
    lengths = np.abs(reach - values[:, None]).T
    x, y = (values, at) if horizontal else (at, values)
    axes.errorbar(x, y, **{"xerr" if horizontal else "yerr": lengths, "ls": "none"}, **style)


def draw_bound(
    axes: Axes, value: float, text: str, colour: str = GREY, vertical: bool = False
) -> None:
    """Draw a dashed line at a bound, with its name."""
    draw = axes.axvline if vertical else axes.axhline
    draw(value, color=colour, ls="--", lw=1.0, zorder=1.5)
    if vertical:
        at, shift, frame, side = (value, 1.0), (4, -10), axes.get_xaxis_transform(), "left"
    else:
        at, shift, frame, side = (1.0, value), (-2, 3), axes.get_yaxis_transform(), "right"
    write(axes, text, at, shift, colour, xycoords=frame, ha=side, path_effects=HALO)


def draw_distances(
    axes: Axes, lines: Sequence[Line], colours: Mapping[str, str], epsilon: float
) -> list[Any]:
    """Draw distances to the centre g over training; return the legend entries."""
    curves = {name: column(lines, "distance", name) for name in colours}
    heights = np.array([*np.ravel(list(curves.values())), epsilon])
    tallest = 1.2 * float(np.max(heights, where=np.isfinite(heights), initial=0.0))
    axes.set(title="Distance to the centre g", ylim=(0.0, tallest or 1.0))
    if not tallest:
        axes.set_yticks([0.0])
    if epsilon == 0.0:
        explain(axes, "zero: with ε = 0 all policies are one")
    elif math.isfinite(epsilon):
        draw_bound(axes, epsilon, f"ε = {epsilon:g}")
    explained = draw_tasks(axes, column(lines, "iteration"), curves, colours, axes.get_ylim()[1])
    return explained if tallest or len(curves) > MANY_TASKS else []


def write(
    axes: Axes, text: str, at: Any, shift: tuple[float, float], colour: str, **style: Any
) -> None:
    """Write beside a point, shifted by typographic points."""
    axes.annotate(text, at, xytext=shift, textcoords="offset points", color=colour, **style)


def explain(axes: Axes, text: str, height: float = 0.5) -> None:
    """Write in the middle of a panel why it is empty."""
    axes.text(0.5, height, text, transform=axes.transAxes, color=GREY, **MIDDLE)


def iteration_axis(axes: Axes, last: float, most: int = 4) -> None:
    """Let the x axis go from 0 to the last iteration, with few ticks."""
    axes.set_xlabel("iteration")
    if last > 0.0:
        axes.set_xlim(0.0, last)
    axes.xaxis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10], integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")


def steps_axis(axes: Axes, lines: Sequence[Line]) -> None:
    """Add an axis of environment steps above the iterations, if the lines have them."""
    steps = np.insert(column(lines, "steps"), 0, 0.0)
    if not lines or not np.all(np.diff(steps) >= 0.0):  # unknown ones are NaN
        return
    iterations = np.insert(column(lines, "iteration"), 0, 0.0)
    ticks = np.asarray(MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(0.0, steps[-1]))
    shown = ticks[(ticks >= 0.0) & (ticks <= steps[-1])]
    amounts, first = np.unique(steps, return_index=True)
    if len(amounts) < min(len(steps), _MANY):  # a round's steps come at once, none in between
        shown = amounts
    places = np.interp(shown, amounts, iterations[first])
    kept = [0]  # ticks whose labels do not overlap
    for tick in range(1, len(places)):
        if places[tick] - places[kept[-1]] >= _LABEL * iterations[-1]:
            kept.append(tick)
    if len(kept) == 1:
        return
    above = axes.secondary_xaxis("top")
    above.set_ticks(places[kept], [EngFormatter(sep="")(shown[tick]) for tick in kept])
    above.set_xlabel("environment steps", color=GREY, fontsize=8)
    above.tick_params(colors=GREY, labelsize=7.5, length=2.5)
    above.spines["top"].set_color(LIGHT)


def log_axis(axis: Axis, powers: bool = False) -> None:
    """Label 1, 2 and 5 times the powers of ten of a logarithmic axis, in full or as powers."""
    as_powers = LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(math.inf, math.inf))
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(as_powers if powers else "{x:g}")
    axis.set_minor_formatter(NullFormatter())


def entry(label: str, **style: Any) -> Line2D:
    """Return the legend entry of a line or a marker."""
    return Line2D([], [], label=label, **style)


def dot(label: str, colour: str, marker: str = "o", **style: Any) -> Line2D:
    """Return the legend entry of a marker without a line."""
    return entry(label, color=colour, marker=marker, ls="none", **style)


def band_handle(label: str, colour: str = GREY, alpha: float = 0.16) -> Patch:
    """Return the legend entry of a band."""
    return Patch(color=colour, alpha=alpha, lw=0.0, label=label)


def task_handles(colours: Mapping[str, str]) -> list[Line2D]:
    """Return the legend entries of tasks; none for many, which are drawn as a distribution."""
    if len(colours) > MANY_TASKS:
        return []
    return [entry(f"task {name}", color=colour) for name, colour in colours.items()]


def legend_outside(figure: Figure, handles: Sequence[Any], where: str = "lower") -> None:
    """Write every label once below or above all panels; the figure grows by the legend's rows."""
    handles = list({handle.get_label(): handle for handle in handles}.values())
    lengths = [len(handle.get_label()) + 7 for handle in handles]
    columns, width = len(handles), 16.0 * figure.get_figwidth()
    while columns > 1 and sum(map(max, np.array_split(lengths, columns))) > width:
        columns -= 1
    rows = math.ceil(len(handles) / columns)
    figure.set_figheight(figure.get_figheight() + 0.1 + 0.17 * rows)
    place: Any = f"outside {where} center"
    figure.legend(handles=handles, loc=place, ncols=columns)
