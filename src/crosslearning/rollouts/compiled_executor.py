"""Rollouts of tasks with compiled dynamics, on one thread or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.compiled import FunctionPointer, entry_point
from crosslearning.errors import InputError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.compiled_rollouts import run_episodes, run_samples
from crosslearning.rollouts.data import ActionScale, Episodes, Samples
from crosslearning.rollouts.executor import check_episodes, check_samples, empty_episodes
from crosslearning.rollouts.outcomes import collect_outcomes
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.tasks import Task

Floats = NDArray[np.float64]


class CompiledExecutor:
    """Runs tasks with compiled dynamics, on one thread or several.

    Parameters
    ----------
    tasks : sequence of Task
        All with dynamics.
    workers : int
        Threads. What they return does not depend on it.
    scale : ActionScale, optional
        From the policies' actions to the tasks' units; by default they are the same.
    """

    def __init__(
        self, tasks: Sequence[Task], workers: int = 1, scale: ActionScale | None = None
    ) -> None:
        for task in tasks:
            if task.dynamics is None:
                raise InputError(
                    f"task {task.name!r} has no compiled dynamics; use the Gymnasium executor"
                )
        self.tasks = tuple(tasks)
        self._workers = workers
        self.scale = scale or ActionScale.none(tasks[0].action_size)
        self._scale = np.array(self.scale)
        self._groups = list(_groups_of(self.tasks))
        # One for each compiled body: the types of a body's arguments never change.
        self._entries: dict[Callable[..., Any], Callable[..., Any]] = {}

    def samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        """Run one sample of every task B times."""
        N, B = plan.before.shape
        q, p = self.tasks[0].observation_size, plan.noise.shape[3]
        result = Samples.empty(N, B, q, p)
        for group in self._groups:
            plans = (array[group.part] for array in plan)
            arguments = (*group.leading(policies, self._scale), *plans, group.state_size, mirrored)
            self._spread(run_samples, arguments, group.count * B, result, group.part)
        return check_samples(self.tasks, result)

    def episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run whole episodes of every task, to their end or the horizon."""
        return collect_outcomes(self.tasks, self.run_episodes(policies, plan))

    def run_episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run episodes whose outcomes are still in their last states."""
        result = empty_episodes(self.tasks, plan)
        for group in self._groups:
            plans = (array[group.part] for array in plan)
            arguments = (*group.leading(policies, self._scale), *plans, group.state_size)
            count = group.count * plan.noise.shape[1]
            self._spread(run_episodes, arguments, count, result, group.part)
        return check_episodes(self.tasks, result)

    def _spread(
        self,
        body: Callable[..., Any],
        arguments: tuple[Any, ...],
        count: int,
        result: Samples | Episodes,
        part: slice,
    ) -> None:
        """Call a compiled body on parts of range(count), one part a thread."""
        outputs = tuple(array[part] for array in result if isinstance(array, np.ndarray))
        if body not in self._entries:
            self._entries[body] = entry_point(body, *arguments, 0, 0, *outputs)
        entry = self._entries[body]
        if self._workers == 1:
            entry(*arguments, 0, count, *outputs)
            return
        edges = np.linspace(0, count, self._workers + 1).astype(int).tolist()
        futures = [self._pool.submit(entry, *arguments, a, b, *outputs) for a, b in pairwise(edges)]
        for future in futures:
            future.result()

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._workers)

    def close(self) -> None:
        """End the threads."""
        if "_pool" in self.__dict__:
            self._pool.shutdown()
            del self._pool


@dataclass(frozen=True)
class _Group:
    """Neighbouring tasks with the same compiled functions, run by one call."""

    part: slice
    pointers: tuple[FunctionPointer, ...]
    parameters: Floats  # padded to (count, width)
    state_size: int

    @property
    def count(self) -> int:
        return len(self.parameters)

    def leading(self, policies: Expansion, scale: Floats) -> tuple[Any, ...]:
        """Return the arguments that every compiled body begins with."""
        rows = policies.rows[self.part]
        leading = (*policies.program, *self.pointers, self.parameters)
        return (*leading, policies.features, rows, scale)


def _groups_of(tasks: Sequence[Task]) -> Iterator[_Group]:
    """Yield runs of neighbouring tasks with the same compiled functions."""
    dynamics = [task.dynamics for task in tasks if task.dynamics is not None]
    first = 0
    for stop in range(1, len(tasks) + 1):
        same = (
            stop < len(tasks)
            and dynamics[stop][1:] == dynamics[first][1:]
            and tasks[stop].state_size == tasks[first].state_size
        )
        if same:
            continue
        vectors = [own.parameters for own in dynamics[first:stop]]
        parameters = np.zeros((stop - first, max(map(len, vectors))))
        for row, vector in zip(parameters, vectors, strict=True):
            row[: len(vector)] = vector
        pointers = tuple(dynamics[first][1:])
        yield _Group(slice(first, stop), pointers, parameters, tasks[first].state_size)
        first = stop
