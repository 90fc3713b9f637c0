"""The trade-off of a sweep: returns, distances and multipliers against the radius."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.figures.style import CENTRAL, TASKS, figure_style

Floats = NDArray[np.float64]

_GREY, _PALE = "#667085", "#D0D5DD"
#: What is drawn of the returns: label, colour, marker.
_TRAINING = {
    "own": ("task policies, each on its own", TASKS[0], "o"),
    "central": ("central policy on all", CENTRAL, "s"),
}
_HELD_OUT = {"held_out": ("central policy", TASKS[1], "D")}


def sweep_figure(sweep: Mapping[str, Any]) -> Figure:
    """Draw a sweep from its plain data, such as the content of ``sweep.json``.

    Bands are the 95 % Student intervals over seeds. Radii stand on a logarithmic axis, on which
    0 and infinity have places of their own, joined by dotted lines.

    Parameters
    ----------
    sweep : mapping
        As ``Sweep.to_dict`` returns it.
    """
    rows = sweep["rows"]
    if not rows:
        raise InputError("there is nothing to draw: the sweep has no radius")
    epsilons = [float(row["epsilon"]) for row in rows]
    places = _places(epsilons)
    chosen = sweep["recommendation"]
    with figure_style():
        figure = Figure(figsize=(8.4, 5.2), layout="constrained")
        with_held_out = "held_out" in rows[0]
        layout: list[Any] = [
            ["training", "held-out" if with_held_out else "training"],
            ["ratios", "multipliers"],
        ]
        panels = figure.subplot_mosaic(layout, height_ratios=[1.6, 1.0])
        curves = {"training": _TRAINING} | ({"held-out": _HELD_OUT} if with_held_out else {})
        for panel, drawn in curves.items():
            axes = panels[panel]
            for name, (label, colour, marker) in drawn.items():
                _curve(axes, places, epsilons, rows, name, colour, marker, label)
            _mark(axes, places, epsilons, chosen, chosen["by"] in drawn)
            axes.set_title(f"Discounted return on {panel} tasks")
            axes.legend(loc="best", fontsize=8, frameon=True, framealpha=0.9, edgecolor="none")
        ratios, multipliers = panels["ratios"], panels["multipliers"]
        scales = [1.0 / e if 0.0 < e < math.inf else math.nan for e in epsilons]
        _curve(ratios, places, epsilons, rows, "distance", CENTRAL, "o", "", scales)
        ratios.axhline(1.0, color=_PALE, linestyle="--", linewidth=1.0, zorder=0)
        ratios.set_ylim(0.0, 1.15)
        ratios.set_title("Largest distance to the centre, as a share of ε")
        _curve(multipliers, places, epsilons, rows, "multiplier", CENTRAL, "o", "")
        multipliers.set_ylim(bottom=0.0)
        multipliers.set_title("Mean multiplier")
        for axes in panels.values():
            axes.set_xticks(places, [_text(epsilon) for epsilon in epsilons])
            axes.set_xlim(places[0] - 0.5, places[-1] + 0.5)
            axes.set_xlabel("centrality radius ε")
    return figure


def _places(epsilons: Sequence[float]) -> list[float]:
    """Return where each radius stands: log2, with 0 and infinity a good step outside."""
    inner = [math.log2(epsilon) for epsilon in epsilons if 0.0 < epsilon < math.inf] or [0.0]
    step = 1.3 if len(inner) < 2 else max(1.0, 1.3 * (inner[-1] - inner[0]) / (len(inner) - 1))
    ends = {0.0: inner[0] - step, math.inf: inner[-1] + step}
    return [ends[e] if e in ends else math.log2(e) for e in epsilons]


def _curve(
    axes: Axes,
    places: Sequence[float],
    epsilons: Sequence[float],
    rows: Sequence[Mapping[str, Any]],
    name: str,
    colour: str,
    marker: str,
    label: str,
    scales: Sequence[float] | None = None,
) -> None:
    """Draw means, solid between finite radii and dotted to the ends, with their band."""

    def numbers(key: str) -> Floats:
        found = [row[name].get(key) for row in rows]
        plain = np.array([math.nan if value is None else value for value in found])
        return plain if scales is None else plain * np.array(scales)

    where, means = np.array(places), numbers("value")
    inner = np.array([0.0 < epsilon < math.inf for epsilon in epsilons])
    axes.plot(where, means, color=colour, linewidth=1.0, linestyle=":")
    axes.plot(where[inner], means[inner], color=colour, linewidth=1.4)
    axes.plot(
        where, means, color=colour, marker=marker, markersize=4.5, linestyle="none", label=label
    )
    axes.fill_between(where, numbers("low"), numbers("high"), color=colour, alpha=0.13, linewidth=0)


def _mark(
    axes: Axes,
    places: Sequence[float],
    epsilons: Sequence[float],
    chosen: Mapping[str, Any],
    named: bool,
) -> None:
    """Mark the recommended radius, and those that are not told apart from it."""
    best = float(chosen["epsilon"])
    together = [float(epsilon) for epsilon in chosen["not_told_apart"]]
    middle = 0.5 * (places[0] + places[-1])
    label = "not told apart from it" if named else ""
    for place, epsilon in zip(places, epsilons, strict=True):
        if epsilon == best:
            axes.axvline(place, color=_GREY, linewidth=1.0, linestyle="--", zorder=0)
            right = place <= middle
            axes.annotate(
                "recommended" if named else "",
                (place, 0.02),
                xycoords=("data", "axes fraction"),
                xytext=(4 if right else -4, 0),
                textcoords="offset points",
                ha="left" if right else "right",
                color=_GREY,
                fontsize=8,
            )
        elif epsilon in together:
            axes.axvline(place, color=_PALE, linewidth=6.0, alpha=0.5, zorder=0, label=label)
            label = ""


def _text(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"
