"""What the race gave: tables for the terminal and for the documentation, and pictures."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import rival
from benchmarks.race import gains
from benchmarks.race.entrants import BUDGETS, METHODS, Rival, algorithm_name, is_former
from benchmarks.race.families import FAMILIES, MACHINES
from benchmarks.race.reading import Entry, fewest, on_unseen
from crosslearning._base.files import write_atomically
from crosslearning._base.statistics import Interval
from crosslearning.errors import InputError
from crosslearning.runs.study import markdown

PAGE, IMAGES = Path("docs/results/race.md"), Path("docs/images")
#: That of the second race.
SECOND = Path("docs/results/second-race.md")
#: What stands between two of these in the page is written by this module.
BEGIN, END = "<!-- begin {} -->", "<!-- end {} -->"
HEADINGS = (
    "method",
    "seeds",
    "steps",
    "seconds",
    "mean return on the training tasks",
    "worst training task",
    "one policy for all training tasks",
    "unseen tasks",
    "seeds that reach the threshold",
    "steps to the threshold",
    "seconds to the threshold",
)


def rows(family: str, found: Sequence[Entry]) -> list[list[str]]:
    """Return the table of a family, a row for each method at its last mark."""
    table = []
    for one in found:
        reached = one.reached(FAMILIES[family].threshold)
        # A rival that is one agent for all is measured as such already.
        shared = isinstance(METHODS[one.method], Rival) and one.at("unseen") is not None
        central = one.at("returns") if shared else one.at("central")
        table.append(
            [
                one.label + (" (former defaults)" if is_former(family, one.method) else ""),
                str(one.seeds),
                f"{one.along('steps')[-1].value:,.0f}",
                _number(one.along("seconds")[-1].value),
                _text(one.at("returns")),
                _text(one.at("worst")),
                _text(central),
                _text(one.at("unseen")),
                reached.seeds,
                reached.text(),
                reached.text("seconds"),
            ]
        )
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 or value == 0.0 else f"{value:.2g}"


def _factor(value: float) -> str:
    """Return an end of a ratio; few or censored seeds leave it open, and ratios are positive."""
    return "∞" if value == math.inf else f"{max(value, 0.0):.2g}"


def _text(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    if abs(interval.value) >= 1e6:
        return f"{interval.value:.1e}".replace("-", "−", 1)
    return str(interval).replace("-", "−")


def show(found: Mapping[str, Sequence[Entry]], console: Console | None = None) -> None:
    """Print the tables."""
    console = console or Console(width=None if Console().is_terminal else 200)
    for family, entries in found.items():
        table = Table(title=f"{family}: {FAMILIES[family].what}")
        second = family in MACHINES
        for number, heading in enumerate(gains.HEADINGS if second else HEADINGS):
            table.add_column(heading, justify="left" if number == 0 else "right")
        for row in gains.rows(entries) if second else rows(family, entries):
            table.add_row(*row)
        console.print(table)


def sections(found: Mapping[str, Sequence[Entry]]) -> str:
    """Return the results as Markdown, a section for each family."""
    parts = []
    for family, entries in found.items():
        what, threshold = FAMILIES[family].what, f"{FAMILIES[family].threshold:g}".replace("-", "−")
        parts.append(
            f"### {family}\n\n{what[0].upper()}{what[1:]}. Threshold: {threshold} on every "
            f"task.\n\n{markdown(HEADINGS, rows(family, entries))}"
        )
        adapted = [(one, one.adapted) for one in entries if one.adapted is not None]
        for one, (steps, before, after) in adapted:
            parts.append(
                f"Adapted to unseen tasks (`{one.method}`, {steps:,.0f} steps of each): "
                f"{_text(before)} before, {_text(after)} after.\n"
            )
        parts += _sentences(entries, FAMILIES[family].threshold)
        alt = f"Return against steps and against seconds on {family}"
        parts.append(f"![{alt}](../images/race-{family}.png)\n")
    return "\n".join(parts)


def _sentences(entries: Sequence[Entry], threshold: float) -> list[str]:
    """Return the ratios of steps and seconds to the threshold, and differences on unseen tasks."""
    sentences = []
    for of, words in (("steps", "environment steps"), ("seconds", "seconds")):
        ratio = fewest(entries, threshold, of)
        if ratio is not None:
            ours, theirs = (one.reached(threshold).seeds for one in (ratio.ours, ratio.rival))
            sentences.append(
                f"To the threshold, `{ratio.ours.method}` ({ours} seeds) takes "
                f"{_factor(ratio.least.value)} to {_factor(ratio.most.value)} times the {words} of "
                f"the first rival, {ratio.rival.label} ({theirs} seeds); 95 % interval "
                f"[{_factor(ratio.least.low)}, {_factor(ratio.most.high)}].\n"
            )
    if pairs := on_unseen(entries):
        rows = [
            [
                f"`{one.ours.method}`, {one.steps[0]:,.0f} steps",
                f"{one.rival.label}, {one.steps[1]:,.0f} steps",
                _text(one.found),
            ]
            for one in pairs
        ]
        sentences.append(
            markdown(("unseen tasks: our central policy", "rival", "difference"), rows)
        )
    return sentences


def settings(of: Collection[str]) -> str:
    """Return the rivals' settings on families as Markdown, with where they come from."""
    table: dict[tuple[str, ...], list[str]] = {}
    for algorithm, families in rival.ZOO.items():
        for family, one in families.items():
            raced = family in of and any(
                isinstance(METHODS[name], Rival) and METHODS[name].algorithm == algorithm  # type: ignore[union-attr]
                for name in BUDGETS.get(family, {})
            )
            if raced:
                given = ", ".join(f"`{name}={value}`" for name, value in one.keywords.items())
                extra = f", {one.environments} environments" if one.environments > 1 else ""
                extra += ", normalised" if one.normalised else ""
                changed = one.changed or "–"
                entry = f"`{one.entry}`" if one.entry else "–"
                rest = algorithm_name(algorithm), entry, given + extra, changed
                table.setdefault(rest, []).append(family)
    rows = [[name, ", ".join(of), *rest] for (name, *rest), of in table.items()]
    return markdown(("algorithm", "family", "entry", "settings", "deviation"), rows)


