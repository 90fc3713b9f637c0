"""Rollouts in their environments: they take steps together, and what they see is checked.

Steps are taken in segments, in which the rollouts on their way stay the same. What a step gave
to all of them is checked as one batch; where anything is unusual, it is looked at one by one, so
that an error can say what is wrong and where.
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
from crosslearning.rollouts.executor import not_finite
from crosslearning.rollouts.outcomes import outcome_of
from crosslearning.rollouts.rollout_state import Rollout, Segment
from crosslearning.rollouts.step_timer import StepTimeout, StepTimer
from crosslearning.tasks import Task
from crosslearning.tasks.vector import WrongAnswer, env_batch_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: From n observations as they were given and as rows, shape (n, q), whose tasks they are of, shape
#: (n,), and noise, shape (n, p), to actions of the action space, and as they were meant, (n, p).
Act = Callable[
    [Sequence[Any], Floats, Integers, Floats], tuple[Sequence[NDArray[Any]], NDArray[Any]]
]

#: The most steps that are gathered before the rollouts take them in.
SEGMENT = 64


class RolloutSlot:
    """One rollout on a stage, and what it sees, checked.

    Parameters
    ----------
    stage : EnvRunner
    rollout : Rollout
    """

    def __init__(self, stage: EnvRunner, rollout: Rollout) -> None:
        self._stage = stage
        self.rollout = rollout
        #: Whether a time limit ends it: alone, an environment goes on, and a sample with it.
        self.limited = rollout.limited or not stage.seats.alone
        #: The observation as the environment gave it, and as a row of numbers.
        self.seen: Any = None
        self.row: Floats = np.empty(0)
        self.info: Mapping[str, Any] = {}

    def start(self, observation: Any, info: Mapping[str, Any]) -> None:
        """See the start of an episode."""
        self.seen, self.info = observation, info
        self.row = self._finite(self._row(observation))

    def checked(self, found: Any) -> tuple[Floats, float, bool, bool, Any]:
        """Return what a step gave, in the usual types, or say what is wrong with it."""
        if not isinstance(found, tuple) or len(found) != 5:
            raise self._wrong("what step returns", found, "five things, as Gymnasium's does")
        observation, reward, terminated, truncated, info = found
        row = self._row(observation)
        for name, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, bool | np.bool_):
                raise self._wrong(name, value, "True or False")
        if not isinstance(reward, float | int | np.floating | np.integer):
            raise self._wrong("the reward", reward, "a number")
        if not isfinite(reward):
            raise not_finite(self._stage.task, "a reward", self._where)
        return self._finite(row), float(reward), bool(terminated), bool(truncated), info

    def _row(self, observation: Any) -> Floats:
        try:
            row = np.array(observation, dtype=np.float64)
        except (TypeError, ValueError):
            raise self._wrong("the observation", observation, "an array of numbers") from None
        shape, expected = row.shape, self._stage.task.observation_space.shape
        if shape != expected:
            raise self._wrong("the observation's shape", shape, f"{expected}, as its space says")
        return row.reshape(-1)

    def _finite(self, row: Floats) -> Floats:
        if not np.isfinite(row).all():
            raise not_finite(self._stage.task, "an observation", self._where)
        return row

    def outcome(self) -> dict[str, Any]:
        """Return how the episode stands, by name, as far as the task can tell."""
        task = self._stage.task
        inner: Any = getattr(self._stage.alone, "unwrapped", None)
        state: Any = getattr(inner, "state", None)
        if callable(task.outcomes) and np.shape(state) == (task.state_size,):
            found = task.outcomes(np.array(state, dtype=np.float64)[None])
            return {name: values[0] for name, values in found.items()}
        return outcome_of(task, self.info)

    @property
    def _where(self) -> str:
        return f" at step {self._stage.steps} of the episode with seed {self.rollout.seed}"

    def _wrong(self, what: str, found: object, expected: str) -> TaskError:
        return TaskError(
            f"task {self._stage.task.name!r}: {what} is {found!r}{self._where}; expected "
            f"{expected}. The iteration was not applied"
        )


class EnvRunner:
    """An environment, alone or a vector of them, and the rollouts that are played in it.

    Parameters
    ----------
    task : Task
    timer : StepTimer, optional
        Limits how long a step may take.
    """

    def __init__(self, task: Task, timer: StepTimer | None = None) -> None:
        self.task = task
        self._limit: AbstractContextManager[None] = timer or nullcontext()
        self._timer = timer
        environment = task.make()
        self.seats = env_batch_of(environment)
        #: The environment, if it is no vector of them.
        self.alone = environment if self.seats.alone else None
        #: Who is on the way, by seat.
        self.playing: dict[int, RolloutSlot] = {}
        self.steps = 0

    def start(self, rollouts: Sequence[Rollout], only: int | None = None) -> None:
        """Begin rollouts, at most one a seat; ``only`` one of them is followed, by default all."""
        options, self.steps = None, 0
        seeds = [rollout.seed for rollout in rollouts]
        # EnvBatch that stay empty begin somewhere too.
        seeds += seeds[:1] * (self.seats.count - len(seeds))
        if self.task.reset_options is not None:
            options = self.task.reset_options(rollouts[0].uniforms[: self.task.reset_size])
        self.playing = {
            seat: RolloutSlot(self, rollout)
            for seat, rollout in enumerate(rollouts)
            if only is None or seat == only
        }
        try:
            with self._limit:
                found = self.seats.start(seeds, options)
        except (Exception, StepTimeout) as problem:
            raise self._raised(problem) from problem
        for seat, player in self.playing.items():
            player.start(*found[seat])

    def step(self, actions: Sequence[NDArray[Any]]) -> list[Any]:
        """Step with actions of the action space; return what each that is on the way was given."""
        self.steps += 1
        try:
            with self._limit:
                return self.seats.step(self.playing, actions)
        except (Exception, StepTimeout) as problem:
            raise self._raised(problem) from problem

    def take(self, stretches: Sequence[Segment]) -> None:
        """Let every rollout take in its steps; who is over leaves."""
        over = []
        for (seat, player), stretch in zip(self.playing.items(), stretches, strict=True):
            if not player.rollout.take(stretch):
                over.append(seat)
            elif stretch.truncated and not self.seats.alone:
                raise TaskError(
                    f"task {self.task.name!r} reached a time limit{self._where}, which a vector "
                    "environment does not outlast, but a gradient sample has a length of its own. "
                    "Make the sub-environments without one (max_episode_steps=-1 in "
                    "gymnasium.make), or learn with a method that takes whole episodes, as "
                    "trust-region does. The iteration was not applied"
                )
        for seat in over:
            del self.playing[seat]

    @property
    def _where(self) -> str:
        seeds = [str(player.rollout.seed) for player in self.playing.values()]
        episodes = "the episode with seed" if len(seeds) == 1 else "the episodes with seeds"
        return f" at step {self.steps} of {episodes} {', '.join(seeds)}"

    def _raised(self, problem: BaseException) -> TaskError:
        if self._timer is not None and isinstance(problem, StepTimeout):
            limit = f"step_seconds = {self._timer.seconds:g}"
            return TaskError(
                f"task {self.task.name!r} took longer than {limit}{self._where}. The iteration was "
                "not applied"
            )
        said = (
            f": {problem}"
            if isinstance(problem, WrongAnswer)
            else f" raised {describe_exception(problem)}"
        )
        return TaskError(
            f"task {self.task.name!r}{self._where}{said}. The iteration was not applied"
        )

    def close(self) -> None:
        """Close the environment."""
        self.seats.close()


def play(stages: Sequence[EnvRunner], act: Act) -> None:
    """Take steps with every rollout on its way, until one of them is over, or a segment of them."""
    players = [player for stage in stages for player in stage.playing.values()]
    rollouts = [player.rollout for player in players]
    limited = [player.limited for player in players]
    stops = accumulate(len(stage.playing) for stage in stages)
    parts = [
        (stage, slice(stop - len(stage.playing), stop))
        for stage, stop in zip(stages, stops, strict=True)
    ]
    length = min(SEGMENT, *(rollout.length - rollout.steps for rollout in rollouts))
    which = np.array([rollout.task for rollout in rollouts])
    noise = np.array([rollout.noise[rollout.steps :][:length] for rollout in rollouts])
    shape = stages[0].task.observation_space.shape
    seen = [player.seen for player in players]
    rows, rewards, actions = [np.array([player.row for player in players])], [], []
    for step in range(length):
        given, meant = act(seen, rows[-1], which, noise[:, step])
        found = [one for stage, part in parts for one in stage.step(given[part])]
        batch = _together(found, shape) or _one_by_one(players, found)
        row, reward, terminated, truncated, infos = batch
        seen = [one[0] for one in found]
        rows.append(row)
        rewards.append(reward)
        actions.append(meant)
        if any(terminated) or any(compress(truncated, limited)):
            break
    path, paid, taken = np.array(rows), np.array(rewards), np.array(actions)
    stretches = []
    for k, player in enumerate(players):
        player.seen, player.row, player.info = seen[k], row[k], infos[k]
        own = path[:, k], paid[:, k], taken[:, k], terminated[k], truncated[k]
        stretches.append(Segment(*own, player.outcome))
    for stage, part in parts:
        stage.take(stretches[part])


#: Of all environments: observations, shape (n, q), rewards, (n,), and who is over, with infos.
Batch = tuple[Floats, Floats, Sequence[bool], Sequence[bool], Sequence[Mapping[str, Any]]]

_NUMBERS = frozenset({float, int, np.float64, np.float32})
_TRUTHS = frozenset({bool, np.bool_})


def _together(found: Sequence[Any], shape: tuple[int, ...]) -> Batch | None:
    """Return what a step gave to all; None if any of it is unusual."""
    try:
        seen, rewards, terminated, truncated, infos = zip(*found, strict=True)
        rows = np.array(seen, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if (
        {tuple} != set(map(type, found))
        or not _NUMBERS.issuperset(map(type, rewards))
        or not _TRUTHS.issuperset(map(type, terminated + truncated))
        or rows.shape != (len(found), *shape)
        or not np.isfinite(rows).all()
        or not all(map(isfinite, rewards))
    ):
        return None
    return rows.reshape(len(rows), -1), np.array(rewards, np.float64), terminated, truncated, infos


def _one_by_one(players: Sequence[RolloutSlot], found: Sequence[Any]) -> Batch:
    """Return the same where something is unusual, or say what is wrong."""
    checked = [player.checked(one) for player, one in zip(players, found, strict=True)]
    rows, rewards, terminated, truncated, infos = zip(*checked, strict=True)
    return np.array(rows), np.array(rewards), terminated, truncated, infos
