"""What sharing is worth at every point of a map, and what a radius that was chosen costs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.sharing.parts import Grid, Radius, questions
from crosslearning._base.statistics import Interval, student
from crosslearning.analysis.sweep.summary import format_epsilon, recommend
from crosslearning.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Quantity:
    """One quantity that a part measures; what it stores is such that more is better.

    Attributes
    ----------
    part, name : str
    title : str
        What a figure and a table call it.
    sign : float
        −1 if tables show the opposite of what is stored: an error, a loss.
    digits : int
        Behind the point.
    """

    part: str
    name: str
    title: str
    sign: float = 1.0
    digits: int = 0


QUANTITIES = (
    Quantity("identified", "own", "carts identified: lost to the optimum, %", sign=-1.0, digits=1),
    Quantity("carts", "own", "policies of carts: lost to the optimum, %", sign=-1.0, digits=1),
    Quantity("pendulums", "own", "policies of pendulums: return"),
    Quantity("errors", "one step", "models: error after 1 step, %", sign=-1.0, digits=1),
    Quantity("errors", "25 steps", "models: error after 25 steps, %", sign=-1.0, digits=1),
    Quantity("models", "own", "policies learned in models: return"),
)


@dataclass(frozen=True)
class Point:
    """One point of a map; intervals are over seeds, and differences paired by the seed.

    Attributes
    ----------
    spread : float
    data : int
        Steps of each machine.
    seeds : int
    together, between, apart : Interval
        What ε = 0, a radius in between and ε = ∞ give.
    over_together, over_apart : Interval
        What the radius in between gives more than the ends.
    best : Radius
        The radius in between with the best mean.
    chosen : Radius
        What the library takes by itself.
    cost : Interval
        What the best radius in hindsight, ends included, gives more than the chosen one.
    """

    spread: float
    data: int
    seeds: int
    together: Interval
    between: Interval
    apart: Interval
    over_together: Interval
    over_apart: Interval
    best: Radius
    chosen: Radius
    cost: Interval


def read(part: str, grid: Grid, out: Path) -> dict[str, Floats]:
    """Return everything that was measured of a part, seeds last.

    Radii by data become (spreads, data, radii, seeds), numbers by data (spreads, data, seeds).
    Only seeds that were measured at all spreads count, so that differences are paired.
    """
    result = {(one.asked["seed"], one.asked["spread"]): one for one in questions(part, grid, out)}
    stored = {key: one.stored() for key, one in result.items()}
    whole = [s for s in range(grid.seeds) if all(stored[s, at] for at in grid.spreads)]
    if not whole:
        raise InputError(
            f"no seed of the part {part} is measured in {out} as it is asked for; run "
            f"python -m benchmarks.sharing measure {part}, with the same options"
        )
    answers = [[stored[seed, spread] or {} for seed in whole] for spread in grid.spreads]
    names = [name for name in answers[0][0] if name != "asked"]
    tables = {name: np.array([[a[name] for a in row] for row in answers]) for name in names}
    # (spreads, seeds, [radii,] data) as they come.
    return {name: np.moveaxis(table, 1, -1).swapaxes(1, -2) for name, table in tables.items()}


def chosen_blind(values: Floats) -> Floats:
    """Return each seed's value in the row that is best on the mean of the other seeds.

    So a row's luck is not counted for it. ``values`` has the shape (rows, seeds).
    """
    rows, seeds = values.shape
    if rows == 1 or seeds == 1:
        return np.asarray(values.max(axis=0))
    others = values.sum(axis=1, keepdims=True) - values
    return np.asarray(values[others.argmax(axis=0), np.arange(seeds)])


def points(quantity: Quantity, grid: Grid, measured: dict[str, Floats]) -> list[Point]:
    """Return the map of a quantity, spread by spread."""
    table = measured[quantity.name]
    result = []
    for s, d in np.ndindex(*table.shape[:2]):
        values = table[s, d]
        between, inner = chosen_blind(values[1:-1]), values[1:-1].mean(axis=1)
        best = 1 + int(inner.argmax())
        chosen, cost = _choice(quantity, grid, {n: one[s, d] for n, one in measured.items()})
        result.append(
            Point(
                spread=grid.spreads[s],
                data=grid.data[d],
                seeds=values.shape[1],
                together=student(values[0]),
                between=student(between),
                apart=student(values[-1]),
                over_together=student(between - values[0]),
                over_apart=student(between - values[-1]),
                best=grid.radii[best],
                chosen=chosen,
                cost=cost,
            )
        )
    return result


def _choice(quantity: Quantity, grid: Grid, here: dict[str, Floats]) -> tuple[Radius, Interval]:
    """Return the radius that the library takes at a point of the map, and what it costs."""
    if quantity.name == "one step":
        # Every output of the models has a radius of its own, by the data and in hindsight.
        return None, student(here["hindsight"] - here["chosen"])
    values, taken = here[quantity.name], None
    if "held_out" in here:
        # As ``crosslearning sweep`` does: by the central policy on machines never seen.
        radii = [float(radius) for radius in grid.radii if radius is not None]
        taken = recommend(radii, here["held_out"], "held_out").epsilon
    best = values[values.mean(axis=1).argmax()]
    return taken, student(best - values[grid.radii.index(taken)])


def radius_text(radius: Radius) -> str:
    """Return a radius as people read it."""
    return "by the data" if radius is None else format_epsilon(radius)


def shown(interval: Interval) -> bool:
    """Return whether an interval excludes zero."""
    return interval.known and (interval.low > 0.0 or interval.high < 0.0)
