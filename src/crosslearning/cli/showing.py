"""Commands that show runs, to whoever has many of them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosslearning.cli.application import app
from crosslearning.cli.output import print_json, show_line, show_table

if TYPE_CHECKING:
    from crosslearning.runs.shelf import ShelvedRun


@app.command("runs")
def list_runs(
    folder: Annotated[Path, typer.Argument(help="Where to look, also within.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the runs of a folder: how each stands, what to do next."""
    from crosslearning.runs.shelf import shelved_runs

    found = shelved_runs(folder)
    if as_json:
        print_json([one.to_dict() for one in found])
        return
    if not found:
        begin = f"crosslearning train --out {shlex.quote(str(folder / 'first'))}"
        show_line(f"There are no runs in {folder}. Begin one: {begin}")
        return
    count = "1 run" if len(found) == 1 else f"{len(found)} runs"
    headings = ["run", "state", "method", "tasks", "steps", "return", "ε", "knots"]
    show_table(f"{folder}: {count}", headings, [_cells(one, folder) for one in found])
    show_line("")
    if any(one.best_return is None and one.recent_return is not None for one in found):
        show_line("Returns with ~ are of the last iterations, while exploring; others are the best")
        show_line("of the evaluations on the way (--evaluate-every).")
    if any(one.state == "interrupted" for one in found):
        show_line("A run that is still going counts as interrupted: look before you resume it.")
    show_line("What next:")
    for one in found:
        show_line(f"  {one.next}" + (f"    # {one.problem}" if one.problem else ""))


def _cells(one: ShelvedRun, folder: Path) -> list[str]:
    """Return the cells of a run's row; what is not known is a dash."""
    name = Path(one.run).relative_to(folder).as_posix()
    tasks = one.tasks
    if tasks is not None and one.task_count is not None:
        tasks = f"{tasks} ({one.task_count})"
    numbers = [
        None if one.steps is None else f"{one.steps:,}",
        _return(one),
        None if one.epsilon is None else f"{one.epsilon:g}".replace("inf", "∞"),
        None if one.knots is None else str(one.knots),
    ]
    cells = [one.run if name == "." else name, one.state, one.method, tasks, *numbers]
    return [cell or "–" for cell in cells]


def _return(one: ShelvedRun) -> str | None:
    from crosslearning.statistics import readable

    number = one.recent_return if one.best_return is None else one.best_return
    if number is None:
        return None
    return f"{'~' if one.best_return is None else ''}{number:{readable(number)}}"
