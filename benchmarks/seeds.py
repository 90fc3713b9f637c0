"""Measurements over seeds: every one is kept in a file, and none is made twice."""

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
