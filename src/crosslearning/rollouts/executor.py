"""Executors: they run a plan, and all give the same samples and episodes for the same plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import NumericalError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import ActionScale, Episodes, Samples
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.tasks import Task

Floats = NDArray[np.float64]


class Executor(Protocol):
    """Whoever runs rollouts of N tasks; function i of the policies drives task i."""

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks."""

    @property
    def scale(self) -> ActionScale:
        """From the actions of the policies to those of the tasks."""

    def samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        """Run one sample of every task B times, if ``mirrored`` with the opposite action too."""

    def episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run whole episodes of every task."""

    def close(self) -> None:
        """Give back threads, processes and environments."""


def not_finite(task: Task, what: str, where: str = "") -> NumericalError:
    """Return the error for a task whose numbers are not finite."""
    return NumericalError(
        f"task {task.name!r} returned {what} that is not finite{where}; the iteration was not "
        "applied. Check the task, for instance with crosslearning.tasks.check_task"
    )


def check_samples(tasks: Sequence[Task], samples: Samples) -> Samples:
    """Return the samples, or raise an error that names the task whose numbers are not finite."""
    _check_finite(tasks, "an observation", samples.observations)
    _check_finite(tasks, "a reward", samples.values, samples.returns)
    return samples


def check_episodes(tasks: Sequence[Task], episodes: Episodes) -> Episodes:
    """Return the episodes, or raise an error that names the task whose numbers are not finite."""
    _check_finite(tasks, "an observation", episodes.observations)
    _check_finite(tasks, "a reward", episodes.rewards)
    return episodes


def _check_finite(tasks: Sequence[Task], what: str, *arrays: Floats) -> None:
    for array in arrays:
        if not np.all(np.isfinite(array)):
            raise not_finite(tasks[int(np.argwhere(~np.isfinite(array))[0][0])], what)


def empty_episodes(tasks: Sequence[Task], plan: EpisodePlan) -> Episodes:
    """Return arrays for a plan's episodes, with room for states if all tasks have some."""
    shape = plan.noise.shape[:3]
    compiled = all(task.dynamics is not None for task in tasks)
    state_size = max(task.state_size for task in tasks) if compiled else 0
    q = tasks[0].observation_size
    return Episodes.empty(shape, q, plan.noise.shape[3], state_size)
