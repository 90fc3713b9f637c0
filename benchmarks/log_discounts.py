"""How far what is learned from a log hangs on the third digit of the discount.

``python -m benchmarks.log_discounts [family ...]`` logs some steps of every machine under the
nominal machine's controller with random pushes, learns from the log alone with several discounts,
and runs every policy on its own machine. Each is done with and without the penalty on leaving the
range of the data (``range_penalty``), which is the default for logs. The spread of a seed is the
largest difference of the mean return between two discounts.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.seeds import answers, print_table
from benchmarks.table import Row
from benchmarks.trust_region import returns_of
from crosslearning import learn_from
from crosslearning._base.statistics import student
from crosslearning.tasks import machines, task_set

OUT = Path("runs/log-discounts")
VERSION = 1
FAMILIES = {
    "reactors": ("reactors:6", machines.reactor_pi),
    "quadrotors": ("quadrotors:6", machines.quadrotor_lqr),
}
#: 0.9703 is what 101 logged steps have by default, 0.97 what 100 have.
DISCOUNTS = (0.96, 0.965, 0.97, 0.9703, 0.975, 0.98)
PENALTIES = {"without a penalty": 0.0, "with it": 1.0}
#: Episodes of the log; the size of pushes in half ranges, and the steps that one lasts.
EPISODES, PUSH, HELD = 2, 0.3, 5
TRIALS = 20


def logged(family: str, steps: int, seed: int) -> dict[str, list[dict[str, Any]]]:
    """Return the episodes of every machine under the nominal controller with random pushes."""
    name, controller = FAMILIES[family]
    generator, log = np.random.default_rng([seed, 99]), {}
    for task in task_set(name):
        environment, nominal = task.make(), controller({})
        low, high = environment.action_space.low, environment.action_space.high
        log[task.name] = []
        for _ in range(EPISODES):
            seen, _ = environment.reset(seed=int(generator.integers(2**31)))
            nominal.reset()
            observations, actions, rewards, push = [seen], [], [], np.zeros(len(low))
            for step in range(steps // EPISODES):
                if step % HELD == 0:
                    push = PUSH * generator.standard_normal(len(low)) * (high - low) / 2.0
                action = np.clip(np.ravel(nominal.act(seen)) + push, low, high)
                seen, reward, *_ = environment.step(action)
                observations.append(seen)
                actions.append(action)
                rewards.append(float(reward))
            log[task.name].append(
                {"observations": observations, "actions": actions, "rewards": rewards}
            )
    return log


def measure(seed: int, family: str, steps: int, penalty: float) -> dict[str, Any]:
    """Return the mean return and that of the worst machine for every discount."""
    tasks, log = task_set(FAMILIES[family][0]), logged(family, steps, seed)
    spaces = {
        "observation_space": tasks[0].observation_space,
        "action_space": tasks[0].action_space,
    }
    means, worst = [], []
    for discount in DISCOUNTS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of policies that leave the data
            learner = learn_from(
                log, discount=discount, seed=seed, progress=False, range_penalty=penalty, **spaces
            )
        policies = [learner.policy(i) for i in range(len(tasks))]
        totals = returns_of(policies, tasks, TRIALS)["totals"]
        means.append(float(np.mean(totals)))
        worst.append(float(np.min(totals)))
    rewards = [sum(one["rewards"]) for episodes in log.values() for one in episodes]
    return {"means": means, "worst": worst, "log": float(np.mean(rewards))}


def rows_of(family: str, seeds: int, steps: int, out: Path) -> list[Row]:
    """Return a row for each penalty."""
    rows = []
    for label, penalty in PENALTIES.items():
        question = {"version": VERSION, "family": family, "steps": steps, "penalty": penalty}
        stem = out / f"{family}-{steps}-{penalty:g}"
        found = answers(stem, seeds, question, measure, family, steps, penalty)
        means = np.array([one["means"] for one in found])
        spread = student(np.ptp(means, axis=1).tolist())
        numbers = {
            "log": student([one["log"] for one in found]),
            "mean return": student(means.mean(axis=1).tolist()),
            "worst machine": student([float(np.mean(one["worst"])) for one in found]),
            "spread over discounts": spread,
        }
        text = "; ".join(f"{name} {value}" for name, value in numbers.items())
        what = f"{family}, {steps} logged steps each, {seeds} seeds, {label}"
        rows.append(Row(what, text, spread.value, "", None))
    return rows


if __name__ == "__main__":
    print_table(__doc__, rows_of, OUT, 120, list(FAMILIES))
