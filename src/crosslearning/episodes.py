"""Episodes of whatever acts: policies of this library, things with ``predict``, functions.

All of them meet the same starts: a start is drawn from the seed and the task's name alone.
"""

from __future__ import annotations

import inspect
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError, unknown_name
from crosslearning.learner import Policy
from crosslearning.rollouts import (
    EpisodePlan,
    Episodes,
    episodes_of,
    executor_for,
    plan_episodes,
)
from crosslearning.tasks import Task

#: Whatever acts: a policy of this library; something with ``predict(observation)`` that returns an
#: action or a pair whose first part is one, such as a Stable-Baselines3 model (``deterministic`` is
#: passed on if it is taken, and ``reset()``, if it is there, called before every episode); or a
#: function from an observation to an action.
AnyPolicy = Any
#: The most memory that the episodes of one policy on one task may take, in GiB.
MOST_MEMORY = 16.0


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions:
    """How episodes are run: the keywords that the functions here and in ``comparison`` take.

    Attributes
    ----------
    trials : int
        Episodes of each policy on each task; by default 500, or 5 where the tasks are the sample.
    horizon : int, optional
        The most steps of an episode; by default that of each task.
    discount : float, optional
        γ; by default that of the first policy that has a ``discount``, else 1.
    seed : int
        Chooses the starts and, for policies of this library that act with noise, the noise.
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
        """Return the options of keywords, or name the one that is unknown."""
        names = [field.name for field in fields(cls)]
        for name in given:
            if name not in names:
                raise unknown_name("option of episodes", name, names)
        return cls(**{**defaults, **given})


def run_episodes(
    policy: AnyPolicy,
    task: Task,
    trials: int,
    horizon: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Episodes:
    """Run whole episodes; the same seed gives every policy the same starts.

    Parameters
    ----------
    policy
        As for :func:`evaluate`.
    task : Task
    trials, horizon, seed, **options
        See :class:`EpisodeOptions`.
    """
    asked = {"trials": trials, "horizon": horizon, "seed": seed, **options}
    return run(policy, task, EpisodeOptions.of(asked))


def run(policy: AnyPolicy, task: Task, options: EpisodeOptions) -> Episodes:
    """Return the episodes of one policy on one task."""
    # The task's name enters the seed: the same task has the same starts in whatever set.
    starts = np.random.default_rng([options.seed, zlib.crc32(task.name.encode())])
    horizon = options.horizon or task.horizon
    width = task.observation_size + 2 * task.action_size + task.state_size + 1
    if (size := 8 * width * options.trials * (horizon + 1) / 2**30) > MOST_MEMORY:
        raise InputError(
            f"{options.trials} episodes of {horizon} steps would take {size:.0f} GiB of memory; "
            "ask for fewer trials or a shorter horizon"
        )
    noisy = isinstance(policy, Policy) and not options.deterministic
    noise_std = policy.noise_std if noisy else None
    plan = plan_episodes(starts, [task], options.trials, horizon, noise_std)
    if isinstance(policy, Policy):
        return _own_episodes(policy, task, plan, options.workers)
    act, begin = _actor(policy, task, options.deterministic), getattr(policy, "reset", None)
    return episodes_of(task, plan, act, begin).of_task(0)


def _own_episodes(policy: Policy, task: Task, plan: EpisodePlan, workers: int) -> Episodes:
    """Run a policy of this library: the one place that calls an executor's episodes."""
    reads, acts = policy.function.kernel.dimension, policy.function.outputs
    sizes = task.observation_size, task.action_size
    if sizes != (reads, acts):
        raise InputError(
            f"the {policy.name} policy reads {reads} numbers and returns {acts}, but the "
            f"observations and actions of task {task.name!r} have {sizes[0]} and {sizes[1]}"
        )
    executor = executor_for([task], workers if task.dynamics is not None else 1, policy.scale)
    try:
        return executor.episodes(policy.function.expansion, plan).of_task(0)
    finally:
        executor.close()


def _actor(policy: AnyPolicy, task: Task, deterministic: bool) -> Callable[[Any], NDArray[Any]]:
    """Return the function from an observation to an action that the task takes."""
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
        action = np.asarray(given, dtype=np.float64)
        if action.size != math.prod(space.shape) or not np.all(np.isfinite(action)):
            raise InputError(
                f"{names_of([policy])[0]} returned the action {given!r} in task {task.name!r}; "
                f"expected finite numbers of shape {space.shape}"
            )
        clipped = np.clip(action.reshape(space.shape), space.low, space.high)
        return clipped.astype(space.dtype)

    return act


def names_of(policies: Sequence[AnyPolicy]) -> tuple[str, ...]:
    """Return the policies' own names or those of their classes, each made unique."""
    names: list[str] = []
    for policy in policies:
        name: Any = getattr(policy, "name", None)
        if not isinstance(name, str):
            name = getattr(policy, "__name__", type(policy).__name__)
        alike = sum(other.partition(" (")[0] == name for other in names)
        names.append(f"{name} ({alike + 1})" if alike else name)
    return tuple(names)
