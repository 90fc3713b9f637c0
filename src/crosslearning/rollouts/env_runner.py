"""Rollouts in Gymnasium environments: they step together, and every step result is checked.

Steps are taken in segments, during which the set of active rollouts stays the same. The results
of a step are checked as one batch; if anything is unusual they are checked one by one, so that an
error can say what is wrong and where.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import accumulate, compress
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import TaskError, describe_exception
from crosslearning.rollouts.data import Floats, Integers
from crosslearning.rollouts.executor import not_finite
from crosslearning.tasks import Task
from crosslearning.tasks.vector import InvalidResult, as_flag, as_number, env_batch_of, hint_for

#: From n observations, as returned and as rows, shape (n, q), their task indices, shape (n,), and
#: noise, shape (n, p), to actions of the action space, and before clipping, shape (n, p).
Act = Callable[
    [Sequence[Any], Floats, Integers, Floats], tuple[Sequence[NDArray[Any]], NDArray[Any]]
]

#: Booleans that some environments report as 0 and 1.
_TRUTHS = ("is_success", "success", "crashed")
#: The most steps of a segment.
SEGMENT = 64


@dataclass
class Rollout:
    """One rollout, and the arrays that it fills: a row per step, and one more observation."""

    task: int
    seed: int
    uniforms: Floats
    noise: Floats  # as many rows as it has steps if the environment does not terminate
    observations: Floats
    rewards: Floats
    actions: Floats  # before clipping
    #: Episodes end at a time limit; gradient samples have a length of their own.
    is_episode: bool
    steps: int = 0
    terminated: bool = False
    finished: bool = False
    #: Whether it has gone on beyond a time limit.
    overtime: bool = False
    outcome: dict[str, Any] = field(default_factory=dict)
    #: The numbers in its infos that the task lists, by name.
    numbers: dict[str, list[float]] = field(default_factory=dict)
    #: What the environment returned last.
    observation: Any = None
    info: Mapping[str, Any] = field(default_factory=dict)

    def extend(
        self, path: Floats, rewards: Floats, actions: Floats, terminated: bool, truncated: bool
    ) -> None:
        """Append the steps of a segment, which begins at the last observation."""
        first, last = self.steps, self.steps + len(rewards)
        self.observations[first : last + 1] = path
        self.rewards[first:last] = rewards
        self.actions[first:last] = actions
        self.steps, self.terminated = last, terminated
        self.finished = terminated or (truncated and self.is_episode) or last == len(self.noise)

    def take_numbers(self, names: Sequence[str], info: Mapping[str, Any]) -> None:
        """Keep the numbers that an info has by some names."""
        for name in names:
            if (number := as_number(info.get(name))) is not None:
                self.numbers.setdefault(name, []).append(number)


class StepTimeout(BaseException):
    """A step took too long. Not an Exception: an environment must not catch it by accident."""


class StepTimer:
    """Interrupts steps that take longer than so many seconds.

    An alarm raises :class:`StepTimeout` where Python can be interrupted. Code that holds the
    interpreter, such as an endless compiled loop, ends its process after twice the time.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._alarm = hasattr(signal, "setitimer")  # not on Windows
        self._armed = -seconds
        self._devnull = open(os.devnull, "w")  # noqa: PTH123, SIM115  (kept open)
        if self._alarm:
            signal.signal(signal.SIGALRM, _interrupt)

    def __enter__(self) -> None:
        now = time.monotonic()
        if now - self._armed > 0.25 * self.seconds:
            self._armed = now
            faulthandler.dump_traceback_later(2.0 * self.seconds, exit=True, file=self._devnull)
        if self._alarm:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, *problem: object) -> None:
        if self._alarm:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def stop(self) -> None:
        """Disarm while the worker waits for a job."""
        faulthandler.cancel_dump_traceback_later()
        self._armed = -self.seconds


