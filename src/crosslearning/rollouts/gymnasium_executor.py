"""Rollouts of any Gymnasium environment, by the same plan as the compiled ones.

All environments in use take a step together: their policies are evaluated in one batch, so that
what is not the environments' own work is shared among them. A rollout is a pure function of its
part of the plan, so that running some of them together changes no bit. A vector environment
takes the steps of its sub-environments itself; they begin together, in waves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import TaskError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import ActionScale, Episodes, Samples, within
from crosslearning.rollouts.env_runner import EnvRunner, play
from crosslearning.rollouts.executor import check_samples, empty_episodes
from crosslearning.rollouts.outcomes import collect_outcomes
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.rollouts.rollout_state import EpisodeRollout, Rollout, SampleRollout
from crosslearning.rollouts.step_timer import StepTimer
from crosslearning.tasks import Task

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: The most environments that are kept at a time, if there are not more tasks than that.
MOST_ENVIRONMENTS = 64


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
    timer : StepTimer, optional
        Limits how long a step may take.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        scale: ActionScale | None = None,
        timer: StepTimer | None = None,
    ) -> None:
        self.tasks = tuple(tasks)
        self._timer = timer
        self.scale = scale or ActionScale.none(tasks[0].action_size)
        self._stages: list[list[EnvRunner]] = [[] for _ in tasks]

    def samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        """Run one sample of every task B times (Algorithm 1, lines 2 to 5)."""
        N, B = plan.before.shape
        size = self.tasks[0].observation_size
        result = Samples.empty(N, B, size, plan.noise.shape[3])
        at = (*np.indices((N, B)), plan.before)
        noises = [plan.noise]
        if mirrored:
            noises.append(plan.noise.copy())
            noises[1][at] *= -1.0
        branches = [
            [
                SampleRollout(
                    task=i,
                    seed=int(plan.seeds[i, b]),
                    uniforms=plan.uniforms[i, b],
                    noise=noise[i, b],
                    before=int(plan.before[i, b]),
                    after=int(plan.after[i, b]),
                )
                for noise in noises
            ]
            for i, b in np.ndindex(N, B)
        ]
        self._run(policies, [sample for pair in branches for sample in pair])
        result.deviations[:] = plan.noise[at]
        for place, found in zip(np.ndindex(N, B), branches, strict=True):
            if mirrored:
                self._check_replay(*found)
            first = found[0]
            result.observations[place] = first.observation
            result.values[place][: len(found)] = [_sum(one.rewards[one.before :]) for one in found]
            result.returns[place] = _sum(first.rewards[: first.before + 1])
            result.steps[place] = sum(one.steps for one in found)
        return check_samples(self.tasks, result)

    def episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run whole episodes of every task, to their end, the time limit or the horizon."""
        return collect_outcomes(self.tasks, self.run_episodes(policies, plan))

    def run_episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run episodes whose outcomes are still one by one: those of shards are put together."""
        result, rollouts = _planned(self.tasks, plan)
        self._run(policies, rollouts)
        return _finished(self.tasks, result, rollouts)

    def _run(self, policies: Expansion, rollouts: Iterable[Rollout]) -> None:
        """Run rollouts, as many at a time as there are environments for."""
        waiting = [deque[Rollout]() for _ in self.tasks]
        for rollout in rollouts:
            waiting[rollout.task].append(rollout)
        space = self.tasks[0].action_space

        def act(_: object, seen: Floats, which: Integers, noise: Floats) -> Any:
            actions = self.scale(policies.each(seen, which) + noise)
            # A list of rows: taking an array apart at every step costs more.
            return list(within(space, actions)), actions

        try:
            stages = [(i, s) for i, own in enumerate(waiting) for s in self._stages_of(i, len(own))]
            while stages:
                for i, stage in stages:
                    if not stage.playing and waiting[i]:
                        count = min(stage.seats.count, len(waiting[i]))
                        stage.start([waiting[i].popleft() for _ in range(count)])
                stages = [(i, stage) for i, stage in stages if stage.playing]
                if stages:
                    play([stage for _, stage in stages], act)
        except BaseException:
            # What is half-way through an episode is not used again.
            self.close()
            raise

    def _stages_of(self, task: int, wanted: int) -> list[EnvRunner]:
        """Return environments for rollouts of a task: a vector environment, or several alone."""
        own = self._stages[task]
        most = min(wanted, max(1, MOST_ENVIRONMENTS // len(self.tasks)))
        while len(own) < most and (not own or own[0].seats.alone):
            own.append(EnvRunner(self.tasks[task], self._timer))
        return own[:most]

    def _check_replay(self, first: SampleRollout, second: SampleRollout) -> None:
        assert first.observation is not None
        assert second.observation is not None
        same = np.array_equal(first.observation, second.observation)
        if not same or first.rewards[: first.before] != second.rewards[: first.before]:
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


def _sum(rewards: Sequence[float]) -> float:
    """Add one by one, as compiled rollouts do; ``sum`` rounds otherwise since Python 3.12."""
    return reduce(add, rewards, 0.0)


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

    def acting(seen: Sequence[Any], *_: object) -> Any:
        action = act(seen[0])
        return [action], action.reshape(1, -1)

    result, rollouts = _planned([task], plan)
    stage = EnvRunner(task)
    try:
        for number in range(len(rollouts)):
            # Of a vector environment one seat at a time, since whoever acts may have a memory,
            # but in the waves in which a batch of policies would play.
            seat = number % stage.seats.count
            stage.start(rollouts[number - seat :][: stage.seats.count], only=seat)
            if begin is not None:
                begin()
            while stage.playing:
                play([stage], acting)
    finally:
        stage.close()
    return collect_outcomes([task], _finished([task], result, rollouts))


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
    """Return the episodes with what each has to tell of its end."""
    ends = [[r.outcome for r in rollouts if r.task == i] for i in range(len(tasks))]
    return result._replace(outcomes=ends)
