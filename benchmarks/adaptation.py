"""Is the centre a place to adapt from? Episodes to a good policy on unseen maps, against nothing.

``python -m benchmarks.adaptation`` trains on random maps and then learns each of some unseen maps
twice, with the same settings and seeds: from the central policy, and from zero.

What is counted: with R0 the mean discounted return of the zero policy on a map's test starts and F
that of learning from nothing after the whole budget, how many episodes each needs until
R0 + 0.9 (F − R0) is reached for the first time (evaluations at regular points, straight lines
between them); and the same with F itself, which is harder. The episodes of training, on other
maps, are not counted.

A map's ratio is centre over nothing; a centre that never gets there counts with the whole budget,
so that its ratio is at least 1. A map on which learning from nothing gains nothing has no such
level and is left out, with a note. The median over maps has the interval of a sign test, because
the maps are the sample.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.intervals import median
from benchmarks.seeds import add_settings, settings_of
from benchmarks.table import Row
from crosslearning.analysis.adaptation import AdaptationCurve, adaptation_curve
from crosslearning.runs import RunFolder, make_config
from crosslearning.runs.study import Measurement, Run
from crosslearning.tasks import task_set

#: The shares of the gain that are to be reached, and the ratio that is wanted at each.
WANTED = {0.9: 0.5, 1.0: None}
TRAIN, UNSEEN = "random:{}", "random:unseen:{}"
#: Raised when the same question gets another answer, so that stored answers are made anew.
VERSION = 1


def episodes_to(curve: AdaptationCurve, level: float) -> float:
    """Return the episodes until a curve is first at a level; infinite if it never is."""
    above = np.flatnonzero(curve.returns >= level)
    if not len(above):
        return np.inf
    k = int(above[0])
    if k == 0:
        return 0.0
    (x0, x1), (y0, y1) = curve.episodes[k - 1 : k + 1], curve.returns[k - 1 : k + 1]
    return float(x0 + (x1 - x0) * (level - y0) / (y1 - y0))


def ratio_of(centre: AdaptationCurve, nothing: AdaptationCurve, share: float) -> float:
    """Return a map's ratio of episodes; NaN if learning from nothing gains nothing on it."""
    start, end = nothing.returns[0], nothing.returns[-1]
    if end <= start:
        return np.nan
    level = start + share * (end - start)
    budget = float(nothing.episodes[-1])
    return min(episodes_to(centre, level), budget) / episodes_to(nothing, level)


def _measure(folder: Path, name: str, number: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return both curves of one map as plain data."""
    learner = RunFolder(folder).load()
    task = task_set(name)[number]
    result = {}
    for start, function in (("centre", learner.central.function), ("nothing", None)):
        kernel = {} if function is not None else {"kernel": learner.kernel}
        curve = adaptation_curve(task, function, **kernel, **options)
        result[start] = {k: getattr(curve, k).tolist() for k in ("episodes", "steps", "returns")}
    return {"task": task.name, **result}


def measure(
    out: Path = Path("runs/adaptation"),
    maps: int = 20,
    train_iterations: int = 6000,
    iterations: int = 2000,
    points: int = 40,
    trials: int = 200,
    seed: int = 0,
    **settings: Any,
) -> list[dict[str, AdaptationCurve]]:
    """Train if it is not done yet, adapt to every unseen map, and return the curves.

    Settings are of the learner: of training as of both ways to adapt, ``step_size`` apart, which
    is ``adapt_step_size`` in adaptation if that is given.
    """
    step = settings.pop("adapt_step_size", None)
    adapt = settings | ({} if step is None else {"step_size": step})
    adapt.pop("epsilon", None)
    asked = {"tasks": TRAIN.format(maps), "iterations": train_iterations, "seed": seed, **settings}
    if not Run(out / "trained", make_config(asked)).go():
        raise KeyboardInterrupt
    options = {"iterations": iterations, "points": points, "trials": trials, "seed": seed, **adapt}
    results = []
    for number in range(maps):
        question = {"version": VERSION, "trained": asked, "options": options, "map": number}
        arguments = (out / "trained", UNSEEN.format(maps), number, options)
        answer = Measurement(out / f"map-{number}.json", question, _measure, arguments).answer()
        results.append(
            {
                start: AdaptationCurve(*(np.array(answer[start][k]) for k in answer[start]))
                for start in ("centre", "nothing")
            }
        )
    return results


def rows(results: list[dict[str, AdaptationCurve]]) -> list[Row]:
    """Return the measurement as rows of the table of benchmarks."""
    first = np.median([one["centre"].returns[0] for one in results])
    ends = {k: np.median([one[k].returns[-1] for one in results]) for k in ("centre", "nothing")}
    zero = np.median([one["nothing"].returns[0] for one in results])
    result = []
    for share, wanted in WANTED.items():
        ratios = np.array([ratio_of(**one, share=share) for one in results])
        ratio, left_out = median(ratios[~np.isnan(ratios)]), int(np.isnan(ratios).sum())
        measured = (
            f"{ratio} of the episodes, median over {len(results) - left_out} maps ({left_out} left "
            f"out), at most {np.nanmax(ratios):.2g}; median returns: zero {zero:.1f}, centre "
            f"{first:.1f}; after {results[0]['nothing'].episodes[-1]:.0f} episodes from the centre "
            f"{ends['centre']:.1f}, from nothing {ends['nothing']:.1f}"
        )
        what = f"unseen maps, from the centre: episodes to {100 * share:.0f} % of the gain"
        met = None if wanted is None else ratio.value <= wanted
        asked = "" if wanted is None else f"≤ {wanted:g}"
        result.append(Row(what, measured, ratio.value, asked, met))
    return result


def adaptation() -> list[Row]:
    """Measure with the defaults."""
    return rows(measure(max_knots=200))


BENCHMARKS = [adaptation]


def main() -> None:
    """Measure as asked, and print the row."""
    from rich.console import Console

    from benchmarks.table import show

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/adaptation"))
    for name, default in (
        ("maps", 20),
        ("train-iterations", 6000),
        ("iterations", 2000),
        ("points", 40),
        ("trials", 200),
        ("seed", 0),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--adapt-step-size", type=float)
    add_settings(parser)
    arguments = vars(parser.parse_args())
    settings = settings_of(arguments.pop("set"))
    show(rows(measure(**arguments, **settings)), Console(width=140))


if __name__ == "__main__":
    main()
