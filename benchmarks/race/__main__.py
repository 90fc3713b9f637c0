"""``python -m benchmarks.race [report | fold]``: race, or report what the race gave so far.

Every cell, a method on a family with one seed, runs in a process of its own with one thread and is
kept in a file of its own. What was measured is never measured again: the same command resumes.
"fold" puts the files into the table of published results.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

OUT, SMALL = Path("runs/race"), Path("runs/race-small")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments ask for, and return the status to exit with."""
    # Before NumPy is imported, here and in the processes that are started.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    from rich.console import Console

    from crosslearning.errors import CrossLearningError

    asked = _parser().parse_args(arguments)
    console = Console(stderr=True)
    try:
        return {"run": _race, "report": _report, "fold": _fold}[asked.action](asked, console)
    except CrossLearningError as problem:
        console.print(f"Error: {problem}", style="red", markup=False, highlight=False)
        return 2
    except KeyboardInterrupt:
        console.print("interrupted; the same command goes on from here")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.race", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("action", nargs="?", choices=["run", "report", "fold"], default="run")
    parser.add_argument("--families", nargs="+", metavar="NAME", help="default: all")
    parser.add_argument(
        "--methods", nargs="+", metavar="NAME", help="or its beginning, such as sac; default: all"
    )
    parser.add_argument("--seeds", type=int, help="at most so many of each; default: as planned")
    parser.add_argument("--small", action="store_true", help="one seed of a short race, minutes")
    parser.add_argument(
        "--out", type=Path, help="another folder, without what is published; default: both"
    )
    parser.add_argument("--jobs", type=int, default=2, help="cells at a time (default: 2)")
    parser.add_argument(
        "--on", default="processes", help="where: processes (default), ray or ray://host:port"
    )
    parser.add_argument("--plan", action="store_true", help="only say what it would take")
    parser.add_argument("--write", action="store_true", help="report: into docs/, too")
    return parser


def _cells(asked: argparse.Namespace):  # type: ignore[no-untyped-def]
    from benchmarks.race.plan import planned

    out = asked.out or (SMALL if asked.small else OUT)
    return planned(out, asked.families, asked.methods, asked.seeds, asked.small)


def _stored(asked: argparse.Namespace, cells):  # type: ignore[no-untyped-def]
    from benchmarks.race.results import TABLE, stored

    return stored(cells, None if asked.out or asked.small else TABLE)


def _race(asked: argparse.Namespace, console) -> int:  # type: ignore[no-untyped-def]
    from rich.progress import MofNCompleteColumn, TimeElapsedColumn

    from benchmarks.race.cells import go
    from benchmarks.race.plan import estimate, without_missing
    from crosslearning._base.progress import progress_bar
    from crosslearning.errors import InputError
    from crosslearning.rollouts.backends import read_backend
    from crosslearning.runs.study import in_processes, on_ray

    if asked.jobs < 1:
        raise InputError(f"--jobs is {asked.jobs}; give at least 1")
    cells = _cells(asked)
    result = _stored(asked, cells)
    cells, said = without_missing(cells, result)
    if said:
        console.print(said, style="yellow", markup=False, highlight=False)
    left = [cell for cell in cells if cell not in result]
    console.print(estimate(cells, left, asked.jobs), highlight=False)
    if asked.plan or not left:
        return 0
    weight, begun = {cell: cell.budget.seconds for cell in left}, time.monotonic()
    columns = MofNCompleteColumn(), "cells", TimeElapsedColumn(), "[dim]{task.fields[left]}"
    with progress_bar(console, *columns) as progress:
        bar = progress.add_task("racing", total=len(left), left="")

        def look() -> None:
            done = [cell for cell in left if _ended(cell)]
            made, ahead = sum(weight[cell] for cell in done), sum(weight.values())
            passed = time.monotonic() - begun
            # Until something is done the plan's own seconds are believed.
            pace = passed / made if made else 1.0 / asked.jobs
            words = f"about {_duration(pace * (ahead - made))} left"
            progress.update(bar, completed=len(done), left=words)

        calls, where = [[(cell,) for cell in left]], read_backend(asked.on)
        if where.kind == "ray":
            whole = on_ray(go, calls, asked.jobs, look, where.address)
        else:
            whole = in_processes(go, calls, asked.jobs, look)
    if not whole:
        raise KeyboardInterrupt
    failed = [cell for cell in left if cell.failure.exists()]
    for cell in failed:
        reason = cell.failure.read_text().strip().splitlines()[-1]
        words = f"failed: {cell.failure}: {reason}"
        console.print(words, style="red", markup=False, highlight=False)
    console.print("python -m benchmarks.race report prints what it gave", style="dim")
    return 1 if failed else 0


def _ended(cell) -> bool:  # type: ignore[no-untyped-def]
    return bool(cell.measurement.path.exists() or cell.failure.exists())


def _duration(seconds: float) -> str:
    minutes = max(1, round(seconds / 60.0))
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60.0:.1f} h"


def _report(asked: argparse.Namespace, console) -> int:  # type: ignore[no-untyped-def]
    from benchmarks.race.reading import entries
    from benchmarks.race.report import show, write
    from crosslearning.errors import InputError

    result = entries(_stored(asked, _cells(asked)))
    if not result:
        raise InputError("nothing was measured yet there; run python -m benchmarks.race first")
    show(result)
    if asked.write:
        for path in write(result):
            console.print(f"wrote {path}", highlight=False)
    return 0


def _fold(asked: argparse.Namespace, console) -> int:  # type: ignore[no-untyped-def]
    from benchmarks.race.results import TABLE, fold

    console.print(f"{fold(_cells(asked))} cells are in {TABLE.name} now", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
