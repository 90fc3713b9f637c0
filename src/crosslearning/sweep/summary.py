"""What a sweep says: means over seeds with intervals, and a radius to choose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.rkhs import Family
from crosslearning.statistics import CONFIDENCE, Interval, student, student_quantile
from crosslearning.sweep.request import plain_epsilon

Floats = NDArray[np.float64]

#: Whose return is measured where; each may come with rates, such as ``held_out_crashed``.
PLACES = ("own", "central", "held_out")


@dataclass(frozen=True)
class Recommendation:
    """The radius to choose, and how sure the choice is.

    Attributes
    ----------
    epsilon : float
        The one with the best mean over seeds.
    by : str
        The quantity that was compared: ``held_out``, or ``central`` if nothing was held out.
    not_told_apart : tuple of float
        The radii, the recommended one among them, that are not shown to be worse than it. Over
        repeated sweeps this set holds the radius that is truly the best of those tried with a
        probability of at least 95 %.
    value : Interval
        The mean at the recommended radius. Optimistic: it is the largest of several.
    chosen_blind : float or None
        The mean over seeds of the value at the radius that the other seeds would have chosen:
        an estimate without that optimism. None for one seed.
    sentence : str
    """

    epsilon: float
    by: str
    not_told_apart: tuple[float, ...]
    value: Interval
    chosen_blind: float | None
    sentence: str


@dataclass(frozen=True, eq=False)
class Sweep:
    """The measurements of a path over all seeds.

    Attributes
    ----------
    epsilons : tuple of float
    seeds : tuple of int
    values : mapping of str to array, shape (epsilons, seeds)
        ``own``: the mean return of the task policies, each on its own task; ``central``: of the
        central policy on the training tasks; ``held_out``: of the central policy on the
        held-out tasks, if there are any; their rates, such as ``held_out_crashed``;
        ``distance``, the largest ‖h_i − g‖; ``multiplier``, the mean over tasks, NaN where they
        have no bound; ``knots``.
    recommendation : Recommendation
    families : mapping
        The trained families by (seed, epsilon), if the sweep was made in memory.
    """

    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]
    values: Mapping[str, Floats]
    recommendation: Recommendation
    families: Mapping[tuple[int, float], Family] = field(default_factory=dict)

    def interval(self, quantity: str, epsilon: float) -> Interval:
        """Return a quantity's mean over seeds at a radius."""
        return student(self.values[quantity][self.epsilons.index(epsilon)])

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the families as plain data for JSON."""
        rows = []
        for k, epsilon in enumerate(self.epsilons):
            row: dict[str, Any] = {"epsilon": plain_epsilon(epsilon)}
            for name, values in self.values.items():
                known = bool(np.all(np.isfinite(values[k])))
                row[name] = {
                    **(_plain_interval(student(values[k])) if known else {"value": None}),
                    "seeds": [float(v) if math.isfinite(v) else None for v in values[k]],
                }
            rows.append(row)
        best = asdict(self.recommendation)
        best["value"] = _plain_interval(self.recommendation.value)
        best["epsilon"] = plain_epsilon(self.recommendation.epsilon)
        best["not_told_apart"] = [plain_epsilon(e) for e in self.recommendation.not_told_apart]
        return {"seeds": list(self.seeds), "recommendation": best, "rows": rows}

    def table(self) -> str:
        """Return the measurements as a Markdown table, means with 95 % Student intervals."""
        return self._table([name for name in _HEADINGS if name in self.values])

    def rates_table(self) -> str:
        """Return the rates of outcomes, means over seeds, as a Markdown table; else ""."""
        rates = [name for name in self.values if name not in _HEADINGS]
        return self._table(rates) if rates else ""

    def _table(self, names: Sequence[str]) -> str:
        heads = ["ε", *(_HEADINGS.get(name) or _rate_heading(name) for name in names)]
        lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        for epsilon in self.epsilons:
            mark = "**" if epsilon == self.recommendation.epsilon else ""
            cells = [f"{mark}{_epsilon_text(epsilon)}{mark}"]
            for name in names:
                values = self.values[name][self.epsilons.index(epsilon)]
                unknown = not np.all(np.isfinite(values))
                cells.append("–" if unknown else _cell(name, values))
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"


_HEADINGS = {
    "own": "task policies, own tasks",
    "central": "central, training tasks",
    "held_out": "central, held-out tasks",
    "distance": "largest distance",
    "multiplier": "mean multiplier",
    "knots": "knots",
}


def not_told_apart(values: Floats, confidence: float = CONFIDENCE) -> list[int]:
    """Return the rows that no other row is shown to beat, on the same seeds.

    A row is shown to be worse if a one-sided paired t-test says so against some other row, at
    the level (1 − confidence)/(rows − 1). The row that is truly best is then left out with a
    probability of at most 1 − confidence, whatever was looked at first (Bonferroni).

    Parameters
    ----------
    values : array, shape (rows, seeds)
    """
    rows, seeds = values.shape
    if rows == 1 or seeds == 1:
        return list(range(rows))
    limit = student_quantile(1.0 - (1.0 - confidence) / (rows - 1), seeds - 1)
    kept = []
    for row in range(rows):
        differences = values - values[row]
        means = differences.mean(axis=1)
        errors = differences.std(axis=1, ddof=1) / math.sqrt(seeds)
        if not np.any((means > limit * errors) & (means > 0.0)):
            kept.append(row)
    return kept


def recommend(epsilons: Sequence[float], values: Floats, by: str) -> Recommendation:
    """Return the radius with the best mean, and what can be said for it.

    Parameters
    ----------
    epsilons : sequence of float
    values : array, shape (epsilons, seeds)
        The same seeds for every radius; more is better.
    by : str
        What the values are.
    """
    best = int(np.argmax(values.mean(axis=1)))
    apart = not_told_apart(values)
    together = tuple(epsilons[row] for row in apart)
    value = student(values[best])
    blind = None
    if values.shape[1] > 1:
        rest = [np.delete(values, seed, axis=1).mean(axis=1) for seed in range(values.shape[1])]
        blind = float(np.mean([values[np.argmax(m), s] for s, m in enumerate(rest)]))
    sentence = _sentence(epsilons[best], by, together, value, blind, len(epsilons))
    return Recommendation(epsilons[best], by, together, value, blind, sentence)


def summarise(
    epsilons: Sequence[float],
    seeds: Sequence[int],
    records: Mapping[tuple[int, float], Mapping[str, Any]],
    families: Mapping[tuple[int, float], Family] | None = None,
) -> Sweep:
    """Return the sweep of measurements, one for each (seed, epsilon)."""
    first = records[seeds[0], epsilons[0]]
    collected: dict[str, list[list[float]]] = {}
    for epsilon in epsilons:
        columns = [_numbers(records[seed, epsilon]) for seed in seeds]
        for name in _numbers(first):
            collected.setdefault(name, []).append([column[name] for column in columns])
    values = {name: np.array(rows) for name, rows in collected.items()}
    by = "held_out" if "held_out" in values else "central"
    return Sweep(
        tuple(epsilons),
        tuple(seeds),
        values,
        recommend(epsilons, values[by], by),
        dict(families or {}),
    )


def _numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """Return one family's measurements as means over tasks."""
    numbers: dict[str, float] = {}
    rates: dict[str, float] = {}
    for place in PLACES:
        tasks = list(record[place].values())
        if not tasks:
            continue
        numbers[place] = float(np.mean([task["return"] for task in tasks]))
        for name in tasks[0]:
            if name != "return" and all(name in task for task in tasks):
                rates[f"{place}_{name}"] = float(np.mean([task[name] for task in tasks]))
    numbers["distance"] = max(record["distance"].values())
    multipliers = list(record["multiplier"].values())
    known = all(value is not None for value in multipliers)
    numbers["multiplier"] = float(np.mean(multipliers)) if known else math.nan
    numbers["knots"] = float(record["knots"])
    return numbers | rates


