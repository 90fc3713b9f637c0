"""Pages of text and JSON: layout, plain data, and files."""

from __future__ import annotations

import dataclasses
import functools
import math
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from crosslearning._base.files import write_atomically
from crosslearning._base.statistics import Interval
from crosslearning.errors import StorageError

WIDTH = 100
#: Of more tasks than MANY only the FEW worst are shown.
MANY, FEW = 24, 10


@functools.cache
def template(package: str, name: str, html: bool = False) -> Template:
    """Return a template of a package; an unknown name in it is an error, and HTML is escaped."""
    environment = Environment(
        loader=PackageLoader(package, ""),
        autoescape=html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "g": lambda value, digits=6: f"{value:.{digits}g}",
        "heading": lambda title, line="-": f"{title}\n{line * len(title)}",
        "number": number,
        "paragraph": lambda text: f"{wrapped(text)}\n",
        "quoted": shlex.quote,
        "some": some,
        "table": table,
        "wrapped": wrapped,
    }
    environment.globals["inf"] = math.inf
    return environment.get_template(name)


def sentences_of(package: str, name: str, **data: Any) -> dict[str, str]:
    """Return the blocks of a template that are not empty, each on one line, by their names."""
    filled = template(package, name)
    context = filled.new_context(data)
    texts = {topic: on_one_line("".join(block(context))) for topic, block in filled.blocks.items()}
    return {topic: text for topic, text in texts.items() if text}


def table(rows: Sequence[Sequence[object]], headings: Sequence[str] = ()) -> str:
    """Return rows as columns; the first is set to the left, the others to the right."""
    lines = [[str(cell) for cell in line] for line in ([headings] if headings else []) + [*rows]]
    first, *others = (max(map(len, column)) for column in zip(*lines, strict=True))
    texts = []
    for name, *cells in lines:
        right = (cell.rjust(width) for cell, width in zip(cells, others, strict=True))
        texts.append("  ".join([name.ljust(first), *right]).rstrip())
    return "\n".join(texts)


def some(names: Sequence[str]) -> str:
    """Return names with commas; of many the first, and how many more there are."""
    if len(names) <= MANY:
        return ", ".join(names)
    return f"{', '.join(names[:FEW])} and {len(names) - FEW} more"


def on_one_line(text: str) -> str:
    """Return a paragraph of a template without its line ends."""
    return " ".join(filter(None, map(str.strip, text.split("\n"))))


def wrapped(text: str, indent: int = 0) -> str:
    """Return a text in lines; all but the first begin after ``indent`` spaces."""
    first, rest = " " * (len(text) - len(text.lstrip())), " " * indent
    wrapper = textwrap.TextWrapper(WIDTH, first, rest, break_long_words=False)
    wrapper.break_on_hyphens = False
    return wrapper.fill(on_one_line(text))


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
