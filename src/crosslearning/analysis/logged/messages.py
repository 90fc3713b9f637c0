"""Messages of ROS, decoded by their definitions, which are data: no code is made of them.

ROS 1 lays fields end to end. ROS 2 uses CDR: four bytes say the byte order, and every number is
aligned to its size.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from crosslearning.errors import InputError

#: Types of messages: by name their constants, and their fields as (name, description), where a
#: description is (kind, detail); kinds are a base type, a named one, an array or a sequence.
Definitions = Mapping[str, Any]

_BASE, _NAME, _ARRAY, _SEQUENCE = 1, 2, 3, 4
#: Formats of base types for struct.
_FORMATS = {
    "bool": "?",
    "byte": "B",
    "char": "B",
    "octet": "B",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}
#: Times, which bags of ROS 1 do not define.
_TIME: Any = ([], [("sec", (_BASE, ("int32", 0))), ("nanosec", (_BASE, ("uint32", 0)))])
_TIMES = {f"builtin_interfaces/msg/{name}": _TIME for name in ("Time", "Duration")}
#: Longer arrays, such as pictures, hold no signals.
_LONGEST = 64
#: Deeper types, and messages of more elements, are refused: a definition may contain itself.
_DEEPEST, _MOST = 16, 100_000


class _Cursor:
    """A place in the bytes of a message."""

    def __init__(self, raw: bytes, aligned: bool) -> None:
        self.raw, self.place, self.aligned = raw, 0, aligned
        self.origin, self.order, self.read = 0, "<", 0
        if aligned:
            if len(raw) < 4:
                raise InputError("a message is cut off")
            self.order = "<" if raw[1] & 1 else ">"
            self.place = self.origin = 4

    def number(self, kind: str) -> float:
        size = struct.calcsize(_FORMATS[kind])
        if self.aligned:
            self.place += -(self.place - self.origin) % size
        try:
            (value,) = struct.unpack_from(self.order + _FORMATS[kind], self.raw, self.place)
        except struct.error as problem:
            raise InputError("a message is shorter than its definition says") from problem
        self.place += size
        self.count()
        return float(value)

    def skip(self, size: int) -> None:
        if size > len(self.raw) - self.place:
            raise InputError("a message is shorter than its definition says")
        self.place += size

    def count(self) -> None:
        self.read += 1
        if self.read > _MOST:
            raise InputError(f"a message has more than {_MOST} elements")


class _Field(NamedTuple):
    name: str
    description: Any
    depth: int


def read_numbers(
    definitions: Definitions, typename: str, raw: Any, aligned: bool
) -> dict[str, float]:
    """Return the numbers of a message by the names of their fields, such as ``pose.x``.

    ``aligned`` says whether it is of ROS 2. Text and arrays of more than 64 elements are passed
    over; elements of arrays are named ``position[0]``. The numbers of a header are left out.
    """
    cursor, numbers = _Cursor(bytes(raw), aligned), dict[str, float]()
    _read_type(definitions, typename, cursor, "", 0, numbers)
    return numbers


def _read_type(
    definitions: Definitions,
    typename: str,
    cursor: _Cursor,
    prefix: str,
    depth: int,
    numbers: dict[str, float] | None,
) -> None:
    definition = definitions.get(typename) or _TIMES.get(typename)
    if definition is None:
        raise InputError(f"the bag does not define the type {typename}")
    if depth > _DEEPEST:
        raise InputError(f"the type {typename} is nested more than {_DEEPEST} levels deep")
    if typename.endswith("/Header"):
        numbers = None
    cursor.count()
    for name, description in definition[1]:
        full = f"{prefix}.{name}" if prefix else str(name)
        _read(definitions, _Field(full, description, depth), cursor, numbers)


def _read(
    definitions: Definitions, field: _Field, cursor: _Cursor, numbers: dict[str, float] | None
) -> None:
    kind, detail = int(field.description[0]), field.description[1]
    if kind == _BASE:
        base = detail[0] if isinstance(detail, tuple) else detail
        if base == "string":
            cursor.skip(int(cursor.number("uint32")))
        elif base not in _FORMATS:
            raise InputError(f"numbers of the type {base} are not supported")
        else:
            value = cursor.number(base)
            if numbers is not None:
                numbers[field.name] = value
    elif kind == _NAME:
        _read_type(definitions, detail, cursor, field.name, field.depth + 1, numbers)
    elif kind in (_ARRAY, _SEQUENCE):
        element, length = detail
        if kind == _SEQUENCE:
            length = int(cursor.number("uint32"))
        if length > len(cursor.raw):
            raise InputError("a message is shorter than its definition says")
        if length > _LONGEST and int(element[0]) == _BASE and element[1][0] in _FORMATS:
            cursor.number(element[1][0])  # which aligns
            cursor.skip((length - 1) * struct.calcsize(_FORMATS[element[1][0]]))
            return
        wanted = numbers if length <= _LONGEST else None
        for k in range(length):
            one = field._replace(name=f"{field.name}[{k}]", description=element)
            _read(definitions, one, cursor, wanted)
    else:
        raise InputError(f"fields of the kind {kind} are not supported")
