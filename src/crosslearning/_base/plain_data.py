"""Plain data that a folder holds: read from ordinary files alone, and of a known form.

Whoever sends a folder decides what its files hold. So a reader says which form it expects, and
whatever else is there, JSON of any shape or a pipe in the place of a file, ends in a sentence.
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
    """Return the JSON of a file, of a form such as a ``msgspec.Struct``, or say what is wrong.

    A file that is not there is Python's ``FileNotFoundError``, for whoever can do without.
    """
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
    """Say that a source is to blame, if its data turn out not to fit what is made of them."""
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


def json_text(data: Any, **options: Any) -> str:
    """Return plain data as JSON text, with null in the place of a number that is not finite."""
    return json.dumps(_finite(data), allow_nan=False, **options)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and data - data != 0.0 else data
