"""Trajectories: where a policy drives in navigation tasks, for pictures to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.learner import Policy
from crosslearning.learner.evaluation import run_episodes
from crosslearning.runs.metrics import recent_returns
from crosslearning.tasks import Navigation, Task

#: Most maps in one picture.
MOST_DRAWN = 15


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
    """Return where a policy drives in every task from random starts, without exploration noise."""
    maps = [_navigation_of(task) for task in tasks]
    found = []
    for task, navigation in zip(tasks, maps, strict=True):
        episodes = run_episodes(policy, task, trials, task.horizon, seed)
        if episodes.states is None:
            raise InputError(f"task {task.name!r} does not tell where its robot drove")
        crashed, arrived = (np.asarray(episodes.outcomes[name]) for name in ("crashed", "arrived"))
        paths = episodes.states[:, :, :2]
        found.append(Trajectories(task.name, navigation, paths, crashed, arrived))
    return tuple(found)


def worth_drawing(tasks: Sequence[Task], metrics: Sequence[Mapping[str, Any]]) -> tuple[Task, ...]:
    """Return the tasks whose paths are drawn: all, or of very many those that do worst."""
    if len(tasks) <= MOST_DRAWN:
        return tuple(tasks)
    worst = list(recent_returns(metrics))[:MOST_DRAWN]
    named = {task.name: task for task in tasks}
    return tuple(named[name] for name in worst if name in named) or tuple(tasks[:MOST_DRAWN])


def _navigation_of(task: Task) -> Navigation:
    """Return the map of a navigation task, or say that the task has none."""
    with closing(task.make()) as environment:
        navigation = getattr(environment.unwrapped, "navigation", None)
    if not isinstance(navigation, Navigation):
        raise InputError(f"task {task.name!r} is not a navigation task and has no map to draw")
    return navigation
