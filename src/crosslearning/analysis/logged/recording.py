"""Recordings: the signals of a log file as a common form, which every format is read into.

A log file is data. Nothing that it names is imported or executed. Packages for formats other than
CSV are optional, and imported by the reader that needs them.
"""

from __future__ import annotations

import csv
import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError, MissingExtraError, visible
from crosslearning.rkhs.checks import Floats

#: The most numbers of a file: 800 MB.
MOST_NUMBERS = 100_000_000


class Signal(NamedTuple):
    """One signal: its samples, in the order of the file."""

    values: NDArray[Any]  #: shape (n,): float64, NaN where missing; or text
    time: Floats | None = None  #: of every sample in seconds, shape (n,); None without a clock
    unit: str = ""

    @property
    def is_text(self) -> bool:
        """Whether the samples are text."""
        return self.values.dtype.kind != "f"


class Recording(NamedTuple):
    """The signals of a file. In a table all of them have the same rows."""

    path: Path
    signals: dict[str, Signal]
    is_table: bool = True
    row_name: str = "row"
    row_numbers: NDArray[np.int64] | None = None  #: by which people know the rows; None: from 0
    notes: tuple[str, ...] = ()  #: what was left out, and why

    def place(self, row: int) -> str:
        """Return a row's place in the file, for messages."""
        number = row if self.row_numbers is None else int(self.row_numbers[row])
        return f"{self.path}, {self.row_name} {number}"


def extra(name: str, package: str, module: str) -> Any:
    """Import a module of an optional package, or name the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        raise MissingExtraError(
            f"this format needs the package {package}, of the extra {name!r}: pip install "
            f"'crosslearning[{name}]' ({problem})"
        ) from problem


def check_size(path: Path, rows: int, columns: int) -> None:
    """Refuse a file that would not fit into memory, before it is read."""
    if rows * columns > MOST_NUMBERS:
        raise InputError(
            f"{path} has {rows} rows of {columns} signals, more than the {MOST_NUMBERS} numbers "
            "that are read at once; split it, or write the signals that matter into another file"
        )


def named(path: Path, signals: Iterable[tuple[str, Signal]]) -> dict[str, Signal]:
    """Return signals by name, without units in brackets; refuse a name that is there twice."""
    result: dict[str, Signal] = {}
    for full, signal in signals:
        name, unit = split_unit(full)
        if name in result:
            raise InputError(f"{path} has two columns of the same name: {visible(name, 100)}")
        result[name] = signal._replace(unit=signal.unit or unit)
    return result


def split_unit(name: str) -> tuple[str, str]:
    """Return a name without the unit that it ends with, such as ``speed [m/s]``, and the unit."""
    bare, bracket, unit = name.strip().rpartition("[")
    is_index = unit[:-1].isdigit() and not bare.endswith(" ")
    if bracket and bare.strip() and unit.endswith("]") and not is_index:
        return bare.strip(), unit[:-1].strip()
    return name.strip(), ""


# CSV ---------------------------------------------------------------------------------------


def read_csv(path: Path) -> Recording:
    """Return the columns of comma-separated text with a row of names."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            lines = list(csv.reader(stream))
    except (UnicodeDecodeError, csv.Error) as problem:
        raise InputError(f"{path} is not a table of comma-separated text: {problem}") from problem
    if len(lines) < 2:
        raise InputError(f"{path} has no rows; it needs a row of names and one for every step")
    header = [name.strip() for name in lines[0]]
    rows: list[list[str]] = []
    numbers: list[int] = []
    check_size(path, len(lines), len(header))
    for number, cells in enumerate(lines[1:], start=2):
        if cells and len(cells) != len(header):
            raise InputError(
                f"{path}, line {number} has {len(cells)} cells, but there are {len(header)} columns"
            )
        if cells:
            rows.append(cells)
            numbers.append(number)
    columns = zip(header, zip(*rows, strict=True), strict=False)
    signals = named(path, ((name, Signal(from_text(cells))) for name, cells in columns))
    return Recording(path, signals, row_name="line", row_numbers=np.array(numbers))


def from_text(cells: Iterable[str]) -> NDArray[Any]:
    """Return a column as numbers, or as text if it holds any that is neither number nor truth."""
    texts = [cell.strip() for cell in cells]
    try:
        return np.array([_number(text) for text in texts])
    except ValueError:
        return np.array(texts, dtype=np.str_)


_WORDS = {"": np.nan, "true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        raise
