"""A designed search over combinations of what the paper leaves open.

Some factors change the training; a fraction of their combinations is run, at a part of the full
length. Who acts and where costs are measured change no run: all their combinations are measured.
The best readings then run at full length with seeds that the search has not used, because the best
of many is partly so by chance.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from crosslearning._base.plain_data import expecting
from crosslearning.errors import InputError
from crosslearning.reproduction.paper.claims import CLAIMS, judge, plain_verdict, write_verdicts
from crosslearning.reproduction.paper.experiment import (
    ITERATIONS,
    REDRAWN_GOALS,
    Experiment,
    Reading,
    Scale,
)
from crosslearning.reproduction.paper.measure import load_measurements, rounds_of
from crosslearning.reproduction.paper.readings import worst_arrival
from crosslearning.runs.design import (
    Levels,
    crossed,
    fractional_factorial,
    interactions,
    main_effects,
)
from crosslearning.runs.study import claim, markdown, run_study

#: What a verdict counts in the score: claims that hold less those that do not.
POINTS = {"holds": 1, "does not hold": -1, "undecided": 0}
#: The confirmation's seeds, which no search reaches.
FIRST_FRESH_SEED = 1000
#: Interactions in the table.
_STRONGEST = 10


@dataclass(frozen=True)
class Factor:
    """A point that the paper leaves open; the first level is the default reading's.

    It may change no run (``measured``), or only those of several tasks (``joint``).
    """

    name: str
    says: str
    levels: Mapping[str, Mapping[str, Any]]
    measured: bool = False
    joint: bool = False

    def label(self, level: int) -> str:
        """Return the name of a level with that of the factor."""
        return f"{self.name}={list(self.levels)[level]}"


_TABLE = files("crosslearning.reproduction.paper").joinpath("factors.toml").read_text("utf-8")
#: Those that change training, then those that are only measured.
FACTORS = tuple(Factor(name, **row) for name, row in tomllib.loads(_TABLE).items())


@dataclass(frozen=True)
class SearchPlan:
    """The size of a search.

    ``runs`` combinations of the training's factors, a power of two, are screened with ``seeds``
    seeds; the ``best`` are confirmed with ``fresh_seeds`` others, beside that of which most claims
    hold, the best that main effects predict, and the default and the reading with redrawn goals,
    which were there before the search.
    """

    screen: Scale
    confirm: Scale
    runs: int
    seeds: int
    fresh_seeds: int
    best: int


FULL = SearchPlan(
    Scale(iterations=ITERATIONS // 4, snapshots=1, trials=200, maps=100),
    Scale(snapshots=1, trials=500, maps=200),
    runs=32,
    seeds=5,
    fresh_seeds=10,
    best=2,
)
QUICK = SearchPlan(
    Scale(iterations=200, max_knots=100, snapshots=1, trials=50, maps=5),
    Scale(iterations=800, max_knots=100, snapshots=1, trials=50, maps=5),
    runs=16,
    seeds=2,
    fresh_seeds=2,
    best=1,
)


def reading_of(levels: Sequence[int], factors: Sequence[Factor] = FACTORS) -> Reading:
    """Return the reading with the given level of each factor."""
    fields: dict[str, Any] = {}
    names = []
    for factor, level in zip(factors, levels, strict=True):
        for name, value in list(factor.levels.values())[level].items():
            fields[name] = fields.get(name, {}) | value if isinstance(value, dict) else value
        if level:
            names.append(factor.label(level))
    return Reading(", ".join(names) or "default", "", **fields)


def search(
    path: Path,
    seeds: int,
    plan: SearchPlan,
    workers: int | None,
    console: Console,
    on: str = "processes",
    factors: Sequence[Factor] = FACTORS,
) -> dict[str, Any] | None:
    """Search and confirm readings in a folder; return ``search.json``, or None if interrupted.

    The same call continues an interrupted search.
    """
    if [f.measured for f in factors] != sorted(f.measured for f in factors):
        raise InputError("give the factors that change training before those that are measured")
    trained = [factor for factor in factors if not factor.measured]
    asked = {"factors": {f.name: list(f.levels) for f in factors}, "runs": plan.runs}
    claim(path, asked, "a search")
    fraction = fractional_factorial([len(factor.levels) for factor in trained], plan.runs)
    design = crossed(fraction, [len(f.levels) for f in factors if f.measured])

    def experiment(
        stage: str, row: Sequence[int], agnostic: Experiment | None = None
    ) -> Experiment:
        # Readings that differ only in what is measured share a folder and its name.
        code = "".join(map(str, row[: len(trained)]))
        reading = replace(reading_of(row, factors), name=code, costs="circles")
        scale, count, first = plan.screen, seeds, 0
        if stage == "confirm":
            scale, count, first = plan.confirm, plan.fresh_seeds, FIRST_FRESH_SEED
        return Experiment(path / stage / code, count, scale, reading, first, agnostic)

    def judged(rows: Sequence[Sequence[int]], stage: str) -> list[dict[str, Any]] | None:
        experiments = []
        for row in rows:
            single = [0 if factor.joint else i for factor, i in zip(factors, row, strict=True)]
            experiments.append(experiment(stage, row, experiment(stage, single)))
        if not run_study(rounds_of(experiments, measured_only=True), workers, console, on):
            return None
        return [_judged(e, row, factors) for e, row in zip(experiments, rows, strict=True)]

    tried = judged(design.tolist(), "screen")
    if tried is None:
        return None
    points = np.array([[POINTS[one["verdict"]] for one in row["claims"]] for row in tried])
    finalists = _finalists(design, points, len(trained), plan.best)
    finalists |= _known(factors)
    confirmed = judged(list(finalists.values()), "confirm")
    if confirmed is None:
        return None
    content = {
        "seeds": seeds,
        "fresh_seeds": [FIRST_FRESH_SEED, FIRST_FRESH_SEED + plan.fresh_seeds - 1],
        "readings_tried": len(tried),
        "combinations": int(np.prod([len(factor.levels) for factor in factors])),
        "confirm_scale": asdict(plan.confirm),
        "factors": {f.name: {"says": f.says, "levels": list(f.levels)} for f in factors},
        "effects": _effects(design, points, factors),
        "interactions": _interactions(design, points.sum(axis=1), factors),
        "confirmed": [
            {"chosen": why, **row} for why, row in zip(finalists, confirmed, strict=True)
        ],
        "readings": tried,
    }
    write_verdicts(path / "search", plan.screen, search_tables(plan, content), **content)
    return content


def _judged(
    experiment: Experiment, levels: Sequence[int], factors: Sequence[Factor]
) -> dict[str, Any]:
    """Return the verdicts on a reading, and its score."""
    reading = reading_of(levels, factors)
    results = load_measurements(experiment, reading.costs)
    with expecting(f"a measurements.json in {experiment.path}"):
        verdicts = [plain_verdict(judge(one, results)) for one in CLAIMS]
        arrived = worst_arrival(results)
    return {
        "name": reading.name,
        "levels": {f.name: list(f.levels)[i] for f, i in zip(factors, levels, strict=True)},
        "score": sum(POINTS[one["verdict"]] for one in verdicts),
        "worst_arrival": arrived,
        "claims": verdicts,
    }


def _known(factors: Sequence[Factor]) -> dict[str, list[int]]:
    """Return the levels of the reading with redrawn goals, by who acts, if the factors have it."""
    acting = {"g": REDRAWN_GOALS, "h_i": replace(REDRAWN_GOALS, acts="own")}
    return {
        f"redrawn-goals, {who}": list(row)
        for row in itertools.product(*(range(len(factor.levels)) for factor in factors))
        for who, reading in acting.items()
        if _fields(reading_of(row, factors)) == _fields(reading)
    }


def _fields(reading: Reading) -> dict[str, Any]:
    """Return what a reading says, apart from its names."""
    return {**asdict(reading), "name": "", "says": ""}


def _finalists(
    design: Levels, points: NDArray[np.int64], trained: int, best: int
) -> dict[str, list[int]]:
    """Return the levels of the readings to confirm, by the reason.

    They are the default reading; the best of those tried, of each training one; that of which most
    claims hold, however many do not; and the best that main effects predict, which the fraction may
    not contain.
    """
    scores, holding = points.sum(axis=1), np.sum(points > 0, axis=1)
    finalists = {"default": [0] * design.shape[1]}
    chosen: set[tuple[int, ...]] = set()
    for index in np.argsort(-scores, kind="stable"):
        row = design[index].tolist()
        if len(chosen) == best:
            break
        if tuple(row[:trained]) not in chosen and row not in finalists.values():
            chosen.add(tuple(row[:trained]))
            finalists[f"screened, {len(chosen)}"] = row
    most = design[np.lexsort((-scores, -holding))[0]].tolist()
    if most not in finalists.values():
        finalists["most hold"] = most
    predicted = [int(np.argmax(effects)) for effects in main_effects(design, scores)]
    if predicted not in finalists.values():
        finalists["predicted"] = predicted
    return finalists


def _effects(
    design: Levels, points: NDArray[np.int64], factors: Sequence[Factor]
) -> list[dict[str, Any]]:
    """Return the change of the score and of every claim's points from each default level."""
    rows = []
    for factor, effects in zip(factors, main_effects(design, points), strict=True):
        for level, effect in enumerate(effects[1:], start=1):
            claims = {one.key: float(e) for one, e in zip(CLAIMS, effect, strict=True)}
            score = float(effect.sum())
            rows.append({"level": factor.label(level), "score": score, "claims": claims})
    return rows


