"""Rollouts of any Gymnasium environment, by the same plan as the compiled ones.

All environments in use take a step together: their policies are evaluated in one batch, so that
what is not the environments' own work is shared among them. A rollout is a pure function of its
part of the plan, so that running some of them together changes no bit. A vector environment
takes the steps of its sub-environments itself; they begin together, in waves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import TaskError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import ActionScale, Episodes, Samples
from crosslearning.rollouts.executor import check_samples, empty_episodes, not_finite
from crosslearning.rollouts.outcomes import gather_outcomes, outcome_of
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.rollouts.under_way import EpisodeRollout, Rollout, SampleRollout
from crosslearning.tasks import Task
from crosslearning.tasks.vector import WrongAnswer, seats_of

Floats = NDArray[np.float64]

#: The most environments that are kept at a time, if there are not more tasks than that.
MOST_ENVIRONMENTS = 64


class Player:
    """What is seen of one environment in the course of an episode, checked.

    Parameters
    ----------
    task : Task
    environment : Env, optional
        For tasks that read outcomes from its ``state``.
    """

    def __init__(self, task: Task, environment: Any = None) -> None:
        self.task = task
        self._environment = environment
        self._shape = task.observation_space.shape
        self._seed = self._steps = 0
        #: Flat, and good until the next step.
        self.observation: NDArray[Any] = np.empty(0)
        #: The observation as the environment gave it.
        self.seen: Any = None
        self._info: Mapping[str, Any] = {}
        self.terminated = self.truncated = False

    def start(self, seed: int, observation: Any, info: Mapping[str, Any]) -> None:
        """See the start of an episode."""
        self._seed, self._steps, self._info = seed, 0, info
        self.terminated = self.truncated = False
        self._see(observation)

    def take(self, found: Any) -> float:
        """See what a step gave; return the reward."""
        self._steps += 1
        if not isinstance(found, tuple) or len(found) != 5:
            raise self._wrong("what step returns", found, "five things, as Gymnasium's does")
        observation, reward, terminated, truncated, self._info = found
        self._see(observation)
        # The usual types first: these lines run at every step.
        if type(terminated) is not bool or type(truncated) is not bool:
            for name, value in (("terminated", terminated), ("truncated", truncated)):
                if not isinstance(value, bool | np.bool_):
                    raise self._wrong(name, value, "True or False")
            terminated, truncated = bool(terminated), bool(truncated)
        self.terminated, self.truncated = terminated, truncated
        if not isinstance(reward, float):
            if not isinstance(reward, int | np.floating | np.integer):
                raise self._wrong("the reward", reward, "a number")
            reward = float(reward)
        if not isfinite(reward):
            raise not_finite(self.task, "a reward", self._where)
        return reward

    def _see(self, observation: Any) -> None:
        """Keep an observation, if it is one."""
        self.seen = observation
        # The usual kind first, as it is: who keeps it for longer than a step makes a copy.
        if (
            type(observation) is np.ndarray
            and observation.dtype.char in "df"
            and observation.shape == self._shape
            and len(self._shape) == 1
        ):
            self.observation = observation
            return
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
        inner: Any = getattr(self._environment, "unwrapped", None)
        state: Any = getattr(inner, "state", None)
        if callable(self.task.outcomes) and np.shape(state) == (self.task.state_size,):
            found = self.task.outcomes(np.array(state, dtype=np.float64)[None])
            return {name: values[0] for name, values in found.items()}
        return outcome_of(self.task, self._info)

    @property
    def _where(self) -> str:
        return f" at step {self._steps} of the episode with seed {self._seed}"

    def _wrong(self, what: str, found: object, expected: str) -> TaskError:
        return TaskError(
            f"task {self.task.name!r}: {what} is {found!r}{self._where}; expected {expected}. "
            "The iteration was not applied"
        )


class Stage:
    """An environment, alone or a vector of them, and the rollouts that are played in it.

    Parameters
    ----------
    task : Task
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        environment = task.make()
        self.seats = seats_of(environment)
        alone = environment if self.seats.alone else None
        self.players = [Player(task, alone) for _ in range(self.seats.count)]
        #: The rollouts on their way, by seat.
        self.playing: dict[int, Rollout] = {}
        self._steps = 0

    def start(self, rollouts: Sequence[Rollout], only: int | None = None) -> None:
        """Begin rollouts, at most one a seat; ``only`` one of them is followed, by default all."""
        options, self._steps = None, 0
        seeds = [rollout.seed for rollout in rollouts]
        # Seats that stay empty begin somewhere too.
        seeds += seeds[:1] * (self.seats.count - len(seeds))
        if self.task.reset_options is not None:
            options = self.task.reset_options(rollouts[0].uniforms[: self.task.reset_size])
        self.playing = {k: one for k, one in enumerate(rollouts) if only is None or k == only}
        try:
            found = self.seats.start(seeds, options)
        except Exception as problem:
            raise self._raised(problem) from problem
        for seat, rollout in self.playing.items():
            self.players[seat].start(rollout.seed, *found[seat])
            rollout.begin(self.players[seat])

    def step(self, given: Sequence[NDArray[Any]], actions: Sequence[Floats]) -> bool:
        """Take one step with actions of the action space, and with them as they were meant.

        Returns whether everything that was on its way still is.
        """
        self._steps += 1
        try:
            found = self.seats.step(self.playing, given)
        except Exception as problem:
            raise self._raised(problem) from problem
        over = []
        for seat, one, action in zip(self.playing, found, actions, strict=True):
            player = self.players[seat]
            if not self.playing[seat].take(player, player.take(one), action):
                player.check()
                over.append(seat)
            elif player.truncated and not self.seats.alone:
                raise TaskError(
                    f"task {self.task.name!r} reached a time limit{self._where}, which a vector "
                    "environment does not outlast, but a gradient sample has a length of its own. "
                    "Make the sub-environments without one (max_episode_steps=-1 in "
                    "gymnasium.make), or learn with a method that takes whole episodes, as "
                    "trust-region does. The iteration was not applied"
                )
        for seat in over:
            del self.playing[seat]
        return not over

    @property
    def _where(self) -> str:
        seeds = [str(rollout.seed) for rollout in self.playing.values()]
        episodes = "the episode with seed" if len(seeds) == 1 else "the episodes with seeds"
        return f" at step {self._steps} of {episodes} {', '.join(seeds)}"

    def _raised(self, problem: Exception) -> TaskError:
        raised = "" if isinstance(problem, WrongAnswer) else f" raised {type(problem).__name__}"
        return TaskError(
            f"task {self.task.name!r}{raised}{self._where}: {problem}. The iteration was not "
            "applied"
        )

    def close(self) -> None:
        """Close the environment."""
        self.seats.close()


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
        self.scale = scale or ActionScale.none(tasks[0].action_size)
        self._stages: list[list[Stage]] = [[] for _ in tasks]

    def samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        """Run one sample of every task B times (Algorithm 1, lines 2 to 5)."""
        N, B = plan.before.shape
        size = self.tasks[0].observation_size
        result = Samples.empty(N, B, size, plan.noise.shape[3])
        signs = (1.0, -1.0) if mirrored else (1.0,)
        branches = {
            (i, b): [
                SampleRollout(
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

    def _run(self, policies: Expansion, rollouts: Iterable[Rollout]) -> None:
        """Run rollouts, as many at a time as there are environments for."""
        waiting = [deque[Rollout]() for _ in self.tasks]
        for rollout in rollouts:
            waiting[rollout.task].append(rollout)
        try:
            stages = [(i, s) for i, own in enumerate(waiting) for s in self._stages_of(i, len(own))]
            while stages:
                for i, stage in stages:
                    if not stage.playing and waiting[i]:
                        count = min(stage.seats.count, len(waiting[i]))
                        stage.start([waiting[i].popleft() for _ in range(count)])
                stages = [(i, stage) for i, stage in stages if stage.playing]
                self._play(policies, stages)
        except BaseException:
            # What is half-way through an episode is not used again.
            self.close()
            raise

    def _stages_of(self, task: int, wanted: int) -> list[Stage]:
        """Return environments for rollouts of a task: a vector environment, or several alone."""
        own = self._stages[task]
        most = min(wanted, max(1, MOST_ENVIRONMENTS // len(self.tasks)))
        while len(own) < most and (not own or own[0].seats.alone):
            own.append(Stage(self.tasks[task]))
        return own[:most]

    def _play(self, policies: Expansion, stages: Sequence[tuple[int, Stage]]) -> None:
        """Take steps with every rollout that is on its way, until one of them is over."""
        players: list[Player] = []
        rollouts: list[Rollout] = []
        tasks: list[int] = []
        for i, stage in stages:
            players += [stage.players[seat] for seat in stage.playing]
            rollouts += stage.playing.values()
            tasks += [i] * len(stage.playing)
        which, space = np.array(tasks), self.tasks[0].action_space
        going = bool(stages)
        while going:
            seen = np.array([player.observation for player in players], dtype=np.float64)
            if not np.isfinite(seen).all():
                for player in players:
                    player.check()
            noise = np.array([rollout.deviation() for rollout in rollouts])
            actions = self.scale(policies.each(seen, which) + noise)
            # Lists of rows: taking an array apart at every step costs more.
            given, meant = list(within(space, actions)), list(actions)
            first = 0
            for _, stage in stages:
                stop = first + len(stage.playing)
                going &= stage.step(given[first:stop], meant[first:stop])
                first = stop

    def _check_replay(self, first: SampleRollout, second: SampleRollout) -> None:
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
        for stages in self._stages:
            while stages:
                stages.pop().close()


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
    stage = Stage(task)
    try:
        for number in range(len(rollouts)):
            # Of a vector environment one seat at a time, since whoever acts may have a memory,
            # but in the waves in which a batch of policies would play.
            seat = number % stage.seats.count
            stage.start(rollouts[number - seat :][: stage.seats.count], only=seat)
            player = stage.players[seat]
            if begin is not None:
                begin()
            while stage.playing:
                player.check()
                action = act(player.seen)
                stage.step([action], [action.reshape(-1)])
    finally:
        stage.close()
    return _finished([task], result, rollouts)


def _planned(tasks: Sequence[Task], plan: EpisodePlan) -> tuple[Episodes, list[EpisodeRollout]]:
    """Return room for a plan's episodes, and the episodes that will fill it."""
    result = empty_episodes(tasks, plan)._replace(states=None)
    return result, [
        EpisodeRollout(i, int(plan.seeds[i, e]), plan.uniforms[i, e], plan.noise[i, e], result, e)
        for i, e in np.ndindex(*plan.seeds.shape)
    ]


def _finished(
    tasks: Sequence[Task], result: Episodes, rollouts: Sequence[EpisodeRollout]
) -> Episodes:
    """Return the episodes with what all of a task's have to tell of their ends."""
    outcomes = []
    for i, task in enumerate(tasks):
        ends = [rollout.outcome for rollout in rollouts if rollout.task == i]
        outcomes.append(gather_outcomes(task, ends))
    return result._replace(outcomes=outcomes)
