"""How commands print numbers: tables for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from crosslearning._base.plain_data import json_text
from crosslearning.cli.application import console

if TYPE_CHECKING:
    from crosslearning.analysis.comparison import Comparison
    from crosslearning.learner.evaluation import Evaluation

#: From so many tasks on, a table shows their mean and the worst: the tasks are then the sample.
MANY_TASKS = 13
#: How many of the worst.
WORST = 5

#: What ε = ∞ makes of the central policy, for the line below a table.
WITHOUT_RADIUS = "With ε = ∞ nothing ties a central policy: it is the mean of the task policies."


#: What a radius that has bound nobody yet makes of it.
STILL_ZERO = (
    "The central policy is still zero: ε has held no task policy back yet, and nothing moved it. "
    "Learn longer, or take a smaller ε."
)


def show_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose cells never break within a line, however narrow the window is."""
    show_line(title)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    for heading in headings:
        table.add_column(escape(heading), no_wrap=True)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    wide = console.options.update(max_width=10_000)
    natural = Measurement.get(console, wide, table).maximum
    table.width = natural if natural > console.width else None
    console.print(table, crop=False, highlight=False)


def show_line(text: str) -> None:
    """Print a line as it is: without colours, without breaks."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def show_numbers(
    title: str, results: Sequence[Evaluation] | Sequence[Comparison], listed: Sequence[str] = ()
) -> None:
    """Print evaluations or comparisons, the discounted return above the total one.

    Of what else was measured only the means that are ``listed`` are shown.
    """
    rates = list(dict.fromkeys(name for one in results for name in one.rates))
    means = [name for name in listed if any(name in one.means for one in results)]
    before = [name for name in ("task", "policy") if hasattr(results[0], name)]
    after = [name for name in ("verdict",) if hasattr(results[0], name)]
    rows = []
    for one in results:
        words = {name: getattr(one, name) for name in (*before, *after)}
        shares = [one.rates[name].percent() if name in one.rates else "–" for name in rates]
        others = [str(one.means[name]) if name in one.means else "–" for name in means]
        cells = [_both_returns(one), *(share.replace(" %", "") for share in shares), *others]
        rows.append([*(words[name] for name in before), *cells, *(words[name] for name in after)])
    headings = ["discounted return\nand total", *(f"{name}, %" for name in rates), *means]
    show_table(title, [*before, *headings, *after], rows)


def _both_returns(one: Evaluation | Comparison) -> str:
    """Return the discounted return and below it the total one."""
    return f"{one.discounted_return}\n{one.total_return}"


def describe_kernel(kernel: Mapping[str, Any]) -> str:
    """Return what ``Kernel.to_dict`` describes, for people: widths in the place of squares."""
    told = dict(kernel)
    if "parts" in told:
        parts = [f"{describe_kernel(part)} of coordinates {own}" for part, own in told["parts"]]
        return " times ".join(parts)
    words, covariance = [told.pop("kernel")], told.pop("covariance", None)
    if covariance is not None:
        told["std"] = [row[d] ** 0.5 for d, row in enumerate(covariance)]
    if "std" in told:
        widths = ", ".join(f"{width:.4g}" for width in told.pop("std"))
        words.append(f"widths (standard deviations) {widths}")
    if covariance is not None and any(
        number for d, row in enumerate(covariance) for e, number in enumerate(row) if d != e
    ):
        words.append("correlated")
    for name, size in (("periodic", "period"), ("logarithmic", "size")):
        words += [f"coordinate {d} {name}, {size} {x:.4g}" for d, x in told.pop(name, ())]
    return "; ".join([*words, *(f"{name} {value}" for name, value in told.items())])


def print_json(rows: list[dict[str, Any]]) -> None:
    """Print plain data as JSON, with null in the place of what is no finite number."""
    print(json_text(rows, indent=2))
