"""The executor base class: all executors give the same samples and episodes for the same plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from crosslearning.errors import NumericalError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import ActionScale, Episodes, Floats, Samples
from crosslearning.rollouts.outcomes import collect_outcomes
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.tasks import Task


class Executor(ABC):
    """Runs rollouts of N tasks; function i of the policies drives task i.

    ``scale`` maps the policies' actions to the tasks' units; by default they are the same.
    """

    def __init__(self, tasks: Sequence[Task], scale: ActionScale | None = None) -> None:
        self.tasks = tuple(tasks)
        self.scale = scale or ActionScale.none(tasks[0].action_size)

    @abstractmethod
    def samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        """Run B samples of every task (Algorithm 1, lines 2 to 5).

        If ``mirrored``, the opposite action is taken from the same state, too.
        """

    @abstractmethod
    def run_episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run episodes without collecting outcomes: they are per episode, or in the last states."""

    def episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run episodes of every task, to their end, the time limit or the horizon."""
        return collect_outcomes(self.tasks, self.run_episodes(policies, plan))

    @abstractmethod
    def close(self) -> None:
        """Release threads, processes and environments."""

    def empty_samples(self, plan: SamplePlan) -> Samples:
        """Return arrays for the samples of a plan."""
        shape = plan.before.shape
        return Samples(
            observations=np.empty((*shape, self.tasks[0].observation_size)),
            deviations=np.empty((*shape, plan.noise.shape[3])),
            values=np.zeros((*shape, 2)),
            returns=np.empty(shape),
            steps=np.empty(shape, dtype=np.int64),
        )


def not_finite(task: Task, what: str, where: str = "") -> NumericalError:
    """Return the error for a task whose numbers are not finite."""
    return NumericalError(
        f"task {task.name!r} returned {what} that is not finite{where}; the iteration was not "
        "applied. Check the task, for instance with crosslearning.tasks.check_task"
    )


def check_finite(tasks: Sequence[Task], observations: Floats, *rewards: Floats) -> None:
    """Raise an error that names the first task with numbers that are not finite."""
    for array in (observations, *rewards):
        if not np.all(np.isfinite(array)):
            task = tasks[int(np.argwhere(~np.isfinite(array))[0][0])]
            raise not_finite(task, "an observation" if array is observations else "a reward")


def empty_episodes(tasks: Sequence[Task], plan: EpisodePlan) -> Episodes:
    """Return arrays for the episodes of a plan, with states if all tasks are compiled."""
    compiled = all(task.dynamics is not None for task in tasks)
    state_size = max(task.state_size for task in tasks) if compiled else 0
    q, p = tasks[0].observation_size, plan.noise.shape[3]
    return Episodes.empty(plan.noise.shape[:3], q, p, state_size)
