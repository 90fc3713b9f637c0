"""The report: tables and figures of what was measured, and their places in the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.sharing.figure import gain_figure
from benchmarks.sharing.gains import QUANTITIES, Point, Quantity, points, radius_text, read, shown
from benchmarks.sharing.parts import Grid
from crosslearning._base.files import write_atomically
from crosslearning._base.statistics import Interval
from crosslearning.errors import InputError
from crosslearning.figures.style import save_figure
from crosslearning.runs.study import markdown

DOCS = Path("docs")
PAGE = "results/when-sharing-pays.md"
#: The figures, by name, and the parts that each shows.
FIGURES = {
    "sharing-identified": ("identified",),
    "sharing-models": ("errors", "models"),
    "sharing-policies": ("carts", "pendulums"),
}


def report(grids: Mapping[str, Grid], out: Path, write: bool = False, docs: Path = DOCS) -> str:
    """Return the tables of what was measured; write them and the figures, too, if asked."""
    maps = {}
    for part, grid in grids.items():
        measured = read(part, grid, out)
        for quantity in QUANTITIES:
            if quantity.part == part:
                maps[quantity] = points(quantity, grid, measured)
    texts = {f"{q.part}: {q.name}": _section(q, result) for q, result in maps.items()}
    if write:
        page = docs / PAGE
        old = page.read_text(encoding="utf-8")
        write_atomically(page, _filled(old, texts, page).encode())
    folder = docs / "images" if write else out
    for name, shown_parts in FIGURES.items():
        drawn = {q: result for q, result in maps.items() if q.part in shown_parts}
        if drawn:
            save_figure(gain_figure(drawn), folder / name, ("png",))
    text = "\n\n".join(f"{q.title}\n\n{t}" for q, t in zip(maps, texts.values(), strict=True))
    return f"{text}\n\nfigures are in {folder}"


def _section(quantity: Quantity, found: Sequence[Point]) -> str:
    """Return the table of a quantity, and how often a radius in between wins, as Markdown."""
    rows = [_row(quantity, point) for point in found]
    headings = [
        "spread",
        "steps each",
        "one for all, ε = 0",
        "between",
        "one each, ε = ∞",
        "between: gain over 0",
        "gain over ∞",
    ]
    by_sweep = found[0].chosen is not None
    headings += ["best between", "sweep takes", "which costs"] if by_sweep else ["choice costs"]
    return f"{markdown(headings, rows)}\n{_counts(found)}"


def _row(quantity: Quantity, point: Point) -> list[str]:
    spec = f"z.{quantity.digits}f"  # without a minus before nothing

    def gain(interval: Interval) -> str:
        text = interval.format(spec) if interval.low < interval.high else f"{interval.value:{spec}}"
        text = text.replace(", ", ",\N{NO-BREAK SPACE}")
        return f"**{text}**" if shown(interval) else text

    levels = (point.together, point.between, point.apart)
    cells = [f"{quantity.sign * one.value:{spec}}" for one in levels]
    cells += [gain(point.over_together), gain(point.over_apart)]
    if point.chosen is not None:
        cells += [radius_text(point.best), radius_text(point.chosen)]
    cells.append(gain(point.cost))
    return [f"{point.spread:g}", f"{point.data:,}", *(cell.replace("-", "−") for cell in cells)]


def _counts(found: Sequence[Point]) -> str:
    """Say at how many points a radius in between is shown to be better than the ends, or worse."""
    better = [[shown(g) and g.low > 0.0 for g in (p.over_together, p.over_apart)] for p in found]
    worse = [[shown(g) and g.high < 0.0 for g in (p.over_together, p.over_apart)] for p in found]
    both = sum(map(all, better))
    return (
        f"Seeds: {found[0].seeds}; points: {len(found)}. In between is shown to be better than "
        f"both ends at {both}, than ε = 0 at {sum(b[0] for b in better)}, than ε = ∞ at "
        f"{sum(b[1] for b in better)}; worse than ε = 0 at {sum(w[0] for w in worse)}, than ε = ∞ "
        f"at {sum(w[1] for w in worse)}."
    )


def _filled(page: str, texts: Mapping[str, str], path: Path) -> str:
    """Return the page with what stands between its markers written afresh."""
    for name, text in texts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise InputError(f"{path} must hold {begin} and {end}, each once")
        before, rest = page.split(begin)
        page = f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}"
    return page
