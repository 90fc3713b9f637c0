"""Pages of text and JSON: layout, plain data, and files."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from crosslearning._base.files import write_atomically
from crosslearning._base.statistics import Interval
from crosslearning.errors import StorageError

WIDTH = 100


def page_of(title: str, subtitle: str, sections: Mapping[str, str]) -> str:
    """Return a page: its title, a line below it, and sections with their titles."""
    parts = [f"{title}\n{'=' * len(title)}" + (f"\n{subtitle}" if subtitle else "")]
    parts += [f"{name}\n{'-' * len(name)}\n{body}" for name, body in sections.items()]
    return "\n\n".join(parts) + "\n"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows as columns; the first is set to the left, the others to the right."""
    lines = [headings, *rows] if any(headings) else list(rows)
    first, *others = (max(map(len, column)) for column in zip(*lines, strict=True))
    texts = []
    for name, *cells in lines:
        right = (cell.rjust(width) for cell, width in zip(cells, others, strict=True))
        texts.append("  ".join([name.ljust(first), *right]).rstrip())
    return "\n".join(texts)


#: Of more tasks than MANY only the FEW worst are shown.
MANY, FEW = 24, 10


def some(names: Sequence[str]) -> str:
    """Return names with commas; of many the first, and how many more there are."""
    if len(names) <= MANY:
        return ", ".join(names)
    return f"{', '.join(names[:FEW])} and {len(names) - FEW} more"


def bullets(sentences: Sequence[str]) -> str:
    """Return sentences as a list."""
    return "\n".join(wrapped(f"- {sentence}", 2) for sentence in sentences)


def wrapped(text: str, indent: int = 0) -> str:
    """Return a text in lines; all but the first begin after ``indent`` spaces."""
    first, rest = " " * (len(text) - len(text.lstrip())), " " * indent
    wrapper = textwrap.TextWrapper(WIDTH, first, rest, break_long_words=False)
    wrapper.break_on_hyphens = False
    return wrapper.fill(text.strip())


def estimate(interval: Interval) -> tuple[str, str]:
    """Return a number and its interval, for two cells of a table."""
    return f"{interval.value:.4g}", f"[{interval.low:.4g}, {interval.high:.4g}]"


def number(value: float | int | None) -> str:
    """Return a number as text; integers below 10¹⁵ in full."""
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) and abs(value) < 10**15 else f"{value:.4g}"


def plain(value: Any) -> Any:
    """Return data for JSON: infinities as ``"inf"`` or ``"-inf"``, NaN as None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if math.isnan(value):
        return None
    return float(value) if math.isfinite(value) else str(float(value))


def save_page(folder: Path, name: str, page: str, data: str) -> list[Path]:
    """Write ``name.txt`` and ``name.json`` into a folder, and return their paths.

    Earlier files that differ are moved, with their figures, to ``earlier/`` and a folder named by
    their time in UTC.
    """
    newest = folder / f"{name}.json"
    # The name of a folder may not be valid text.
    texts = {
        folder / f"{name}.txt": page.encode("utf-8", "backslashreplace"),
        newest: f"{data}\n".encode("utf-8", "backslashreplace"),
    }
    try:
        if newest.exists() and not (newest.is_file() and newest.read_bytes() == texts[newest]):
            _keep(folder, newest)
    except OSError as problem:
        raise StorageError(
            f"cannot keep the earlier {newest}: {problem.strerror or problem}; nothing was written"
        ) from problem
    for path, content in texts.items():
        write_atomically(path, content)
    return list(texts)


def _keep(folder: Path, newest: Path) -> None:
    moment = f"{datetime.fromtimestamp(newest.stat().st_mtime, UTC):%Y-%m-%dT%H-%M-%SZ}"
    place, number = folder / "earlier" / moment, 1
    while (place / newest.name).exists():
        number += 1
        place = folder / "earlier" / f"{moment}-{number}"
    place.mkdir(parents=True, exist_ok=True)
    # The JSON last: if this is cut short, the next attempt goes on in the same place.
    for path in sorted(folder.glob(f"{newest.stem}.*"), key=lambda path: path == newest):
        path.replace(place / path.name)
