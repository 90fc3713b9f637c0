"""Tasks that fail on request, for :mod:`benchmarks.faults`."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np

from crosslearning.tasks import Task

#: What the environments of this process do wrong after a thousand steps, if anything.
fault = ""
_taken = 0


class Drift(gymnasium.Env):
    """A point that is pushed towards zero."""

    observation_space = gymnasium.spaces.Box(-4.0, 4.0, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, pull: float) -> None:
        self.pull, self.state = pull, np.zeros(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin anywhere near zero."""
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1.0, 1.0, 2)
        return self.state.copy(), {}

    def step(self, action: Any) -> Any:
        """Push, and do wrong if it is time for that."""
        global _taken
        _taken += 1
        speed = 0.9 * self.state[1] + 0.1 * float(np.clip(action[0], -1.0, 1.0))
        self.state = np.clip([0.95 * self.state[0] + self.pull * speed, speed], -4.0, 4.0)
        wrong = fault if _taken > 1000 else ""
        if wrong == "raises":
            raise RuntimeError("a sensor came loose")
        seen = self.state[:1] if wrong == "changes shape" else self.state
        reward = np.nan if wrong == "returns NaN" else -float(self.state @ self.state)
        return seen.copy(), reward, False, False, {}


def tasks() -> list[Task]:
    return [Task(f"pull={pull}", partial(_make, pull), horizon=50) for pull in (0.1, 0.2)]


def _make(pull: float, render_mode: str | None = None) -> gymnasium.Env:
    return Drift(pull)
