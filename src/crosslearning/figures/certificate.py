"""The certificate's figure: constraint, multipliers, pruning and gaps on one page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from crosslearning._base.limits import MANY_TASKS
from crosslearning.figures import parts
from crosslearning.figures.style import ALARM, CENTRAL, GREY, LIGHT, TASKS, figure_style

Plain = Mapping[str, Any]
Lines = Sequence[parts.Line]
_NOTHING = "no readable metrics"


@figure_style()
def certificate_figure(certificate: Plain, metrics: Lines) -> Figure:
    """Draw a certificate, from its JSON, and the run's metrics, if there are any.

    Four panels: distances against ε, the final ones from the file; multipliers; pruning errors
    per iteration against the budget; gaps. A fifth shows forced removals, if any.
    """
    lines = list(metrics)
    iterations = parts.column(lines, "iteration")
    last = max([float(certificate["iteration"] or 0), *iterations[-1:]])
    colours = parts.task_colours(lines[0]["distance"] if lines else certificate["tasks"])
    removals = parts.column(lines, "forced_by_cap") + parts.column(lines, "forced_by_conditioning")
    forced = bool(np.any(removals > 0.0)) and certificate["pruning"] is not None
    rows = max(0, min(len(certificate["gaps"]), MANY_TASKS) - 8)
    figure = Figure(figsize=(9.2, 6.2 + 0.2 * rows), layout="constrained")
    below = "forced" if forced else "pruning"
    layout: list[Any] = [["distances", "multipliers"], ["pruning", "gaps"], [below, "gaps"]]
    panels = figure.subplot_mosaic(layout, height_ratios=[3.0, 2.0 + 0.1 * rows, 1.1])
    epsilon = parts.number(certificate["epsilon"])
    turns = parts.draw_distances(panels["distances"], lines, colours, epsilon)
    handles = [*_final_distances(panels["distances"], certificate, colours), *turns]
    handles += _multipliers(panels["multipliers"], lines, colours)
    _pruning(panels["pruning"], certificate, lines)
    _gaps(panels.pop("gaps"), certificate, colours)
    for axes in panels.values():
        parts.iteration_axis(axes, last)
    for name in ("distances", "multipliers"):
        parts.steps_axis(panels[name], lines)
        if not lines:
            parts.explain(panels[name], _NOTHING)
    if forced:
        edges = np.insert(iterations, 0, 0.0)
        panels["forced"].stairs(removals / np.diff(edges), edges, fill=True, color=LIGHT)
        title = "Removals forced beyond the budget, per iteration"
        panels["forced"].set(title=title, ylim=(0.0, None))
        panels["pruning"].tick_params(labelbottom=False)
        panels["pruning"].set_xlabel("")
    if handles:
        parts.legend_outside(figure, handles)
    if not certificate["passed"]:
        figure.suptitle("NOT CERTIFIED: a check of the files failed", color=ALARM)
    return figure


def _final_distances(axes: Axes, certificate: Plain, colours: Mapping[str, str]) -> list[Line2D]:
    """Draw the distances of the file; return the legend entries of tasks, with their distances."""
    handles = parts.task_handles(colours)
    if not handles or not certificate["constraint"]:
        return handles
    named = dict(zip(colours, handles, strict=True)) if len(colours) <= len(TASKS) else {}
    for row in certificate["constraint"]:
        name, place = row["task"], row["ridged_distance"]
        style: dict[str, Any] = {"color": colours.get(name, CENTRAL), "mec": "white", "ms": 5}
        axes.plot(certificate["iteration"], place, "o", clip_on=False, zorder=5, **style)
        axes.set_ylim(0.0, max(axes.get_ylim()[1], 1.2 * place))
        if name in named:
            named[name].set_label(f"task {name}: {place:.3f}")
    return [*handles, parts.dot("final distance, from the file", GREY, mec="white")]


def _multipliers(axes: Axes, lines: Lines, colours: Mapping[str, str]) -> list[Any]:
    """Draw multipliers and their running means; return the legend entries."""
    axes.set_title("Multiplier: how hard the constraint pulls")
    values = np.array([parts.column(lines, "multiplier", name) for name in colours])
    handles = parts.draw_noisy(axes, lines, colours, "multiplier", *np.ravel(values))
    axes.set_ylim(bottom=0.0)
    if np.any(values > 0.0):
        return handles
    axes.set_yticks([])
    if lines:
        infinite = np.any(np.isnan(values))
        text = "infinite: ε = 0 forces consensus" if infinite else "zero: nothing is held back"
        parts.explain(axes, text)
    return []


def _pruning(axes: Axes, certificate: Plain, lines: Lines) -> None:
    axes.set_title("Pruning: largest move in one iteration")
    if not lines or certificate["pruning"] is None:
        parts.explain(axes, _NOTHING)
        return
    budget = parts.number(certificate["pruning"]["budget"])
    bounded = 0.0 < budget < math.inf
    errors = parts.column(lines, "pruning_error")
    seen = errors > 0.0
    # With a budget the limits are set below: matplotlib warns of the range of a single number.
    axes.set_autoscaley_on(not bounded)
    axes.plot(parts.column(lines, "iteration")[seen], errors[seen], color=CENTRAL, lw=1.0)
    if bounded or np.any(seen):
        axes.set_yscale("log")
    if bounded:
        parts.draw_bound(axes, budget, f"budget {budget:g}", TASKS[1])
        ends = [budget, *errors[seen]]
        axes.set_ylim(min(ends) / 4, max(ends) * 4)
    if not np.any(seen):
        # Below the line of the budget, which is in the middle.
        parts.explain(axes, "nothing was moved", 0.25)


def _gaps(axes: Axes, certificate: Plain, colours: Mapping[str, str]) -> None:
    gaps = {row["task"]: parts.read_interval(row["gap"]) for row in certificate["gaps"]}
    title = "Stationarity gap"
    if len(gaps) > MANY_TASKS:
        title += f", the largest {MANY_TASKS} of {len(gaps)} tasks"
        gaps = dict(sorted(gaps.items(), key=lambda item: -item[1].high)[:MANY_TASKS])
    axes.set_title(title)
    values = np.array([astuple(gap) for gap in gaps.values()])  # (tasks, 3)
    if not gaps or not np.all(np.isfinite(values)) or not np.any(values):
        words = {0.0: "always 0 for ε = 0", math.inf: "infinite for ε = ∞"} if gaps else {}
        parts.explain(axes, words.get(parts.number(certificate["epsilon"]), "not measured"))
        axes.set(xticks=[], yticks=[])
        return
    for place, (task, gap) in enumerate(gaps.items()):
        style: dict[str, Any] = {"marker": "o", "ms": 5, "elinewidth": 2.0}
        parts.error_bars(axes, [place], [gap], True, color=colours.get(task, CENTRAL), **style)
    axes.set_yticks(range(len(gaps)), list(gaps))
    axes.set_ylim(len(gaps) - 0.4, -0.6)
    alpha = certificate["alpha"]
    highest, lowest = float(values.max()), min(0.0, float(values.min()))
    if alpha is not None:
        parts.draw_bound(axes, alpha, f"α = {alpha:g}", vertical=True)
        highest = max(highest, alpha)
    axes.set_xlim(lowest - (0.05 * highest if lowest < 0.0 else 0.0), 1.15 * highest)
    axes.set_xlabel(f"gap with {100 * certificate['confidence']:g} % interval")
