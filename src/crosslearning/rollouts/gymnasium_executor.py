"""Rollouts of any Gymnasium environment, by the same plan as the compiled ones.

All environments in use step together, and their policies are evaluated in one batch. A rollout is
a pure function of its part of the plan, so batching changes no bit. A vector environment steps its
sub-environments itself; they are reset together, in waves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import TaskError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import ActionScale, Episodes, Floats, Integers, Samples, within
from crosslearning.rollouts.env_runner import EnvRunner, Rollout, StepTimer, run_segment
from crosslearning.rollouts.executor import Executor, Result, check_finite, collect_outcomes
from crosslearning.rollouts.plan import EpisodePlan, Plan, SamplePlan
from crosslearning.tasks import Task

#: The most environments that are open at a time, if there are not more tasks than that.
MOST_ENVIRONMENTS = 64


class GymnasiumExecutor(Executor):
    """Runs any tasks through their Gymnasium environments, all in step.

    For mirrored samples a second environment is reset with the same seed and led along the same
    path, so a task must be a function of its seed and actions; an error reports where it is not.
    Samples ignore time limits: their length is drawn, and to treat ``truncated`` as an end would
    bias the sum.

    Parameters
    ----------
    tasks : sequence of Task
    scale : ActionScale, optional
        From the policies' actions to the tasks' units; by default they are the same.
    timer : StepTimer, optional
        Limits the duration of a step.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        scale: ActionScale | None = None,
        timer: StepTimer | None = None,
    ) -> None:
        super().__init__(tasks, scale)
        self._timer = timer
        self._runners: list[list[EnvRunner]] = [[] for _ in tasks]

    def run(self, policies: Expansion, plan: Plan, mirrored: bool = False) -> Result:
        """Run a plan; the outcomes of episodes are one mapping per episode."""
        if isinstance(plan, SamplePlan):
            return self._samples(policies, plan, mirrored)
        result, rollouts = _episodes(self.tasks, plan)
        self._run(policies, rollouts)
        return _completed(result, rollouts)

    def _samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        q = self.tasks[0].observation_size
        result = Samples.empty(plan.seeds.shape, q, plan.noise.shape[3])
        places = list(np.ndindex(*plan.before.shape))
        at = (*np.indices(plan.before.shape), plan.before)
        result.deviations[:] = plan.noise[at]
        noises = [plan.noise]
        if mirrored:
            noises.append(plan.noise.copy())
            noises[1][at] *= -1.0
        branches = [[_sample(plan, noise, place, q) for noise in noises] for place in places]
        self._run(policies, [rollout for pair in branches for rollout in pair])
        for place, pair in zip(places, branches, strict=True):
            t, first = int(plan.before[place]), pair[0]
            if mirrored:
                self._check_replay(t, *pair)
            result.observations[place] = _start(first, t)
            result.values[place][: len(pair)] = [_sum(one.rewards[t:]) for one in pair]
            result.returns[place] = _sum(first.rewards[: t + 1])
            result.steps[place] = sum(one.steps for one in pair)
        check_finite(self.tasks, result)
        return result

    def _run(self, policies: Expansion, rollouts: Sequence[Rollout]) -> None:
        """Run rollouts, as many at a time as there are environments."""
        waiting = [deque[Rollout]() for _ in self.tasks]
        for rollout in rollouts:
            waiting[rollout.task].append(rollout)
        space = self.tasks[0].action_space

        def act(_: object, rows: Floats, tasks: Integers, noise: Floats) -> Any:
            actions = self.scale(policies.each(rows, tasks) + noise)
            # A list of rows: splitting an array at every step costs more.
            return list(within(space, actions)), actions

        try:
            runners = [
                (queue, runner)
                for task, queue in enumerate(waiting)
                for runner in self._runners_of(task, len(queue))
            ]
            while runners:
                for queue, runner in runners:
                    if not runner.active and queue:
                        count = min(runner.batch.num_envs, len(queue))
                        runner.start([queue.popleft() for _ in range(count)])
                runners = [(queue, runner) for queue, runner in runners if runner.active]
                if runners:
                    run_segment([runner for _, runner in runners], act)
        except BaseException:
            self.close()  # environments in the middle of an episode are not used again
            raise

    def _runners_of(self, task: int, wanted: int) -> list[EnvRunner]:
        """Return a vector environment or several single ones for rollouts of a task."""
        runners = self._runners[task]
        most = min(wanted, max(1, MOST_ENVIRONMENTS // len(self.tasks)))
        while len(runners) < most and (not runners or not runners[0].batch.is_vector):
            runners.append(EnvRunner(self.tasks[task], self._timer))
        return runners[:most]

    def _check_replay(self, t: int, first: Rollout, second: Rollout) -> None:
        same = np.array_equal(_start(first, t), _start(second, t))
        if not same or not np.array_equal(first.rewards[:t], second.rewards[:t]):
            raise TaskError(
                f"task {self.tasks[first.task].name!r} is not a function of its seed and actions: "
                f"led twice along one path of {t} steps from seed {first.seed} it came to two "
                "places, so that it cannot be put back into a state. Take estimator='baseline', "
                "which does not ask for it. The iteration was not applied"
            )

    def close(self) -> None:
        """Close the environments."""
        for runners in self._runners:
            while runners:
                runners.pop().close()


def _sample(plan: SamplePlan, noise: Floats, place: tuple[int, ...], q: int) -> Rollout:
    """Return one branch of a gradient sample: t steps, the sampled action, and T more steps."""
    length = plan.before[place] + 1 + plan.after[place]
    rows = noise[place][:length]
    arrays = np.empty((length + 1, q)), np.zeros(length), np.empty_like(rows)
    seed, uniforms = int(plan.seeds[place]), plan.uniforms[place]
    return Rollout(place[0], seed, uniforms, rows, *arrays, is_episode=False)


def _start(rollout: Rollout, t: int) -> Floats:
    """Return s_t, where the sampled action is taken, or would be had the episode not ended."""
    row: Floats = rollout.observations[min(t, rollout.steps)]
    return row


def _sum(rewards: Floats) -> float:
    """Add one by one, as compiled rollouts do; ``sum`` rounds differently since Python 3.12."""
    return reduce(add, rewards.tolist(), 0.0)


def episodes_of(
    task: Task,
    plan: EpisodePlan,
    act: Callable[[Any], NDArray[Any]],
    begin: Callable[[], object] | None = None,
) -> Episodes:
    """Run episodes of one task with any policy, one after the other.

    Parameters
    ----------
    task : Task
    plan : EpisodePlan
        Of this task alone, without noise.
    act : callable
        From an observation, as the environment returned it, to an action of the action space.
    begin : callable, optional
        Called before every episode.
    """

    def act_on_first(observations: Sequence[Any], *_: object) -> Any:
        action = act(observations[0])
        return [action], action.reshape(1, -1)

    result, rollouts = _episodes([task], plan)
    runner = EnvRunner(task)
    try:
        for number in range(len(rollouts)):
            # One sub-environment at a time, since the policy may have a memory, but with the
            # resets of a batch of policies.
            index = number % runner.batch.num_envs
            runner.start(rollouts[number - index :][: runner.batch.num_envs], only=index)
            if begin is not None:
                begin()
            while runner.active:
                run_segment([runner], act_on_first)
    finally:
        runner.close()
    return collect_outcomes([task], _completed(result, rollouts))


def _episodes(tasks: Sequence[Task], plan: EpisodePlan) -> tuple[Episodes, list[Rollout]]:
    """Return the result of a plan, still empty, and the rollouts that fill it."""
    N, n, horizon, p = plan.noise.shape
    result = Episodes.empty((N, n, horizon), tasks[0].observation_size, p)
    return result, [
        Rollout(
            i,
            int(plan.seeds[i, e]),
            plan.uniforms[i, e],
            plan.noise[i, e],
            result.observations[i, e],
            result.rewards[i, e],
            result.actions[i, e],
            is_episode=True,
        )
        for i, e in np.ndindex(N, n)
    ]


def _completed(result: Episodes, rollouts: Sequence[Rollout]) -> Episodes:
    for place, rollout in zip(np.ndindex(*result.lengths.shape), rollouts, strict=True):
        result.observations[place][rollout.steps + 1 :] = result.observations[place][rollout.steps]
        result.lengths[place], result.terminated[place] = rollout.steps, rollout.terminated
        result.outcomes[place] = rollout.outcome
    return result