def _interactions(
    design: Levels, scores: NDArray[np.int64], factors: Sequence[Factor]
) -> list[dict[str, Any]]:
    """Return the strongest interactions on the score, with what they cannot be told apart from."""
    rows = []
    for one in interactions(design, scores)[:_STRONGEST]:
        cell = [factors[f].label(level) for f, level in zip(one.factors, one.cell, strict=True)]
        aliases = [" × ".join(factors[f].name for f in alias) for alias in one.aliases]
        pair = [factors[f].name for f in one.factors]
        rows.append({"factors": pair, "size": one.size, "cell": cell, "aliases": aliases})
    return rows


def search_tables(plan: SearchPlan, content: Mapping[str, Any]) -> str:
    """Return the content of ``search.json`` as Markdown."""
    count, seeds = len(CLAIMS), content["seeds"]
    tried = f"{content['readings_tried']} of {content['combinations']} readings tried"
    effects, pairs = content["effects"], content["interactions"]
    by_score = sorted(content["readings"], key=lambda row: -row["score"])
    parts = [
        f"# Search over readings\n\n{tried}, {plan.screen.describe(seeds)}",
        "With `steps=long`, 12,000 iterations take the place of 29,000, here and below.\n\n"
        f"The score is the number of the {count} claims that hold less those that do not. The best "
        "of so many readings is partly so by chance: the confirmation has fresh seeds, "
        "{}–{}.\n\n## Confirmed\n\n{}".format(
            *content["fresh_seeds"], plan.confirm.describe(plan.fresh_seeds)
        ),
        _readings_table(content["confirmed"], "chosen"),
        "\n## Main effects\n\nChange from the default level, averaged over all readings tried: of "
        "the score, and of a claim's points (holds 1, undecided 0, does not hold −1).\n\n",
        markdown(
            ("claim", *(f"`{row['level']}`" for row in effects)),
            [
                ("**score**", *(f"**{row['score']:+.1f}**" for row in effects)),
                *(
                    (one.key, *(f"{row['claims'][one.key]:+.2f}" for row in effects))
                    for one in CLAIMS
                ),
            ],
        ),
        "\n## Strongest interactions\n\nThe largest deviation of the mean score from the sum of "
        "the two main effects, and where. The fraction cannot tell it apart from the last "
        "column.\n\n",
        markdown(
            ("factors", "deviation", "at", "or"),
            [
                (
                    " × ".join(row["factors"]),
                    f"{row['size']:.2f}",
                    ", ".join(row["cell"]),
                    ", ".join(row["aliases"]) or "–",
                )
                for row in pairs
            ],
        ),
        "\n## Readings tried\n\n",
        _readings_table(by_score),
    ]
    return "".join(parts)


def _readings_table(rows: Sequence[Mapping[str, Any]], *more: str) -> str:
    table = []
    for row in rows:
        verdicts = [one["verdict"] for one in row["claims"]]
        counts = [str(verdicts.count(verdict)) for verdict in POINTS]
        cells = [row["name"], f"{row['score']:+d}", *counts, f"{row['worst_arrival']:.0%}"]
        table.append([*(str(row[name]) for name in more), *cells])
    return markdown([*more, "reading", "score", "hold", "do not", "undecided", "arrivals"], table)
