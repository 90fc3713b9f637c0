"""Evaluation: the returns of policies with intervals, on the same starts for all of them.

A start depends on the seed and the task's name alone.
"""

from __future__ import annotations

import inspect
import itertools
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.statistics import Interval, mean_with_unknown, share
from crosslearning.errors import InputError, unknown_name
from crosslearning.learner import CrossLearner, Policy
from crosslearning.rollouts import (
    Episodes,
    GymnasiumExecutor,
    episodes_of,
    executor_for,
    plan_episodes,
)
from crosslearning.tasks import Task

Floats = NDArray[np.float64]

#: A policy of this library; a learner, for its central policy; an object with
#: ``predict(observation)`` that returns an action or a pair whose first part is one, such as a
#: Stable-Baselines3 model (``deterministic`` is passed if accepted, ``reset()`` is called before
#: every episode); a function from an observation to an action; or an object with ``predict_rows``,
#: from observations to actions, without noise and memory: it is faster.
AnyPolicy = Any
#: Memory limit of the episodes of one policy on one task, in GiB.
MOST_MEMORY = 16.0


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions:
    """How episodes are run: the keywords of the functions here and in ``comparison``.

    Attributes
    ----------
    trials : int
        Episodes of each policy on each task; by default 500, or 5 where the tasks are the sample.
    horizon : int, optional
        The most steps of an episode; by default that of each task.
    discount : float, optional
        γ; by default that of the first policy that has a ``discount``, else 1.
    seed : int
        Of the starts and, for policies of this library, of the noise.
    deterministic : bool
        Whether policies act without exploration noise.
    workers : int
        Threads, for policies of this library on compiled tasks. The numbers do not depend on it.
    """

    trials: int = 500
    horizon: int | None = None
    discount: float | None = None
    seed: int = 0
    deterministic: bool = True
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("trials", "horizon", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, got {value}")
        if self.discount is not None and not 0.0 <= self.discount <= 1.0:
            raise InputError(f"discount must be between 0 and 1, got {self.discount}")

    @classmethod
    def of(cls, given: Mapping[str, Any], **defaults: Any) -> EpisodeOptions:
        """Return options from keywords, or refuse an unknown one."""
        names = [field.name for field in fields(cls)]
        for name in given:
            if name not in names:
                raise unknown_name("option of episodes", name, names)
        return cls(**{**defaults, **given})


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The results on one task, each with its 95 % interval."""

    task: str
    trials: int  #: episodes
    discounted_return: Interval  #: mean of Σ γ^t r_t
    total_return: Interval  #: mean of Σ r_t
    mean_cost: Interval  #: mean over steps and episodes of −r, the paper's cost
    rates: Mapping[str, Interval]  #: shares of episodes, such as ``arrived``, where known
    means: Mapping[str, Interval]  #: means of other outcomes, such as ``path_length``, where known


@dataclass(frozen=True, kw_only=True)
class Evaluation(Numbers):
    """The results of one policy on one task; ``horizon`` is the most steps of an episode."""

    policy: str
    horizon: int


def evaluate(
    policies: AnyPolicy | Sequence[AnyPolicy], tasks: Task | Sequence[Task], **options: Any
) -> list[Evaluation]:
    """Evaluate every policy on every task, on the same starts.

    Parameters
    ----------
    policies : policy, or list or tuple of policies
        Policies of this library, learners (their central policies), objects with ``predict``, or
        functions from an observation to an action.
    tasks : Task or sequence of Task
    **options
        See :class:`EpisodeOptions`.

    Returns
    -------
    list of Evaluation
        Task by task, policies in the given order.

    Examples
    --------
    >>> from crosslearning import evaluate, task_set
    >>> def damp(x):
    ...     return -x[..., 1:]
    >>> [result.task for result in evaluate(damp, task_set("linear-quadratic"), trials=5)]
    ['m=0.5', 'm=1', 'm=2']
    """
    episodes = EpisodeOptions.of(options)
    return [one for row in play(policies, tasks, episodes) for one in _evaluations(row)]


def evaluate_across(
    policies: Sequence[AnyPolicy], tasks: Sequence[Task], **options: Any
) -> list[Evaluation]:
    """Evaluate every policy on many tasks, such as random maps, as one number with an interval.

    The tasks are the sample: an interval says how much other tasks of the same kind may differ,
    so prefer many tasks with a few episodes each. The arguments are those of :func:`evaluate`,
    with 5 ``trials`` by default. Each policy has one result; its ``trials`` count all episodes.
    """
    episodes = EpisodeOptions.of(options, trials=5)
    return _evaluations(across(play(policies, tasks, episodes)))


def evaluate_own(
    policies: Sequence[AnyPolicy], central: AnyPolicy, tasks: Sequence[Task], **options: Any
) -> tuple[list[Evaluation], list[Evaluation]]:
    """Evaluate each policy on its own task alone, and a central one on all tasks.

    For many tasks, where all pairs would be too many. Returns the results of ``"own"`` and
    ``"central"`` over all tasks, which are the sample, and the same two task by task.
    """
    episodes = EpisodeOptions.of(options, trials=5)
    if len(policies) != len(tasks):
        raise InputError(f"got {len(policies)} policies for {len(tasks)} tasks; give one per task")
    rows = []
    for policy, task in zip(policies, tasks, strict=True):
        (row,) = play([policy, central], [task], episodes)
        columns = dict(zip(("own", "central"), row.columns.values(), strict=True))
        rows.append(replace(row, columns=columns))
    each = [one for row in rows for one in _evaluations(row)]
    return _evaluations(across(rows)), each


def run_episodes(
    policy: AnyPolicy,
    task: Task,
    trials: int,
    horizon: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Episodes:
    """Run whole episodes of a policy; options: :class:`EpisodeOptions`."""
    keywords = {"trials": trials, "horizon": horizon, "seed": seed, **options}
    return _run(policy, task, EpisodeOptions.of(keywords))


# Rows of numbers --------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """The numbers of n episodes (or tasks), NaN where unknown, each of shape (n,)."""

    returns: Floats  #: Σ γ^t r_t
    totals: Floats  #: Σ r_t
    costs: Floats  #: the mean of −r_t
    shares: Mapping[str, NDArray[Any]]  #: booleans or shares of episodes
    others: Mapping[str, Floats]  #: other outcomes, such as ``path_length``


@dataclass(frozen=True)
class Row:
    """One task: the columns of every policy by its name, on the same starts."""

    task: str
    trials: int
    horizon: int
    columns: Mapping[str, Columns]


def play(
    policies: AnyPolicy | Sequence[AnyPolicy], tasks: Task | Sequence[Task], options: EpisodeOptions
) -> list[Row]:
    """Run every policy on every task, and keep the numbers of the episodes."""
    policies = policies if isinstance(policies, list | tuple) else [policies]
    policies = [one.central if isinstance(one, CrossLearner) else one for one in policies]
    tasks = [tasks] if isinstance(tasks, Task) else tasks
    if not policies or not tasks:
        raise InputError(f"got {len(policies)} policies and {len(tasks)} tasks; give one of each")
    discounts = (options.discount, *(getattr(policy, "discount", None) for policy in policies))
    discount = next((one for one in discounts if one is not None), 1.0)
    named = dict(zip(_names(policies), policies, strict=True))
    rows = []
    for task in tasks:
        columns = {name: measure_episodes(p, task, options, discount) for name, p in named.items()}
        rows.append(Row(task.name, options.trials, options.horizon or task.horizon, columns))
    return rows


def across(rows: Sequence[Row]) -> Row:
    """Return one row over all tasks, in which each task counts as one number."""

    def means(columns: Iterable[NDArray[Any]]) -> Floats:
        known = (values[np.isfinite(values)] for values in columns)
        return np.array([float(np.mean(one)) if len(one) else math.nan for one in known])

    def gather(tables: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, Floats]:
        names = [name for name in tables[0] if all(name in table for table in tables)]
        return {name: means(table[name] for table in tables) for name in names}

    columns = {}
    for policy in rows[0].columns:
        tasks = [row.columns[policy] for row in rows]
        columns[policy] = Columns(
            returns=means(task.returns for task in tasks),
            totals=means(task.totals for task in tasks),
            costs=means(task.costs for task in tasks),
            shares=gather([task.shares for task in tasks]),
            others=gather([task.others for task in tasks]),
        )
    trials, horizon = sum(row.trials for row in rows), max(row.horizon for row in rows)
    return Row(f"{len(rows)} tasks", trials, horizon, columns)


def _evaluations(row: Row) -> list[Evaluation]:
    return [
        Evaluation(
            policy=policy,
            task=row.task,
            trials=row.trials,
            horizon=row.horizon,
            discounted_return=mean_with_unknown(columns.returns),
            total_return=mean_with_unknown(columns.totals),
            mean_cost=mean_with_unknown(columns.costs),
            rates={name: share(values) for name, values in columns.shares.items()},
            means={name: mean_with_unknown(values) for name, values in columns.others.items()},
        )
        for policy, columns in row.columns.items()
    ]


# Episodes of any policy --------------------------------------------------------------------


def measure_episodes(
    policy: AnyPolicy, task: Task, options: EpisodeOptions, discount: float
) -> Columns:
    """Run one policy on one task; return the numbers of its episodes."""
    episodes = _run(policy, task, options)
    shares: dict[str, NDArray[Any]] = {}
    others: dict[str, Floats] = {}
    for name, values in episodes.outcomes.items():
        if values.ndim == 1 and values.dtype == np.bool_:
            whole = not np.ma.is_masked(values)
            shares[name] = values if whole else np.ma.filled(values.astype(np.float64), np.nan)
        elif values.ndim == 1:
            known = np.asarray(values, dtype=np.float64)
            others[name] = np.where(np.isfinite(known), known, np.nan)
    rewards = episodes.rewards
    returns = rewards @ discount ** np.arange(rewards.shape[1])
    return Columns(returns, rewards.sum(axis=1), -rewards.mean(axis=1), shares, others)


def _run(policy: AnyPolicy, task: Task, options: EpisodeOptions) -> Episodes:
    """Return the episodes of one policy on one task."""
    # The task's name enters the seed: the same task has the same starts in every set.
    starts = np.random.default_rng([options.seed, zlib.crc32(task.name.encode())])
    horizon = options.horizon or task.horizon
    q, p = task.observation_size, task.action_size
    width = q + 2 * p + task.state_size + 1
    if (size := 8 * width * options.trials * (horizon + 1) / 2**30) > MOST_MEMORY:
        raise InputError(
            f"{options.trials} episodes of {horizon} steps would take {size:.0f} GiB of memory; "
            "ask for fewer trials or a shorter horizon"
        )
    ours = isinstance(policy, Policy)
    noise_std = policy.noise_std if ours and not options.deterministic else None
    plan = plan_episodes(starts, [task], options.trials, horizon, noise_std)
    if not ours and options.deterministic and hasattr(policy, "predict_rows"):
        with closing(GymnasiumExecutor([task])) as together:
            rows: Any = _Rows(policy, task)
            return together.episodes(rows, plan).of_task(0)
    if not ours:
        act = _actor(policy, task, options.deterministic)
        return episodes_of(task, plan, act, getattr(policy, "reset", None)).of_task(0)
    if policy.corrects is (task.controller is None):
        raise InputError(
            f"the {policy.name} policy corrects a controller, and task {task.name!r} has none; "
            "give task.around(controller), or evaluate learner.controller(...)"
            if policy.corrects
            else f"task {task.name!r} takes corrections of its controller, which the {policy.name} "
            "policy does not give; evaluate it on the task without a controller"
        )
    reads, acts = policy.function.kernel.dimension, policy.function.outputs
    if (q, p) != (reads, acts):
        raise InputError(
            f"the {policy.name} policy reads {reads} numbers and returns {acts}, but the "
            f"observations and actions of task {task.name!r} have {q} and {p}"
        )
    workers = options.workers if task.dynamics is not None else 1
    with closing(executor_for([task], workers, policy.scale)) as executor:
        return executor.episodes(policy.function.expansion, plan).of_task(0)


class _Rows:
    """A policy with ``predict_rows`` as the functions that an executor evaluates."""

    def __init__(self, policy: AnyPolicy, task: Task) -> None:
        self.policy, self.task = policy, task

    def each(self, states: Floats, which: NDArray[np.int64]) -> Floats:
        """Return an action for each row."""
        actions = np.asarray(self.policy.predict_rows(states), dtype=np.float64)
        if (choices := self.task.choices) is not None and len(actions):
            actions = np.array([choices.scores(action) for action in actions])
        expected = len(states) * self.task.action_size
        if actions.size != expected or not np.all(np.isfinite(actions)):
            raise InputError(
                f"predict_rows of {_names([self.policy])[0]} returned actions of shape "
                f"{actions.shape} in task {self.task.name!r}; expected finite numbers of shape "
                f"{(len(states), self.task.action_size)}"
            )
        return actions.reshape(len(states), -1)


def _actor(policy: AnyPolicy, task: Task, deterministic: bool) -> Callable[[Any], NDArray[Any]]:
    """Return a function from an observation to an action of the task's space."""
    predict = getattr(policy, "predict", None)
    if predict is None and not callable(policy):
        raise InputError(
            f"{policy!r} cannot act; give something with predict(observation), or a function from "
            "an observation to an action"
        )
    space, keywords = task.action_space, {}
    if predict is not None and "deterministic" in inspect.signature(predict).parameters:
        keywords["deterministic"] = deterministic

    def act(observation: Any) -> NDArray[Any]:
        given = (predict or policy)(observation, **keywords)
        if predict is not None and isinstance(given, tuple):
            given = given[0]
        if task.choices is not None:
            try:
                return task.choices.scores(given)
            except InputError as problem:
                name = _names([policy])[0]
                raise InputError(f"of {name} in task {task.name!r}, {problem}") from None
        action = np.asarray(given, dtype=np.float64)
        if action.size != math.prod(space.shape) or not np.all(np.isfinite(action)):
            raise InputError(
                f"{_names([policy])[0]} returned the action {given!r} in task {task.name!r}; "
                f"expected finite numbers of shape {space.shape}"
            )
        return np.clip(action.reshape(space.shape), space.low, space.high).astype(space.dtype)

    return act


def _names(policies: Sequence[AnyPolicy]) -> list[str]:
    """Return the policies' names or those of their classes, made unique."""
    names: list[str] = []
    for policy in policies:
        name: Any = getattr(policy, "name", None)
        if not isinstance(name, str):
            name = getattr(policy, "__name__", type(policy).__name__)
        others = (f"{name} ({number})" for number in itertools.count(2))
        names.append(next(one for one in itertools.chain([name], others) if one not in names))
    return names
