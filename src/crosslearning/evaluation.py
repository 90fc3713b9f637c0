"""Evaluation: what policies achieve, with intervals, on the same starts for all of them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.learner import Policy
from crosslearning.rollouts import (
    Episodes,
    compiled_episodes,
    gymnasium_episodes,
    plan_episodes,
)
from crosslearning.tasks import Task

Floats = NDArray[np.float64]

_CONFIDENCE_Z = 1.959963984540054  # two-sided 95 %
_RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A number with an interval: of 95 %, unless whoever made it was asked for another level."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


@dataclass(frozen=True)
class Evaluation:
    """What one policy achieved on one task.

    Attributes
    ----------
    policy, task : str
    trials, steps : int
        Episodes, and the most steps of each.
    discounted_return : Estimate
        Mean of Σ γ^t r_t.
    mean_cost : Estimate
        Mean over steps and episodes of −r, the paper's cost.
    rates : mapping of str to Estimate
        Shares of episodes, such as ``arrived`` and ``crashed``.
    means : mapping of str to Estimate
        Means of the other outcomes, such as ``path_length``; NaN entries are left out.
    """

    policy: str
    task: str
    trials: int
    steps: int
    discounted_return: Estimate
    mean_cost: Estimate
    rates: Mapping[str, Estimate]
    means: Mapping[str, Estimate]


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
    plan = plan_episodes(starts, task, trials, steps, deterministic)
    expansion = policy.function.expansion
    if task.dynamics is not None:
        return compiled_episodes(task, expansion, policy.noise_std, plan, workers)
    return gymnasium_episodes(task, expansion, policy.noise_std, plan)


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


def summarise(
    policy: str, task: Task, episodes: Episodes, discount: float, seed: int = 0
) -> Evaluation:
    """Return the numbers of finished episodes; ``seed`` is the bootstrap's."""
    trials, steps = episodes.rewards.shape
    generator = np.random.default_rng(seed)
    returns = episodes.rewards @ discount ** np.arange(steps)
    costs = -episodes.rewards.mean(axis=1)
    rates: dict[str, Estimate] = {}
    means: dict[str, Estimate] = {}
    if task.outcomes is not None and episodes.states is not None:
        final = np.ascontiguousarray(episodes.states[:, -1])
        for name, values in task.outcomes(final).items():
            if values.ndim != 1:
                continue
            if values.dtype == np.bool_:
                rates[name] = share(values)
            else:
                known = np.asarray(values, dtype=np.float64)
                means[name] = bootstrap_mean(known[np.isfinite(known)], generator)
    return Evaluation(
        policy=policy,
        task=task.name,
        trials=trials,
        steps=steps,
        discounted_return=bootstrap_mean(returns, generator),
        mean_cost=bootstrap_mean(costs, generator),
        rates=rates,
        means=means,
    )


def share(successes: NDArray[np.bool_]) -> Estimate:
    """Return a share with Wilson's interval, which is right near 0 and 1 too."""
    n = len(successes)
    rate = float(np.mean(successes))
    z = _CONFIDENCE_Z
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # At the ends the interval begins at the rate itself, which rounding would miss.
    low = 0.0 if rate == 0.0 else centre - half
    high = 1.0 if rate == 1.0 else centre + half
    return Estimate(rate, low, high)


def bootstrap_mean(values: Floats, generator: np.random.Generator) -> Estimate:
    """Return a mean with its percentile bootstrap interval; NaN if there are no values."""
    if len(values) == 0:
        return Estimate(math.nan, math.nan, math.nan)
    draws = generator.integers(len(values), size=(_RESAMPLES, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return Estimate(float(np.mean(values)), float(low), float(high))
