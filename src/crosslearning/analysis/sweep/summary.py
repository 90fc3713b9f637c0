"""The results of a sweep: means over seeds with intervals, and a recommended radius."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from crosslearning._base.plain_data import to_plain
from crosslearning._base.statistics import CONFIDENCE, Interval, student, student_quantile
from crosslearning.analysis.sweep.stages import plain_epsilon
from crosslearning.errors import InputError
from crosslearning.rkhs import Family
from crosslearning.rkhs.checks import Floats
from crosslearning.runs.study import markdown

#: The measured returns; each may come with rates, such as ``held_out_crashed``.
PLACES = ("own", "central", "held_out")
#: Headings of tables; all other quantities are rates.
HEADINGS = {
    "own": "task policies, own tasks",
    "central": "central, training tasks",
    "held_out": "central, held-out tasks",
    "distance": "largest distance",
    "multiplier": "mean multiplier",
    "knots": "knots",
}


@dataclass(frozen=True)
class Recommendation:
    """The recommended radius, and how certain it is."""

    epsilon: float  #: the one with the best mean over seeds
    by: str  #: the quantity compared: ``held_out``, or ``central`` if nothing was held out
    #: The radii that are not significantly worse, with the recommended one. The set contains the
    #: best of all radii with a probability of at least 95 %.
    not_significantly_different: tuple[float, ...]
    value: Interval  #: the mean at the recommended radius: optimistic, as the largest of several
    #: The mean over seeds at the radius that the other seeds would have chosen, which is not
    #: optimistic; None for one seed.
    chosen_blind: float | None
    sentence: str


@dataclass(frozen=True, eq=False)
class Sweep:
    """The measurements of a path over all seeds.

    ``values``, arrays of shape (epsilons, seeds), has mean returns: ``own`` of the task policies,
    each on its own task, ``central`` of the central policy on the training tasks, and ``held_out``
    on the held-out tasks, if any; their rates, such as ``held_out_crashed``; ``distance``, the
    largest ‖h_i − g‖; ``multiplier``, the mean over tasks, NaN where they have no bound; ``knots``.
    """

    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]
    values: Mapping[str, Floats]
    recommendation: Recommendation
    #: The trained families by (seed, epsilon), if the sweep was made in memory.
    families: Mapping[tuple[int, float], Family] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the families as plain data for JSON."""
        rows = []
        for k, epsilon in enumerate(self.epsilons):
            row: dict[str, Any] = {"epsilon": plain_epsilon(epsilon)}
            for name, values in self.values.items():
                known = np.all(np.isfinite(values[k]))
                mean = asdict(student(values[k])) if known else {"value": None}
                row[name] = {**mean, "seeds": values[k].tolist()}
            rows.append(row)
        best = asdict(self.recommendation)
        best["epsilon"] = plain_epsilon(best["epsilon"])
        same = best["not_significantly_different"]
        best["not_significantly_different"] = [plain_epsilon(epsilon) for epsilon in same]
        content = {"seeds": self.seeds, "recommendation": best, "rows": rows}
        plain: dict[str, Any] = to_plain(content)
        return plain

    def cells(self, names: Sequence[str]) -> list[list[str]]:
        """Return quantities as text, a row for each radius, which comes first."""
        return [
            [format_epsilon(epsilon), *(_cell(name, self.values[name][k]) for name in names)]
            for k, epsilon in enumerate(self.epsilons)
        ]

    @property
    def rates(self) -> list[str]:
        """The quantities that are rates of outcomes."""
        return [name for name in self.values if name not in HEADINGS]

    def table(self, names: Sequence[str] | None = None) -> str:
        """Return quantities, by default all but the rates, as Markdown: means with intervals."""
        if names is None:
            names = [name for name in HEADINGS if name in self.values]
        rows = self.cells(names)
        best = rows[self.epsilons.index(self.recommendation.epsilon)]
        best[0] = f"**{best[0]}**"
        return markdown(["ε", *map(heading, names)], rows)


