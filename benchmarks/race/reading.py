"""Reading the cells: numbers over seeds with intervals, and steps to the threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.intervals import FEWEST, difference_over_seeds, over_seeds, ratio_over_seeds
from benchmarks.race.cells import Cell
from benchmarks.race.entrants import METHODS, Rival
from benchmarks.race.families import FAMILIES
from crosslearning._base.statistics import Interval

Floats = NDArray[np.float64]
Answer = Mapping[str, Any]

#: Our methods with the radii that they have by default.
_DEFAULTS = ("models", "trust-region", "policy-gradient")


@dataclass(frozen=True)
class Reached:
    """Steps and seconds until every task reached the threshold, seed by seed.

    It is seen at marks alone: the true number lies between two of them. A seed on which it did
    not happen within the budget is censored: its number is infinite, and above the budget.

    Attributes
    ----------
    steps, seconds : array, shape (seeds,)
        At the first mark at which it was seen.
    steps_before, seconds_before : array, shape (seeds,)
        At the mark before that, or the last one if it was never seen; 0 before the first.
    budget : float
        Steps that the seeds without an end had, at least.
    """

    steps: Floats
    seconds: Floats
    steps_before: Floats
    seconds_before: Floats
    budget: float

    @property
    def seeds(self) -> str:
        """On how many seeds it happened."""
        return f"{int(np.isfinite(self.steps).sum())} of {len(self.steps)}"

    def median(self, of: str = "steps") -> float:
        """Return the median over all seeds, infinite if it lies among the censored ones."""
        # Of an even number the upper one of both in the middle, so that nothing is interpolated.
        return float(np.sort(getattr(self, of))[len(self.steps) // 2])

    def text(self, of: str = "steps") -> str:
        """Return the median in words, with the least and the most, or that the budget was short."""
        values = getattr(self, of)
        median, least, most = (
            self._word(x, of) for x in (self.median(of), min(values), max(values))
        )
        return median if least == most else f"{median} ({least} … {most})"

    def _word(self, value: float, of: str) -> str:
        if math.isinf(value):
            return f"> {self.budget:,.0f}" if of == "steps" and self.budget else "–"
        return f"{value:,.0f}" if value >= 10.0 or value == 0.0 else f"{value:.2g}"


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
    totals : array, shape (seeds, marks, tasks)
        Returns on each of the training tasks.
    outside, cost : array, shape (seeds, marks)
        Of the steps while learning, on machines with limits; see ``benchmarks.race.cells.measure``.
    numbers : tuple of int
        Of the seeds.
    """

    method: str
    steps: Floats
    seconds: Floats
    returns: Floats
    worst: Floats
    central: Floats
    unseen: Floats
    adapted: tuple[float, Interval, Interval] | None
    totals: Floats
    outside: Floats
    cost: Floats
    numbers: tuple[int, ...]

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
        return over_seeds(values)

    def along(self, what: str) -> list[Interval]:
        """Return a number that every method has, over seeds, at all marks."""
        result = [self.at(what, mark) for mark in range(self.steps.shape[1])]
        return [one for one in result if one is not None]

    def reached(self, threshold: float) -> Reached:
        """Return when every task had at least so much."""
        good = self.worst >= threshold
        never = ~good.any(axis=1)
        first = np.where(never, good.shape[1], good.argmax(axis=1))
        rows = np.arange(self.seeds)

        def around(values: Floats) -> tuple[Floats, Floats]:
            zeros = np.zeros((self.seeds, 1))
            padded = np.concatenate([zeros, values, zeros + math.inf], axis=1)
            return padded[rows, first + 1], padded[rows, first]

        steps, steps_before = around(self.steps)
        seconds, seconds_before = around(self.seconds)
        budget = float(self.steps[:, -1].min())
        return Reached(steps, seconds, steps_before, seconds_before, budget)


