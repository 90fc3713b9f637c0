"""The second race: what every method gains over the controller that runs the machines today."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.around import mean_over_seeds
from benchmarks.race.families import FAMILIES
from benchmarks.race.reading import Entry, Floats, Reached
from crosslearning._base.statistics import Interval
from crosslearning.runs.study import markdown

#: The controller in use, and ours.
IN_USE, OURS = "controller-nominal", "models"
HEADINGS = (
    "method",
    "seeds",
    "steps per machine",
    "mean return",
    "gain",
    "worst machine's gain",
    "machines worse",
    "gain after 200 steps",
    "ahead of ours",
    "steps outside of limits",
    "cost of a step",
    "steps until no worse",
    "steps until no machine worse",
    "steps until as good as ours",
)


def gains(one: Entry, other: Entry) -> Floats:
    """Return returns of machines less those at the other's last mark, by the seed.

    The array has shape (seeds, marks, machines). Each seed has machines of its own.
    """
    last = dict(zip(other.numbers, other.totals[:, -1], strict=True))
    return one.totals - np.array([last[number] for number in one.numbers])[:, None]


def rows(found: Sequence[Entry]) -> list[list[str]]:
    """Return the table of a family, a row for each method at its last mark."""
    by_name = {one.method: one for one in found}
    own = by_name[IN_USE]
    return [_row(one, own, by_name.get(OURS)) for one in found]


def _row(one: Entry, own: Entry, ours: Entry | None) -> list[str]:
    gain = gains(one, own)
    seeds, _, machines = gain.shape
    steps, last = one.steps / machines, gain[:, -1]
    equal = np.flatnonzero(np.all(np.round(steps) == 200, axis=0))
    cost = dict(zip(own.numbers, own.cost[:, -1], strict=True))
    ratio = one.cost[:, -1] / [cost[number] for number in one.numbers]
    learned = one.steps[0, -1] > 0
    shared = ours is not None and set(one.numbers) <= set(ours.numbers)
    until, ahead = [gain.mean(axis=2), gain.min(axis=2)], "–"
    if ours is not None and shared:
        until.append(gains(one, ours).mean(axis=2))
        ahead = ahead if one is ours else text(until[-1][:, -1])
    reached = [_until(one, good, machines).text() if learned else "–" for good in until]
    worse = int(np.sum(last < 0.0))
    return [
        one.label,
        str(seeds),
        f"{steps[:, -1].mean():,.0f}",
        text(one.totals[:, -1].mean(axis=1)),
        "–" if one is own else text(last.mean(axis=1)),
        "–" if one is own else text(last.min(axis=1)),
        "–" if one is own else f"{worse} of {last.size}",
        text(gain[:, equal[0]].mean(axis=1)) if len(equal) else "–",
        ahead,
        percent(one.outside[:, -1]),
        "1" if one is own else f"{ratio.mean():.{0 if ratio.mean() >= 9.95 else 1}f}",
        *reached,
        *["–"] * (3 - len(reached)),
    ]


def _until(one: Entry, good: Floats, machines: int) -> Reached:
    """Return when a number first was at least 0, in steps of one machine."""
    return dataclasses.replace(one, worst=good, steps=one.steps / machines).reached(0.0)


def text(values: Floats) -> str:
    """Return a mean over seeds with Student's 95 % interval."""
    interval: Interval = mean_over_seeds(values.tolist())
    if math.isinf(interval.high):
        return f"{interval.value:.3g}".replace("-", "−")
    return str(interval).replace("-", "−")


def percent(values: Floats) -> str:
    """Return a mean share over seeds, in per cent."""
    return f"{100.0 * values.mean():.2g} %"


def sections(found: Mapping[str, Sequence[Entry]]) -> str:
    """Return the results as Markdown, a section for each family."""
    parts = []
    for family, entries in found.items():
        what = FAMILIES[family].what
        table = markdown(HEADINGS, rows(entries))
        parts.append(f"### {family}\n\n{what[0].upper()}{what[1:]}.\n\n{table}")
    return "\n".join(parts)
