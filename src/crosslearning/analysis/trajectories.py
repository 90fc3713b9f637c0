"""Trajectories: the paths of a policy in navigation tasks, for figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.limits import MANY_TASKS
from crosslearning.errors import InputError
from crosslearning.learner import Policy
from crosslearning.learner.evaluation import run_episodes
from crosslearning.runs.metrics import recent_returns
from crosslearning.tasks import Navigation, Task


@dataclass(frozen=True, eq=False)
class Trajectories:
    """A policy's paths in one task, and its map."""

    task: str
    navigation: Navigation
    paths: NDArray[np.float64]  # (trials, horizon + 1, 2): a robot stays where its episode ended
    crashed: NDArray[np.bool_]  # (trials,)
    arrived: NDArray[np.bool_]  # (trials,)

    @property
    def out_of_time(self) -> NDArray[np.bool_]:
        """Which robots neither crashed nor arrived, shape (trials,)."""
        return np.asarray(~self.crashed & ~self.arrived)


def trajectories(
    policy: Policy, tasks: Sequence[Task], trials: int = 25, seed: int = 0
) -> tuple[Trajectories, ...]:
    """Return a policy's paths in every task from random starts, without exploration noise."""
    driven = []
    for task in tasks:
        with closing(task.make()) as environment:
            navigation = getattr(environment.unwrapped, "navigation", None)
        if not isinstance(navigation, Navigation):
            raise InputError(f"task {task.name!r} is not a navigation task and has no map to draw")
        episodes = run_episodes(policy, task, trials, task.horizon, seed)
        if episodes.states is None:
            raise InputError(f"task {task.name!r} does not record where its robot drove")
        crashed, arrived = (np.asarray(episodes.outcomes[name]) for name in ("crashed", "arrived"))
        paths = episodes.states[:, :, :2]
        driven.append(Trajectories(task.name, navigation, paths, crashed, arrived))
    return tuple(driven)


def worth_drawing(tasks: Sequence[Task], metrics: Sequence[Mapping[str, Any]]) -> tuple[Task, ...]:
    """Return the tasks whose paths are drawn: all, or the worst of many."""
    if len(tasks) <= MANY_TASKS:
        return tuple(tasks)
    worst = list(recent_returns(metrics))[:MANY_TASKS]
    named = {task.name: task for task in tasks}
    return tuple(named[name] for name in worst if name in named) or tuple(tasks[:MANY_TASKS])
