"""Rollouts of any Gymnasium environment, by the same plan as the compiled ones.

All environments in use take a step together: their policies are evaluated in one batch, so that
what is not the environments' own work is shared among them. A rollout is a pure function of its
part of the plan, so that running some of them together changes no bit.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import TaskError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import ActionScale, Episodes, Samples
from crosslearning.rollouts.executor import check_samples, empty_episodes, not_finite
from crosslearning.rollouts.outcomes import gather_outcomes, outcome_of
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.tasks import Task

Floats = NDArray[np.float64]

#: The most environments that are kept at a time, if there are not more tasks than that.
MOST_ENVIRONMENTS = 64


class Player:
    """One environment, started by a plan and driven by actions, whose answers are checked.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._environment = task.make()
        self._shape = task.observation_space.shape
        self._seed = self._steps = 0
        self.observation: Floats = np.empty(0)
        #: The observation as the environment gave it.
        self.seen: Any = None
        self._info: Mapping[str, Any] = {}
        self.terminated = self.truncated = False

    def start(self, seed: int, uniforms: Floats) -> None:
        """Begin an episode."""
        self._seed, self._steps = int(seed), 0
        self.terminated = self.truncated = False
        options = None
        if self.task.reset_options is not None:
            options = self.task.reset_options(uniforms[: self.task.reset_size])
        try:
            observation, self._info = self._environment.reset(seed=self._seed, options=options)
        except Exception as problem:
            raise self._raised(problem) from problem
        self._see(observation)

    def step(self, action: NDArray[Any]) -> float:
        """Take one step with an action of the action space; return the reward."""
        self._steps += 1
        try:
            found: Any = self._environment.step(action)
        except Exception as problem:
            raise self._raised(problem) from problem
        if not isinstance(found, tuple) or len(found) != 5:
            raise self._wrong("what step returns", found, "five things, as Gymnasium's does")
        observation, reward, terminated, truncated, self._info = found
        self._see(observation)
        # The usual types first: these lines run at every step.
        if type(terminated) is not bool or type(truncated) is not bool:
            for name, value in (("terminated", terminated), ("truncated", truncated)):
                if not isinstance(value, bool | np.bool_):
                    raise self._wrong(name, value, "True or False")
        self.terminated, self.truncated = bool(terminated), bool(truncated)
        if not isinstance(reward, float) and not isinstance(reward, int | np.floating | np.integer):
            raise self._wrong("the reward", reward, "a number")
        if not math.isfinite(reward):
            raise not_finite(self.task, "a reward", self._where)
        return float(reward)

    def _see(self, observation: Any) -> None:
        """Keep an observation, if it is one."""
        self.seen = observation
        try:
            self.observation = np.array(observation, dtype=np.float64)
        except (TypeError, ValueError):
            raise self._wrong("the observation", observation, "an array of numbers") from None
        shape, expected = self.observation.shape, self._shape
        if shape != expected:
            raise self._wrong("the observation's shape", shape, f"{expected}, as its space says")
        if len(shape) != 1:
            self.observation = self.observation.reshape(-1)

    def check(self) -> None:
        """Refuse an observation that is not finite; whoever acts on it asks first."""
        if not np.isfinite(self.observation).all():
            raise not_finite(self.task, "an observation", self._where)

    def outcome(self) -> dict[str, Any]:
        """Return how the episode stands, by name, as far as the task can tell."""
        state: Any = getattr(self._environment.unwrapped, "state", None)
        if callable(self.task.outcomes) and np.shape(state) == (self.task.state_size,):
            found = self.task.outcomes(np.array(state, dtype=np.float64)[None])
            return {name: values[0] for name, values in found.items()}
        return outcome_of(self.task, self._info)

    @property
    def _where(self) -> str:
        return f" at step {self._steps} of the episode with seed {self._seed}"

    def _raised(self, problem: Exception) -> TaskError:
        kind = type(problem).__name__
        return TaskError(
            f"task {self.task.name!r} raised {kind}{self._where}: {problem}. The iteration was "
            "not applied"
        )

    def _wrong(self, what: str, found: object, expected: str) -> TaskError:
        return TaskError(
            f"task {self.task.name!r}: {what} is {found!r}{self._where}; expected {expected}. "
            "The iteration was not applied"
        )

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()


class _Rollout(Protocol):
    """One rollout on its way: a place in the plan, and what has been gathered."""

    task: int
    seed: int
    uniforms: Floats

    def begin(self, player: Player) -> None:
        """See the start."""

    def deviation(self) -> Floats:
        """Return what is added to the mean action of the next step."""

    def take(self, player: Player, reward: float, action: Floats) -> bool:
        """Take in a step; return False at the end. The action is not yet clipped."""


