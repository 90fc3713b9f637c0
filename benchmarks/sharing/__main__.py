"""``python -m benchmarks.sharing measure`` and ``python -m benchmarks.sharing report``."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from rich.console import Console

from benchmarks import sharing
from benchmarks.sharing.parts import GRIDS, OUT, SMALL, questions
from crosslearning.errors import InputError
from crosslearning.runs.study import run_study


def main(words: list[str] | None = None) -> int:
    """Measure what is missing of a map, or report what was measured."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sharing",
        description=sharing.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=("measure", "report"))
    parser.add_argument("parts", nargs="*", help=f"which (default: all): {', '.join(GRIDS)}")
    parser.add_argument("--out", type=Path, default=OUT, help=f"default: {OUT}")
    parser.add_argument("--seeds", type=int, default=0, help="default: as each part says")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--small", action="store_true", help="a tiny map, in seconds")
    parser.add_argument(
        "--write", action="store_true", help="write the report's tables and figures into docs"
    )
    asked = parser.parse_intermixed_args(words)
    for name in ("seeds", "workers"):
        if getattr(asked, name) < (name == "workers"):  # 0 seeds: as each part says
            parser.error(f"--{name} is {getattr(asked, name)}; give a number above zero")
    for part in asked.parts:
        if part not in GRIDS:
            parser.error(f"no such part {part!r}; known: {', '.join(GRIDS)}")
    if asked.write and (asked.small or asked.verb == "measure"):
        parser.error("--write goes with report, and not with --small: docs show the whole map")
    grids = SMALL if asked.small else GRIDS
    if asked.seeds:
        grids = {p: dataclasses.replace(grid, seeds=asked.seeds) for p, grid in grids.items()}
    chosen = {part: grids[part] for part in asked.parts or grids}
    console = Console(stderr=True)
    if asked.verb == "measure":
        # Each in a chain of its own, so that workers share them.
        steps = [[one] for part, grid in chosen.items() for one in questions(part, grid, asked.out)]
        return 0 if run_study([steps], asked.workers, console) else 130
    from benchmarks.sharing.report import report

    try:
        print(report(chosen, asked.out, write=asked.write))
    except InputError as problem:
        console.print(str(problem), style="red", highlight=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
