"""JSON of a known form, read from regular files.

The files of a folder may come from anyone. A reader names the form it expects; anything else is
a FileFormatError.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from crosslearning._base.ordinary_files import read_bytes
from crosslearning.errors import CrossLearningError, FileFormatError, visible

_Form = TypeVar("_Form")


def read_json(path: Path, form: type[_Form]) -> _Form:
    """Return the JSON of a file in a form such as a ``msgspec.Struct``; see :func:`read_bytes`."""
    return decode(read_bytes(path), form, path)


def decode(content: bytes | str, form: type[_Form], source: object) -> _Form:
    """Return JSON text as data of a form; ``source`` names it in the message."""
    try:
        return msgspec.convert(json.loads(content), form)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as problem:
        raise FileFormatError(
            f"{visible(source)} is damaged, or no JSON of its kind ({visible(problem, 200)}); "
            "restore it from a copy, or remove it"
        ) from problem


@contextmanager
def expecting(source: object) -> Iterator[None]:
    """Name the source in the error if its data do not fit."""
    try:
        yield
    except CrossLearningError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        why = f"{type(problem).__name__}: {visible(problem, 200)}"
        raise FileFormatError(
            f"{visible(source)} does not hold what it should ({why}); remove it to have it made "
            "again, or restore it from a copy"
        ) from problem


def to_plain(data: Any) -> Any:
    """Return dataclasses and arrays as plain data; numbers that are not finite become None."""
    return _finite(msgspec.to_builtins(data, enc_hook=lambda array: array.tolist()))


def json_text(data: Any, **options: Any) -> str:
    """Return the JSON text of :func:`to_plain`."""
    return json.dumps(to_plain(data), allow_nan=False, **options)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and data - data != 0.0 else data
