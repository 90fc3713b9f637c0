"""The executor base class: all executors give the same samples and episodes for the same plan."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import NumericalError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import ActionScale, Episodes, Floats, Samples
from crosslearning.rollouts.plan import EpisodePlan, Plan, SamplePlan, plan_episodes
from crosslearning.tasks import Task

#: The result of a plan of samples, or of episodes.
Result = Samples | Episodes


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
    def run(self, policies: Expansion, plan: Plan, mirrored: bool = False) -> Result:
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

    def episodes_within(
        self,
        policies: Expansion,
        generator: np.random.Generator,
        count: int,
        horizon: int,
        noise_std: Floats,
        most: float,
        least: float = 0.0,
    ) -> tuple[EpisodePlan, Episodes]:
        """Run ``count`` episodes of every task, or fewer that fit into ``most`` steps in all.

        Episodes are begun only if they fit even without early ends; the steps that these leave
        over are used for more of them. More of them follow, too, until there are ``least`` steps in
        all. Returns the plan of all of them.
        """
        plans: list[EpisodePlan] = []
        parts: list[Episodes] = []
        each = len(self.tasks) * horizon
        while n := int(min(count, most / each)):
            plans.append(plan_episodes(generator, self.tasks, n, horizon, noise_std))
            result = self.run(policies, plans[-1])
            assert isinstance(result, Episodes)
            parts.append(result)
            steps = int(result.lengths.sum())
            count, most, least = count - n, most - steps, least - steps
            if count == 0 and least > 0.0:
                count = math.ceil(least / steps * n)
        plan = EpisodePlan(*(np.concatenate(arrays, axis=1) for arrays in zip(*plans, strict=True)))
        return plan, collect_outcomes(self.tasks, Episodes.joined(parts))

    def collect_steps(
        self, policies: Expansion, generator: np.random.Generator, length: int, noise_std: Floats
    ) -> list[Episodes]:
        """Run one episode of every task after the other, until ``length`` steps of each are taken.

        Tasks whose episodes do not end early may take more of them, those that do fewer.
        """
        N, longest = len(self.tasks), max(task.horizon for task in self.tasks)
        left, parts = N * length, []
        while horizon := min(left // N, longest):
            plan = plan_episodes(generator, self.tasks, 1, horizon, noise_std)
            parts.append(self.episodes(policies, plan))
            left -= int(parts[-1].lengths.sum())
        return parts


def empty_result(tasks: Sequence[Task], plan: Plan) -> Result:
    """Return arrays for the result of a plan, with states if all tasks are compiled."""
    q, p = tasks[0].observation_size, plan.noise.shape[3]
    if isinstance(plan, SamplePlan):
        return Samples.empty(plan.seeds.shape, q, p)
    compiled = all(task.dynamics is not None for task in tasks)
    state_size = max(task.state_size for task in tasks) if compiled else 0
    return Episodes.empty(plan.noise.shape[:3], q, p, state_size)


def not_finite(task: Task, what: str, where: str = "") -> NumericalError:
    """Return the error for a task whose numbers are not finite."""
    return NumericalError(
        f"task {task.name!r} returned {what} that is not finite{where}; the iteration was not "
        "applied. Check the task, for instance with crosslearning.tasks.check_task"
    )


def check_finite(tasks: Sequence[Task], result: Result) -> None:
    """Raise an error that names the first task with numbers that are not finite."""
    rewards = result[2:4] if isinstance(result, Samples) else (result.rewards,)
    for array in (result.observations, *rewards):
        if not np.all(np.isfinite(array)):
            task = tasks[int(np.argwhere(~np.isfinite(array))[0][0])]
            raise not_finite(task, "an observation" if array is result.observations else "a reward")


def collect_outcomes(tasks: Sequence[Task], episodes: Episodes) -> Episodes:
    """Return episodes with outcomes as arrays by task and name.

    Before, there is a mapping for each episode; those of compiled tasks are read from the last
    states.
    """
    if episodes.states is None:
        stacked = map(_stacked, tasks, episodes.outcomes)
        return episodes._replace(outcomes=list(stacked))
    read = [
        task.outcomes(states[:, : task.state_size].copy()) if callable(task.outcomes) else {}
        for task, states in zip(tasks, episodes.states[:, :, -1], strict=True)
    ]
    return episodes._replace(outcomes=read)


def _stacked(task: Task, episodes: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return the outcomes of n episodes of a task as arrays of length n, by name."""
    names = dict.fromkeys(name for episode in episodes for name in episode)
    never = [name for name in task.listed_outcomes if name not in names]
    if never:
        warnings.warn(
            f"no episode of task {task.name!r} reported {', '.join(never)} in its last info, which "
            f"the task lists as outcomes; reported: {', '.join(names) or 'nothing'}",
            stacklevel=2,
        )
    outcomes: dict[str, NDArray[Any]] = {}
    for name in (*names, *never):
        values = [episode.get(name) for episode in episodes]
        # Many environments report an event only when it has happened: otherwise it is unknown.
        unknown = [value is None for value in values]
        known = [value for value in values if value is not None]
        if not any(unknown):
            outcomes[name] = np.array(known)
        elif known and all(isinstance(value, bool) for value in known):
            outcomes[name] = np.ma.array(values, mask=unknown, dtype=np.bool_)
        else:
            outcomes[name] = np.array(values, dtype=np.float64)
    return outcomes
