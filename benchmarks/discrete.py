"""How far the trust region gets with discrete actions.

``python -m benchmarks discrete``, or ``python -m benchmarks.discrete [part ...]`` for some of the
parts: carts (CartPole-v1 with six lengths of the pole, 10,000 steps in all), acrobots (Acrobot-v1
with three lengths of its second link) and cars (MountainCar-v0 with three forces), 30,000 steps
each. Settings are the defaults; ``--set FIELD=VALUE`` tries others, ``--first SEED`` other seeds.
Learning stops where no goal was ever reached: such seeds are counted.

Every policy acts without noise on its own machine. A number is the interquartile mean over seeds
with its 95 % interval. Every seed is kept in a file, and the same question is not measured twice.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from benchmarks.intervals import over_seeds
from benchmarks.seeds import print_parts
from benchmarks.table import Row
from benchmarks.trust_region import returns_of
from crosslearning import CrossLearner, Task
from crosslearning.errors import InputError
from crosslearning.runs.study import Measurement

Answer = dict[str, Any]

OUT = Path("runs/discrete")
VERSION = 4
TRIALS = 50
STEPS = {"carts": 10_000, "acrobots": 60_000, "cars": 60_000}
SEEDS = {"carts": 10, "acrobots": 10, "cars": 10}
#: Half lengths of the poles [m], lengths of the second links [m], and forces of the cars.
CARTS, ACROBOTS, CARS = (0.25, 0.4, 0.55, 0.7, 0.85, 1.0), (0.8, 1.0, 1.2), (0.001, 0.0011, 0.0012)


def cart(length: float, render_mode: str | None = None) -> Any:
    """Return a cart-pole with another half length of its pole."""
    environment = gymnasium.make("CartPole-v1", render_mode=render_mode)
    inner: Any = environment.unwrapped
    inner.length, inner.polemass_length = length, inner.masspole * length
    return environment


def acrobot(length: float, render_mode: str | None = None) -> Any:
    """Return an acrobot with another length of its second link."""
    environment = gymnasium.make("Acrobot-v1", render_mode=render_mode)
    inner: Any = environment.unwrapped
    inner.LINK_LENGTH_2, inner.LINK_COM_POS_2 = length, 0.5 * length
    return environment


def car(force: float, render_mode: str | None = None) -> Any:
    """Return a mountain car with another force."""
    environment = gymnasium.make("MountainCar-v0", render_mode=render_mode)
    inner: Any = environment.unwrapped
    inner.force = force
    return environment


def tasks_of(part: str) -> list[Task]:
    """Return the machines of a part."""
    make, values = {"carts": (cart, CARTS), "acrobots": (acrobot, ACROBOTS), "cars": (car, CARS)}[
        part
    ]
    return [Task(f"{part} {value:g}", partial(make, value)) for value in values]


def measure(part: str, seed: int, steps: int, settings: Answer) -> Answer:
    """Return the total returns on every machine after so many steps of all together."""
    tasks = tasks_of(part)
    learner = CrossLearner(tasks, method="trust-region", seed=seed, on="threads", **settings)
    try:
        learner.learn(steps=steps, progress=False)
    except InputError as problem:
        return {"stopped": str(problem), "steps": learner.steps}
    policies = [learner.policy(i) for i in range(len(tasks))]
    result = returns_of(policies, tasks, TRIALS)
    return {**result, "steps": learner.steps, "iterations": learner.iteration}


def _part(
    part: str, seeds: int = 0, first: int = 0, settings: Answer | None = None, out: Path = OUT
) -> list[Row]:
    settings, answers = settings or {}, []
    for seed in range(first, first + (seeds or SEEDS[part])):
        arguments = (part, seed, STEPS[part], settings)
        question = {"version": VERSION, "arguments": list(arguments), "trials": TRIALS}
        label = "-".join([part, *(f"{k}={v}" for k, v in sorted(settings.items()))])
        path = out / f"{label}-{seed}.json"
        answers.append(Measurement(path, question, measure, arguments).answer())
    what = f"{len(tasks_of(part))} {part}, {STEPS[part]:,} steps in all, {len(answers)} seeds"
    learned = [one for one in answers if "stopped" not in one]
    count = len(answers) - len(learned)
    stopped = Row(
        f"{what}: no goal reached, stopped", f"{count} of {len(answers)}", count, "", None
    )
    if not learned:
        return [stopped]
    totals = np.array([one["totals"] for one in learned])
    worst = totals.min(axis=1)
    mean = over_seeds(totals.mean(axis=1))
    each = ", ".join(f"{value:.0f}" for value in np.mean(totals, axis=0))
    rows = [
        *([stopped] if count else []),
        Row(f"{what}: return", f"{mean}; machines {each}", mean.value, "", None),
        Row(
            "the same, worst machine of each seed",
            f"{over_seeds(worst)}; seeds {np.sort(worst).round().astype(int).tolist()}",
            over_seeds(worst).value,
            "",
            None,
        ),
    ]
    if part == "carts":
        good = int(np.sum(worst >= 500.0))
        text = f"{good} of {len(worst)}; machines at 500: {int(np.sum(totals >= 500.0))} of "
        text += f"{totals.size}"
        met = good == len(worst)
        rows.append(Row("the same, seeds with 500 on all", text, good, f"{len(worst)}", met))
    return rows


def carts(**options: Any) -> list[Row]:
    """CartPole-v1 with six poles."""
    return _part("carts", **options)


def acrobots(**options: Any) -> list[Row]:
    """Acrobot-v1 with three second links."""
    return _part("acrobots", **options)


def cars(**options: Any) -> list[Row]:
    """MountainCar-v0 with three forces."""
    return _part("cars", **options)


BENCHMARKS = [carts, acrobots, cars]


if __name__ == "__main__":
    print_parts(__doc__, BENCHMARKS, OUT, "first")