@dataclass
class _Sample:
    """One branch of a gradient sample: t steps, then the sampled action and T more."""

    task: int
    seed: int
    uniforms: Floats
    noise: Floats
    before: int
    after: int
    sign: float
    steps: int = 0
    observation: Floats | None = None  # s_t
    before_rewards: float = 0.0
    first_reward: float = 0.0
    value: float = 0.0

    def begin(self, player: Player) -> None:
        self._arrive(player)

    def deviation(self) -> Floats:
        noise: Floats = self.noise[self.steps]
        return self.sign * noise if self.steps == self.before else noise

    def take(self, player: Player, reward: float, action: Floats) -> bool:
        if self.steps < self.before:
            self.before_rewards += reward
        else:
            self.value += reward
            if self.steps == self.before:
                self.first_reward = reward
        self.steps += 1
        self._arrive(player)
        return not player.terminated and self.steps <= self.before + self.after

    def _arrive(self, player: Player) -> None:
        """Keep s_t: where the sampled action is taken, or would be if the episode had not ended."""
        if self.steps == self.before or (self.observation is None and player.terminated):
            self.observation = player.observation


@dataclass
class _Episode:
    """One whole episode, written where the result has room for it."""

    task: int
    seed: int
    uniforms: Floats
    noise: Floats
    result: Episodes
    number: int
    steps: int = 0
    outcome: dict[str, Any] = field(default_factory=dict)

    def begin(self, player: Player) -> None:
        self.result.observations[self.task, self.number, 0] = player.observation

    def deviation(self) -> Floats:
        noise: Floats = self.noise[self.steps]
        return noise

    def take(self, player: Player, reward: float, action: Floats) -> bool:
        k, result, place = self.steps, self.result, (self.task, self.number)
        result.rewards[*place, k] = reward
        result.actions[*place, k] = action
        result.observations[*place, k + 1] = player.observation
        self.steps += 1
        if not player.terminated and not player.truncated and self.steps < len(self.noise):
            return True
        result.observations[*place, k + 2 :] = player.observation
        result.lengths[place] = self.steps
        result.terminated[place] = player.terminated
        self.outcome = player.outcome()
        return False