def _interrupt(*_: Any) -> None:
    raise StepTimeout


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
        self._unwrapped = None if self.batch.is_vector else getattr(environment, "unwrapped", None)
        #: Whether the task lists numbers of its infos.
        self.listing = bool(task.listed_outcomes)
        #: The active rollouts, by index of their sub-environment.
        self.active: dict[int, Rollout] = {}
        self.steps = 0

    def start(self, rollouts: Sequence[Rollout], only: int | None = None) -> None:
        """Start rollouts, at most one per sub-environment; follow all of them, or ``only`` one."""
        options, self.steps = None, 0
        seeds = [rollout.seed for rollout in rollouts]
        seeds += seeds[:1] * (self.batch.num_envs - len(seeds))  # idle ones are reset too
        if self.task.reset_options is not None:
            options = self.task.reset_options(rollouts[0].uniforms[: self.task.reset_size])
        self.active = {i: one for i, one in enumerate(rollouts) if only is None or i == only}
        results = self._guarded(self.batch.reset, seeds, options)
        for index, rollout in self.active.items():
            if not isinstance(results[index], tuple) or len(results[index]) != 2:
                expected = "an observation and an info"
                raise self._invalid(rollout, "what reset returns", results[index], expected)
            rollout.observation, rollout.info = results[index]
            rollout.observations[0] = self._row(rollout, rollout.observation)

    def step(self, actions: Sequence[NDArray[Any]]) -> list[Any]:
        """Step with actions of the action space; return the result of each active rollout."""
        self.steps += 1
        return self._guarded(self.batch.step, self.active, actions)

    def _guarded(self, call: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
        """Call the environment within the time limit; name the task if it fails."""
        try:
            with self._limit:
                return call(*arguments)
        except (Exception, StepTimeout) as problem:
            where = self._where(*self.active.values())
            if self._timer is not None and isinstance(problem, StepTimeout):
                what = f" took longer than step_seconds = {self._timer.seconds:g}{where}"
            elif isinstance(problem, InvalidResult):
                what = f"{where}: {problem}"
            else:
                what = f"{where} raised {describe_exception(problem)}{hint_for(problem)}"
                if any(rollout.overtime for rollout in self.active.values()):
                    what += (
                        ". It had reached its time limit, beyond which gradient samples go on: "
                        "make it without one, or learn with a method that takes whole episodes, "
                        "as trust-region does"
                    )
            raise self._failure(f"{what}.") from problem

    def finish_segment(self, rollout: Rollout, truncated: bool) -> None:
        """Read the outcome of a finished episode; refuse a sample that cannot go on."""
        if not rollout.finished and truncated and self.batch.is_vector:
            raise self._failure(
                f" reached a time limit{self._where(*self.active.values())}, which a vector "
                "environment does not outlast, but a gradient sample has a length of its own. "
                "Make the sub-environments without one (max_episode_steps=-1 in gymnasium.make), "
                "or learn with a method that takes whole episodes, as trust-region does."
            )
        if not rollout.finished or not rollout.is_episode:
            return
        state: Any = getattr(self._unwrapped, "state", None)
        if callable(self.task.outcomes) and np.shape(state) == (self.task.state_size,):
            outcomes = self.task.outcomes(np.array(state, dtype=np.float64)[None])
            rollout.outcome = {name: values[0] for name, values in outcomes.items()}
        else:
            rollout.outcome = _outcome_of(self.task, rollout)

    def checked(self, rollout: Rollout, result: Any) -> tuple[Floats, float, bool, bool, Any]:
        """Return a step result in the usual types, or raise an error that says what is wrong."""
        if not isinstance(result, tuple) or len(result) != 5:
            expected = "five things, as Gymnasium's does"
            raise self._invalid(rollout, "what step returns", result, expected)
        observation, reward, terminated, truncated, info = result
        row = self._row(rollout, observation)
        flags = []
        for name, value in (("terminated", terminated), ("truncated", truncated)):
            flag = as_flag(value)
            if flag is None:
                raise self._invalid(rollout, name, value, "True or False")
            flags.append(flag)
        number = as_number(reward)
        if number is None:
            raise self._invalid(rollout, "the reward", reward, "a number")
        if not isfinite(number):
            raise not_finite(self.task, "a reward", self._where(rollout))
        if info is not None and not isinstance(info, Mapping):
            raise self._invalid(rollout, "the info", info, "a dictionary")
        return row, number, flags[0], flags[1], info or {}

    def _row(self, rollout: Rollout, observation: Any) -> Floats:
        """Return an observation as a vector of finite numbers."""
        try:
            row = np.array(observation, dtype=np.float64)
        except (TypeError, ValueError):
            expected = "an array of numbers"
            raise self._invalid(rollout, "the observation", observation, expected) from None
        expected_shape = self.task.observation_space.shape
        if row.shape != expected_shape:
            expected = f"{expected_shape}, as its space says"
            raise self._invalid(rollout, "the observation's shape", row.shape, expected)
        if not np.isfinite(row).all():
            raise not_finite(self.task, "an observation", self._where(rollout))
        return row.reshape(-1)

    def _where(self, *rollouts: Rollout) -> str:
        seeds = ", ".join(str(rollout.seed) for rollout in rollouts)
        episodes = "the episode with seed" if len(rollouts) == 1 else "the episodes with seeds"
        return f" at step {self.steps} of {episodes} {seeds}"

    def _invalid(self, rollout: Rollout, what: str, value: object, expected: str) -> TaskError:
        return self._failure(f": {what} is {value!r}{self._where(rollout)}; expected {expected}.")

    def _failure(self, what: str) -> TaskError:
        return TaskError(f"task {self.task.name!r}{what} The iteration was not applied")

    def close(self) -> None:
        """Close the environment."""
        self.batch.close()


def run_segment(runners: Sequence[EnvRunner], act: Act) -> None:
    """Step all active rollouts until one of them ends, or for the length of a segment."""
    active = [(runner, *item) for runner in runners for item in runner.active.items()]
    rollouts = [rollout for _, _, rollout in active]
    # A sample ignores time limits, but a vector environment cannot step beyond them.
    limited = [one.is_episode or runner.batch.is_vector for runner, _, one in active]
    stops = accumulate(len(runner.active) for runner in runners)
    parts = [
        (runner, slice(stop - len(runner.active), stop))
        for runner, stop in zip(runners, stops, strict=True)
    ]
    length = min(SEGMENT, *(len(rollout.noise) - rollout.steps for rollout in rollouts))
    tasks = np.array([rollout.task for rollout in rollouts])
    noise = np.array([rollout.noise[rollout.steps :][:length] for rollout in rollouts])
    shape = runners[0].task.observation_space.shape
    observations = [rollout.observation for rollout in rollouts]
    rows = [np.array([rollout.observations[rollout.steps] for rollout in rollouts])]
    rewards, actions = [], []
    listing = [k for k, (runner, _, one) in enumerate(active) if one.is_episode and runner.listing]
    for step in range(length):
        clipped, unclipped = act(observations, rows[-1], tasks, noise[:, step])
        results = [one for runner, part in parts for one in runner.step(clipped[part])]
        batch = _checked_together(results, shape) or _checked_one_by_one(active, results)
        row, reward, terminated, truncated, infos = batch
        observations = [result[0] for result in results]
        for rollout in compress(rollouts, truncated):
            rollout.overtime = True
        for k in listing:
            rollouts[k].take_numbers(active[k][0].task.listed_outcomes, infos[k])
        rows.append(row)
        rewards.append(reward)
        actions.append(unclipped)
        if any(terminated) or any(compress(truncated, limited)):
            break
    path, earned, taken = np.array(rows), np.array(rewards), np.array(actions)
    for k, (runner, _, rollout) in enumerate(active):
        rollout.observation, rollout.info = observations[k], infos[k]
        rollout.extend(path[:, k], earned[:, k], taken[:, k], terminated[k], truncated[k])
        runner.finish_segment(rollout, truncated[k])
    for runner, index, rollout in active:
        if rollout.finished:
            del runner.active[index]


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
        or not all(isinstance(info, dict) for info in infos)
    ):
        return None
    return rows.reshape(len(rows), -1), np.array(rewards, np.float64), terminated, truncated, infos


