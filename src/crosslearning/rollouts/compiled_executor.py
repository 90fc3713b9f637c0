"""Rollouts of tasks with compiled dynamics, on one thread or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from crosslearning._base.compiled import entry_point
from crosslearning.errors import InputError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.compiled_rollouts import run_episodes, run_samples
from crosslearning.rollouts.data import ActionScale, Episodes, Samples
from crosslearning.rollouts.executor import Executor, check_finite, empty_result
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.tasks import Dynamics, Task


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

    def run(
        self, policies: Expansion, plan: SamplePlan | EpisodePlan, mirrored: bool = False
    ) -> Samples | Episodes:
        """Run a plan, an equal part on each thread; outcomes are in the last states."""
        is_sample = isinstance(plan, SamplePlan)
        body: Callable[..., Any] = run_samples if is_sample else run_episodes
        options = (mirrored,) if is_sample else ()
        result: Samples | Episodes = empty_result(self.tasks, plan)
        scale = np.array(self.scale)
        for tasks, dynamics, state_size in self._groups:
            policy = policies.program, policies.features, policies.rows[tasks], scale
            arguments = (*policy, dynamics, state_size, _rows(plan, tasks), *options)
            output = _rows(result, tasks)
            if body not in self._entries:
                self._entries[body] = entry_point(body, *arguments, 0, 0, output)
            entry, count = self._entries[body], len(dynamics.parameters) * plan.seeds.shape[1]
            if self._workers == 1:
                entry(*arguments, 0, count, output)
                continue
            edges = np.linspace(0, count, self._workers + 1).astype(int).tolist()
            parts = [
                self._pool.submit(entry, *arguments, *ends, output) for ends in pairwise(edges)
            ]
            for part in parts:
                part.result()
        check_finite(self.tasks, result)
        return result

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._workers)

    def close(self) -> None:
        """End the threads."""
        if "_pool" in self.__dict__:
            self._pool.shutdown()
            del self._pool


def _rows(arrays: Any, tasks: slice) -> Any:
    """Return a plan or a result of some tasks alone."""
    return arrays._make(a[tasks] if isinstance(a, np.ndarray) else a for a in arrays)


def _groups_of(tasks: Sequence[Task]) -> Iterator[tuple[slice, Dynamics, int]]:
    """Yield neighbouring tasks with the same functions and state size, to be run by one call.

    Their parameters are stacked, shape (tasks, longest vector), and padded with zeros.
    """
    dynamics = [task.dynamics for task in tasks if task.dynamics is not None]
    keys = [(d[1:], task.state_size) for d, task in zip(dynamics, tasks, strict=True)]
    for (_, state_size), members in groupby(range(len(tasks)), keys.__getitem__):
        first, *_ = group = list(members)
        vectors = [dynamics[i].parameters for i in group]
        parameters = np.zeros((len(group), max(map(len, vectors))))
        for row, vector in zip(parameters, vectors, strict=True):
            row[: len(vector)] = vector
        stacked = dynamics[first]._replace(parameters=parameters)
        yield slice(first, first + len(group)), stacked, state_size
