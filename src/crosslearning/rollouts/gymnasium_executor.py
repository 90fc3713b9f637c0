"""Rollouts of any Gymnasium environment, by the same plan as the compiled ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.executors import check_samples, not_finite
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.rollouts.samples import Episodes, Samples, empty_samples
from crosslearning.tasks import Task

Floats = NDArray[np.float64]


class _Player:
    """One environment, started by a plan and driven by actions.

    ``truncated`` is not an end: a rollout chooses its own length, and a sum that took a time
    limit for an end would be biased.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._environment = task.make()
        self.ended = False
        self.observation: Floats = np.empty(0)

    def start(self, seed: int, uniforms: Floats) -> None:
        options = None
        if self._task.reset_options is not None:
            options = self._task.reset_options(uniforms[: self._task.reset_size])
        observation, _ = self._environment.reset(seed=int(seed), options=options)
        self._see(observation)
        self.ended = False

    def step(self, action: Floats) -> float:
        space = self._task.action_space
        clipped = np.clip(action, space.low, space.high).astype(space.dtype)
        observation, reward, terminated, _, _ = self._environment.step(clipped)
        self._see(observation)
        self.ended = bool(terminated)
        if not math.isfinite(reward):
            raise not_finite(self._task, "a reward")
        return float(reward)

    def _see(self, observation: Any) -> None:
        """Keep an observation; stop here if it is not finite, before it becomes an action."""
        self.observation = np.array(observation, dtype=np.float64)
        if not np.all(np.isfinite(self.observation)):
            raise not_finite(self._task, "an observation")

    def close(self) -> None:
        self._environment.close()


class GymnasiumExecutor:
    """Runs any tasks through their Gymnasium environments, one after the other.

    For antithetic samples an environment is put back by starting it again from its seed and
    repeating its actions, so it must be a function of both.

    Parameters
    ----------
    tasks : sequence of Task
    noise_std : array, shape (p,)
        Standard deviation of the exploration noise.
    """

    def __init__(self, tasks: Sequence[Task], noise_std: Floats) -> None:
        self.tasks = tuple(tasks)
        self._noise_std = np.asarray(noise_std, dtype=np.float64)
        self._players = [_Player(task) for task in tasks]

    def samples(self, policies: Expansion, plan: SamplePlan, antithetic: bool) -> Samples:
        """Run one sample of every task B times (Algorithm 1, lines 2 to 5)."""
        N, B = plan.before.shape
        result = empty_samples(N, B, self.tasks[0].observation_space.shape[0], plan.noise.shape[3])
        for i, player in enumerate(self._players):
            policy = policies._replace(rows=policies.rows[i : i + 1])
            for b in range(B):
                self._sample(player, policy, plan, i, b, antithetic, result)
        return check_samples(self.tasks, result)

    def _sample(
        self,
        player: _Player,
        policy: Expansion,
        plan: SamplePlan,
        i: int,
        b: int,
        antithetic: bool,
        result: Samples,
    ) -> None:
        t, T, noise = plan.before[i, b], plan.after[i, b], plan.noise[i, b]
        start = int(plan.seeds[i, b]), plan.uniforms[i, b]
        player.start(*start)
        history: list[Floats] = []
        total = 0.0
        while len(history) < t and not player.ended:
            action = self._act(policy, player.observation, noise[len(history)])
            total += player.step(action)
            history.append(action)
        count = len(history)
        sampled = player.observation.copy()
        deviation = self._noise_std * noise[t]
        mean = policy(sampled[None, :])[0, 0]
        for branch in range(2 if antithetic else 1):
            if branch == 1:
                player.start(*start)
                for action in history:
                    player.step(action)
                count += len(history)
            value = 0.0
            for k in range(t, t + 1 + T):
                if player.ended:
                    break
                if k == t:
                    action = mean + deviation if branch == 0 else mean - deviation
                else:
                    action = self._act(policy, player.observation, noise[k])
                value += player.step(action)
                count += 1
                if k == t and branch == 0:
                    total += value
            result.values[i, b, branch] = value
        result.observations[i, b] = sampled
        result.deviations[i, b] = deviation
        result.returns[i, b] = total
        result.steps[i, b] = count

    def _act(self, policy: Expansion, observation: Floats, noise: Floats) -> Floats:
        action: Floats = policy(observation[None, :])[0, 0] + self._noise_std * noise
        return action

    def close(self) -> None:
        """Close the environments."""
        for player in self._players:
            player.close()


def gymnasium_episodes(
    task: Task, policy: Expansion, noise_std: Floats, plan: EpisodePlan
) -> Episodes:
    """Run whole episodes of any task; ``policy`` is one function."""
    n, steps, p = plan.noise.shape
    q = task.observation_space.shape[0]
    rewards, lengths = np.zeros((n, steps)), np.zeros(n, dtype=np.int64)
    observations, actions = np.empty((n, steps + 1, q)), np.zeros((n, steps, p))
    player = _Player(task)
    try:
        for e in range(n):
            player.start(int(plan.seeds[e]), plan.uniforms[e])
            observations[e] = player.observation
            for k in range(steps):
                if player.ended:
                    break
                mean: Any = policy(player.observation[None, :])[0, 0]
                actions[e, k] = mean + noise_std * plan.noise[e, k]
                rewards[e, k] = player.step(actions[e, k])
                observations[e, k + 1 :] = player.observation
                lengths[e] += 1
    finally:
        player.close()
    return Episodes(rewards, lengths, observations, actions, None)