def differences(sweep: Sweep, other: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return differences to another sweep, from ``sweep.json``, as a table's head and rows.

    They are differences of returns at the same radius and seed, as means over seeds with 95 %
    Student intervals.
    """
    theirs = {float(row["epsilon"]): row for row in other["rows"]}
    seeds = [seed for seed in sweep.seeds if seed in other["seeds"]]
    names = [n for n in PLACES if n in sweep.values and all(n in row for row in theirs.values())]
    mine = [sweep.seeds.index(seed) for seed in seeds]
    its = [other["seeds"].index(seed) for seed in seeds]
    rows = []
    for k, epsilon in enumerate(sweep.epsilons):
        if seeds and epsilon in theirs:
            pairs = [(sweep.values[n][k], np.array(theirs[epsilon][n]["seeds"])) for n in names]
            cells = [str(student(ours[mine] - old[its])) for ours, old in pairs]
            rows.append([format_epsilon(epsilon), *cells])
    if not rows:
        raise InputError("the two sweeps have no radius and seed in common")
    return ["ε", *map(heading, names)], rows


def not_significantly_different(values: Floats) -> list[int]:
    """Return the rows of values (rows, seeds) that are not significantly worse than another.

    The test is a one-sided paired t-test at the level 5 %/(rows − 1) (Bonferroni): the best row is
    left out with a probability of at most 5 %.
    """
    rows, seeds = values.shape
    if rows == 1 or seeds == 1:
        return list(range(rows))
    limit = student_quantile(1.0 - (1.0 - CONFIDENCE) / (rows - 1), seeds - 1)
    differences = values - values[:, None]  # of every row's others to it, (rows, rows, seeds)
    means = differences.mean(axis=2)
    errors = differences.std(axis=2, ddof=1) / math.sqrt(seeds)
    worse = np.any((means > limit * errors) & (means > 0.0), axis=1)
    return [int(row) for row in np.flatnonzero(~worse)]


def recommend(epsilons: Sequence[float], values: Floats, by: str) -> Recommendation:
    """Return the radius with the best mean of values (epsilons, seeds), of the quantity ``by``."""
    best, count = int(np.argmax(values.mean(axis=1))), values.shape[1]
    together = tuple(epsilons[row] for row in not_significantly_different(values))
    value = student(values[best])
    blind = None
    if count > 1:
        rest = [np.delete(values, seed, axis=1).mean(axis=1) for seed in range(count)]
        blind = float(np.mean([values[np.argmax(m), s] for s, m in enumerate(rest)]))
    where = "held-out tasks" if by == "held_out" else "training tasks, since none were held out"
    text = f"ε = {format_epsilon(epsilons[best])}: the best mean return of the central policy on "
    text += f"the {where} ({value}"
    others = [format_epsilon(epsilon) for epsilon in together if epsilon != epsilons[best]]
    if blind is None:
        text += "), from one seed, which cannot distinguish radii."
    elif len(epsilons) == 1:
        text += "); no other was tried."
    else:
        text += (
            f"; optimistic, as the largest of {len(epsilons)}; {blind:.3g} if each seed's radius "
            "is chosen by the other seeds). "
        )
        same = f"Not significantly different: {', '.join(others)}."
        text += same if others else "All others are significantly worse."
    return Recommendation(epsilons[best], by, together, value, blind, text)


def summarise(
    epsilons: Sequence[float],
    seeds: Sequence[int],
    records: Mapping[tuple[int, float], Mapping[str, Any]],
    families: Mapping[tuple[int, float], Family] | None = None,
) -> Sweep:
    """Return the sweep of measurements, one for each (seed, epsilon)."""
    numbers = {at: _numbers(record) for at, record in records.items()}
    values = {
        name: np.array([[numbers[seed, epsilon][name] for seed in seeds] for epsilon in epsilons])
        for name in numbers[seeds[0], epsilons[0]]
    }
    by = "held_out" if "held_out" in values else "central"
    best = recommend(epsilons, values[by], by)
    return Sweep(tuple(epsilons), tuple(seeds), values, best, dict(families or {}))


def _numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """Return one family's measurements as means over tasks."""
    multipliers = list(record["multiplier"].values())
    numbers = {
        "distance": max(record["distance"].values()),
        "multiplier": math.nan if None in multipliers else float(np.mean(multipliers)),
        "knots": float(record["knots"]),
    }
    for place in PLACES:
        tasks = list(record[place].values())
        for name in tasks[0] if tasks else ():
            if all(name in task for task in tasks):
                key = place if name == "return" else f"{place}_{name}"
                numbers[key] = float(np.mean([task[name] for task in tasks]))
    return numbers


def format_epsilon(epsilon: float) -> str:
    """Return a radius as text."""
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"


def heading(name: str) -> str:
    """Return the heading of a quantity."""
    place, _, rate = name.rpartition("_")
    return HEADINGS.get(name) or f"{HEADINGS[place]}: {rate}"


def _cell(name: str, values: Floats) -> str:
    if not np.all(np.isfinite(values)):
        return "–"
    interval = student(values)
    if name == "knots":
        return f"{interval.value:.0f}"
    if name not in HEADINGS:
        return f"{100 * interval.value:.1f} %"
    return str(interval)
