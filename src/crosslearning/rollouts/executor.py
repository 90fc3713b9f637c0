"""The executor base class: all executors give the same samples and episodes for the same plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import overload

import numpy as np

from crosslearning.errors import NumericalError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import ActionScale, Episodes, Samples
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
        #: Sentences about lost workers and the like, for a learner to report.
        self.events: deque[str] = deque()

    @property
    def workers(self) -> tuple[int, int]:
        """The number of live workers, and of those wanted; both 0 without other processes."""
        return 0, 0

    @abstractmethod
    def run(
        self, policies: Expansion, plan: SamplePlan | EpisodePlan, mirrored: bool = False
    ) -> Samples | Episodes:
        """Run a plan; the outcomes of episodes are not collected yet."""

    @abstractmethod
    def close(self) -> None:
        """Release threads, processes and environments."""

    def samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        """Run B samples of every task (Algorithm 1, lines 2 to 5).

        If ``mirrored``, the opposite action is taken from the same state, too.
        """
        result = self.run(policies, plan, mirrored)
        assert isinstance(result, Samples)
        return result

    def episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run episodes of every task, to their end, the time limit or the horizon."""
        result = self.run(policies, plan)
        assert isinstance(result, Episodes)
        return collect_outcomes(self.tasks, result)


@overload
def empty_result(tasks: Sequence[Task], plan: SamplePlan) -> Samples: ...
@overload
def empty_result(tasks: Sequence[Task], plan: EpisodePlan) -> Episodes: ...
def empty_result(tasks: Sequence[Task], plan: SamplePlan | EpisodePlan) -> Samples | Episodes:
    """Return arrays for the result of a plan, with states if all tasks are compiled."""
    shape, q, p = plan.seeds.shape, tasks[0].observation_size, plan.noise.shape[3]
    if isinstance(plan, SamplePlan):
        return Samples(
            observations=np.empty((*shape, q)),
            deviations=np.empty((*shape, p)),
            values=np.zeros((*shape, 2)),
            returns=np.empty(shape),
            steps=np.empty(shape, dtype=np.int64),
        )
    compiled = all(task.dynamics is not None for task in tasks)
    state_size = max(task.state_size for task in tasks) if compiled else 0
    return Episodes.empty(plan.noise.shape[:3], q, p, state_size)


def not_finite(task: Task, what: str, where: str = "") -> NumericalError:
    """Return the error for a task whose numbers are not finite."""
    return NumericalError(
        f"task {task.name!r} returned {what} that is not finite{where}; the iteration was not "
        "applied. Check the task, for instance with crosslearning.tasks.check_task"
    )


def check_finite(tasks: Sequence[Task], result: Samples | Episodes) -> None:
    """Raise an error that names the first task with numbers that are not finite."""
    rewards = result[2:4] if isinstance(result, Samples) else (result.rewards,)
    for array in (result.observations, *rewards):
        if not np.all(np.isfinite(array)):
            task = tasks[int(np.argwhere(~np.isfinite(array))[0][0])]
            raise not_finite(task, "an observation" if array is result.observations else "a reward")
