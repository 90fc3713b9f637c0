"""Draw what the function space does: the two projections, and pruning at work.

Run it from the root of the repository::

    python examples/function_space.py             # PNG and PDF into figures/
    python examples/function_space.py --help

The first two pictures come from :mod:`crosslearning.figures.projections`. Their points are
functions too, so that what is drawn is what :func:`crosslearning.rkhs.project` returned.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator
from numpy.typing import NDArray

from crosslearning.errors import StorageError
from crosslearning.figures.projections import exact_projection_figure, relaxed_projection_figure
from crosslearning.figures.style import CENTRAL, GREY, PALE, TASKS, figure_style, save_figure
from crosslearning.rkhs import Family, Gaussian, PruningCertificate, prune

Floats = NDArray[np.float64]

BLUE, VERMILLION, GREEN, PURPLE = TASKS[:4]

# The pruning: curves on 60 knots, the budget of the picture, and the budgets of the sweep.
KNOTS = 60
BUDGET = 0.2
BUDGETS = np.geomspace(1e-4, 2.0, 27)
CURVES = (("$h_1$", BLUE), ("$h_2$", GREEN), ("$h_3$", PURPLE), ("$g$", CENTRAL))


def related_curves(seed: int = 7) -> Family:
    """Return three related curves and their mean, fitted at 60 random points.

    Each is the kernel ridge regression of a smooth target. The knots are the points of the fit,
    far more than such curves need.
    """
    generator = np.random.default_rng(seed)
    kernel = Gaussian(std=[0.6])
    knots = np.sort(generator.uniform(0.0, 10.0, KNOTS))[:, None]
    t = knots[:, 0]
    levels = (1.3, 0.55, -1.85)
    targets = np.stack(
        [np.sin(t) + 0.35 * np.cos(2.1 * t + i) + level for i, level in enumerate(levels)], axis=1
    )
    weights = np.linalg.solve(kernel(knots) + 1e-2 * np.eye(KNOTS), targets)
    together = np.concatenate([weights, weights.mean(axis=1, keepdims=True)], axis=1)
    return Family(kernel, knots, together[:, :, None])


# Pruning -----------------------------------------------------------------------------------


def pruning_at_work(family: Family) -> tuple[Figure, str]:
    """Draw curves before and after pruning, what changed, and which knots stay."""
    pruned, certificate = prune(family, BUDGET)
    grid = np.linspace(0.0, 10.0, 801)
    before, after = family(grid[:, None])[:, :, 0], pruned(grid[:, None])[:, :, 0]
    figure = Figure(figsize=(7.0, 5.6), layout="constrained")
    curves, change, knots = figure.subplots(
        3, 1, sharex=True, gridspec_kw={"height_ratios": [3.4, 1.6, 0.75]}
    )
    draw_curves(curves, grid, before, after)
    curves_legend(curves, certificate)
    draw_change(change, grid, after - before)
    draw_knots(knots, family, pruned)
    figure.align_ylabels()
    return figure, (
        f"Pruning with the budget {BUDGET:g}. {family.functions} curves on {len(family.knots)} "
        f"knots keep {certificate.knots} of them. The certificate claims that none moved by more "
        f"than {certificate.errors.max():.4f}; the true largest move is "
        f"{family.distances_to(pruned).max():.4f}."
    )


def draw_curves(axes: Axes, grid: Floats, before: Floats, after: Floats) -> None:
    """Draw each curve before pruning, wide and pale, and after it, thin and dashed."""
    for f, (label, color) in enumerate(CURVES):
        axes.plot(grid, before[:, f], color=color, alpha=0.3, linewidth=5, solid_capstyle="butt")
        axes.plot(grid, after[:, f], color=color, linewidth=1.3, linestyle=(0, (4, 2)))
        axes.annotate(
            label, (10.0, before[-1, f]), xytext=(8, 0), textcoords="offset points",
            color=color, va="center", annotation_clip=False,
        )  # fmt: skip
    axes.set_ylabel("value")


def curves_legend(axes: Axes, certificate: PruningCertificate) -> None:
    """Write the legend above the curves."""
    wide: dict[str, Any] = {"alpha": 0.4, "linewidth": 5.0}
    thin: dict[str, Any] = {"linewidth": 1.3, "linestyle": (0, (4, 2))}
    before, after = f"before: {KNOTS} knots", f"after: {certificate.knots} knots"
    axes.legend(
        handles=[
            Line2D([], [], color=GREY, label=before, **wide),
            Line2D([], [], color=GREY, label=after, **thin),
        ],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=2,
    )


def draw_change(axes: Axes, grid: Floats, change: Floats) -> None:
    """Draw what pruning changed, inside the band that the budget allows."""
    axes.axhspan(-BUDGET, BUDGET, color=PALE, alpha=0.3, linewidth=0)
    for f, (_, color) in enumerate(CURVES):
        axes.plot(grid, change[:, f], color=color, linewidth=1.1)
    axes.set_ylim(-1.25 * BUDGET, 1.25 * BUDGET)
    axes.text(9.95, -0.93 * BUDGET, "allowed by the budget β", color=GREY, ha="right", va="bottom")
    axes.set_yticks([-BUDGET, 0.0, BUDGET])
    axes.set_ylabel("after −\nbefore")


def draw_knots(axes: Axes, family: Family, pruned: Family) -> None:
    """Draw the knots in two rows: those that stay and those that go."""
    stays = np.isin(family.knots[:, 0], pruned.knots[:, 0])
    axes.eventplot(family.knots[stays, 0], lineoffsets=1, linelengths=0.7, colors=CENTRAL)
    axes.eventplot(family.knots[~stays, 0], lineoffsets=0, linelengths=0.7, colors=PALE)
    axes.set_yticks([1, 0], labels=[f"{stays.sum()} stay", f"{(~stays).sum()} go"])
    axes.set_ylim(-0.5, 1.5)
    axes.set_xlim(-0.15, 10.15)
    axes.set_xlabel("state $s$")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def budget_sweep(family: Family) -> tuple[Figure, str]:
    """Draw claimed and true error and the number of knots against the budget."""
    outcomes = [prune(family, float(budget)) for budget in BUDGETS]
    certificates = [certificate for _, certificate in outcomes]
    true = np.array([family.distances_to(pruned).max() for pruned, _ in outcomes])
    figure = Figure(figsize=(7.0, 5.4), layout="constrained")
    errors, order = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [1.5, 1]})
    forced = shade_forced((errors, order), certificates)
    draw_errors(errors, certificates, true)
    order.step(BUDGETS, [c.knots for c in certificates], where="mid", color=CENTRAL, linewidth=1.5)
    order.axhline(len(family.knots), color=GREY, linewidth=1.0, linestyle=":")
    order.annotate(
        "before pruning", (BUDGETS[-1], len(family.knots)), xytext=(0, -5),
        textcoords="offset points", ha="right", va="top", color=GREY,
    )  # fmt: skip
    order.set_ylim(0, 1.12 * len(family.knots))
    order.set_ylabel("knots left")
    order.set_xlabel("budget β")
    figure.align_ylabels()
    claimed = np.array([c.errors.max() for c in certificates])
    return figure, (
        f"Claimed and true error for {len(BUDGETS)} budgets. The claim was never below the truth "
        f"(true/claimed is at most {np.max(true / claimed):.6f}), and from the budget "
        f"{BUDGETS[forced]:.2g} on never above the budget. Below that, knots that are nearly "
        "combinations of others had to go anyway; the certificate counts them apart."
    )


def shade_forced(panels: tuple[Axes, Axes], certificates: list[PruningCertificate]) -> int:
    """Shade the budgets that forced removals broke; return the index of the first that held."""
    forced = sum(not certificate.within_budget for certificate in certificates)
    edge = float(np.sqrt(BUDGETS[forced - 1] * BUDGETS[forced])) if forced else BUDGETS[0]
    for axes in panels:
        axes.axvspan(0.8 * BUDGETS[0], edge, color=PALE, alpha=0.3, linewidth=0, zorder=0)
        axes.set_xlim(0.8 * BUDGETS[0], 1.25 * BUDGETS[-1])
    return forced


def draw_errors(axes: Axes, certificates: list[PruningCertificate], true: Floats) -> None:
    """Draw the largest error over the functions, claimed and true, below the budget's line."""
    claimed = [certificate.errors.max() for certificate in certificates]
    axes.loglog(BUDGETS, BUDGETS, color=GREY, linewidth=1.0, linestyle="--", label="the budget")
    hollow: dict[str, Any] = {"markerfacecolor": "none", "markersize": 8, "markeredgewidth": 1.4}
    axes.loglog(BUDGETS, claimed, "o", color=BLUE, label="claimed", **hollow)
    axes.loglog(BUDGETS, true, ".", color=VERMILLION, markersize=6, label="true")
    axes.text(
        0.015, 0.95, "some removals\nforced by conditioning", transform=axes.transAxes,
        va="top", color=GREY, fontsize=9.5,
    )  # fmt: skip
    axes.set_ylabel("largest error, RKHS norm")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(loc="lower right")


