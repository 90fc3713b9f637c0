"""Comparison: is one policy better than another? Both meet the same starts.

Starts differ more than policies do: a policy that begins next to the goal looks good. The
difference of two policies on one start does not have that noise, so an interval of paired
differences is much narrower than two intervals side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation import (
    Columns,
    columns_of,
    means_by_task,
    run_episodes,
)
from crosslearning.learner import Policy
from crosslearning.statistics import Interval, bootstrap, difference_of_shares
from crosslearning.tasks import Task

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """The differences first − second on the same starts, each with its 95 % interval.

    Attributes
    ----------
    first, second, task : str
    trials : int
        Pairs of episodes.
    discounted_return, mean_cost : Interval
    rates : mapping of str to Interval
        Differences of shares, such as ``arrived``.
    means : mapping of str to Interval
        Differences of other outcomes, such as ``arrival_time``, over the pairs in which both
        are known.
    """

    first: str
    second: str
    task: str
    trials: int
    discounted_return: Interval
    mean_cost: Interval
    rates: Mapping[str, Interval]
    means: Mapping[str, Interval]

    @property
    def verdict(self) -> str:
        """``"better"``, ``"worse"`` or ``"undecided"``: the first by its discounted return."""
        if self.discounted_return.low > 0.0:
            return "better"
        return "worse" if self.discounted_return.high < 0.0 else "undecided"


def compare(
    first: Policy,
    second: Policy,
    tasks: Sequence[Task],
    trials: int = 500,
    steps: int = 50,
    discount: float = 0.9,
    seed: int = 0,
    deterministic: bool = True,
    workers: int = 1,
) -> list[Comparison]:
    """Compare two policies task by task.

    Parameters
    ----------
    first, second : Policy
    tasks : sequence of Task
    trials, steps : int
        Episodes of each policy on a task, and the most steps of each.
    discount : float
    seed : int
        Chooses the starts and, for policies that act with noise, the noise.
    deterministic : bool
    workers : int
        Threads, for compiled tasks.
    """
    results = []
    for task in tasks:
        a, b = (
            columns_of(
                task,
                run_episodes(policy, task, trials, steps, seed, deterministic, workers),
                discount,
            )
            for policy in (first, second)
        )
        results.append(_comparison(first, second, task.name, trials, a, b, seed))
    return results


def compare_across(
    first: Policy,
    second: Policy,
    tasks: Sequence[Task],
    trials: int = 5,
    steps: int = 50,
    discount: float = 0.9,
    seed: int = 0,
    deterministic: bool = True,
    workers: int = 1,
) -> Comparison:
    """Compare two policies over many tasks: the tasks are the sample, as random maps are.

    The arguments are those of :func:`compare`, with ``trials`` episodes on each task.
    """
    rows: tuple[list[Columns], list[Columns]] = ([], [])
    for task in tasks:
        for policy, row in zip((first, second), rows, strict=True):
            episodes = run_episodes(policy, task, trials, steps, seed, deterministic, workers)
            row.append(columns_of(task, episodes, discount))
    a, b = (means_by_task(row) for row in rows)
    return _comparison(first, second, f"{len(tasks)} tasks", len(tasks) * trials, a, b, seed)


def _comparison(
    first: Policy, second: Policy, task: str, trials: int, a: Columns, b: Columns, seed: int
) -> Comparison:
    generator = np.random.default_rng(seed)
    rates = {}
    for name, ours in a.shares.items():
        rates[name] = difference_of_shares(ours, b.shares[name], generator)
    return Comparison(
        first=first.name,
        second=second.name,
        task=task,
        trials=trials,
        discounted_return=bootstrap(a.returns - b.returns, generator),
        mean_cost=bootstrap(a.costs - b.costs, generator),
        rates=rates,
        # NaN, where one of the two is unknown, stays NaN and is left out.
        means={n: bootstrap(a.others[n] - b.others[n], generator) for n in a.others},
    )
