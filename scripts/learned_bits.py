"""Print digests of what short runs learn, one line a run.

A change that must not alter what is learned leaves every line as it was. Digests depend on the
processor and on the libraries, so compare two versions on one machine, with the same ones::

    python scripts/learned_bits.py > before.txt     # then change the code
    python scripts/learned_bits.py | diff before.txt -
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import tempfile
from pathlib import Path
from typing import Any

import gymnasium

from crosslearning import CrossLearner, Task, task_set
from crosslearning.analysis.sweep import epsilon_path
from crosslearning.rkhs import Family, Laplacian

SMALL: dict[str, Any] = {"max_knots": 40, "seed": 3}


def digest(family: Family) -> str:
    """Return a short digest of the knots and the weights."""
    content = family.knots.tobytes() + family.weights.tobytes()
    return hashlib.sha256(content).hexdigest()[:16]


def show(name: str, learner: CrossLearner, *more: float) -> None:
    """Print one line: the family, the steps taken, and what else is to be kept."""
    numbers = " ".join(float(number).hex() for number in more)
    print(f"{name:44s} {digest(learner.family)} {learner.steps} {numbers}".rstrip(), flush=True)


def single_runs() -> None:
    """Run every estimator, step rule and projection; threads; both ends of ε."""
    estimators = ("geometric", "antithetic", "baseline")
    rules = ("constant", "normalised", "adam", "decaying")
    for estimator, rule in itertools.product(estimators, rules):
        size = {"step_size": 1e-4 if rule == "constant" else 0.5}
        learner = CrossLearner("paper", 1.0, estimator=estimator, step_rule=rule, **size, **SMALL)
        last: list[Any] = []
        learner.learn(60, last.append)
        show(f"{estimator} {rule}", learner, *last[-1].returns, *last[-1].distances)
    for epsilon, projection in itertools.product((0.0, 0.5, float("inf")), ("exact", "relaxed")):
        learner = CrossLearner("paper", epsilon, projection=projection, **SMALL)
        show(f"epsilon {epsilon} {projection}", learner.learn(60))
    show("two workers", CrossLearner("paper", workers=2, **SMALL).learn(60))
    show("random maps", CrossLearner("random", task_options={"seed": 7}, **SMALL).learn(40))
    carts = CrossLearner("linear-quadratic", 0.5, step_size=0.1, **SMALL)
    show("linear-quadratic", carts.learn(60))
    rough = CrossLearner("linear-quadratic", 0.5, kernel=Laplacian(std=[0.4, 0.4]), **SMALL)
    show("laplacian", rough.learn(40))


def gymnasium_runs() -> None:
    """Run tasks without compiled dynamics, and environments of others."""
    plain = [dataclasses.replace(task, dynamics=None) for task in task_set("paper")]
    for estimator in ("antithetic", "baseline"):
        show(f"gymnasium {estimator}", CrossLearner(plain, estimator=estimator, **SMALL).learn(15))

    def pendulum(gravity: float) -> Task:
        return Task(f"g={gravity:g}", lambda render_mode=None: gymnasium.make(
            "Pendulum-v1", g=gravity, render_mode=render_mode
        ))  # fmt: skip

    tasks = [pendulum(gravity) for gravity in (8.0, 10.0)]
    show("pendulums", CrossLearner(tasks, 1.0, discount=0.95, **SMALL).learn(10))


def stopped_and_resumed() -> None:
    """Run a learner that is saved and loaded half-way, and runs that a rule stops."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "half.safetensors"
        for rule in ("adam", "decaying"):
            CrossLearner("paper", step_rule=rule, **SMALL).learn(30).save(path)
            show(f"resumed {rule}", CrossLearner.load(path).learn(30))
    for stopping in ("checked", "batch"):
        rule: dict[str, Any] = {"alpha": 40.0, "stopping": stopping, "check_every": 20}
        learner = CrossLearner("linear-quadratic", 0.5, step_size=0.1, check_batch=200, **rule)
        show(f"stopping {stopping} at {learner.learn(100).iteration}", learner)


def derived_runs() -> None:
    """Run a sweep from each origin, an adaptation, and a start from a family."""
    for origin in ("previous", "common", "zero"):
        options: dict[str, Any] = {"seeds": 1, "origin": origin, "trials": 5, "max_knots": 40}
        sweep = epsilon_path("linear-quadratic", [0, 0.5, 1], 30, step_size=0.1, **options)
        for (_, epsilon), family in sweep.families.items():
            print(f"{f'sweep {origin} {epsilon:g}':44s} {digest(family)}", flush=True)
    learner = CrossLearner("paper", 1.0, **SMALL).learn(20)
    task = task_set("random")[0]
    show("adapted", learner.adapt(task, 20, step_size=0.3))
    show("started", CrossLearner("paper", 2.0, start=learner.family, **SMALL).learn(10))


if __name__ == "__main__":
    single_runs()
    gymnasium_runs()
    stopped_and_resumed()
    derived_runs()
