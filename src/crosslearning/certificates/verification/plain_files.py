"""A reader of tensor files of its own, for checks that must not trust the library's.

The format in three lines: eight bytes with the length of a header, little-endian; the header,
a JSON object with the type, shape and place of every array; the arrays' bytes. Everything that
the file claims is compared with its length before it is believed.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.ordinary_files import read_bytes
from crosslearning.errors import FileFormatError

_FLOATS = {"F64": "<f8", "F32": "<f4"}
_TYPES = {**_FLOATS, "I64": "<i8", "I32": "<i4", "U64": "<u8", "U8": "|u1", "BOOL": "|b1"}
_PREFIX = 8


@dataclass(frozen=True)
class PlainFile:
    """What a tensor file holds: its plain data comes without the checksum that it claims."""

    arrays: dict[str, NDArray[Any]]
    description: dict[str, Any]
    claimed: str
    computed: str


def read_plain_json(text: str) -> Any:
    """Return JSON data; NaN and infinities, which JSON lacks, are refused."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def read_plain_file(path: Path) -> PlainFile:
    """Read a tensor file, or say what is wrong with it; the checksum is computed, not judged."""
    try:
        content = read_bytes(path)
    except OSError as problem:
        raise FileFormatError(f"cannot be read: {problem.strerror or problem}") from problem
    header, body = _split(content)
    metadata = header.pop("__metadata__", None)
    _check_places(header, len(body))
    arrays = {name: _array(name, entry, body) for name, entry in header.items()}
    try:
        description = read_plain_json(metadata["crosslearning"])
        claimed = description.pop("sha256")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as problem:
        raise FileFormatError("carries no description of crosslearning's") from problem
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode() + array.tobytes())
    return PlainFile(arrays, description, str(claimed), digest.hexdigest())


def _split(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header, and the bytes that the arrays share."""
    length = int.from_bytes(content[:_PREFIX], "little")
    if length > len(content) - _PREFIX:
        raise FileFormatError(f"its header should have {length} bytes, the file has {len(content)}")
    try:
        header = read_plain_json(content[_PREFIX : _PREFIX + length].decode("utf-8"))
    except (ValueError, RecursionError) as problem:
        raise FileFormatError("its header is not JSON") from problem
    if not isinstance(header, dict):
        raise FileFormatError("its header is not a table")
    return header, content[_PREFIX + length :]


def _check_places(entries: dict[str, Any], size: int) -> None:
    """Refuse arrays that overlap, leave gaps, or do not fill their bytes."""
    try:
        places = sorted(tuple(entry["data_offsets"]) for entry in entries.values())
        ends = [0, *(stop for _, stop in places)]
        joined = all(start == end for (start, _), end in zip(places, ends, strict=False))
        claimed = int(ends[-1])
    except (KeyError, TypeError, ValueError) as problem:
        raise FileFormatError(f"its header is damaged: {problem}") from problem
    if claimed != size:
        raise FileFormatError(f"its header tells of {claimed} bytes of arrays, {size} are there")
    if not joined:
        raise FileFormatError("its arrays overlap or leave gaps")


def _array(name: str, entry: Any, body: bytes) -> NDArray[Any]:
    try:
        kind, shape = np.dtype(_TYPES[entry["dtype"]]), tuple(entry["shape"])
        start, stop = entry["data_offsets"]
        sizes = [start, stop, *shape]
        if not all(isinstance(size, int) and size >= 0 for size in sizes):
            raise ValueError(f"the sizes {sizes}")
        if stop - start != kind.itemsize * math.prod(shape) or stop > len(body):
            raise ValueError(f"{stop - start} bytes for the shape {shape}")
    except (KeyError, TypeError, ValueError) as problem:
        raise FileFormatError(f"the entry of its array {name!r} is wrong: {problem}") from problem
    return np.frombuffer(body[start:stop], dtype=kind).reshape(shape)
