"""Draw what the function space does: the two projections, and pruning at work.

Run it from the root of the repository::

    python examples/function_space.py             # PNG and PDF into figures/
    python examples/function_space.py --help

The points of the first two pictures are functions too: R² is the function space of the linear
kernel on the knots (1, 0) and (0, 1), where the weights are the coordinates and the norm is the
length. So what is drawn is what :func:`crosslearning.rkhs.project` returned, nothing else.
"""

from __future__ import annotations

import argparse
import logging
import sys
import textwrap
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from matplotlib.ticker import NullFormatter, NullLocator
from numpy.typing import NDArray

from crosslearning.rkhs import Family, Gaussian, Linear, PruningCertificate, project, prune

Floats = NDArray[np.float64]

# Okabe and Ito's colours: they stay apart for every common kind of colour vision.
BLACK, GREY, PALE = "#000000", "#666666", "#b8b8b8"
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "mathtext.fontset": "dejavusans",
    "font.size": 10.5,
    "axes.labelsize": 10.5,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "savefig.dpi": 150,
    "pdf.fonttype": 42,
}

# The projections: four points, their centre, and the radius ε.
POINTS = np.array([[-2.6, 0.9], [0.9, 2.5], [2.7, -0.5], [0.05, -0.25]])
CENTRE = np.array([-0.9, -1.0])
EPSILON = 1.0
# Where the letters of the given points go, in typographic points from each.
LETTERS = [(-16, 5), (4, 15), (16, -5), (4, -17)]

# The pruning: curves on 60 knots, the budget of the picture, and the budgets of the sweep.
KNOTS = 60
BUDGET = 0.2
BUDGETS = np.geomspace(1e-4, 2.0, 27)
CURVES = (("$h_1$", BLUE), ("$h_2$", GREEN), ("$h_3$", PURPLE), ("$g$", BLACK))


def points_as_functions(points: Floats, centre: Floats) -> Family:
    """Return points of R² as the functions s ↦ ⟨point, s⟩, the centre last."""
    coordinates = np.vstack([points, centre])  # (functions, 2)
    return Family(Linear(std=(1.0, 1.0)), np.eye(2), coordinates.T[:, :, None])


def functions_as_points(family: Family) -> tuple[Floats, Floats]:
    """Return the points h_i, shape (N, 2), and the centre g of a family on R²."""
    coordinates = family.weights[:, :, 0].T
    return coordinates[:-1], coordinates[-1]


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


# The projections ---------------------------------------------------------------------------


def plane(axes: Axes) -> None:
    """Prepare axes for points of R²: a unit is the same length both ways, and no frame."""
    axes.set_aspect("equal")
    axes.set_xlim(-3.1, 3.2)
    axes.set_ylim(-1.35, 3.0)
    axes.set_axis_off()


def write_beside(axes: Axes, text: str, at: Floats, shift: tuple[float, float], color: str) -> None:
    """Write ``text`` next to a point, shifted by so many typographic points."""
    axes.annotate(
        text,
        (float(at[0]), float(at[1])),
        xytext=shift,
        textcoords="offset points",
        color=color,
        ha="center",
        va="center",
        zorder=6,
    )


def arrow(axes: Axes, start: Floats, end: Floats, color: str, gaps: tuple[float, float]) -> None:
    """Draw an arrow that leaves the given gaps, in typographic points, at its two ends."""
    style = {"arrowstyle": "-|>", "color": color, "linewidth": 1.1}
    axes.annotate(
        "",
        (float(end[0]), float(end[1])),
        xytext=(float(start[0]), float(start[1])),
        arrowprops={**style, "shrinkA": gaps[0], "shrinkB": gaps[1]},
    )


def draw_given(axes: Axes, given: Family) -> None:
    """Draw the given points h̄_i and their centre ḡ, hollow and with their letters."""
    points, centre = functions_as_points(given)
    hollow: dict[str, Any] = {"facecolor": "white", "edgecolor": GREY, "linewidth": 1.4}
    axes.scatter(points[:, 0], points[:, 1], s=66, zorder=4, **hollow)
    axes.scatter(centre[0], centre[1], s=60, marker="s", zorder=4, **hollow)
    for i, shift in enumerate(LETTERS):
        write_beside(axes, rf"$\bar h_{i + 1}$", points[i], shift, GREY)
    write_beside(axes, r"$\bar g$", centre, (-15, -3), GREY)


def draw_projected(axes: Axes, given: Family, projected: Family, color: str, line: str) -> None:
    """Draw projected points, the ways they came, and the ball of radius ε around their centre."""
    points, centre = functions_as_points(projected)
    middle = (float(centre[0]), float(centre[1]))
    if line == "-":
        axes.add_patch(Circle(middle, EPSILON, color=color, alpha=0.07, linewidth=0, zorder=0))
    axes.add_patch(
        Circle(middle, EPSILON, fill=False, edgecolor=color, linewidth=1.2, linestyle=line)
    )
    for start, end in zip(functions_as_points(given)[0], points, strict=True):
        axes.plot(*np.stack([start, end]).T, color=color, linewidth=1.5, linestyle=line, zorder=2)
        axes.plot(*np.stack([end, centre]).T, color=color, linewidth=0.9, linestyle=":", zorder=2)
    axes.scatter(points[:, 0], points[:, 1], s=32, color=color, zorder=5)
    axes.scatter(centre[0], centre[1], s=44, marker="s", color=color, zorder=5)


