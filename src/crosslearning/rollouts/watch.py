"""Where a worker is: which step of which environment, and since when."""

from __future__ import annotations

import time
from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

#: Numbers that a place takes: since when (0: in no environment), task, step and seed.
PLACE = 4


class Place(NamedTuple):
    """A step that an environment has begun, and not yet ended; step 0 is its reset."""

    since: float
    task: int
    step: int
    seed: int

    @property
    def seconds(self) -> float:
        """How long the environment has been at it."""
        return time.monotonic() - self.since if self.since else 0.0


class Watch:
    """Writes down where a worker is, for whoever looks from outside.

    Parameters
    ----------
    place : mutable sequence of 4 floats
        Memory that somebody else reads.
    names : sequence of str
        Of all tasks.
    """

    def __init__(self, place: MutableSequence[float], names: Sequence[str]) -> None:
        self._place = place
        self._numbers = {name: float(number) for number, name in enumerate(names)}

    def enter(self, task: str, step: int, seed: int) -> None:
        """Note that an environment begins a step."""
        self._place[1], self._place[2], self._place[3] = self._numbers[task], step, seed
        # Last: whoever looks goes by it.
        self._place[0] = time.monotonic()

    def leave(self) -> None:
        """Note that it has ended."""
        self._place[0] = 0.0


def read_place(place: Sequence[float]) -> Place:
    """Return what a watch wrote down."""
    since, task, step, seed = place
    return Place(since, int(task), int(step), int(seed))
