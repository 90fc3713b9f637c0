"""The observations and actions of a policy: names, units and bounds."""

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
    """The components of an observation or of an action.

    Attributes
    ----------
    low, high : arrays of their type and shape
        Bounds, which may be infinite.
    names : tuple of str
        One for each component, with its unit in brackets: ``"speed [rad/s]"``.
    """

    low: NDArray[Any]
    high: NDArray[Any]
    names: tuple[str, ...]

    @classmethod
    def of(cls, space: HasBounds, what: str, names: Sequence[str] = ()) -> BoxSpec:
        """Return the spec of a box; ``what`` makes default names."""
        if isinstance(space, BoxSpec):
            return space
        return cls(space.low, space.high, cls.named(names, what, space.low.size))

    @staticmethod
    def named(names: Sequence[str], what: str, size: int) -> tuple[str, ...]:
        """Return ``size`` different names, or refuse the given ones."""
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
        """The environment's shape."""
        return self.low.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The environment's data type."""
        return self.low.dtype

    @property
    def size(self) -> int:
        """The number of components."""
        return self.low.size

    @property
    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The low and the high bounds, flat and in double precision."""
        low, high = (end.ravel().astype(np.float64) for end in (self.low, self.high))
        return low, high

    @property
    def box(self) -> Box:
        """The Gymnasium space."""
        from gymnasium.spaces import Box

        return Box(self.low, self.high, self.shape, self.dtype.type)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, flat; infinite bounds and unknown units are null."""
        matches = [_WITH_UNIT.fullmatch(name) for name in self.names]
        ends = {
            key: [float(v) if math.isfinite(v) else None for v in ends.ravel()]
            for key, ends in (("low", self.low), ("high", self.high))
        }
        return {
            "names": [m["name"] if m else one for m, one in zip(matches, self.names, strict=True)],
            "units": [match["unit"] if match else None for match in matches],
            **ends,
            "shape": list(self.shape),
            "dtype": self.dtype.name,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], what: str) -> BoxSpec:
        """Return the spec of :meth:`to_dict`."""
        shape, kind = tuple(int(n) for n in data["shape"]), np.dtype(str(data["dtype"]))
        if kind.kind != "f":
            raise FileFormatError(f"the numbers of an {what} are {kind}, expected floating point")
        ends = []
        for key, missing in (("low", -math.inf), ("high", math.inf)):
            given = [missing if end is None else float(end) for end in data[key]]
            ends.append(np.array(given).reshape(shape).astype(kind))
        low, high = ends
        # Comparisons with NaN are false.
        if not np.all((low <= high) & (low < math.inf) & (high > -math.inf)):
            raise FileFormatError(f"an {what} has its low end above its high one, or none at all")
        names = [
            name if unit is None else f"{name} [{unit}]"
            for name, unit in zip(data["names"], data["units"], strict=True)
        ]
        return cls(low, high, cls.named(names, what, low.size))
