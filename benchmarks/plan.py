"""Whether it pays to run the machine that the plan names, rather than all of them evenly.

``python -m benchmarks.plan [family ...]`` begins with a log of unequal lengths: of one machine,
unlike the others, only a few steps are known. In every round the learner learns from all data, then
a number of steps is spent: by the plan on the machine that would teach most, evenly on all, or at
random on one. The policies act with exploration noise. Returns are those of the policies that are
learned at the end, each on its own machine; gains are paired by seed.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.seeds import answers, print_table
from benchmarks.table import Row
from benchmarks.trust_region import returns_of
from crosslearning import CrossLearner, learn_from
from crosslearning._base.statistics import student
from crosslearning.analysis.plan import plan
from crosslearning.tasks import Task
from crosslearning.tasks.families import FAMILIES as KNOWN

OUT = Path("runs/plan")
VERSION = 1
RULES = ("plan", "even", "random")
#: Of each family: what the machine is like that few data are known of.
FAMILIES = {
    "hovering-masses": {"mass": 1.6, "gain": 0.8, "drag": 0.6},
    "reactors": {"heat_transfer": 60.0, "feed_temperature": 345.0, "feed_concentration": 1.1},
}
#: Machines with much data, steps of each and of the one with few, rounds, and their iterations.
MACHINES, MANY, FEW, ROUNDS, ITERATIONS = 3, 40, 8, 2, 60
#: Standard deviation of the noise, in half ranges of the actions.
NOISE = 0.4
TRIALS = 20


def run(
    task: Task, learner: CrossLearner | None, steps: int, generator: np.random.Generator
) -> dict[str, Any]:
    """Return an episode of a task's policy with noise, or of random actions."""
    environment = task.make()
    low, high = environment.action_space.low, environment.action_space.high
    seen, _ = environment.reset(seed=int(generator.integers(2**31)))
    observations, actions, rewards = [seen], [], []
    for _ in range(steps):
        middle = (low + high) / 2.0
        if learner is not None:
            middle = learner.predict(seen, task=task.name)[0]
        size = NOISE if learner is not None else 2.0 * NOISE
        noise = size * generator.standard_normal(len(low)) * (high - low) / 2.0
        action = np.clip(middle + noise, low, high)
        seen, reward, *_ = environment.step(action)
        observations.append(seen)
        actions.append(action)
        rewards.append(float(reward))
    return {"observations": observations, "actions": actions, "rewards": rewards}


def measure(seed: int, family: str, steps: int, rule: str) -> dict[str, Any]:
    """Return the returns at the end, and where the steps were spent."""
    members, generator = KNOWN[family], np.random.default_rng([seed, 5])
    tasks = [*members(MACHINES, seed=seed), members.task(FAMILIES[family])]
    log = {
        task.name: [run(task, None, MANY if i < MACHINES else FEW, generator)]
        for i, task in enumerate(tasks)
    }
    spaces = {
        "observation_space": tasks[0].observation_space,
        "action_space": tasks[0].action_space,
    }

    def learn() -> CrossLearner:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return learn_from(log, iterations=ITERATIONS, seed=seed, progress=False, **spaces)

    learner, spent, N = learn(), np.zeros(len(tasks)), len(tasks)
    for _ in range(ROUNDS):
        shares = np.full(N, steps)
        if rule == "plan":
            first = plan(learner, N * steps, seed=seed).machines[0].task
            shares = np.array([N * steps if task.name == first else 0 for task in tasks])
        elif rule == "random":
            shares = np.zeros(N, dtype=np.int64)
            shares[np.random.default_rng([seed, int(spent.sum())]).integers(N)] = N * steps
        for task, length in zip(tasks, shares, strict=True):
            if length:
                log[task.name].append(run(task, learner, int(length), generator))
        spent += shares
        learner = learn()
    policies = [learner.policy(i) for i in range(N)]
    return {"totals": returns_of(policies, tasks, TRIALS)["totals"], "spent": spent.tolist()}


def rows_of(family: str, seeds: int, steps: int, out: Path) -> list[Row]:
    """Return a row for each rule, and the gain of the plan over the others."""
    rows, totals = [], {}
    for rule in RULES:
        question = {"version": VERSION, "family": family, "steps": steps, "rule": rule}
        found = answers(out / f"{family}-{rule}", seeds, question, measure, family, steps, rule)
        totals[rule] = np.array([one["totals"] for one in found])
        mean = student(totals[rule].mean(axis=1).tolist())
        worst = student(totals[rule].min(axis=1).tolist())
        spent = np.mean([one["spent"] for one in found], axis=0).round(1).tolist()
        what = f"{family}, {ROUNDS} rounds of {(MACHINES + 1) * steps} steps, {seeds} seeds: {rule}"
        text = f"mean return {mean}; worst machine {worst}; steps by machine {spent}"
        rows.append(Row(what, text, mean.value, "", None))
    for rule in RULES[1:]:
        gains = (totals["plan"] - totals[rule]).mean(axis=1)
        gain = student(gains.tolist())
        text = f"{gain} in the mean return; better on {np.sum(gains > 0)} of {seeds} seeds"
        rows.append(Row(f"{family}: plan minus {rule}", text, gain.value, "", None))
    return rows


if __name__ == "__main__":
    print_table(__doc__, rows_of, OUT, 15, list(FAMILIES))
