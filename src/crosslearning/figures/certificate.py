"""The certificate's figure: constraint, multipliers, pruning and gaps on one page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from crosslearning.figures import parts
from crosslearning.figures.style import ALARM, CENTRAL, GREY, LIGHT, TASKS, figure_style

Lines = Sequence[parts.Line]
_NOTHING = "no readable metrics"


@figure_style()
def certificate_figure(certificate: Mapping[str, Any], metrics: Lines) -> Figure:
    """Draw a certificate, as its JSON holds it, and the run's lines of metrics.

    Four panels: distances against ε with the final ones as computed from the file; multipliers;
    what pruning moved in one iteration against the budget; stationarity gaps with their
    intervals. A fifth shows the forced removals, if there were any. Without lines of metrics the
    curves are left out and a word says so.
    """
    lines = list(metrics)
    iterations = parts.column(lines, "iteration")
    last = max([float(certificate["iteration"] or 0), *iterations[-1:]])
    colours = parts.task_colours(lines[0]["distance"] if lines else certificate["tasks"])
    made = np.diff(iterations, prepend=0.0)
    removals = parts.column(lines, "forced_by_cap") + parts.column(lines, "forced_by_conditioning")
    forced = bool(np.any(removals > 0.0)) and certificate["pruning"] is not None
    rows = max(0, len(certificate["gaps"]) - 8)
    figure = Figure(figsize=(9.2, 6.2 + 0.2 * rows), layout="constrained")
    layout: list[Any] = [["distances", "multipliers"], ["pruning", "gaps"], ["pruning", "gaps"]]
    if forced:
        layout[2] = ["forced", "gaps"]
    panels = figure.subplot_mosaic(layout, height_ratios=[3.0, 2.0 + 0.1 * rows, 1.1])
    curves = {name: parts.column(lines, "distance", name) for name in colours}
    epsilon = parts.number(certificate["epsilon"])
    handles = parts.draw_distances(panels["distances"], iterations, curves, colours, epsilon)
    _final_distances(panels["distances"], certificate, colours)
    handles = [*_names(certificate, colours), *handles]
    handles += _multipliers(panels["multipliers"], lines, colours)
    _pruning(panels["pruning"], certificate, lines)
    if forced:
        axes = panels["forced"]
        axes.stairs(removals / made, np.insert(iterations, 0, 0.0), fill=True, color=LIGHT)
        axes.set_ylim(bottom=0)
        axes.set_title("Removals forced beyond the budget, per iteration")
        panels["pruning"].tick_params(labelbottom=False)
    _gaps(panels["gaps"], certificate, colours)
    for name in ("distances", "multipliers", "pruning", "forced"):
        if name in panels:
            parts.iteration_axis(panels[name], last)
            if not lines:
                parts.say(panels[name], _NOTHING)
            elif name in ("distances", "multipliers"):
                parts.steps_axis(panels[name], lines)
    if forced:
        panels["pruning"].set_xlabel("")
    if handles:
        parts.legend_outside(figure, handles)
    if not certificate["passed"]:
        figure.suptitle("NOT CERTIFIED: a check of the files failed", color=ALARM)
    return figure


def _names(certificate: Mapping[str, Any], colours: Mapping[str, str]) -> list[Line2D]:
    """Return the legend's tasks and, while there is room, their final distances."""
    handles = parts.task_handles(colours)
    last = {row["task"]: row["ridged_distance"] for row in certificate["constraint"]}
    if last:
        if len(colours) <= len(TASKS):
            for name, handle in zip(colours, handles, strict=True):
                if name in last:
                    handle.set_label(f"task {name}: {last[name]:.3f}")
        dot: dict[str, Any] = {"marker": "o", "linestyle": "none", "markeredgecolor": "white"}
        handles.append(Line2D([], [], color=GREY, label="final distance, from the file", **dot))
    return handles


