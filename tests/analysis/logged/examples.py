"""Logs of pendulums that random actions moved, as a user would have them."""

from __future__ import annotations

import numpy as np

from crosslearning.rkhs import Family, Linear
from crosslearning.rollouts import executor_for, plan_episodes
from crosslearning.tasks import Task, task_set


def pendulum_log(machines: int, steps: int, seed: int = 0) -> tuple[dict, tuple[Task, ...]]:
    """Return one episode of each machine, and the tasks that they are of."""
    tasks = task_set(f"pendulums:{machines}")
    still = Family(Linear(std=[1.0] * 3), np.zeros((1, 3)), np.zeros((1, machines, 1)))
    plan = plan_episodes(np.random.default_rng(seed), tasks, 1, steps, np.array([1.5]))
    result = executor_for(tasks).episodes(still.expansion, plan)
    return {
        task.name: [
            {
                "observations": result.observations[i, 0],
                "actions": np.clip(result.actions[i, 0], -2.0, 2.0),
                "rewards": result.rewards[i, 0],
            }
        ]
        for i, task in enumerate(tasks)
    }, tasks
