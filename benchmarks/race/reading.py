"""Reading the cells: numbers over seeds with intervals, and when every task was good enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.race.cells import Cell
from benchmarks.race.entrants import METHODS
from benchmarks.race.families import FAMILIES
from benchmarks.trust_region import over_seeds
from crosslearning.statistics import Interval

Floats = NDArray[np.float64]
Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Reached:
    """After how many steps and seconds every task was good enough, seed by seed.

    It is seen at marks alone, so that the true number is somewhat smaller. A seed on which it did
    not happen within the budget is censored: its number is infinite.

    Attributes
    ----------
    steps, seconds : array, shape (seeds,)
    budget : float
        Steps that the seeds without an end had, at least.
    """

    steps: Floats
    seconds: Floats
    budget: float

    @property
    def seeds(self) -> str:
        """On how many seeds it happened."""
        return f"{int(np.isfinite(self.steps).sum())} of {len(self.steps)}"

    def median(self, of: str = "steps") -> float:
        """Return the median over all seeds, infinite if it lies among the censored ones."""
        # Of an even number the upper one of both in the middle, so that nothing is interpolated.
        return float(np.sort(getattr(self, of))[len(self.steps) // 2])

    def told(self, of: str = "steps") -> str:
        """Return the median in words, or that the budget was too short for it."""
        median = self.median(of)
        if math.isinf(median):
            return f"> {self.budget:,.0f}" if of == "steps" and self.budget else "–"
        return f"{median:,.0f}" if median >= 10.0 or median == 0.0 else f"{median:.2g}"


@dataclass(frozen=True)
class Entry:
    """What the seeds of one method on one family gave; arrays have a column for every mark.

    Attributes
    ----------
    steps, seconds : array, shape (seeds, marks)
        Seconds are those of the processor: other work on the machine does not count.
    returns, worst, central, unseen : array, shape (seeds, marks)
        Mean return on the training tasks, and on the worst of them, of what is meant for each; of
        the one policy for all there, and on unseen tasks. NaN where there is no such policy.
    """

    method: str
    steps: Floats
    seconds: Floats
    returns: Floats
    worst: Floats
    central: Floats
    unseen: Floats
    adapted: tuple[float, Interval, Interval] | None

    @property
    def label(self) -> str:
        """What tables call it."""
        return METHODS[self.method].label

    @property
    def seeds(self) -> int:
        """How many were measured."""
        return len(self.steps)

    def at(self, what: str, mark: int = -1) -> Interval | None:
        """Return a number over seeds at a mark; None if there is no such."""
        values = getattr(self, what)[:, mark]
        if not np.all(np.isfinite(values)):
            return None
        # One seed says nothing about others.
        alone = len(values) == 1
        return Interval(values[0], -math.inf, math.inf) if alone else over_seeds(values)

    def along(self, what: str) -> list[Interval]:
        """Return a number that every method has, over seeds, at all marks."""
        found = [self.at(what, mark) for mark in range(self.steps.shape[1])]
        return [one for one in found if one is not None]

    def reached(self, threshold: float) -> Reached:
        """Return when every task had at least so much."""
        good = self.worst >= threshold
        first = np.where(good.any(axis=1), good.argmax(axis=1), -1)
        rows = np.arange(self.seeds)
        never = first < 0
        steps = np.where(never, math.inf, self.steps[rows, first])
        seconds = np.where(never, math.inf, self.seconds[rows, first])
        return Reached(steps, seconds, float(self.steps[:, -1].min()))


def entry(method: str, answers: Sequence[Answer]) -> Entry:
    """Return what the answers of a method's seeds say."""

    def table(key: str, number: Any) -> Floats:
        return np.array(
            [
                [np.nan if mark.get(key) is None else number(mark[key]) for mark in one["marks"]]
                for one in answers
            ],
            dtype=np.float64,
        )

    def mean(found: Answer) -> float:
        return float(np.mean(found["totals"]))

    adapted = None
    if all("adapted" in one for one in answers):
        own = [one["adapted"] for one in answers]
        before, after = (over_seeds([mean(one[key]) for one in own]) for key in ("before", "after"))
        adapted = (float(np.median([one["steps"] for one in own])), before, after)
    return Entry(
        method=method,
        steps=table("steps", float),
        seconds=table("seconds", lambda pair: pair[1]),
        returns=table("training", mean),
        worst=table("training", lambda found: min(found["totals"])),
        central=table("central", mean),
        unseen=table("unseen", mean),
        adapted=adapted,
    )


def entries(cells: Sequence[Cell]) -> dict[str, list[Entry]]:
    """Return what was measured so far, by family; methods without any seed are left out."""
    found: dict[str, list[Entry]] = {}
    for family in FAMILIES:
        own = [cell for cell in cells if cell.family == family]
        for method in dict.fromkeys(cell.method for cell in own):
            stored = [cell.measurement.stored() for cell in own if cell.method == method]
            answers = [one for one in stored if one is not None]
            if answers:
                found.setdefault(family, []).append(entry(method, answers))
    return found