class GymnasiumExecutor:
    """Runs any tasks through their Gymnasium environments, all in step.

    For mirrored samples a second environment is started from the same seed and led along the same
    path, so a task must be a function of its seed and actions; where the two differ, an error
    says so. A sample knows no time limit: its length is drawn, and a sum that took ``truncated``
    for an end would be biased.

    Parameters
    ----------
    tasks : sequence of Task
    scale : ActionScale, optional
        From the policies' actions to the tasks' units; by default they are the same.
    """

    def __init__(self, tasks: Sequence[Task], scale: ActionScale | None = None) -> None:
        self.tasks = tuple(tasks)
        self._scale = scale or ActionScale.none(tasks[0].action_size)
        self._idle: list[list[Player]] = [[] for _ in tasks]

    def samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        """Run one sample of every task B times (Algorithm 1, lines 2 to 5)."""
        N, B = plan.before.shape
        size = self.tasks[0].observation_size
        result = Samples.empty(N, B, size, plan.noise.shape[3])
        signs = (1.0, -1.0) if mirrored else (1.0,)
        branches = {
            (i, b): [
                _Sample(
                    task=i,
                    seed=int(plan.seeds[i, b]),
                    uniforms=plan.uniforms[i, b],
                    noise=plan.noise[i, b],
                    before=int(plan.before[i, b]),
                    after=int(plan.after[i, b]),
                    sign=sign,
                )
                for sign in signs
            ]
            for i, b in np.ndindex(N, B)
        }
        self._run(policies, [sample for pair in branches.values() for sample in pair])
        for (i, b), found in branches.items():
            if mirrored:
                self._check_replay(*found)
            first = found[0]
            result.observations[i, b] = first.observation
            result.deviations[i, b] = first.noise[first.before]
            result.values[i, b, : len(found)] = [one.value for one in found]
            result.returns[i, b] = first.before_rewards + first.first_reward
            result.steps[i, b] = sum(one.steps for one in found)
        return check_samples(self.tasks, result)

    def episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run whole episodes of every task, to their end, the time limit or the horizon."""
        result, rollouts = _planned(self.tasks, plan)
        self._run(policies, rollouts)
        return _finished(self.tasks, result, rollouts)

    def _run(self, policies: Expansion, rollouts: Iterable[_Rollout]) -> None:
        """Run rollouts, as many at a time as there are environments for."""
        waiting = [deque[_Rollout]() for _ in self.tasks]
        for rollout in rollouts:
            waiting[rollout.task].append(rollout)
        most = max(1, MOST_ENVIRONMENTS // len(self.tasks))
        active: list[tuple[_Rollout, Player]] = []
        try:
            for i, queue in enumerate(waiting):
                for _ in range(min(most, len(queue))):
                    player = self._idle[i].pop() if self._idle[i] else Player(self.tasks[i])
                    active.append((queue.popleft(), player))
                    _start(*active[-1])
            while active:
                which = np.array([rollout.task for rollout, _ in active])
                seen = np.array([player.observation for _, player in active])
                if not np.isfinite(seen).all():
                    for _, player in active:
                        player.check()
                noise = np.array([rollout.deviation() for rollout, _ in active])
                actions = self._scale(policies.each(seen, which) + noise)
                given = within(self.tasks[0].action_space, actions)
                going = []
                for (rollout, player), action, own in zip(active, actions, given, strict=True):
                    if rollout.take(player, player.step(own), action):
                        going.append((rollout, player))
                        continue
                    player.check()
                    if waiting[rollout.task]:
                        going.append((waiting[rollout.task].popleft(), player))
                        _start(*going[-1])
                    else:
                        self._idle[rollout.task].append(player)
                active = going
        except BaseException:
            # What is half-way through an episode is not used again.
            for _, player in active:
                player.close()
            raise

    def _check_replay(self, first: _Sample, second: _Sample) -> None:
        assert first.observation is not None
        assert second.observation is not None
        same = np.array_equal(first.observation, second.observation)
        if not same or first.before_rewards != second.before_rewards:
            raise TaskError(
                f"task {self.tasks[first.task].name!r} is not a function of its seed and actions: "
                f"led twice along one path of {first.before} steps from seed {first.seed} it came "
                "to two places, so that it cannot be put back into a state. Take "
                "estimator='baseline', which does not ask for it. The iteration was not applied"
            )

    def close(self) -> None:
        """Close the environments."""
        for players in self._idle:
            while players:
                players.pop().close()


def _start(rollout: _Rollout, player: Player) -> None:
    player.start(rollout.seed, rollout.uniforms)
    rollout.begin(player)


def within(space: gymnasium.spaces.Box, actions: Floats) -> NDArray[Any]:
    """Return actions, shape (n, p), clipped to a space and of its shape and type."""
    shaped = actions.reshape(-1, *space.shape)
    clipped = np.minimum(np.maximum(shaped, space.low), space.high)
    return clipped.astype(space.dtype)


def episodes_of(
    task: Task,
    plan: EpisodePlan,
    act: Callable[[Any], NDArray[Any]],
    begin: Callable[[], object] | None = None,
) -> Episodes:
    """Run episodes of one task by whatever acts, one after the other, from the plan's starts.

    Parameters
    ----------
    task : Task
    plan : EpisodePlan
        Of this task alone, without noise.
    act : callable
        From an observation, as the environment gave it, to an action of the action space.
    begin : callable, optional
        Called before every episode.
    """
    result, rollouts = _planned([task], plan)
    player = Player(task)
    try:
        for rollout in rollouts:
            _start(rollout, player)
            if begin is not None:
                begin()
            going = True
            while going:
                player.check()
                action = act(player.seen)
                going = rollout.take(player, player.step(action), action.ravel())
            player.check()
    finally:
        player.close()
    return _finished([task], result, rollouts)


def _planned(tasks: Sequence[Task], plan: EpisodePlan) -> tuple[Episodes, list[_Episode]]:
    """Return room for a plan's episodes, and the episodes that will fill it."""
    result = empty_episodes(tasks, plan)._replace(states=None)
    return result, [
        _Episode(i, int(plan.seeds[i, e]), plan.uniforms[i, e], plan.noise[i, e], result, e)
        for i, e in np.ndindex(*plan.seeds.shape)
    ]


def _finished(tasks: Sequence[Task], result: Episodes, rollouts: Sequence[_Episode]) -> Episodes:
    """Return the episodes with what all of a task's have to tell of their ends."""
    outcomes = []
    for i, task in enumerate(tasks):
        ends = [rollout.outcome for rollout in rollouts if rollout.task == i]
        outcomes.append(gather_outcomes(task, ends))
    return result._replace(outcomes=outcomes)
