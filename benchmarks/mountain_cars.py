"""What helps where a reward comes at a goal alone: mountain cars with a continuous engine.

``python -m benchmarks.mountain_cars [as-they-are widths goal both]`` learns three cars by the trust
region: as they are, with wider widths of the kernel, paid for the goal alone, and with both.
Whatever it learned from, a policy is evaluated without noise on the cars as they are. Every seed is
kept in a file, and the same question is not measured twice.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from benchmarks.intervals import over_seeds
from benchmarks.seeds import answers, print_parts
from benchmarks.table import Row
from benchmarks.trust_region import returns_of
from crosslearning import CrossLearner, Task
from crosslearning.tasks import task_set

Answer = dict[str, Any]

OUT = Path("runs/mountain-cars")
VERSION = 1
FAMILY, SEEDS, STEPS, TRIALS = "mountain-cars:3", 10, 60_000, 20
#: The widths of the kernel as a share of half of the range of an observation.
SHARE = 0.25
#: A car that arrives has at least this return.
ARRIVED = 0.0


class GoalAlone(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment in which reaching the goal is paid, and nothing else costs or pays."""

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Return what the environment returns, with another reward."""
        seen, _, terminated, truncated, info = self.env.step(action)
        return seen, 100.0 * terminated, terminated, truncated, info


def paid_for_the_goal(task: Task) -> GoalAlone:
    """Return a car that is paid for the goal alone."""
    return GoalAlone(task.make())


def from_bounds(task: Task) -> Answer:
    """Return a kernel whose widths are a share of half of the observations' ranges."""
    space = task.observation_space
    half = 0.5 * (space.high.astype(float) - space.low.astype(float))
    return {"kernel": "gaussian", "std": (SHARE * half).tolist()}


def measure(seed: int, wide: bool, goal: bool, settings: Answer) -> Answer:
    """Return the total returns of three cars."""
    cars = task_set(FAMILY)
    given = {"kernel": from_bounds(cars[0])} if wide else {}
    learned = [
        Task(car.name, partial(paid_for_the_goal, car), horizon=car.horizon) if goal else car
        for car in cars
    ]
    how = {"method": "trust-region", "seed": seed, "on": "threads", **given, **settings}
    learner = CrossLearner(learned, **how)
    found = True
    try:
        learner.learn(steps=STEPS, progress=False)
    except ValueError as problem:  # nothing was ever paid
        if "the reward was" not in str(problem):
            raise
        found = False
    policies = [learner.policy(i) for i in range(len(cars))]
    totals = returns_of(policies, cars, TRIALS)["totals"]
    return {"totals": totals, "found": found, "steps": learner.steps}


def _rows(name: str, wide: bool, goal: bool, seeds: int, settings: Answer, out: Path) -> list[Row]:
    label = "-".join([name, *(f"{k}={v}" for k, v in sorted(settings.items()))])
    question = {"version": VERSION, "steps": STEPS, "settings": settings}
    found = answers(out / label, seeds or SEEDS, question, measure, wide, goal, settings)
    totals = np.array([one["totals"] for one in found])
    mean = over_seeds(totals.mean(axis=1))
    arrived = int(np.sum(totals.min(axis=1) > ARRIVED))
    never = sum(not one["found"] for one in found)
    text = f"{mean}; all three arrive on {arrived} of {len(found)} seeds; worst {totals.min():.1f}"
    text += f"; no reward was ever found on {never}"
    return [Row(f"{FAMILY}, {STEPS:,} steps: {label}", text, mean.value, "", None)]


def as_they_are(seeds: int = 0, settings: Answer | None = None, out: Path = OUT) -> list[Row]:
    """Learn with the defaults."""
    return _rows("as-they-are", False, False, seeds, settings or {}, out)


def widths(seeds: int = 0, settings: Answer | None = None, out: Path = OUT) -> list[Row]:
    """Learn with widths from the bounds of the observations."""
    return _rows("widths", True, False, seeds, settings or {}, out)


def goal(seeds: int = 0, settings: Answer | None = None, out: Path = OUT) -> list[Row]:
    """Learn paid for the goal alone."""
    return _rows("goal", False, True, seeds, settings or {}, out)


def both(seeds: int = 0, settings: Answer | None = None, out: Path = OUT) -> list[Row]:
    """Learn paid for the goal alone, with widths from the bounds."""
    return _rows("both", True, True, seeds, settings or {}, out)


if __name__ == "__main__":
    print_parts(__doc__, [as_they_are, widths, goal, both], OUT)
