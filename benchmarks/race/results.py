"""What was measured: small files while racing, and one compressed table of what is published.

A cell that is raced is written to a file of its own in a work folder, so that a race can be
stopped at any moment and several can run at a time. ``python -m benchmarks.race fold`` puts those
files into the table, ``results.jsonl.gz``: a line of JSON for every cell, by family, method and
seed, numbers with six digits. The fields of a line:

``asked``
    The question: ``version``, ``family``, ``method``, ``seed``, ``marks`` (environment steps over
    all tasks after which it is evaluated), ``adapt`` (steps of each unseen task), ``trials``
    (episodes on a training and on an unseen task) and the method's ``settings``.
``marks``
    A list with, for each mark, ``steps``, ``seconds`` (clock, processor) and what policies get:
    ``training`` (those meant for each training task), ``central`` (our central policy there) and
    ``unseen`` (the one policy for all on unseen tasks; null if there is none). Each of the three
    has a number for every task under ``totals`` (sum of rewards), ``discounted`` (the same with
    the task's discount) and, by the name of an outcome, ``rates`` (shares of episodes). In the
    second race also ``outside`` (share of the steps so far outside of limits) and ``cost`` (their
    mean of −r).
``knots``, ``adapted``
    Of ours alone: the size of the policies, and ``before`` and ``after`` adapting to unseen tasks
    with their ``steps`` and ``seconds``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.race.cells import Answer, Cell
from crosslearning._base.files import write_atomically

#: What was published is kept with the code, for whoever wants to look at single seeds.
TABLE = Path(__file__).parent / "results.jsonl.gz"
_KEY = ("family", "method", "seed")
_DIGITS = 6


def stored(cells: Sequence[Cell], table: Path | None = None) -> dict[Cell, Answer]:
    """Return what the cells gave that were measured, from their files or else from the table."""
    published = {} if table is None else {_key(line): line for line in read(table)}
    result = {}
    for cell in cells:
        question = cell.measurement
        answer = question.stored() or published.get((cell.family, cell.method, cell.seed))
        if answer is not None and answer["asked"] == question.asked:
            result[cell] = answer
    return result


def fold(cells: Sequence[Cell], table: Path = TABLE) -> int:
    """Put the files of the cells that were measured into the table; return how many."""
    fresh = list(stored(cells).values())
    lines = {_key(line): line for line in (*read(table), *fresh)}
    write(lines.values(), table)
    return len(fresh)


def read(table: Path) -> list[Answer]:
    """Return the lines of a table; none if it is not there."""
    if not table.exists():
        return []
    return [json.loads(line) for line in gzip.decompress(table.read_bytes()).splitlines()]


def write(lines: Iterable[Answer], table: Path) -> None:
    """Write a table; the same lines give the same bytes."""
    ordered = sorted(lines, key=_key)
    plain = [{**_rounded(line), "asked": line["asked"]} for line in ordered]
    text = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in plain)
    write_atomically(table, gzip.compress(text.encode(), mtime=0))


def _key(line: Answer) -> tuple[Any, ...]:
    return tuple(line["asked"][name] for name in _KEY)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value
