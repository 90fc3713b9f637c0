"""Machines whose speed is not measured, or whose actions arrive late.

``python -m benchmarks.hidden [speed] [delay] [--seeds 10] [--steps 200]``: three pendulums by
``models``, drawn by the seed. ``speed`` shows the cosine and the sine alone, with ``lags=1``;
``delay`` lets every torque act three steps later, with ``past_actions=3``. Beside them the same
machines without lags or past actions. A number is the mean return of the policies, each on its own
machine, over 20 starts. Every seed is kept in a file, and the same question is not measured twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from benchmarks.around import mean_over_seeds
from benchmarks.seeds import answers, print_table
from benchmarks.table import Row
from crosslearning import CrossLearner, Task, evaluate, task_set

OUT = Path("runs/hidden")
VERSION, MEMBERS, TRIALS, DELAY, WANTED = 2, 3, 20, 3, -300.0
#: What a policy observes beside the observation.
FIELDS: dict[str, dict[str, Any]] = {"speed": {"lags": 1}, "delay": {"past_actions": DELAY}}


class WithoutSpeed(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows the cosine and the sine of the angle alone."""

    def __init__(self, environment: gymnasium.Env[Any, Any]) -> None:
        super().__init__(environment)
        self.observation_space = Box(-1.0, 1.0, (2,), np.float64)

    def observation(self, observation: Any) -> Any:
        """Return the observation without the speed."""
        return observation[:2]


class Delayed(gymnasium.ActionWrapper[Any, Any, Any]):
    """Lets actions act some steps later; until then there is no torque."""

    def reset(self, **options: Any) -> Any:
        """Begin an episode without actions on their way."""
        self.waiting = [np.zeros(1)] * DELAY
        return self.env.reset(**options)

    def action(self, action: Any) -> Any:
        """Return the action of some steps ago."""
        self.waiting.append(np.array(action))
        return self.waiting.pop(0)


WRAPPERS = {"speed": WithoutSpeed, "delay": Delayed}


class _Made:
    """Makes the environment of a task in a wrapper."""

    def __init__(self, make: Any, wrapper: Any) -> None:
        self.make, self.wrapper = make, wrapper

    def __call__(self, render_mode: str | None = None) -> Any:
        return self.wrapper(self.make())


def measure(seed: int, part: str, steps: int, shown: bool) -> dict[str, Any]:
    """Return the returns of one seed, with or without lags or past actions."""
    tasks = [
        Task(
            task.name,
            _Made(task.make, WRAPPERS[part]),
            horizon=task.horizon,
            **(FIELDS[part] if shown else {}),
        )
        for task in task_set(f"pendulums:{MEMBERS}", seed=seed)
    ]
    learner = CrossLearner(tasks, method="models", seed=seed)
    learner.learn(steps=steps * MEMBERS, progress=False)
    returns = [
        evaluate(learner.policy(i), [task], trials=TRIALS)[0].total_return.value
        for i, task in enumerate(tasks)
    ]
    return {"returns": returns, "steps": learner.steps / MEMBERS}


def rows_of(part: str, seeds: int, steps: int, out: Path) -> list[Row]:
    """Measure every seed that was not measured before; return the rows of a part."""
    rows = []
    for shown in (True, False):
        stem = out / f"{part}-{steps}-{'with' if shown else 'without'}"
        question = {"version": VERSION, "part": part, "steps": steps, "shown": shown}
        found = answers(stem, seeds, question, measure, part, steps, shown)
        means = [float(np.mean(one["returns"])) for one in found]
        fine = sum(mean >= WANTED for mean in means)
        fields = (
            ", ".join(f"{k}={v}" for k, v in FIELDS[part].items()) if shown else "nothing added"
        )
        what = f"three pendulums, {part}, {steps} steps each, {seeds} seeds: {fields}"
        text = f"{mean_over_seeds(means)}; seeds {[round(mean) for mean in sorted(means)]}"
        wanted = ("≥ 0.8", fine >= 0.8 * seeds) if shown else ("", None)
        rows.append(Row(f"{what}; at least {WANTED:g}", text, fine / seeds, *wanted))
    return rows


if __name__ == "__main__":
    print_table(__doc__, rows_of, OUT, 200, list(FIELDS))
