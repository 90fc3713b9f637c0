"""Evaluation: what policies achieve, with intervals, on the same starts for all of them.

One table holds the numbers of every policy's episodes on every task. ``evaluate`` and
``evaluate_across``, and ``compare`` and ``compare_across`` of :mod:`crosslearning.comparison`,
are four readings of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.episodes import AnyPolicy, EpisodeOptions, names_of, run, run_episodes
from crosslearning.errors import InputError
from crosslearning.statistics import Interval, bootstrap, share
from crosslearning.tasks import Task

__all__ = ["AnyPolicy", "EpisodeOptions", "evaluate", "evaluate_across", "run_episodes"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What was measured on one task, each number with its 95 % interval.

    Attributes
    ----------
    task : str
    trials : int
        Episodes.
    discounted_return, total_return : Interval
        Means of Σ γ^t r_t and of Σ r_t.
    mean_cost : Interval
        Mean over steps and episodes of −r, the paper's cost.
    rates : mapping of str to Interval
        Shares of episodes, such as ``arrived`` and ``crashed``.
    means : mapping of str to Interval
        Means of other outcomes, such as ``path_length``, over the episodes in which it is known.
    """

    task: str
    trials: int
    discounted_return: Interval
    total_return: Interval
    mean_cost: Interval
    rates: Mapping[str, Interval]
    means: Mapping[str, Interval]


@dataclass(frozen=True, kw_only=True)
class Evaluation(Numbers):
    """What one policy achieved on one task; ``horizon`` is the most steps of an episode."""

    policy: str
    horizon: int


def evaluate(
    policies: Sequence[AnyPolicy], tasks: Sequence[Task], **options: Any
) -> list[Evaluation]:
    """Evaluate every policy on every task, on the same starts.

    Parameters
    ----------
    policies : sequence
        Whatever acts: policies of this library, things with ``predict``, functions from an
        observation to an action.
    tasks : sequence of Task
    **options
        See :class:`EpisodeOptions`.

    Returns
    -------
    list of Evaluation
        Task by task, policies in the given order.
    """
    return _evaluations(play(policies, tasks, EpisodeOptions.of(options)))


def evaluate_across(
    policies: Sequence[AnyPolicy], tasks: Sequence[Task], **options: Any
) -> list[Evaluation]:
    """Evaluate every policy on many tasks, such as random maps, as one number with an interval.

    The tasks are the sample: an interval says how much other tasks of the same kind may
    differ, so many tasks with a few episodes each tell more than few with many. The arguments
    are those of :func:`evaluate`, with 5 ``trials`` by default.

    Returns
    -------
    list of Evaluation
        One for each policy; ``trials`` counts all episodes.
    """
    return _evaluations(play(policies, tasks, EpisodeOptions.of(options, trials=5)).across())


def _evaluations(table: Table) -> list[Evaluation]:
    results = []
    for row in table.rows:
        for policy, columns in zip(table.policies, row.cells, strict=True):
            draw = np.random.default_rng(table.seed)
            results.append(
                Evaluation(
                    policy=policy,
                    task=row.task,
                    trials=row.trials,
                    horizon=row.horizon,
                    rates={name: share(values, draw) for name, values in columns.shares.items()},
                    means={n: bootstrap(values, draw) for n, values in columns.others.items()},
                    discounted_return=bootstrap(columns.returns, draw),
                    mean_cost=bootstrap(columns.costs, draw),
                    total_return=bootstrap(columns.totals, draw),
                )
            )
    return results


# The table --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """What was measured, one number an episode (or a task): NaN where it is not known.

    Attributes
    ----------
    returns, totals, costs : array, shape (n,)
        Σ γ^t r_t; Σ r_t; the mean of −r_t.
    shares : mapping of str to array of shape (n,)
        Truth values, or shares of episodes.
    others : mapping of str to array of shape (n,)
        Other outcomes, such as ``path_length``.
    """

    returns: Floats
    totals: Floats
    costs: Floats
    shares: Mapping[str, NDArray[Any]]
    others: Mapping[str, Floats]


@dataclass(frozen=True)
class Row:
    """One task of a table: ``cells`` has the columns of every policy, on the same starts."""

    task: str
    trials: int
    horizon: int
    cells: tuple[Columns, ...]


@dataclass(frozen=True)
class Table:
    """The numbers of every policy on every task. ``seed`` is that of the bootstrap, too."""

    policies: tuple[str, ...]
    seed: int
    rows: tuple[Row, ...]

    def across(self) -> Table:
        """Return a table of one row, in which every task counts as one number."""
        by_policy = zip(*(row.cells for row in self.rows), strict=True)
        cells = tuple(_means_by_task(columns) for columns in by_policy)
        trials, horizon = sum(r.trials for r in self.rows), max(r.horizon for r in self.rows)
        row = Row(f"{len(self.rows)} tasks", trials, horizon, cells)
        return Table(self.policies, self.seed, (row,))


def play(policies: Sequence[AnyPolicy], tasks: Sequence[Task], options: EpisodeOptions) -> Table:
    """Run every policy on every task, and keep the numbers of the episodes."""
    if not policies or not tasks:
        raise InputError(f"got {len(policies)} policies and {len(tasks)} tasks; give one of each")
    known = (getattr(policy, "discount", None) for policy in policies)
    own = next((discount for discount in known if discount is not None), 1.0)
    discount = own if options.discount is None else options.discount
    rows = []
    for task in tasks:
        cells = tuple(measure_episodes(policy, task, options, discount) for policy in policies)
        rows.append(Row(task.name, options.trials, options.horizon or task.horizon, cells))
    return Table(names_of(policies), options.seed, tuple(rows))


def measure_episodes(
    policy: AnyPolicy, task: Task, options: EpisodeOptions, discount: float
) -> Columns:
    """Run one policy on one task; return the numbers of its episodes, episode by episode."""
    episodes = run(policy, task, options)
    shares: dict[str, NDArray[Any]] = {}
    others: dict[str, Floats] = {}
    for name, values in episodes.outcomes.items():
        if values.ndim == 1 and values.dtype == np.bool_:
            shares[name] = values
        elif values.ndim == 1:
            known = np.asarray(values, dtype=np.float64)
            others[name] = np.where(np.isfinite(known), known, np.nan)
    rewards = episodes.rewards
    returns = rewards @ discount ** np.arange(rewards.shape[1])
    return Columns(returns, rewards.sum(axis=1), -rewards.mean(axis=1), shares, others)


def _means_by_task(rows: Sequence[Columns]) -> Columns:
    """Return the means of each task's episodes, one number a task."""

    def means(columns: Sequence[NDArray[Any]]) -> Floats:
        known = [values[np.isfinite(values)] for values in columns]
        return np.array([np.mean(values) if len(values) else math.nan for values in known])

    def gather(tables: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, Floats]:
        names = [name for name in tables[0] if all(name in table for table in tables)]
        return {name: means([table[name] for table in tables]) for name in names}

    return Columns(
        means([row.returns for row in rows]),
        means([row.totals for row in rows]),
        means([row.costs for row in rows]),
        gather([row.shares for row in rows]),
        gather([row.others for row in rows]),
    )
