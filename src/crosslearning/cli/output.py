"""How commands print numbers: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from crosslearning._base.files import write_atomically
from crosslearning._base.plain_data import json_text
from crosslearning.cli.application import console

if TYPE_CHECKING:
    from crosslearning.analysis.comparison import Comparison
    from crosslearning.analysis.verdict import Verdict
    from crosslearning.learner import CrossLearner
    from crosslearning.learner.evaluation import Evaluation
    from crosslearning.tasks import Task

#: From MANY_TASKS on, a table shows their mean and the WORST: the tasks are then the sample.
MANY_TASKS, WORST = 13, 5
#: Lines below a table on the central policy: for ε = ∞, and where nothing has moved the centre g,
#: around a controller and elsewhere.
WITHOUT_RADIUS = "With ε = ∞ nothing ties a central policy: it is the mean of the task policies."
AT_CONTROLLER = (
    "No correction has moved the centre g: it is the controller, and the central policy the mean "
    "of the corrections."
)
STILL_ZERO = "The central policy is still zero. Learn longer, or take a smaller ε."


def show_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose cells are not wrapped, however narrow the window is."""
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


def show_files(paths: Iterable[Path]) -> None:
    """Print the paths of files that were written."""
    for path in paths:
        show_line(f"  {path}")


def show_numbers(
    title: str, results: Sequence[Evaluation] | Sequence[Comparison], tasks: Sequence[Task] = ()
) -> None:
    """Print returns (discounted above total), rates, and the means that tasks want listed."""
    listed = dict.fromkeys(name for task in tasks for name in task.listed_outcomes)
    rates = dict.fromkeys(name for one in results for name in one.rates)
    means = [name for name in listed if any(name in one.means for one in results)]
    before = [name for name in ("task", "policy") if hasattr(results[0], name)]
    after = [name for name in ("verdict",) if hasattr(results[0], name)]
    rows = []
    for one in results:
        shares = [one.rates[name].percent() if name in one.rates else "–" for name in rates]
        row = [*(getattr(one, name) for name in before)]
        row += [f"{one.discounted_return}\n{one.total_return}"]
        row += [share.replace(" %", "") for share in shares]
        row += [str(one.means.get(name, "–")) for name in means]
        rows.append([*row, *(getattr(one, name) for name in after)])
    headings = ["discounted return\nand total", *(f"{name}, %" for name in rates), *means]
    show_table(title, [*before, *headings, *after], rows)


def show_verdict(found: Verdict) -> None:
    """Print the returns of the policies beside what they began with, and the sentence."""
    names = list(found.tasks[0].references)
    shown = sorted(found.tasks, key=lambda one: one.gain.value)[:WORST]
    title = f"Total returns, {found.trials} episodes each, 95 % intervals"
    if len(found.tasks) < MANY_TASKS:
        shown = list(found.tasks)
    else:
        title += f"; the {WORST} of {len(found.tasks)} tasks that gain least"
    rows = [
        [one.task, str(one.policy), *(str(one.references[name]) for name in names), str(one.gain)]
        for one in shown
    ]
    show_table(title, ["task", "policy", *names, "gain over the best"], rows)
    show_line(found.facts)
    show_line(found.sentence)


def on_central(learner: CrossLearner) -> str:
    """Return what the central policy is where nothing has moved the centre g; empty elsewhere."""
    if math.isinf(learner.settings.epsilon):
        return WITHOUT_RADIUS
    if learner.family.norms()[-1] > 0.0:
        return ""
    around = learner.tasks[0].controller is not None
    if around:  # with corrections of zero both are the controller
        return AT_CONTROLLER if np.any(learner.family.weights) else ""
    return STILL_ZERO


def describe_kernel(kernel: Mapping[str, Any]) -> str:
    """Return ``Kernel.to_dict`` for people, with standard deviations as widths."""
    fields = dict(kernel)
    if "parts" in fields:
        parts = [f"{describe_kernel(part)} of coordinates {on}" for part, on in fields["parts"]]
        return " times ".join(parts)
    texts, rows = [fields.pop("kernel")], fields.pop("covariance", [])
    widths = fields.pop("std", []) or [row[d] ** 0.5 for d, row in enumerate(rows)]
    if widths:
        shown = ", ".join(f"{width:.4g}" for width in widths)
        texts.append(f"widths (standard deviations) {shown}")
    if any(any(row[:d]) or any(row[d + 1 :]) for d, row in enumerate(rows)):
        texts.append("correlated")
    for name, size in (("periodic", "period"), ("logarithmic", "size")):
        texts += [f"coordinate {d} {name}, {size} {x:.4g}" for d, x in fields.pop(name, ())]
    return "; ".join([*texts, *(f"{name} {value}" for name, value in fields.items())])


def write_json(file: Path, plain: Any, as_json: bool) -> Path:
    """Write plain data to a file, and print them if asked to; return its path."""
    text = json.dumps(plain, indent=2)
    write_atomically(file, f"{text}\n".encode())
    if as_json:
        print(text)
    return file


def print_json(rows: list[dict[str, Any]]) -> None:
    """Print plain data as JSON, with null for numbers that are not finite."""
    print(json_text(rows, indent=2))
