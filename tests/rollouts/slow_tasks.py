"""Environments of Python that take their time, hang, or end their process: for workers."""

from __future__ import annotations

import os
import time
import warnings
from functools import partial

import gymnasium
import numpy as np

from crosslearning.tasks import Task


class Slow(gymnasium.Env):
    """A point that is pulled to zero.

    Parameters
    ----------
    pull : float
    nap : float
        Seconds that a step takes.
    fault : str
        What happens at the third step of an episode whose first place is right of 0.9: "hangs",
        "dies" or "warns"; by default what the variable SLOW_FAULT says.
    """

    observation_space = gymnasium.spaces.Box(-4.0, 4.0, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, pull=0.1, nap=0.0, fault=""):
        self.pull, self.nap = pull, nap
        self.fault = fault or os.environ.get("SLOW_FAULT", "")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1.0, 1.0, 2)
        self.steps, self.odd = 0, self.state[0] > 0.9
        return self.state.copy(), {}

    def step(self, action):
        self.steps += 1
        if self.nap:
            time.sleep(self.nap)
        if self.odd and self.steps == 3:
            if self.fault == "hangs":
                time.sleep(3600.0)
            if self.fault == "dies":
                os._exit(7)
            if self.fault == "warns":
                warnings.warn("the point is far to the right", RuntimeWarning, stacklevel=1)
        speed = 0.9 * self.state[1] + 0.1 * float(action[0])
        self.state = np.clip([0.95 * self.state[0] + self.pull * speed, speed], -4.0, 4.0)
        return self.state.copy(), -float(self.state @ self.state), False, False, {"far": self.odd}


def _make(render_mode=None, **parameters):
    return Slow(**parameters)


def slow_tasks(**parameters) -> list[Task]:
    """Return two tasks that every process can make."""
    return [
        Task(f"pull={pull}", partial(_make, pull=pull, **parameters), horizon=30)
        for pull in (0.1, 0.2)
    ]


def odd_seed(seeds: np.ndarray) -> list[int]:
    """Return which of the seeds begin where the fault happens."""
    return [int(s) for s in np.ravel(seeds) if Slow().reset(seed=int(s))[0][0] > 0.9]