@dataclass(frozen=True)
class Ratio:
    """By what factor ours needs fewer steps, or seconds, than a rival.

    Attributes
    ----------
    least, most : Interval
        The factor if ours reached the threshold right after the mark before and the rival at the
        mark at which it was seen, and the other way round. The true factor lies between.
    """

    ours: Entry
    rival: Entry
    least: Interval
    most: Interval


@dataclass(frozen=True)
class Difference:
    """The difference of ours and a rival after so many steps of each."""

    ours: Entry
    rival: Entry
    found: Interval
    steps: tuple[float, float]


def fewest(entries: Sequence[Entry], threshold: float, of: str = "steps") -> Ratio | None:
    """Compare the first of ours to reach the threshold with the first rival.

    Of ours those with the default radii alone: the best of many would be first by luck, too. None
    unless both got there on most seeds.
    """
    sides = []
    for is_one in (_is_default, _is_rival):
        there = [
            (one.reached(threshold).median(of), number)
            for number, one in enumerate(entries)
            if is_one(one)
        ]
        if not there or math.isinf(min(there)[0]):
            return None
        sides.append(entries[min(there)[1]])
    ours, theirs = (one.reached(threshold) for one in sides)
    before = f"{of}_before"
    least = ratio_over_seeds(getattr(ours, before), getattr(theirs, of))
    most = ratio_over_seeds(getattr(ours, of), getattr(theirs, before))
    return Ratio(*sides, least, most)


def _is_default(one: Entry) -> bool:
    return one.method in _DEFAULTS


def _is_rival(one: Entry) -> bool:
    return isinstance(METHODS[one.method], Rival)


def on_unseen(entries: Sequence[Entry]) -> list[Difference]:
    """Hold our central policies against agents for all, on unseen tasks, at no more steps.

    Every mark of ours is held against the rival's last one before our next, so that ours has never
    had more steps. Rivals with too few seeds for an interval are left out.
    """
    mixed = [one for one in entries if getattr(METHODS[one.method], "way", "") == "mixed"]
    result = []
    for rival in (one for one in mixed if one.seeds >= FEWEST):
        for ours in filter(_is_default, entries):
            steps, theirs = (one.steps.max(axis=0) for one in (ours, rival))
            # How many of our marks there are up to each of the rival's.
            marks = np.searchsorted(steps, theirs, side="right")
            last = np.append(np.diff(marks) > 0, True)
            for k in np.flatnonzero(last & (marks > 0)):
                gain = difference_over_seeds(ours.unseen[:, marks[k] - 1], rival.unseen[:, k])
                pair = float(steps[marks[k] - 1]), float(theirs[k])
                result.append(Difference(ours, rival, gain, pair))
    return result


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

    def mean(result: Answer) -> float:
        return float(np.mean(result["totals"]))

    adapted = None
    if all("adapted" in one for one in answers):
        members = [one["adapted"] for one in answers]
        before, after = (
            over_seeds([mean(one[key]) for one in members]) for key in ("before", "after")
        )
        adapted = (float(np.median([one["steps"] for one in members])), before, after)
    return Entry(
        method=method,
        steps=table("steps", float),
        seconds=table("seconds", lambda pair: pair[1]),
        returns=table("training", mean),
        worst=table("training", lambda result: min(result["totals"])),
        central=table("central", mean),
        unseen=table("unseen", mean),
        adapted=adapted,
        totals=np.array([[one["training"]["totals"] for one in seed["marks"]] for seed in answers]),
        outside=table("outside", float),
        cost=table("cost", float),
        numbers=tuple(one.get("asked", {}).get("seed", k) for k, one in enumerate(answers)),
    )


def entries(answers: Mapping[Cell, Answer]) -> dict[str, list[Entry]]:
    """Return what was measured so far, by family; methods without any seed are left out."""
    result: dict[str, list[Entry]] = {}
    for family in FAMILIES:
        members = {cell: one for cell, one in answers.items() if cell.family == family}
        for method in dict.fromkeys(cell.method for cell in members):
            seeds = [one for cell, one in members.items() if cell.method == method]
            result.setdefault(family, []).append(entry(method, seeds))
    return result
