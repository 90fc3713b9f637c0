"""How well learning in cross-learned models copes with ends: navigation and lunar landers.

``python -m benchmarks.models_ends`` trains the paper's three navigation tasks, in which a crash is
for ever, and ``python -m benchmarks.models_ends landers`` the lunar landers of Box2D. The seed is
that of learning; policies are evaluated without noise. Every seed is kept in a file, and the same
question is not measured twice. ``--first 100`` takes other seeds, for tuning.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)

from benchmarks.intervals import over_seeds
from crosslearning import CrossLearner
from crosslearning.learner.evaluation import evaluate
from crosslearning.runs.study import Measurement
from crosslearning.tasks import task_set

OUT = Path("runs/models-ends")
VERSION = 3
TASKS = {"navigation": "paper", "landers": "lunar-landers:4"}
#: Real steps of each task after which the policies are evaluated, seeds, and episodes.
MARKS = {"navigation": (600,), "landers": (400,)}
SEEDS = {"navigation": 10, "landers": 3}
TRIALS = {"navigation": 200, "landers": 20}
#: Steps of an episode while learning: most of the usual 50 are spent at the goal, and more starts
#: show more crashes. Policies are evaluated in whole episodes.
EPISODES = {"navigation": 16}
#: The goal of the third map is 0.24 from its obstacle: with more noise on the actions it is best
#: not to go there. Near a goal its bearing turns quickly, which takes knots. Starts behind an
#: obstacle are few, so more rollouts begin at starts; and the third task is unlike the others. The
#: discount is the default for whole episodes, and rounds are longer than the short ones.
SETTINGS: dict[str, dict[str, Any]] = {
    "navigation": {
        "imagined_std": 0.15,
        "model_knots": 400,
        "longest_round": 200,
        "start_share": 0.5,
        "discount": 0.94,
        "epsilon": 10.0,
        "keep": "expected",
    },
    "landers": {"model_knots": 400, "keep": "best"},
}
#: What every navigation task must reach.
ARRIVED, CRASHED = 0.95, 0.03


def measure(part: str, seed: int, marks: list[int], settings: dict[str, Any]) -> dict[str, Any]:
    """Return what one seed gives: of the kept policies and the last ones, after every mark."""
    tasks = task_set(TASKS[part])
    short = [dataclasses.replace(task, horizon=EPISODES.get(part, task.horizon)) for task in tasks]
    learner = CrossLearner(short, method="models", seed=seed, **settings)
    result = []
    for mark in marks:
        start = time.perf_counter()
        learner.learn(steps=mark * len(tasks) - (learner.steps if learner.iteration else 0))
        row: dict[str, Any] = {"steps": learner.steps, "seconds": time.perf_counter() - start}
        for which, policies in (("kept", learner.best), ("last", learner.last)):
            found = [
                evaluate([policies.policy(i)], [task], trials=TRIALS[part])[0]
                for i, task in enumerate(tasks)
            ]
            row[which] = {
                "returns": [float(one.total_return.value) for one in found],
                **{
                    rate: [float(one.rates[rate].value) for one in found] for rate in found[0].rates
                },
            }
        result.append(row)
    return {"marks": result}


def show(part: str, marks: list[int], first: int, seeds: int, out: Path) -> None:
    """Measure the seeds that were not measured before, and print a table."""
    settings, answers = SETTINGS[part], []
    for seed in range(first, first + seeds):
        question = {"version": VERSION, "seed": seed, "marks": marks, "settings": settings}
        path = out / f"{part}-{seed}.json"
        arguments = (part, seed, marks, settings)
        answers.append(Measurement(path, question, measure, arguments).answer())
        for mark, row in zip(marks, answers[-1]["marks"], strict=True):
            print(f"seed {seed}, {mark} steps a task, {row['seconds']:.0f} s:", flush=True)
            for which in ("kept", "last"):
                print(f"  {which}: {_line(row[which])}", flush=True)
    for k, mark in enumerate(marks):
        for which in ("kept", "last"):
            every = [answer["marks"][k][which] for answer in answers]
            returns = over_seeds(np.array([np.mean(one["returns"]) for one in every]))
            text = f"{mark} steps a task, {which}: mean return {returns}"
            if part == "navigation":
                reached = sum(map(_reached, every))
                text += f"; every task reaches the goal on {reached} of {len(every)} seeds"
            print(text)


def _line(row: dict[str, list[float]]) -> str:
    if "arrived" not in row:
        return "returns " + " ".join(f"{value:.0f}" for value in row["returns"])
    pairs = zip(row["arrived"], row["crashed"], row["returns"], strict=True)
    return "; ".join(f"{100 * a:.1f} % / {100 * c:.1f} % / {r:.0f}" for a, c, r in pairs)


def _reached(row: dict[str, list[float]]) -> bool:
    return min(row["arrived"]) >= ARRIVED and max(row["crashed"]) <= CRASHED


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=list(TASKS), default="navigation")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, help="how many")
    parser.add_argument("--marks", type=int, nargs="+", help="steps of each task, as 600 1000")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    marks, seeds = given.marks or list(MARKS[given.part]), given.seeds or SEEDS[given.part]
    show(given.part, marks, given.first, seeds, given.out)


if __name__ == "__main__":
    main()