def projection_legend(figure: Figure, **colors: str) -> None:
    """Write the legend below: the given points, and each set of projected ones."""
    common: dict[str, Any] = {"linestyle": "", "marker": "o"}
    hollow: dict[str, Any] = {"markerfacecolor": "white", "markeredgewidth": 1.4, "markersize": 8}
    entries = [Line2D([], [], color=GREY, label="given", **hollow, **common)]
    for label, color in colors.items():
        entries.append(Line2D([], [], color=color, label=label, markersize=6, **common))
    figure.legend(
        handles=entries, loc="outside lower center", ncols=len(entries), handletextpad=0.1
    )


def projection_exact(given: Family) -> tuple[Figure, str]:
    """Draw the exact projection alone, and say what the picture shows."""
    projected, outcome = project(given, EPSILON)
    points, centre = functions_as_points(projected)
    figure = Figure(figsize=(5.8, 4.4), layout="constrained")
    axes = figure.subplots()
    plane(axes)
    draw_projected(axes, given, projected, VERMILLION, "-")
    draw_given(axes, given)
    arrow(axes, functions_as_points(given)[1], centre, GREY, (6, 6))
    edge = centre + EPSILON * np.array([np.cos(2.4), np.sin(2.4)])
    arrow(axes, centre, edge, VERMILLION, (5, 0))
    write_beside(axes, r"$\epsilon$", 0.45 * centre + 0.55 * edge, (6, 6), VERMILLION)
    for i, shift in enumerate([(-13, -9), (14, 5), (14, 8)]):
        write_beside(axes, rf"$h_{i + 1}$", points[i], shift, VERMILLION)
    write_beside(axes, "$g$", centre, (13, 7), VERMILLION)
    projection_legend(figure, projected=VERMILLION)
    moved = int(np.sum(outcome.active))
    return figure, (
        f"The exact projection. {len(points)} points and their centre move as little as possible "
        f"until every point is within ε = {EPSILON:g} of the centre: {moved} end on the circle, "
        f"{len(points) - moved} was inside and stays."
    )


def projection_relaxed(given: Family) -> tuple[Figure, str]:
    """Draw the relaxed projection over the exact one, and say what the picture shows."""
    exact, _ = project(given, EPSILON, "exact")
    relaxed, _ = project(given, EPSILON, "relaxed")
    figure = Figure(figsize=(5.8, 4.4), layout="constrained")
    axes = figure.subplots()
    plane(axes)
    draw_projected(axes, given, exact, VERMILLION, "-")
    draw_projected(axes, given, relaxed, BLUE, "--")
    draw_given(axes, given)
    write_beside(axes, "$g$", functions_as_points(exact)[1], (-9, -10), VERMILLION)
    write_beside(axes, "$g'$", functions_as_points(relaxed)[1], (13, 7), BLUE)
    projection_legend(figure, exact=VERMILLION, relaxed=BLUE)
    distances = relaxed.distances()
    return figure, (
        "The relaxed projection, dashed blue, over the exact one, vermillion. It bounds only the "
        f"mean square of the distances: {int(np.sum(distances > EPSILON))} of {len(distances)} "
        f"points end outside the circle of radius ε, the farthest at {distances.max():.2f} ε."
    )


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
    axes.eventplot(family.knots[stays, 0], lineoffsets=1, linelengths=0.7, colors=BLACK)
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
    order.step(BUDGETS, [c.knots for c in certificates], where="mid", color=BLACK, linewidth=1.5)
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


def save(figure: Figure, folder: Path, name: str, formats: list[str]) -> list[Path]:
    """Write a figure in the wanted formats, without dates, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    logging.getLogger("fontTools").setLevel(logging.ERROR)  # it remarks on the fonts' own dates
    paths = []
    for kind in formats:
        path = folder / f"{name}.{kind}"
        figure.savefig(path, metadata={"CreationDate": None} if kind == "pdf" else None)
        paths.append(path)
    return paths


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
    points, curves = points_as_functions(POINTS, CENTRE), related_curves()
    pictures = (
        ("projection_exact", projection_exact, points),
        ("projection_relaxed", projection_relaxed, points),
        ("pruning", pruning_at_work, curves),
        ("pruning_budgets", budget_sweep, curves),
    )
    with matplotlib.rc_context(STYLE):
        for name, draw, family in pictures:
            figure, sentence = draw(family)
            try:
                first, *others = save(figure, wanted.out, name, wanted.formats)
            except OSError as problem:
                print(f"cannot write to {wanted.out}: {problem}; choose another folder with --out")
                return 1
            print(f"\n{first}" + "".join(f" and {path.name}" for path in others))
            print(textwrap.indent(textwrap.fill(sentence, 86), "  "))
    return 0


if __name__ == "__main__":
    sys.exit(main())
