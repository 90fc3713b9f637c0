"""What related tasks give one another in the trust region: fewer steps each, and a start.

``python -m benchmarks.trust_region_sharing [part ...]``:

- ``steps``: eight pendulums are learned together and each of them alone. Steps of each until the
  mean total return of the eight is −200, evaluated every 1,000 steps of each.
- ``adapting``: a family is learned, then its central policy is adapted to 20 unseen members:
  pendulums, cart-poles, mass-spring carts. ``--set method=models`` and ``--set
  method=policy-gradient`` adapt by the other methods, each with steps of its own kind.

Settings are the defaults; ``--set FIELD=VALUE`` tries others, such as ``task_correlation=0``. Means
over seeds with Student's 95 % intervals. Every seed is kept in a file, and the same question is not
measured twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)

from benchmarks.race.families import FAMILIES
from benchmarks.seeds import print_parts
from benchmarks.table import Row
from benchmarks.trust_region import returns_of
from crosslearning import CrossLearner
from crosslearning._base.statistics import student
from crosslearning.runs.study import Measurement
from crosslearning.tasks import Task

Answer = dict[str, Any]

OUT, VERSION, TRIALS = Path("runs/trust-region-sharing"), 1, 100
SEEDS = {"steps": 10, "adapting": 5}
#: The return wanted, and the steps of each task between evaluations and at most.
WANTED, EVERY, MOST = -200.0, 1_000, 20_000
#: By method: steps over all tasks from which the central policies to adapt are learned.
LEARNED = {
    "trust-region": {"pendulums": 80_000, "cart-poles": 80_000, "linear-quadratic": 10_000},
    "models": {"pendulums": 800, "cart-poles": 1_200, "linear-quadratic": 150},
    "policy-gradient": {
        "pendulums": 1_600_000,
        "cart-poles": 1_600_000,
        "linear-quadratic": 100_000,
    },
}
#: By method: steps of an unseen member.
ADAPTING = {"trust-region": 5_600, "models": 50, "policy-gradient": 20_000}


def curve(tasks: Sequence[Task], seed: int, settings: Answer) -> list[list[float]]:
    """Return the total returns of all tasks after every so many steps of each."""
    learner = CrossLearner(tasks, seed=seed, method="trust-region", **settings)
    totals = []
    for steps in range(EVERY, MOST + 1, EVERY):
        learner.learn(steps=steps * len(tasks) - learner.steps)
        policies = [learner.policy(i) for i in range(len(tasks))]
        totals.append(returns_of(policies, tasks, TRIALS)["totals"])
    return totals


def measure_steps(seed: int, settings: Answer) -> Answer:
    """Return the returns of eight pendulums on the way, shapes (evaluations, 8)."""
    tasks = FAMILIES["pendulums"].training(seed)
    alone = [curve([task], seed, settings) for task in tasks]
    return {
        "together": curve(tasks, seed, settings),
        "alone": np.concatenate(alone, axis=1).tolist(),
    }


def measure_adapting(family: str, seed: int, settings: Answer) -> Answer:
    """Return the returns on unseen members, before adapting and after."""
    tasks, unseen = FAMILIES[family].training(seed), FAMILIES[family].unseen(seed)
    settings = {"method": "trust-region", **settings}
    learned, steps = LEARNED[settings["method"]][family], ADAPTING[settings["method"]]
    learner = CrossLearner(tasks, seed=seed, **settings)
    learner.learn(steps=learned)
    adapted = [learner.adapt(task, steps=steps).policy(0) for task in unseen]
    return {
        "before": returns_of([learner.central] * len(unseen), unseen, TRIALS)["totals"],
        "after": returns_of(adapted, unseen, TRIALS)["totals"],
    }


def _question(seed: int, settings: Answer, **more: Any) -> Answer:
    return {"version": VERSION, "seed": seed, "settings": settings, **more}


def steps(*, settings: Answer, seeds: int = 0, out: Path = OUT) -> list[Row]:
    """Compare the steps of each task that are needed, together and alone."""
    needed: dict[str, list[float]] = {"together": [], "alone": []}
    for seed in range(seeds or SEEDS["steps"]):
        question = _question(seed, settings, every=EVERY, most=MOST)
        path = out / f"steps-{seed}.json"
        answer = Measurement(path, question, measure_steps, (seed, settings)).answer()
        for name, taken in needed.items():
            good = np.mean(answer[name], axis=1) >= WANTED
            # Never is more than the most.
            taken.append(EVERY * (1.0 + np.argmax(good)) if good.any() else MOST + EVERY)
    together, alone = (np.array(taken) for taken in needed.values())
    ratio = student(together / alone)
    text = ", ".join(f"{name} {student(np.array(taken))}" for name, taken in needed.items())
    what = f"steps of each pendulum to {WANTED:.0f}, {len(together)} seeds"
    return [Row(what, f"{text}; ratio {ratio}", ratio.value, "< 1", bool(ratio.high < 1.0))]


def adapting(*, settings: Answer, seeds: int = 0, out: Path = OUT) -> list[Row]:
    """Compare returns on unseen members after adapting with those before."""
    rows, method = [], settings.get("method", "trust-region")
    for family, learned in LEARNED[method].items():
        both = []
        for seed in range(seeds or SEEDS["adapting"]):
            question = _question(seed, settings, steps=[learned, ADAPTING[method]])
            path = out / f"adapting-{family}-{method}-{seed}.json"
            arguments = (family, seed, settings)
            answer = Measurement(path, question, measure_adapting, arguments).answer()
            both.append([answer["before"], answer["after"]])
        before, after = np.array(both).transpose(1, 0, 2)
        gain, worst = student((after - before).mean(axis=1)), float((after - before).min())
        befores, afters = (student(one.mean(axis=1)) for one in (before, after))
        text = f"{befores} before, {afters} after; gain {gain}, of the worst member {worst:.3g}"
        what = f"adapting by {method} to {before.shape[1]} unseen {family}, {len(before)} seeds"
        rows.append(Row(what, text, gain.value, "not below 0", bool(gain.high >= 0.0)))
    return rows


if __name__ == "__main__":
    print_parts(__doc__, [steps, adapting], OUT)