def _sentence(
    best: float,
    by: str,
    together: Sequence[float],
    value: Interval,
    blind: float | None,
    tried: int,
) -> str:
    """Return the recommendation in words."""
    where = "held-out tasks" if by == "held_out" else "training tasks, since none were held out"
    text = f"ε = {_epsilon_text(best)}: the best mean return of the central policy on the {where}"
    if blind is None:
        return f"{text} ({value}), from one seed, which tells no two radii apart."
    others = [_epsilon_text(epsilon) for epsilon in together if epsilon != best]
    if tried == 1:
        return f"{text} ({value}); no other was tried."
    text += (
        f" ({value}; optimistic, as the largest of {tried}; {blind:.3g} if each seed's radius is "
        "chosen by the other seeds). "
    )
    if others:
        return text + f"Not told apart from it: {', '.join(others)}."
    return text + "All others are shown to be worse."


def _epsilon_text(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"


def _plain_interval(interval: Interval) -> dict[str, float | None]:
    return {name: v if math.isfinite(v) else None for name, v in asdict(interval).items()}


def _rate_heading(name: str) -> str:
    place, _, rate = name.rpartition("_")
    return f"{_HEADINGS[place]}: {rate}"


def _cell(name: str, values: Floats) -> str:
    interval = student(values)
    if name == "knots":
        return f"{interval.value:.0f}"
    if name not in _HEADINGS:
        return f"{100 * interval.value:.1f} %"
    return str(interval)