def _final_distances(
    axes: Axes, certificate: Mapping[str, Any], colours: Mapping[str, str]
) -> None:
    tallest = axes.get_ylim()[1]
    for row in certificate["constraint"]:
        place, colour = row["ridged_distance"], colours.get(row["task"], CENTRAL)
        tallest = max(tallest, 1.2 * place)
        dot: dict[str, Any] = {"marker": "o", "markersize": 5, "markeredgecolor": "white"}
        axes.plot([certificate["iteration"]], [place], color=colour, clip_on=False, zorder=5, **dot)
    axes.set_ylim(0.0, tallest)


def _multipliers(axes: Axes, lines: Lines, colours: Mapping[str, str]) -> list[Line2D]:
    """Draw every task's multipliers, thin, and their running means; return what these are."""
    axes.set_title("Multiplier: how hard the constraint pulls")
    iterations = parts.column(lines, "iteration")
    drawn = infinite = False
    for name, colour in colours.items():
        values = parts.column(lines, "multiplier", name)
        drawn = drawn or bool(np.any(values > 0.0))
        infinite = infinite or bool(np.any(np.isnan(values)))
        if len(values):
            axes.plot(iterations, values, color=colour, lw=0.5, alpha=0.35)
            axes.plot(iterations, parts.running_mean(values), color=colour, lw=1.3)
    axes.set_ylim(bottom=0)
    if not drawn:
        axes.set_yticks([])
        if lines:
            said = "infinite: ε = 0 forces consensus" if infinite else "zero: nothing is held back"
            parts.say(axes, said)
    return parts.mean_handles(iterations) if drawn else []


def _pruning(axes: Axes, certificate: Mapping[str, Any], lines: Lines) -> None:
    axes.set_title("Pruning: largest move in one iteration")
    if not lines or certificate["pruning"] is None:
        if lines:
            parts.say(axes, _NOTHING)
        return
    budget = parts.number(certificate["pruning"]["budget"])
    iterations, errors = parts.column(lines, "iteration"), parts.column(lines, "pruning_error")
    seen = errors > 0.0
    axes.plot(iterations[seen], errors[seen], color=CENTRAL, lw=1.0)
    if np.any(seen) or 0.0 < budget < math.inf:
        axes.set_yscale("log")
    if 0.0 < budget < math.inf:
        parts.draw_bound(axes, budget, f"budget {budget:g}", TASKS[1])
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, budget / 4), max(high, budget * 4))
    if not np.any(seen):
        parts.say(axes, "nothing was moved")


def _gaps(axes: Axes, certificate: Mapping[str, Any], colours: Mapping[str, str]) -> None:
    axes.set_title("Stationarity gap")
    rows = certificate["gaps"]
    values: parts.Floats = np.array(
        [[parts.number(row["gap"][end]) for end in ("low", "value", "high")] for row in rows]
    )
    if not rows or not np.all(np.isfinite(values)) or not np.any(values):
        words = {0.0: "always 0 for ε = 0", math.inf: "infinite for ε = ∞"}
        epsilon = parts.number(certificate["epsilon"])
        parts.say(axes, words.get(epsilon, "not measured") if rows else "not measured")
        axes.set_yticks([])
        axes.set_xticks([])
        return
    for place, row in enumerate(rows):
        style: dict[str, Any] = {"color": colours.get(row["task"], CENTRAL), "elinewidth": 2.0}
        bars = [parts.read_interval(row["gap"])]
        parts.error_bars(axes, [place], bars, True, marker="o", markersize=5, **style)
    axes.set_yticks(range(len(rows)), [row["task"] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    alpha = certificate["alpha"]
    highest, lowest = float(values[:, 2].max()), min(0.0, float(values[:, 0].min()))
    if alpha is not None:
        parts.draw_bound(axes, alpha, f"α = {alpha:g}", vertical=True)
        highest = max(highest, alpha)
    axes.set_xlim(lowest - (0.05 * highest if lowest < 0.0 else 0.0), 1.15 * highest)
    axes.set_xlabel(f"gap with {100 * certificate['confidence']:g} % interval")
