"""Rollouts of tasks with compiled dynamics, on one thread or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from crosslearning._base.compiled import FunctionPointer, entry_point
from crosslearning.errors import InputError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.compiled_rollouts import run_episodes, run_samples
from crosslearning.rollouts.data import ActionScale, Episodes, Floats, Samples
from crosslearning.rollouts.executor import Executor, check_finite, empty_episodes
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.tasks import Task


class CompiledExecutor(Executor):
    """Runs tasks with compiled dynamics.

    Parameters
    ----------
    tasks : sequence of Task
        All with dynamics.
    workers : int
        Number of threads. The result does not depend on it.
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
        super().__init__(tasks, scale)
        self._workers = workers
        self._groups = list(_groups_of(self.tasks))
        # One entry point per compiled body: the argument types of a body never change.
        self._entries: dict[Callable[..., Any], Callable[..., Any]] = {}

    def samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        """Run B samples of every task."""
        result = self.empty_samples(plan)
        for group in self._groups:
            self._spread(run_samples, group, policies, plan, (mirrored,), result)
        check_finite(self.tasks, result.observations, result.values, result.returns)
        return result

    def run_episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run episodes; their outcomes are in the last states."""
        result = empty_episodes(self.tasks, plan)
        for group in self._groups:
            self._spread(run_episodes, group, policies, plan, (), result)
        check_finite(self.tasks, result.observations, result.rewards)
        return result

    def _spread(
        self,
        body: Callable[..., Any],
        group: _Group,
        policies: Expansion,
        plan: SamplePlan | EpisodePlan,
        options: tuple[Any, ...],
        result: Samples | Episodes,
    ) -> None:
        """Call a compiled body for all rollouts of a group, an equal part on each thread."""
        tasks, pointers, parameters, state_size = group
        functions = (*policies.program, *pointers, parameters)
        policy = (policies.features, policies.rows[tasks], np.array(self.scale))
        arguments = (*functions, *policy, *(array[tasks] for array in plan), state_size, *options)
        outputs = tuple(array[tasks] for array in result if isinstance(array, np.ndarray))
        if body not in self._entries:
            self._entries[body] = entry_point(body, *arguments, 0, 0, *outputs)
        entry, count = self._entries[body], len(parameters) * plan.seeds.shape[1]
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


class _Group(NamedTuple):
    """Neighbouring tasks with the same compiled functions, run by one call."""

    tasks: slice
    pointers: tuple[FunctionPointer, ...]
    parameters: Floats  # shape (tasks, longest vector), padded with zeros
    state_size: int


def _groups_of(tasks: Sequence[Task]) -> Iterator[_Group]:
    dynamics = [task.dynamics for task in tasks if task.dynamics is not None]
    keys = [(own[1:], task.state_size) for own, task in zip(dynamics, tasks, strict=True)]
    first = 0
    for key, members in groupby(range(len(tasks)), keys.__getitem__):
        vectors = [dynamics[i].parameters for i in members]
        parameters = np.zeros((len(vectors), max(map(len, vectors))))
        for row, vector in zip(parameters, vectors, strict=True):
            row[: len(vector)] = vector
        yield _Group(slice(first, first + len(vectors)), key[0], parameters, key[1])
        first += len(vectors)
