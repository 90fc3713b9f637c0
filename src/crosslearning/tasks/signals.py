"""Signals of a machine: their names and units, their bounds, and which of them are angles."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from crosslearning.errors import unknown_name
from crosslearning.tasks.controllers import Floats

_WITH_UNIT = re.compile(r"(?P<name>.*\S)\s*(?P<unit>\[[^\[\]]*\])")


def split_unit(name: str) -> tuple[str, str]:
    """Return a name without its unit, and the unit in brackets, if there is one."""
    match = _WITH_UNIT.fullmatch(name)
    return (match["name"], f" {match['unit']}") if match else (name, "")


def find_name(given: str | int, names: Sequence[str], what: str) -> int:
    """Return the number of a coordinate from its number or name, with or without its unit."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < len(names):
        return given
    plain = [split_unit(name)[0] for name in names]
    for known in (list(names), plain):
        if given in known:
            return known.index(str(given))
    raise unknown_name(what, str(given), plain)


def ends_of(space: Box) -> Floats:
    """Return the low and high ends of a box, flat, shape (2, n)."""
    return np.array([np.ravel(space.low), np.ravel(space.high)], dtype=np.float64)


def space_to_plain(space: Box) -> dict[str, Any]:
    """Return a box for JSON: infinite bounds are strings."""
    low, high = (
        [v if math.isfinite(v) else str(v) for v in end.ravel().tolist()]
        for end in (space.low, space.high)
    )
    shape, kind = list(space.shape), np.dtype(space.dtype).name
    return {"low": low, "high": high, "shape": shape, "dtype": kind}


def space_from_plain(data: Mapping[str, Any]) -> Box:
    """Return the box of :func:`space_to_plain`."""
    shape, kind = tuple(int(n) for n in data["shape"]), np.dtype(data["dtype"])
    low, high = (np.array([*map(float, data[end])], kind).reshape(shape) for end in ("low", "high"))
    return Box(low, high, shape, kind.type)


def angles_of(space: Box) -> list[int]:
    """Return the coordinates that are angles: with bounds −π and π, or 0 and 2π."""
    low, high = ends_of(space)
    turn = np.isclose(high - low, 2.0 * np.pi, rtol=1e-6)
    return np.flatnonzero(turn & (np.isclose(low, -np.pi) | (low == 0.0))).tolist()


def find_circles(observations: Floats) -> list[tuple[int, int]]:
    """Return pairs of coordinates (n, q) that are a cosine and its sine: their squares add to 1."""
    squares, pairs, taken = observations**2, [], set[int]()
    varied = np.flatnonzero(observations.std(axis=0) > 0.0)
    for i, j in itertools.combinations(varied.tolist(), 2):
        if not {i, j} & taken and np.allclose(squares[:, i] + squares[:, j], 1.0):
            pairs.append((i, j))
            taken |= {i, j}
    return pairs
