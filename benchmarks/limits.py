"""Whether limits of observations hold, in evaluation and while learning, and what they cost.

``python -m benchmarks.limits [--seeds 10] [--steps 100]``: four hovering masses, drawn by the seed,
around the PD for the mass in the middle. Faster is better, but for a limit of 0.9 m/s. Learned
with the limit (chance 0.95) and without it. A number is the share of episodes that cross the
limit, over 200 starts of each machine. Every seed is kept in a file, and the same question is not
measured twice.
"""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.around import PARTS, mean_over_seeds
from benchmarks.seeds import answers, print_table
from benchmarks.table import Row
from crosslearning import CrossLearner
from crosslearning._base.statistics import clopper_pearson
from crosslearning.learner.evaluation import run_episodes
from crosslearning.tasks.families import FAMILIES

OUT = Path("runs/limits")
VERSION, MEMBERS, TRIALS, LIMIT, CHANCE, EPSILON = 1, 4, 200, 0.9, 0.95, 0.6


def measure(seed: int, steps: int, limited: bool) -> dict[str, Any]:
    """Return what one seed gives: crossings of every machine, returns, and rounds that crossed."""
    part = PARTS["hovering-masses"]
    limits = {"speed": (-LIMIT, LIMIT)}
    plain = FAMILIES["hovering-masses"](MEMBERS, seed=seed)
    tasks = [
        dataclasses.replace(task, limits=limits, chance=CHANCE) if limited else task
        for task in plain
    ]
    learner = CrossLearner(tasks, around=part.in_use(), epsilon=EPSILON, method="models", seed=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the models expect task")
        learner.learn(steps=steps * MEMBERS, progress=False)
    answer: dict[str, Any] = {"returns": [], "crossed": [], "before": []}
    for i, task in enumerate(learner.tasks):
        for key, policy in (("crossed", learner.policy(i)), ("before", _still)):
            episodes = run_episodes(policy, task, TRIALS)
            answer[key].append(
                int((np.abs(episodes.observations[:, :, 1]).max(axis=1) > LIMIT).sum())
            )
            if key == "crossed":
                answer["returns"].append(float(episodes.rewards.sum(axis=1).mean()))
    rounds = [_rounds(data) for data in learner.method.data]  # type: ignore[attr-defined]
    answer["rounds"] = [sum(len(one) for one in rounds), int(sum(sum(one) for one in rounds))]
    return answer


def _still(observation: Any) -> Any:
    return np.zeros(1)


def _rounds(data: Any) -> list[bool]:
    """Return which real episodes of a machine crossed the limit."""
    fast = np.maximum(np.abs(data.states[:, 1]), np.abs(data.after[:, 1])) > LIMIT
    return [bool(part.any()) for part in np.split(fast, np.flatnonzero(data.first)[1:])]


def rows_of(seeds: int, steps: int, out: Path) -> list[Row]:
    """Measure every seed that was not measured before; return the rows."""
    rows = []
    for limited in (True, False):
        stem = out / f"{'with' if limited else 'without'}-{steps}"
        question = {"version": VERSION, "steps": steps, "limited": limited}
        found = answers(stem, seeds, question, measure, steps, limited)
        what = f"hovering-masses:{MEMBERS}, {steps} steps each, {seeds} seeds, "
        what += f"limit {LIMIT:g} m/s {'asked for' if limited else 'ignored'}"
        crossed = [sum(one["crossed"]) / (TRIALS * MEMBERS) for one in found]
        fine = sum(share <= 1.0 - CHANCE for share in crossed)
        before = clopper_pearson(sum(sum(o["before"]) for o in found), TRIALS * MEMBERS * seeds)
        text = f"share by seed {[round(share, 3) for share in crossed]}; "
        text += f"under the controller {before.percent()}"
        wanted = ("≥ 0.9", fine >= 0.9 * seeds) if limited else ("", None)
        rows.append(Row(f"{what}: seeds with at most 5 % crossed", text, fine / seeds, *wanted))
        worst = max(max(one["crossed"]) for one in found) / TRIALS
        rows.append(Row("the same, worst machine of any seed", f"{worst:.3f}", worst, "", None))
        total, over = (sum(one["rounds"][k] for one in found) for k in (0, 1))
        seen = clopper_pearson(over, total)
        met = seen.low <= 1.0 - CHANCE if limited else None
        text = f"{over} of {total} episodes, {seen.percent()}"
        rows.append(Row("the same, while learning", text, seen.value, "interval ≤ 5 %", met))
        returns = mean_over_seeds([float(np.mean(one["returns"])) for one in found])
        rows.append(Row("the same, return", str(returns), returns.value, "", None))
    return rows


if __name__ == "__main__":
    print_table(__doc__, rows_of, OUT, 100)
