"""Evaluation: what policies achieve, with intervals, on the same starts for all of them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.learner import Policy
from crosslearning.rollouts import Episodes, executor_for, plan_episodes
from crosslearning.statistics import Interval, bootstrap, share
from crosslearning.tasks import Task

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """What one policy achieved on one task.

    Attributes
    ----------
    policy, task : str
    trials, steps : int
        Episodes, and the most steps of each.
    discounted_return : Interval
        Mean of Σ γ^t r_t.
    mean_cost : Interval
        Mean over steps and episodes of −r, the paper's cost.
    rates : mapping of str to Interval
        Shares of episodes, such as ``arrived`` and ``crashed``.
    means : mapping of str to Interval
        Means of the other outcomes, such as ``path_length``; NaN entries are left out.
    """

    policy: str
    task: str
    trials: int
    steps: int
    discounted_return: Interval
    mean_cost: Interval
    rates: Mapping[str, Interval]
    means: Mapping[str, Interval]


def run_episodes(
    policy: Policy,
    task: Task,
    trials: int,
    steps: int = 50,
    seed: int = 0,
    deterministic: bool = True,
    workers: int = 1,
) -> Episodes:
    """Run whole episodes; the same seed gives every policy the same starts.

    Parameters
    ----------
    policy : Policy
    task : Task
    trials, steps : int
        How many episodes, and how long at the most.
    seed : int
    deterministic : bool
        Whether the policy acts without exploration noise.
    workers : int
        Threads, for compiled tasks.
    """
    for name, value in (("trials", trials), ("steps", steps)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
    reads, acts = policy.function.kernel.dimension, policy.function.outputs
    shapes = task.observation_space.shape, task.action_space.shape
    if shapes != ((reads,), (acts,)):
        raise InputError(
            f"the {policy.name} policy reads {reads} numbers and returns {acts}, but the "
            f"observations and actions of task {task.name!r} have the shapes {shapes[0]} and "
            f"{shapes[1]}"
        )
    # The task's name enters the seed: the same task has the same starts in whatever set.
    starts = np.random.default_rng([seed, zlib.crc32(task.name.encode())])
    noise_std = None if deterministic else policy.noise_std
    plan = plan_episodes(starts, [task], trials, steps, noise_std)
    executor = executor_for([task], workers if task.dynamics is not None else 1)
    try:
        return executor.episodes(policy.function.expansion, plan).of_task(0)
    finally:
        executor.close()


def evaluate(
    policies: Sequence[Policy],
    tasks: Sequence[Task],
    trials: int = 500,
    steps: int = 50,
    discount: float = 0.9,
    seed: int = 0,
    deterministic: bool = True,
    workers: int = 1,
) -> list[Evaluation]:
    """Evaluate every policy on every task, on the same starts.

    Returns
    -------
    list of Evaluation
        Task by task, policies in the given order.
    """
    results = []
    for task in tasks:
        for policy in policies:
            episodes = run_episodes(policy, task, trials, steps, seed, deterministic, workers)
            results.append(summarise(policy.name, task, episodes, discount, seed))
    return results


def evaluate_across(
    policies: Sequence[Policy],
    tasks: Sequence[Task],
    trials: int = 5,
    steps: int = 50,
    discount: float = 0.9,
    seed: int = 0,
    deterministic: bool = True,
    workers: int = 1,
) -> list[Evaluation]:
    """Evaluate every policy on many tasks, such as random maps, as one number with an interval.

    The tasks are the sample: an interval says how much other tasks of the same kind may
    differ, so many tasks with a few episodes each tell more than few with many.

    Returns
    -------
    list of Evaluation
        One for each policy; ``trials`` counts all episodes.
    """
    results = []
    for policy in policies:
        rows = []
        for task in tasks:
            episodes = run_episodes(policy, task, trials, steps, seed, deterministic, workers)
            rows.append(columns_of(task, episodes, discount))
        columns = means_by_task(rows)
        name = f"{len(tasks)} tasks"
        results.append(_evaluation(policy.name, name, len(tasks) * trials, steps, columns, seed))
    return results


@dataclass(frozen=True)
class Columns:
    """What was measured, one number an episode (or a task): NaN where it is not known.

    Attributes
    ----------
    returns, costs : array, shape (n,)
    shares : mapping of str to array of shape (n,)
        Truth values, or shares of episodes.
    others : mapping of str to array of shape (n,)
        Other outcomes, such as ``path_length``.
    """

    returns: Floats
    costs: Floats
    shares: Mapping[str, NDArray[Any]]
    others: Mapping[str, Floats]


def columns_of(task: Task, episodes: Episodes, discount: float) -> Columns:
    """Return the numbers of finished episodes, episode by episode."""
    shares: dict[str, NDArray[Any]] = {}
    others: dict[str, Floats] = {}
    if task.outcomes is not None and episodes.states is not None:
        final = np.ascontiguousarray(episodes.states[:, -1])
        for name, values in task.outcomes(final).items():
            if values.ndim == 1 and values.dtype == np.bool_:
                shares[name] = values
            elif values.ndim == 1:
                known = np.asarray(values, dtype=np.float64)
                others[name] = np.where(np.isfinite(known), known, np.nan)
    returns = episodes.rewards @ discount ** np.arange(episodes.rewards.shape[1])
    return Columns(returns, -episodes.rewards.mean(axis=1), shares, others)


def means_by_task(rows: Sequence[Columns]) -> Columns:
    """Return the means of each task's episodes, one number a task."""

    def mean(values: NDArray[Any]) -> float:
        known = values[np.isfinite(values)]
        return float(np.mean(known)) if len(known) else math.nan

    def gather(tables: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, Floats]:
        names = [name for name in tables[0] if all(name in table for table in tables)]
        return {name: np.array([mean(table[name]) for table in tables]) for name in names}

    return Columns(
        np.array([mean(row.returns) for row in rows]),
        np.array([mean(row.costs) for row in rows]),
        gather([row.shares for row in rows]),
        gather([row.others for row in rows]),
    )


def summarise(
    policy: str, task: Task, episodes: Episodes, discount: float, seed: int = 0
) -> Evaluation:
    """Return the numbers of finished episodes; ``seed`` is the bootstrap's."""
    trials, steps = episodes.rewards.shape
    columns = columns_of(task, episodes, discount)
    return _evaluation(policy, task.name, trials, steps, columns, seed)


def _evaluation(
    policy: str, task: str, trials: int, steps: int, columns: Columns, seed: int
) -> Evaluation:
    generator = np.random.default_rng(seed)
    return Evaluation(
        policy=policy,
        task=task,
        trials=trials,
        steps=steps,
        rates={name: share(values, generator) for name, values in columns.shares.items()},
        means={name: bootstrap(values, generator) for name, values in columns.others.items()},
        discounted_return=bootstrap(columns.returns, generator),
        mean_cost=bootstrap(columns.costs, generator),
    )