def budgets(of: Collection[str]) -> str:
    """Return the budgets on families as Markdown."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for family in (name for name in BUDGETS if name in of):
        for method, budget in BUDGETS[family].items():
            if budget.marks[-1]:
                marks = ", ".join(f"{mark:,}" for mark in budget.marks)
                groups.setdefault((family, marks, str(budget.seeds)), []).append(f"`{method}`")
    table = [[family, ", ".join(names), *rest] for (family, *rest), names in groups.items()]
    return markdown(("family", "methods", "evaluated after steps", "seeds"), table)


def write(
    found: Mapping[str, Sequence[Entry]],
    page: Path = PAGE,
    images: Path = IMAGES,
    second: Path = SECOND,
) -> list[Path]:
    """Write the tables into the pages, between their marks, and the pictures beside them."""
    from benchmarks.race.figure import race_figure
    from crosslearning.figures.style import save_figure

    first = {family: one for family, one in found.items() if family not in MACHINES}
    rest = {family: one for family, one in found.items() if family in MACHINES}
    written = []
    for path, part, results in ((page, first, sections), (second, rest, gains.sections)):
        if part:
            families = MACHINES if path == second else FAMILIES.keys() - MACHINES
            text = path.read_text(encoding="utf-8")
            for name, table in (
                ("results", results(part)),
                ("settings", settings(families)),
                ("budgets", budgets(families)),
            ):
                text = _between(text, name, table, path)
            write_atomically(path, text.encode())
            written.append(path)
    for family, entries in first.items():
        figure = race_figure(entries, FAMILIES[family].threshold)
        written += save_figure(figure, images / f"race-{family}", ("png",))
    return written


def _between(text: str, name: str, part: str, page: Path) -> str:
    begin, end = BEGIN.format(name), END.format(name)
    before, result, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not result or not closed:
        raise InputError(f"{page} has no place for {name}: the lines {begin} and {end}, in turn")
    return f"{before}{begin}\n\n{part}\n{end}{after}"
