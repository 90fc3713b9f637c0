"""Rollouts in Gymnasium environments: they step together, and every step result is checked.

Steps are taken in segments, during which the set of active rollouts stays the same. The results
of a step are checked as one batch; if anything is unusual they are checked one by one, so that an
error can say what is wrong and where.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate, compress
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import TaskError, describe_exception
from crosslearning.rollouts.data import Floats, Integers
from crosslearning.rollouts.executor import not_finite
from crosslearning.rollouts.outcomes import outcome_of
from crosslearning.rollouts.rollout_state import Rollout, Segment
from crosslearning.rollouts.step_timer import StepTimeout, StepTimer
from crosslearning.tasks import Task
from crosslearning.tasks.vector import InvalidResult, env_batch_of

#: From n observations, as returned and as rows, shape (n, q), their task indices, shape (n,), and
#: noise, shape (n, p), to actions of the action space, and before clipping, shape (n, p).
Act = Callable[
    [Sequence[Any], Floats, Integers, Floats], tuple[Sequence[NDArray[Any]], NDArray[Any]]
]

#: The most steps of a segment.
SEGMENT = 64


class RolloutSlot:
    """One rollout in an environment, and its last observation."""

    def __init__(self, runner: EnvRunner, rollout: Rollout) -> None:
        self._runner, self.rollout = runner, rollout
        # A sample ignores time limits, but a vector environment cannot step beyond them.
        self.limited = rollout.limited or runner.batch.is_vector
        #: The observation as the environment returned it, and as a vector.
        self.observation: Any = None
        self.row: Floats = np.empty(0)
        self.info: Mapping[str, Any] = {}

    def reset(self, observation: Any, info: Mapping[str, Any]) -> None:
        """Take the first observation of an episode."""
        self.observation, self.info = observation, info
        self.row = self._finite(self._row(observation))

    def checked(self, result: Any) -> tuple[Floats, float, bool, bool, Any]:
        """Return a step result in the usual types, or raise an error that says what is wrong."""
        if not isinstance(result, tuple) or len(result) != 5:
            raise self._invalid("what step returns", result, "five things, as Gymnasium's does")
        observation, reward, terminated, truncated, info = result
        row = self._row(observation)
        for name, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, bool | np.bool_):
                raise self._invalid(name, value, "True or False")
        if not isinstance(reward, float | int | np.floating | np.integer):
            raise self._invalid("the reward", reward, "a number")
        if not isfinite(reward):
            raise not_finite(self._runner.task, "a reward", self._where)
        return self._finite(row), float(reward), bool(terminated), bool(truncated), info

    def _row(self, observation: Any) -> Floats:
        try:
            row = np.array(observation, dtype=np.float64)
        except (TypeError, ValueError):
            raise self._invalid("the observation", observation, "an array of numbers") from None
        shape, expected = row.shape, self._runner.task.observation_space.shape
        if shape != expected:
            raise self._invalid("the observation's shape", shape, f"{expected}, as its space says")
        return row.reshape(-1)

    def _finite(self, row: Floats) -> Floats:
        if not np.isfinite(row).all():
            raise not_finite(self._runner.task, "an observation", self._where)
        return row

    def outcome(self) -> dict[str, Any]:
        """Return the outcome of the episode so far."""
        task = self._runner.task
        state: Any = getattr(self._runner.unwrapped, "state", None)
        if callable(task.outcomes) and np.shape(state) == (task.state_size,):
            outcomes = task.outcomes(np.array(state, dtype=np.float64)[None])
            return {name: values[0] for name, values in outcomes.items()}
        return outcome_of(task, self.info)

    @property
    def _where(self) -> str:
        return f" at step {self._runner.steps} of the episode with seed {self.rollout.seed}"

    def _invalid(self, what: str, value: object, expected: str) -> TaskError:
        return TaskError(
            f"task {self._runner.task.name!r}: {what} is {value!r}{self._where}; expected "
            f"{expected}. The iteration was not applied"
        )


class EnvRunner:
    """A single environment or a vector environment, and the rollouts that run in it.

    ``timer``, if given, limits the duration of a step.
    """

    def __init__(self, task: Task, timer: StepTimer | None = None) -> None:
        self.task = task
        self._limit: AbstractContextManager[None] = timer or nullcontext()
        self._timer = timer
        environment = task.make()
        self.batch = env_batch_of(environment)
        #: The innermost environment, unless it is a vector environment.
        self.unwrapped = None if self.batch.is_vector else getattr(environment, "unwrapped", None)
        #: The active rollouts, by index of their sub-environment.
        self.active: dict[int, RolloutSlot] = {}
        self.steps = 0

    def start(self, rollouts: Sequence[Rollout], only: int | None = None) -> None:
        """Start rollouts, at most one per sub-environment; follow all of them, or ``only`` one."""
        options, self.steps = None, 0
        seeds = [rollout.seed for rollout in rollouts]
        seeds += seeds[:1] * (self.batch.num_envs - len(seeds))  # idle ones are reset too
        if self.task.reset_options is not None:
            options = self.task.reset_options(rollouts[0].uniforms[: self.task.reset_size])
        self.active = {
            index: RolloutSlot(self, rollout)
            for index, rollout in enumerate(rollouts)
            if only is None or index == only
        }
        try:
            with self._limit:
                results = self.batch.reset(seeds, options)
        except (Exception, StepTimeout) as problem:
            raise self._failure(problem) from problem
        for index, slot in self.active.items():
            slot.reset(*results[index])

    def step(self, actions: Sequence[NDArray[Any]]) -> list[Any]:
        """Step with actions of the action space; return the result of each active rollout."""
        self.steps += 1
        try:
            with self._limit:
                return self.batch.step(self.active, actions)
        except (Exception, StepTimeout) as problem:
            raise self._failure(problem) from problem

    def extend(self, segments: Sequence[Segment]) -> None:
        """Extend every active rollout by its segment, and drop those that are finished."""
        finished = []
        for (index, slot), segment in zip(self.active.items(), segments, strict=True):
            if not slot.rollout.extend(segment):
                finished.append(index)
            elif segment.truncated and self.batch.is_vector:
                raise TaskError(
                    f"task {self.task.name!r} reached a time limit{self._where}, which a vector "
                    "environment does not outlast, but a gradient sample has a length of its own. "
                    "Make the sub-environments without one (max_episode_steps=-1 in "
                    "gymnasium.make), or learn with a method that takes whole episodes, as "
                    "trust-region does. The iteration was not applied"
                )
        for index in finished:
            del self.active[index]

    @property
    def _where(self) -> str:
        seeds = [str(slot.rollout.seed) for slot in self.active.values()]
        episodes = "the episode with seed" if len(seeds) == 1 else "the episodes with seeds"
        return f" at step {self.steps} of {episodes} {', '.join(seeds)}"

    def _failure(self, problem: BaseException) -> TaskError:
        what = f"task {self.task.name!r}"
        if self._timer is not None and isinstance(problem, StepTimeout):
            what += f" took longer than step_seconds = {self._timer.seconds:g}{self._where}"
        elif isinstance(problem, InvalidResult):
            what += f"{self._where}: {problem}"
        else:
            what += f"{self._where} raised {describe_exception(problem)}"
        return TaskError(f"{what}. The iteration was not applied")

    def close(self) -> None:
        """Close the environment."""
        self.batch.close()


def run_segment(runners: Sequence[EnvRunner], act: Act) -> None:
    """Step all active rollouts until one of them ends, or for the length of a segment."""
    slots = [slot for runner in runners for slot in runner.active.values()]
    rollouts = [slot.rollout for slot in slots]
    limited = [slot.limited for slot in slots]
    stops = accumulate(len(runner.active) for runner in runners)
    parts = [
        (runner, slice(stop - len(runner.active), stop))
        for runner, stop in zip(runners, stops, strict=True)
    ]
    length = min(SEGMENT, *(rollout.length - rollout.steps for rollout in rollouts))
    tasks = np.array([rollout.task for rollout in rollouts])
    noise = np.array([rollout.noise[rollout.steps :][:length] for rollout in rollouts])
    shape = runners[0].task.observation_space.shape
    observations = [slot.observation for slot in slots]
    rows, rewards, actions = [np.array([slot.row for slot in slots])], [], []
    for step in range(length):
        clipped, unclipped = act(observations, rows[-1], tasks, noise[:, step])
        results = [one for runner, part in parts for one in runner.step(clipped[part])]
        batch = _checked_together(results, shape) or _checked_one_by_one(slots, results)
        row, reward, terminated, truncated, infos = batch
        observations = [result[0] for result in results]
        rows.append(row)
        rewards.append(reward)
        actions.append(unclipped)
        if any(terminated) or any(compress(truncated, limited)):
            break
    path, earned, taken = np.array(rows), np.array(rewards), np.array(actions)
    segments = []
    for k, slot in enumerate(slots):
        slot.observation, slot.row, slot.info = observations[k], row[k], infos[k]
        ends = terminated[k], truncated[k]
        segments.append(Segment(path[:, k], earned[:, k], taken[:, k], *ends, slot.outcome))
    for runner, part in parts:
        runner.extend(segments[part])


#: Step results of n rollouts: observations, shape (n, q), rewards, (n,), flags and infos.
_Batch = tuple[Floats, Floats, Sequence[bool], Sequence[bool], Sequence[Mapping[str, Any]]]

_NUMBERS = frozenset({float, int, np.float64, np.float32})
_BOOLEANS = frozenset({bool, np.bool_})


def _checked_together(results: Sequence[Any], shape: tuple[int, ...]) -> _Batch | None:
    """Return step results as one batch; None if any of them is unusual."""
    try:
        observations, rewards, terminated, truncated, infos = zip(*results, strict=True)
        rows = np.array(observations, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if (
        {tuple} != set(map(type, results))
        or not _NUMBERS.issuperset(map(type, rewards))
        or not _BOOLEANS.issuperset(map(type, terminated + truncated))
        or rows.shape != (len(results), *shape)
        or not np.isfinite(rows).all()
        or not all(map(isfinite, rewards))
    ):
        return None
    return rows.reshape(len(rows), -1), np.array(rewards, np.float64), terminated, truncated, infos


def _checked_one_by_one(slots: Sequence[RolloutSlot], results: Sequence[Any]) -> _Batch:
    checked = [slot.checked(result) for slot, result in zip(slots, results, strict=True)]
    rows, rewards, terminated, truncated, infos = zip(*checked, strict=True)
    return np.array(rows), np.array(rewards), terminated, truncated, infos