def _checked_one_by_one(
    active: Sequence[tuple[EnvRunner, int, Rollout]], results: Sequence[Any]
) -> _Batch:
    pairs = zip(active, results, strict=True)
    checked = [runner.checked(rollout, result) for (runner, _, rollout), result in pairs]
    rows, rewards, terminated, truncated, infos = zip(*checked, strict=True)
    return np.array(rows), np.array(rewards), terminated, truncated, infos


def _outcome_of(task: Task, rollout: Rollout) -> dict[str, Any]:
    """Return the outcome of an episode: booleans of its last info, and numbers that it lists.

    A number that every step reports is averaged over the episode; else the last info has it.
    """
    info, outcome = rollout.info, dict[str, Any]()
    for name, value in info.items():
        if isinstance(value, bool | np.bool_):
            outcome[name] = bool(value)
        elif name in _TRUTHS and (number := as_number(value)) in (0.0, 1.0):
            outcome[name] = bool(number)
    for name in task.listed_outcomes:
        numbers = rollout.numbers.get(name, ())
        value = info.get(name, info.get(name.removeprefix("last ")))
        if name in outcome or value is None:
            continue
        number = as_number(value)
        if number is None:
            raise TaskError(
                f"task {task.name!r} lists the outcome {name!r}, but info[{name!r}] is "
                f"{value!r}; expected a number or a truth value"
            )
        outcome[name] = float(np.mean(numbers)) if len(numbers) == rollout.steps else number
    return outcome
