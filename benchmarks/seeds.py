"""Measurements over seeds, each kept in a file and made once, and the commands that show them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.table import Row, show
from crosslearning.runs.study import Measurement


def answers(
    stem: Path,
    seeds: int,
    question: Mapping[str, Any],
    measure: Callable[..., dict[str, Any]],
    *arguments: Any,
) -> list[dict[str, Any]]:
    """Return ``measure(seed, *arguments)`` of every seed, kept in ``stem-seed.json``."""
    return [
        Measurement(
            stem.with_name(f"{stem.name}-{seed}.json"),
            {**question, "seed": seed},
            measure,
            (seed, *arguments),
        ).answer()
        for seed in range(seeds)
    ]


def print_table(
    doc: str, rows_of: Callable[..., list[Row]], out: Path, steps: int, parts: Sequence[str] = ()
) -> None:
    """Print the rows of ``rows_of(seeds, steps, out)``, or of every part that is asked for."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    if parts:
        parser.add_argument("parts", nargs="*", help=f"some of {', '.join(parts)}; all by default")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--out", type=Path, default=out)
    asked = parser.parse_args()
    each = [(part,) for part in asked.parts or parts] if parts else [()]
    with threadpool_limits(1, user_api="blas"):
        rows = [row for one in each for row in rows_of(*one, asked.seeds, asked.steps, asked.out)]
    show(rows, Console(width=140))


def print_parts(
    doc: str | None, benchmarks: Sequence[Callable[..., list[Row]]], out: Path, *more: str
) -> None:
    """Print the rows of the parts that the command line asks for, or of all.

    A part takes ``settings``, ``seeds``, ``out``, and ``more`` whole numbers, of which 0 means its
    own.
    """
    parts = {one.__name__.replace("_", "-"): one for one in benchmarks}
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("parts", nargs="*", help=f"which (default: all): {', '.join(parts)}")
    parser.add_argument("--out", type=Path, default=out)
    for name in ("seeds", *more):
        parser.add_argument(f"--{name}", type=int, default=0, help="default: as each part says")
    add_settings(parser)
    options = vars(parser.parse_args())
    asked, options["settings"] = options.pop("parts"), settings_of(options.pop("set"))
    for part in asked:
        if part not in parts:
            parser.error(f"no such part {part!r}; known: {', '.join(parts)}")
    console, rows = Console(width=140), []
    with threadpool_limits(1, user_api="blas"):
        for part in asked or parts:
            console.print(f"measuring {part} …", style="dim")
            rows += parts[part](**options)
    show(rows, console)


def add_settings(parser: argparse.ArgumentParser, name: str = "set") -> None:
    """Add an option that takes any number of settings, for :func:`settings_of`."""
    parser.add_argument(
        f"--{name}", action="append", default=[], metavar="FIELD=VALUE", help="a setting"
    )


def settings_of(changes: Sequence[str]) -> dict[str, Any]:
    """Return what texts such as ``step_kl=0.02`` say."""
    pairs = (change.split("=", 1) for change in changes)
    return {name: _number(value) for name, value in pairs}


def _number(text: str) -> Any:
    """Return what stands there: a number, or the text itself."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
