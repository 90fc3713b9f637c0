"""What goes into a policy and what comes out of it: numbers with names, units and ends."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import FileFormatError, InputError
from crosslearning.rollouts.data import HasBounds

if TYPE_CHECKING:
    from gymnasium.spaces import Box

_WITH_UNIT = re.compile(r"(?P<name>.*\S)\s*\[(?P<unit>[^\[\]]*)\]")


@dataclass(frozen=True, eq=False)
class BoxSpec:
    """The numbers of an observation or of an action.

    Attributes
    ----------
    low, high : arrays of their type and shape
        Their ends, which may be infinite.
    names : tuple of str
        One for each number; a unit stands in brackets at its end: ``"speed [rad/s]"``.
    """

    low: NDArray[Any]
    high: NDArray[Any]
    names: tuple[str, ...]

    @classmethod
    def of(cls, space: HasBounds, what: str, names: Sequence[str] = ()) -> BoxSpec:
        """Return the numbers of a box; ``what`` they are names those that have no names."""
        if isinstance(space, BoxSpec):
            return space
        return cls(space.low, space.high, cls.named(names, what, space.low.size))

    @staticmethod
    def named(names: Sequence[str], what: str, size: int) -> tuple[str, ...]:
        """Return as many different names as there are numbers, or say what is wrong with them."""
        if isinstance(names, str) or not all(isinstance(one, str) and one for one in names):
            raise InputError(f"the names of {what}s are {names!r}; give a list of words")
        names = tuple(names) or tuple(f"{what} {number}" for number in range(size))
        if len(names) != size or len(set(names)) < size:
            raise InputError(
                f"{len(names)} names were given for the {size} numbers of an {what}: {names}; "
                "give each a name of its own"
            )
        return names

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in which the environment has them."""
        return self.low.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in which the environment has them."""
        return self.low.dtype

    @property
    def size(self) -> int:
        """How many there are."""
        return self.low.size

    @property
    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The low and the high ends, flat and in double precision."""
        low, high = (end.ravel().astype(np.float64) for end in (self.low, self.high))
        return low, high

    @property
    def box(self) -> Box:
        """The same as a space of Gymnasium's."""
        from gymnasium.spaces import Box

        return Box(self.low, self.high, self.shape, self.dtype.type)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, flat; an infinite end is null, as is a unit not known."""
        told = [_WITH_UNIT.fullmatch(name) for name in self.names]
        ends = {
            key: [float(v) if math.isfinite(v) else None for v in ends.ravel()]
            for key, ends in (("low", self.low), ("high", self.high))
        }
        return {
            "names": [m["name"] if m else one for m, one in zip(told, self.names, strict=True)],
            "units": [match["unit"] if match else None for match in told],
            **ends,
            "shape": list(self.shape),
            "dtype": self.dtype.name,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], what: str) -> BoxSpec:
        """Return the numbers that :meth:`to_dict` described."""
        shape, kind = tuple(int(n) for n in data["shape"]), np.dtype(str(data["dtype"]))
        if kind.kind != "f":
            raise FileFormatError(f"the numbers of an {what} are {kind}, expected floating point")
        ends = []
        for key, missing in (("low", -math.inf), ("high", math.inf)):
            given = [missing if end is None else float(end) for end in data[key]]
            ends.append(np.array(given).reshape(shape).astype(kind))
        low, high = ends
        # Of ends that are no numbers neither is below the other.
        if not np.all((low <= high) & (low < math.inf) & (high > -math.inf)):
            raise FileFormatError(f"an {what} has its low end above its high one, or none at all")
        units = data["units"]
        names = [
            name if unit is None else f"{name} [{unit}]"
            for name, unit in zip(data["names"], units, strict=True)
        ]
        return cls(low, high, cls.named(names, what, low.size))