# The command -------------------------------------------------------------------------------


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Draw the two projections and pruning at work, all computed by the library."
    )
    parser.add_argument(
        "--out", type=Path, default=Path("figures"), metavar="DIR",
        help="the folder for the pictures (default: figures)",
    )  # fmt: skip
    parser.add_argument(
        "--formats", nargs="+", choices=["png", "pdf"], default=["png", "pdf"],
        help="which files to write (default: both)",
    )  # fmt: skip
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Draw all pictures and say where they are and what they show."""
    wanted = arguments(given)
    print("Drawing four pictures. The first run compiles for some seconds; later ones do not.")
    curves = related_curves()
    pictures: tuple[tuple[str, Callable[[], tuple[Figure, str]]], ...] = (
        ("projection_exact", exact_projection_figure),
        ("projection_relaxed", relaxed_projection_figure),
        ("pruning", lambda: pruning_at_work(curves)),
        ("pruning_budgets", lambda: budget_sweep(curves)),
    )
    for name, draw in pictures:
        with figure_style():
            figure, sentence = draw()
        try:
            first, *others = save_figure(figure, wanted.out / name, tuple(wanted.formats))
        except StorageError as problem:
            print(f"{problem}; or choose another folder with --out")
            return 1
        print(f"\n{first}" + "".join(f" and {path.name}" for path in others))
        print(textwrap.indent(textwrap.fill(sentence, 86), "  "))
    return 0


if __name__ == "__main__":
    sys.exit(main())
