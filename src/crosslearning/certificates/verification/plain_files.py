"""A tensor file reader that shares no code with the library's own.

A tensor file (safetensors) is eight bytes with the length of a header, little-endian; the header,
a JSON object with the type, shape and offsets of every array; and the bytes of the arrays.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.ordinary_files import read_bytes
from crosslearning.errors import FileFormatError

_TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U64": "<u8", "U8": "|u1"}
_TYPES["BOOL"] = "|b1"
_PREFIX = 8
#: Exceptions that malformed content may raise.
ODD_VALUES = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True)
class PlainFile:
    """The content of a tensor file, with the checksum that it claims and the computed one."""

    arrays: dict[str, NDArray[Any]]
    description: dict[str, Any]
    claimed: str
    computed: str


def read_plain_json(text: str) -> Any:
    """Return JSON data; NaN and infinities, which JSON lacks, are refused."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def read_plain_file(path: Path) -> PlainFile:
    """Read a tensor file; raise FileFormatError if it is malformed. The checksum is not judged."""
    try:
        content = read_bytes(path)
        start = _PREFIX + int.from_bytes(content[:_PREFIX], "little")
        if start > len(content):
            raise ValueError(f"its header should end at byte {start}, it has {len(content)} bytes")
        header = read_plain_json(content[_PREFIX:start].decode("utf-8"))
        description = read_plain_json(header.pop("__metadata__")["crosslearning"])
        claimed = str(description.pop("sha256"))
        arrays = _read_arrays(header, content[start:])
        digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    except OSError as problem:
        raise FileFormatError(f"cannot be read: {problem.strerror or problem}") from problem
    except ODD_VALUES as problem:
        raise FileFormatError(
            f"is no whole tensor file of crosslearning's ({type(problem).__name__}: {problem})"
        ) from problem
    for name, array in sorted(arrays.items()):
        digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode() + array.tobytes())
    return PlainFile(arrays, description, claimed, digest.hexdigest())


def _read_arrays(header: dict[str, Any], body: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays, which must fill the body without overlaps or gaps."""
    arrays: dict[str, NDArray[Any]] = {}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: tuple(item[1]["data_offsets"])):
        start, stop = entry["data_offsets"]
        if not end == start <= stop <= len(body):
            raise ValueError(f"the array {name!r} is at bytes {start} to {stop}, after {end}")
        array = np.frombuffer(body[start:stop], dtype=_TYPES[entry["dtype"]])
        shape = tuple(entry["shape"])
        arrays[name], end = array.reshape(shape), stop
        if arrays[name].shape != shape:
            raise ValueError(f"the array {name!r} has the shape {shape}")
    if end != len(body):
        raise ValueError(f"its header describes {end} bytes of arrays, the file has {len(body)}")
    return arrays
