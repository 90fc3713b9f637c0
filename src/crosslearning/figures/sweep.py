"""The trade-off of a sweep: returns, distances and multipliers against the radius."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crosslearning._base.statistics import Interval
from crosslearning.errors import InputError
from crosslearning.figures import parts
from crosslearning.figures.style import CENTRAL, GREY, PALE, TASKS, figure_style

#: The curves of returns by kind of tasks: label, colour, marker, and shift, against overlaps.
_RETURNS = {
    "training": {
        "own": ("task policies, each on its own", TASKS[0], "o", -0.06),
        "central": ("central policy on all", CENTRAL, "s", 0.06),
    },
    "held-out": {"held_out": ("central policy", TASKS[1], "D", 0.0)},
}


def _places(epsilons: Sequence[float]) -> dict[float, float]:
    """Return the x of each radius: its log2, with 0 and infinity outside."""
    inner = [math.log2(epsilon) for epsilon in epsilons if 0.0 < epsilon < math.inf] or [0.0]
    step = 1.3 if len(inner) < 2 else max(1.0, 1.3 * (inner[-1] - inner[0]) / (len(inner) - 1))
    outside = {0.0: inner[0] - step, math.inf: inner[-1] + step}
    return {e: outside[e] if e in outside else math.log2(e) for e in epsilons}


@figure_style()
def sweep_figure(sweep: Mapping[str, Any]) -> Figure:
    """Draw a sweep from the content of ``sweep.json``."""
    rows, chosen, seeds = sweep["rows"], sweep["recommendation"], len(sweep["seeds"])
    if not rows:
        raise InputError("there is nothing to draw: the sweep has no radius")
    radii = _places([parts.number(row["epsilon"]) for row in rows])
    figure = Figure(figsize=(8.4, 5.2), layout="constrained")
    kinds = ["training", "held-out" if "held_out" in rows[0] else "training"]
    layout: list[Any] = [kinds, ["ratios", "multipliers"]]
    panels = figure.subplot_mosaic(layout, height_ratios=[1.6, 1.0])
    for kind in dict.fromkeys(kinds):
        axes, drawn = panels[kind], _RETURNS[kind]
        for name, style in drawn.items():
            _curve(axes, radii, [parts.read_interval(row[name]) for row in rows], style)
        _mark(axes, radii, chosen, chosen["by"] in drawn)
        axes.set_title(f"Discounted return on {kind} tasks")
        axes.legend(loc="best", fontsize=8, frameon=True, framealpha=0.9, edgecolor="none")
    _ratios(panels["ratios"], radii, rows)
    pulls = [parts.read_interval(row["multiplier"]) for row in rows]
    _curve(panels["multipliers"], radii, pulls, within=(0.0, math.inf))
    panels["multipliers"].set(title="Mean multiplier", ylim=(0.0, None))
    names = ["∞" if math.isinf(epsilon) else f"{epsilon:g}" for epsilon in radii]
    limits = (min(radii.values()) - 0.5, max(radii.values()) + 0.5)
    for axes in panels.values():
        axes.set_xticks(list(radii.values()), names)
        axes.set(xlim=limits, xlabel="centrality radius ε")
    bars = f"bars: 95 % intervals over {seeds} seeds" if seeds > 1 else "one seed: no intervals"
    dots = parts.entry("dotted: to ε = 0 and ε = ∞", ls=":", color=GREY)
    parts.legend_outside(figure, [parts.dot(bars, GREY, "|", ms=11), dots])
    return figure


def _curve(
    axes: Axes,
    radii: Mapping[float, float],
    intervals: Sequence[Interval],
    style: tuple[str, str, str, float] = ("", CENTRAL, "o", 0.0),
    within: tuple[float, float] = (-math.inf, math.inf),
) -> None:
    """Draw means, solid between finite radii and dotted to the ends, with their bars."""
    label, colour, marker, shift = style
    where = np.array(list(radii.values())) + shift
    means = np.array([interval.value for interval in intervals])
    inner = np.array([0.0 < epsilon < math.inf for epsilon in radii])
    axes.plot(where, means, color=colour, lw=1.0, ls=":")
    axes.plot(where[inner], means[inner], color=colour, lw=1.4)
    bars: dict[str, Any] = {"color": colour, "marker": marker, "ms": 4.5, "label": label}
    parts.error_bars(axes, list(where), intervals, within=within, elinewidth=1.0, **bars)


def _ratios(axes: Axes, radii: Mapping[float, float], rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the largest distance as a share of ε, where it is finite and positive."""
    shares, highest = [], 1.0
    for epsilon, row in zip(radii, rows, strict=True):
        scale = 1.0 / epsilon if 0.0 < epsilon < math.inf else math.nan
        far = parts.read_interval(row["distance"])
        shares.append(Interval(far.value * scale, far.low * scale, far.high * scale))
        # Only the relaxed projection may exceed ε.
        seeds = [scale * parts.number(seed) for seed in row["distance"].get("seeds", ())]
        highest = max([highest, *(seed for seed in seeds if math.isfinite(seed))])
    _curve(axes, radii, shares, within=(0.0, highest))
    parts.draw_bound(axes, 1.0, "ε")
    axes.set(title="Largest distance to the centre, as a share of ε", ylim=(0.0, 1.2 * highest))


def _mark(axes: Axes, radii: Mapping[float, float], chosen: Mapping[str, Any], named: bool) -> None:
    """Mark the recommended radius, and those that do not differ significantly from it."""
    best = radii[parts.number(chosen["epsilon"])]
    left = best <= np.mean([min(radii.values()), max(radii.values())])
    axes.axvline(best, color=GREY, lw=1.0, ls="--", zorder=0)
    style = {"xycoords": axes.get_xaxis_transform(), "ha": "left" if left else "right"}
    if named:
        shift = (4 if left else -4, 0)
        parts.write(axes, "recommended", (best, 0.02), shift, GREY, fontsize=8, **style)
    label = "not significantly different" if named else ""
    for epsilon in map(parts.number, chosen["not_significantly_different"]):
        if radii[epsilon] != best:
            axes.axvline(radii[epsilon], color=PALE, lw=6.0, alpha=0.5, zorder=0, label=label)
            label = ""
