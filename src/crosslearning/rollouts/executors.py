"""Executors: they run a plan, and all give the same samples for the same plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crosslearning.compiled import entry_point
from crosslearning.errors import InputError, NumericalError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.compiled_rollouts import run_episodes, run_samples
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.rollouts.samples import Episodes, Samples, empty_samples
from crosslearning.tasks import Task

Floats = NDArray[np.float64]


class Executor(Protocol):
    """What the learner needs of whoever runs its rollouts."""

    def samples(self, policies: Expansion, plan: SamplePlan, antithetic: bool) -> Samples:
        """Run one sample of every task B times; function i of ``policies`` drives task i."""

    def close(self) -> None:
        """Give back threads, processes and environments."""


def executor_for(tasks: Sequence[Task], noise_std: Floats, workers: int = 1) -> Executor:
    """Return the fastest executor that can run these tasks."""
    # Imported here because most runs never step a Gymnasium environment.
    from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor

    if all(task.dynamics is not None for task in tasks):
        return CompiledExecutor(tasks, noise_std, workers)
    return GymnasiumExecutor(tasks, noise_std)


def not_finite(task: Task, what: str) -> NumericalError:
    """Return the error for a task whose numbers are not finite."""
    return NumericalError(
        f"task {task.name!r} returned {what} that is not finite; the iteration was not applied. "
        "Check the task, for instance with gymnasium's check_env"
    )


def check_samples(tasks: Sequence[Task], samples: Samples) -> Samples:
    """Return the samples, or raise an error that names the task whose numbers are not finite."""
    numbers = (
        ("an observation", samples.observations),
        ("a reward", samples.values),
        ("a reward", samples.returns),
    )
    for what, array in numbers:
        if not np.all(np.isfinite(array)):
            i = int(np.argwhere(~np.isfinite(array))[0][0])
            raise not_finite(tasks[i], what)
    return samples


class CompiledExecutor:
    """Runs tasks with compiled dynamics, on one thread or several.

    Parameters
    ----------
    tasks : sequence of Task
        All with dynamics.
    noise_std : array, shape (p,)
        Standard deviation of the exploration noise.
    workers : int
        Threads. The samples do not depend on it.
    """

    def __init__(self, tasks: Sequence[Task], noise_std: Floats, workers: int = 1) -> None:
        for task in tasks:
            if task.dynamics is None:
                raise InputError(
                    f"task {task.name!r} has no compiled dynamics; use the Gymnasium executor"
                )
        self.tasks = tuple(tasks)
        self._noise_std = np.ascontiguousarray(noise_std, dtype=np.float64)
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None
        self._entry: Callable[..., Any] | None = None
        self._groups = _groups_of(self.tasks)

    def samples(self, policies: Expansion, plan: SamplePlan, antithetic: bool) -> Samples:
        """Run one sample of every task B times."""
        N, B = plan.before.shape
        noise = plan.noise * self._noise_std
        result = empty_samples(N, B, self.tasks[0].observation_space.shape[0], noise.shape[3])
        for first, stop, pointers, parameters, state_size in self._groups:
            part = slice(first, stop)
            arguments = (
                *policies.program,
                *pointers,
                parameters,
                policies.features,
                policies.rows[part],
                plan.uniforms[part],
                plan.before[part],
                plan.after[part],
                noise[part],
                state_size,
                antithetic,
            )
            outputs = tuple(array[part] for array in result)
            self._spread((stop - first) * B, run_samples, arguments, outputs)
        return check_samples(self.tasks, result)

    def _spread(
        self, count: int, body: Callable[..., Any], arguments: tuple[Any, ...], outputs: Any
    ) -> None:
        """Call the compiled body on parts of range(count), one part a thread."""
        if self._entry is None:
            self._entry = entry_point(body, *arguments, 0, 0, *outputs)
        if self._pool is None:
            self._entry(*arguments, 0, count, *outputs)
            return
        edges = np.linspace(0, count, self._workers + 1).astype(int).tolist()
        futures = [
            self._pool.submit(self._entry, *arguments, a, b, *outputs) for a, b in pairwise(edges)
        ]
        for future in futures:
            future.result()

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()


def _groups_of(tasks: Sequence[Task]) -> list[tuple[int, int, tuple[Any, ...], Floats, int]]:
    """Return runs of neighbouring tasks with the same compiled functions.

    Each is (first, stop, function pointers, parameters padded to (n, width), state size).
    """
    groups: list[tuple[int, int, tuple[Any, ...], Floats, int]] = []
    first = 0
    for stop in range(1, len(tasks) + 1):
        head = tasks[first].dynamics
        assert head is not None
        if stop < len(tasks):
            following = tasks[stop].dynamics
            assert following is not None
            if following[1:] == head[1:] and tasks[stop].state_size == tasks[first].state_size:
                continue
        vectors = [task.dynamics.parameters for task in tasks[first:stop] if task.dynamics]
        parameters = np.zeros((stop - first, max(map(len, vectors))))
        for row, vector in zip(parameters, vectors, strict=True):
            row[: len(vector)] = vector
        groups.append((first, stop, tuple(head[1:]), parameters, tasks[first].state_size))
        first = stop
    return groups


def compiled_episodes(
    task: Task, policy: Expansion, noise_std: Floats, plan: EpisodePlan, workers: int = 1
) -> Episodes:
    """Run whole episodes of a task with compiled dynamics; ``policy`` is one function."""
    if task.dynamics is None:
        raise InputError(f"task {task.name!r} has no compiled dynamics")
    n, steps, p = plan.noise.shape
    q = task.observation_space.shape[0]
    rewards, lengths = np.empty((n, steps)), np.empty(n, dtype=np.int64)
    observations, actions = np.empty((n, steps + 1, q)), np.empty((n, steps, p))
    states = np.empty((n, steps + 1, task.state_size))
    parameters, *pointers = task.dynamics
    arguments = (
        *policy.program,
        *pointers,
        parameters,
        policy.features,
        policy.rows[0],
        plan.uniforms,
        plan.noise * np.asarray(noise_std, dtype=np.float64),
        task.state_size,
    )
    outputs = (rewards, lengths, observations, actions, states)
    entry = entry_point(run_episodes, *arguments, 0, 0, *outputs)
    edges = np.linspace(0, n, workers + 1).astype(int).tolist()
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(entry, *arguments, a, b, *outputs) for a, b in pairwise(edges)]
        for future in futures:
            future.result()
    return Episodes(rewards, lengths, observations, actions, states)
