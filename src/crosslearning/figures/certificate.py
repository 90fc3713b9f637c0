"""The certificate's figure: constraint, multipliers, pruning and gaps on one page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from crosslearning.figures.style import CENTRAL, TASKS, figure_style

Floats = NDArray[np.float64]

_BOUND, _WORDS = "#98A2B3", "#667085"
_FORCED = "#D0D5DD"
#: More tasks than this have no legend: it would hide the curves.
_MOST_NAMED = 7


def certificate_figure(
    certificate: Mapping[str, Any], metrics: Sequence[Mapping[str, Any]]
) -> Figure:
    """Draw a certificate.

    Parameters
    ----------
    certificate : mapping
        As its JSON holds it.
    metrics : sequence of mapping
        The run's lines of metrics; without any, the curves are left out and a word says so.

    Returns
    -------
    Figure
        Four panels: distances against ε with the final ones as computed from the file;
        multipliers; what pruning moved in one iteration against the budget, with the forced
        removals; stationarity gaps with their intervals.
    """
    with figure_style():
        figure = Figure(figsize=(9.2, 6.4), layout="constrained")
        (distances, multipliers), (pruning, gaps) = figure.subplots(2, 2)
        lines = list(metrics)
        names = list(lines[0]["distance"]) if lines else list(certificate["tasks"])
        colours = {name: TASKS[i % len(TASKS)] for i, name in enumerate(names)}
        _distances(distances, certificate, lines, colours)
        _multipliers(multipliers, lines, colours)
        _pruning(pruning, certificate, lines)
        _gaps(gaps, certificate, colours)
        if not certificate["passed"]:
            figure.suptitle("NOT CERTIFIED: a check of the files failed", color="#B42318")
    return figure


def _distances(
    axes: Axes,
    certificate: Mapping[str, Any],
    lines: list[Mapping[str, Any]],
    colours: Mapping[str, str],
) -> None:
    axes.set_title("Distance to the central policy")
    epsilon = _number(certificate["epsilon"])
    iterations = _column(lines, "iteration")
    final = certificate["iteration"]
    last = {row["task"]: row["ridged_distance"] for row in certificate["constraint"]}
    for name, colour in colours.items():
        label = f"{name}: {last[name]:.3f}" if name in last else name
        axes.plot(iterations, _column(lines, "distance", name), color=colour, lw=1.0, label=label)
    for row in certificate["constraint"]:
        axes.plot(
            [final],
            [row["ridged_distance"]],
            marker="o",
            ms=5,
            color=colours.get(row["task"], CENTRAL),
            markeredgecolor="white",
            clip_on=False,
            zorder=5,
        )
    tallest = max(
        [0.0, *(line["distance"][n] for line in lines for n in colours)]
        + [row["ridged_distance"] for row in certificate["constraint"]]
    )
    if math.isfinite(epsilon):
        axes.axhline(epsilon, color=_BOUND, ls="--", lw=1.0)
        axes.annotate(
            f"ε = {epsilon:g}",
            (0.0, epsilon),
            xycoords=("axes fraction", "data"),
            xytext=(3, 4),
            textcoords="offset points",
            color=_WORDS,
        )
        tallest = max(tallest, epsilon)
    axes.set_ylim(0, 1.2 * tallest if tallest > 0 else 1.0)
    _over_iterations(axes, iterations)
    if 0 < len(colours) <= _MOST_NAMED:
        axes.legend(loc="best", title="task: final, from the file" if last else None)
    if not lines:
        _say(axes, "no readable metrics")


def _multipliers(axes: Axes, lines: list[Mapping[str, Any]], colours: Mapping[str, str]) -> None:
    axes.set_title("Multiplier: how hard the constraint pulls")
    iterations = _column(lines, "iteration")
    drawn = infinite = False
    for name, colour in colours.items():
        values = _column(lines, "multiplier", name)
        drawn = drawn or bool(np.any(values > 0))
        infinite = infinite or bool(np.any(np.isnan(values)))
        if len(values):
            axes.plot(iterations, values, color=colour, lw=0.5, alpha=0.35)
            axes.plot(iterations, _smooth(values), color=colour, lw=1.3)
    if lines and not drawn:
        _say(axes, "infinite: ε = 0 forces consensus" if infinite else "zero: nothing is held back")
    elif not lines:
        _say(axes, "no readable metrics")
    axes.set_ylim(bottom=0)
    if not drawn:
        axes.set_yticks([])
    _over_iterations(axes, iterations)


def _pruning(axes: Axes, certificate: Mapping[str, Any], lines: list[Mapping[str, Any]]) -> None:
    axes.set_title("Pruning: largest move in one iteration")
    iterations = _column(lines, "iteration")
    _over_iterations(axes, iterations)
    if not lines or certificate["pruning"] is None:
        _say(axes, "no readable metrics")
        return
    budget = _number(certificate["pruning"]["budget"])
    errors = _column(lines, "pruning_error")
    forced = _column(lines, "forced_by_cap") + _column(lines, "forced_by_conditioning")
    made = np.diff(iterations, prepend=0.0)
    if np.any(forced > 0):
        beside = axes.twinx()
        beside.fill_between(iterations, 0, forced / made, step="pre", color=_FORCED, lw=0)
        most = float(np.max(forced / made))
        beside.set_ylim(0, 3.0 * most)
        beside.set_yticks([0.0, most], ["0", f"{most:.3g}"])
        beside.set_ylabel("forced removals per iteration", color=_WORDS, loc="bottom")
        beside.tick_params(colors=_WORDS)
        beside.spines["right"].set_visible(True)
        beside.spines["right"].set_color(_FORCED)
        # The grey area lies behind the curve.
        axes.set_zorder(beside.get_zorder() + 1)
        axes.patch.set_visible(False)
    seen = errors > 0
    axes.plot(iterations[seen], errors[seen], color=CENTRAL, lw=1.0)
    if np.any(seen) or 0 < budget < math.inf:
        axes.set_yscale("log")
    if 0 < budget < math.inf:
        axes.axhline(budget, color="#D55E00", ls="--", lw=1.0)
        axes.annotate(
            f"budget {budget:g}",
            (1.0, budget),
            xycoords=("axes fraction", "data"),
            xytext=(-3, 4),
            textcoords="offset points",
            ha="right",
            color="#D55E00",
        )
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, budget / 4), max(high, budget * 4))
    if not np.any(seen):
        _say(axes, "nothing was moved")


def _gaps(axes: Axes, certificate: Mapping[str, Any], colours: Mapping[str, str]) -> None:
    axes.set_title("Stationarity gap")
    rows = certificate["gaps"]
    values = [[_number(row["gap"][end]) for end in ("low", "value", "high")] for row in rows]
    if not rows or not np.all(np.isfinite(values)) or not np.any(values):
        words = {0.0: "always 0 for ε = 0", math.inf: "infinite for ε = ∞"}
        epsilon = _number(certificate["epsilon"])
        _say(axes, words.get(epsilon, "not measured") if rows else "not measured")
        axes.set_yticks([])
        axes.set_xticks([])
        return
    for place, (row, (low, value, high)) in enumerate(zip(rows, values, strict=True)):
        colour = colours.get(row["task"], CENTRAL)
        axes.plot([low, high], [place, place], color=colour, lw=2.0, solid_capstyle="butt")
        axes.plot([value], [place], marker="o", ms=6, color=colour, markeredgecolor="white")
    axes.set_yticks(range(len(rows)), [row["task"] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    alpha = certificate["alpha"]
    highest = max(high for _, _, high in values)
    lowest = min(0.0, *(low for low, _, _ in values))
    if alpha is not None:
        axes.axvline(alpha, color=_BOUND, ls="--", lw=1.0)
        axes.annotate(
            f"α = {alpha:g}",
            (alpha, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(4, -10),
            textcoords="offset points",
            color=_WORDS,
        )
        highest = max(highest, alpha)
    axes.set_xlim(lowest - (0.05 * highest if lowest < 0 else 0.0), 1.15 * highest)
    axes.set_xlabel(f"gap with {100 * certificate['confidence']:g} % interval")


def _column(lines: Sequence[Mapping[str, Any]], field: str, name: str | None = None) -> Floats:
    """Return one field of all lines; NaN stands for what JSON lacks."""
    values = [line[field] if name is None else line[field].get(name) for line in lines]
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _smooth(values: Floats) -> Floats:
    """Return the running mean over a fiftieth of the lines."""
    window = max(1, len(values) // 50)
    total = np.cumsum(np.insert(values, 0, 0.0))
    stop = np.arange(1, len(values) + 1)
    start = np.maximum(stop - window, 0)
    return np.asarray((total[stop] - total[start]) / (stop - start))


def _number(value: float | str | None) -> float:
    """Return a number of the certificate's JSON, where infinity is a word."""
    return math.nan if value is None else float(value)


def _over_iterations(axes: Axes, iterations: Floats) -> None:
    axes.set_xlabel("iteration")
    if len(iterations):
        axes.set_xlim(0, iterations[-1])


def _say(axes: Axes, words: str) -> None:
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=_WORDS)
