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

from crosslearning.errors import InputError, NumericalError, unknown_name
from crosslearning.learner import Policy
from crosslearning.rollouts import (
    EpisodePlan,
    Episodes,
    compiled_episodes,
    gymnasium_episodes,
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
    return run(policy, task, EpisodeOptions.of(asked))[0]


def run(
    policy: AnyPolicy, task: Task, options: EpisodeOptions
) -> tuple[Episodes, Mapping[str, NDArray[Any]]]:
    """Return the episodes, and their outcomes by name as far as the task can tell."""
    # The task's name enters the seed: the same task has the same starts in whatever set.
    starts = np.random.default_rng([options.seed, zlib.crc32(task.name.encode())])
    horizon = options.horizon or task.horizon
    width = task.observation_space.shape[0] + 2 * task.action_space.shape[0] + task.state_size + 1
    if (size := 8 * width * options.trials * (horizon + 1) / 2**30) > MOST_MEMORY:
        raise InputError(
            f"{options.trials} episodes of {horizon} steps would take {size:.0f} GiB of memory; "
            "ask for fewer trials or a shorter horizon"
        )
    plan = plan_episodes(starts, task, options.trials, horizon, options.deterministic)
    outcomes: Mapping[str, NDArray[Any]] = {}
    if isinstance(policy, Policy):
        episodes = _own_episodes(policy, task, plan, options.workers)
    else:
        episodes, outcomes = _stepped_episodes(policy, task, plan, options.deterministic)
    if task.outcomes is not None and episodes.states is not None:
        outcomes = task.outcomes(np.ascontiguousarray(episodes.states[:, -1]))
    return episodes, outcomes


def _own_episodes(policy: Policy, task: Task, plan: EpisodePlan, workers: int) -> Episodes:
    """Run a policy of this library: the one place that calls an executor's episodes."""
    reads, acts = policy.function.kernel.dimension, policy.function.outputs
    shapes = task.observation_space.shape, task.action_space.shape
    if shapes != ((reads,), (acts,)):
        raise InputError(
            f"the {policy.name} policy reads {reads} numbers and returns {acts}, but the "
            f"observations and actions of task {task.name!r} have the shapes {shapes[0]} and "
            f"{shapes[1]}"
        )
    expansion = policy.function.expansion
    if task.dynamics is not None:
        return compiled_episodes(task, expansion, policy.noise_std, plan, workers)
    return gymnasium_episodes(task, expansion, policy.noise_std, plan)


def _stepped_episodes(
    policy: AnyPolicy, task: Task, plan: EpisodePlan, deterministic: bool
) -> tuple[Episodes, Mapping[str, NDArray[Any]]]:
    """Run whatever acts, step by step through the environment, from the plan's starts.

    Returns
    -------
    episodes : Episodes
        With states, if the environment has a ``state`` of the task's size.
    outcomes : mapping of str to array of bool, shape (n,)
        The truth values in the last ``info`` of every episode.
    """
    act, begin = _actor(policy, task, deterministic), getattr(policy, "reset", None)
    n, horizon, p = plan.noise.shape
    rewards, lengths = np.zeros((n, horizon)), np.zeros(n, dtype=np.int64)
    observations = np.empty((n, horizon + 1, *task.observation_space.shape))
    actions = np.zeros((n, horizon, p))
    states, told = np.empty((n, horizon + 1, task.state_size)), task.state_size > 0
    last: list[dict[str, Any]] = []
    environment = task.make()
    try:
        for e in range(n):
            start = None if task.reset_options is None else task.reset_options(plan.uniforms[e])
            seen, info = environment.reset(seed=int(plan.seeds[e]), options=start)
            if begin is not None:
                begin()
            ended = False
            for k in range(horizon + 1):
                observations[e, k:] = seen
                state: Any = getattr(environment.unwrapped, "state", None)
                told = told and np.shape(state) == (task.state_size,)
                if told:
                    states[e, k:] = state
                if ended or k == horizon:
                    break
                actions[e, k] = action = act(seen)
                seen, reward, terminated, truncated, info = environment.step(action)
                # A time limit of the environment's ends what is measured, too.
                ended = bool(terminated or truncated)
                if not math.isfinite(reward):
                    raise NumericalError(f"task {task.name!r} returned a reward of {reward}")
                rewards[e, k], lengths[e] = reward, k + 1
            last.append({name: v for name, v in info.items() if isinstance(v, bool | np.bool_)})
    finally:
        environment.close()
    names = [name for name in last[0] if all(name in info for info in last)]
    outcomes = {name: np.array([info[name] for info in last]) for name in names}
    return Episodes(rewards, lengths, observations, actions, states if told else None), outcomes


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
