"""Rollouts of tasks with compiled dynamics, on one thread or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from crosslearning._base.compiled import FastEntry, compiled
from crosslearning.errors import InputError
from crosslearning.rkhs.program import Expansion, evaluate
from crosslearning.rollouts.data import ActionScale, Floats, Samples
from crosslearning.rollouts.executor import Executor, Result, check_finite, empty_result
from crosslearning.rollouts.plan import EpisodePlan, Plan, SamplePlan
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
        self._run_samples, self._run_episodes = FastEntry(run_samples), FastEntry(run_episodes)

    def run(self, policies: Expansion, plan: Plan, mirrored: bool = False) -> Result:
        """Run a plan, an equal part on each thread; outcomes are in the last states."""
        options: tuple[bool, ...] = (mirrored,) if isinstance(plan, SamplePlan) else ()
        entry = self._run_samples if options else self._run_episodes
        result = empty_result(self.tasks, plan)
        scale = np.array(self.scale)
        for tasks, dynamics, state_size in self._groups:
            mine = policies._replace(rows=policies.rows[tasks])
            arguments = (mine, scale, dynamics, state_size, _rows(plan, tasks), *options)
            output, count = _rows(result, tasks), len(dynamics.parameters) * plan.seeds.shape[1]
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


# Compiled bodies, over plain arrays. ``dynamics`` have a row of parameters for each task.


@compiled
def to_units(scale: Floats, action: Floats, out: Floats) -> Floats:
    """Fill ``out`` with an action in the units of the task, and return it."""
    for a in range(action.shape[0]):
        out[a] = scale[0, a] + scale[1, a] * action[a]
    return out


@compiled
def run_samples(
    policies: Expansion,
    scale: Floats,
    dynamics: Any,
    state_size: int,
    plan: SamplePlan,
    mirrored: bool,
    first: int,
    stop: int,
    result: Samples,
) -> None:
    """Run the samples ``first`` … ``stop``−1 of the flattened (N, B) grid.

    Algorithm 1, lines 2 to 5: run the system for t steps, save the state, take the sampled
    action, and sum the rewards of T more steps. If ``mirrored``, repeat the last part from the
    saved state with the action mirrored at the policy's mean and the same noise afterwards.
    Each sample writes to its rows only, so any split of the range gives the same result.
    """
    program, features, weights = policies
    noise, deviations = plan.noise, result.deviations
    B, p, q = plan.before.shape[1], noise.shape[3], result.observations.shape[2]
    state, saved, observation = np.empty(state_size), np.empty(state_size), np.empty(q)
    mean, action, given = np.empty(p), np.empty(p), np.empty(p)
    point, work = np.empty(features.shape[0]), np.empty((2, features.shape[1]))
    for n in range(first, stop):
        i, b = n // B, n % B
        constants, policy = dynamics.parameters[i], weights[i]
        t, T = plan.before[i, b], plan.after[i, b]
        dynamics.reset(constants, plan.uniforms[i, b], state)
        total, count = 0.0, 0
        while count < t and not dynamics.ended(constants, state):
            dynamics.observe(constants, state, observation)
            evaluate(program, features, policy, observation, point, work, action)
            for a in range(p):
                action[a] += noise[i, b, count, a]
            total += dynamics.step(constants, state, to_units(scale, action, given))
            count += 1
        dynamics.observe(constants, state, observation)
        evaluate(program, features, policy, observation, point, work, mean)
        for d in range(q):
            result.observations[i, b, d] = observation[d]
        for a in range(p):
            deviations[i, b, a] = noise[i, b, t, a]
        np.positive(state, saved)
        for branch in range(2 if mirrored else 1):
            if branch == 1:
                np.positive(saved, state)
            for a in range(p):
                deviation = deviations[i, b, a]
                action[a] = mean[a] + deviation if branch == 0 else mean[a] - deviation
            value = 0.0
            for k in range(t, t + 1 + T):
                if dynamics.ended(constants, state):
                    break
                if k > t:
                    dynamics.observe(constants, state, observation)
                    evaluate(program, features, policy, observation, point, work, action)
                    for a in range(p):
                        action[a] += noise[i, b, k, a]
                value += dynamics.step(constants, state, to_units(scale, action, given))
                count += 1
                if k == t and branch == 0:
                    total += value
            result.values[i, b, branch] = value
        result.returns[i, b] = total
        result.steps[i, b] = count


@compiled
def run_episodes(
    policies: Expansion,
    scale: Floats,
    dynamics: Any,
    state_size: int,
    plan: EpisodePlan,
    first: int,
    stop: int,
    result: Any,
) -> None:
    """Run the episodes ``first`` … ``stop``−1 of the flattened (N, n) grid."""
    program, features, weights = policies
    noise, states = plan.noise, result.states
    episodes, horizon, p = noise.shape[1], noise.shape[2], noise.shape[3]
    state, action = np.empty(state_size), np.empty(p)
    point, work = np.empty(features.shape[0]), np.empty((2, features.shape[1]))
    for n in range(first, stop):
        i, e = n // episodes, n % episodes
        constants, policy, path = dynamics.parameters[i], weights[i], result.observations[i, e]
        dynamics.reset(constants, plan.uniforms[i, e], state)
        dynamics.observe(constants, state, path[0])
        np.positive(state, states[i, e, 0, :state_size])
        length = 0
        for k in range(horizon):
            if dynamics.ended(constants, state):
                np.positive(state, states[i, e, k + 1, :state_size])
                path[k + 1] = path[k]
                continue
            evaluate(program, features, policy, path[k], point, work, action)
            for a in range(p):
                action[a] += noise[i, e, k, a]
            given = to_units(scale, action, result.actions[i, e, k])
            result.rewards[i, e, k] = dynamics.step(constants, state, given)
            dynamics.observe(constants, state, path[k + 1])
            np.positive(state, states[i, e, k + 1, :state_size])
            length += 1
        result.lengths[i, e] = length
        result.terminated[i, e] = dynamics.ended(constants, state)
