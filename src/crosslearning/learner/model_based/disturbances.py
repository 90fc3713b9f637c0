"""Disturbances that were seen, replayed in imagined rollouts.

What a model leaves of a real step, its residual, is a disturbance: a meal, weather, or an error of
the model there. Around a controller imagined rollouts replay the residuals of a real episode, from
the step on at which they begin. With the controller alone a model then repeats that episode, and
with other policies it says what would have happened in it. So all policies meet the same
disturbances, and what they gain is not hidden by what the models cannot know. Stochastic value
gradients (Heess et al. 2015, "Learning continuous control policies by stochastic value gradients",
NeurIPS) infer the noise of real steps in this way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crosslearning.learner.model_based.data import Transitions
from crosslearning.learner.model_based.imagination import World, imagine
from crosslearning.rkhs import Family, Kernel
from crosslearning.rkhs.checks import Floats, Integers


class Disturbances:
    """The residuals of sampled models at the steps of all tasks.

    ``steps`` are those of N tasks and of related ones, whose models ``world`` does not hold:
    nothing disturbs them.
    """

    def __init__(self, world: World, steps: Sequence[Transitions], tasks: int, kernel: Kernel):
        counts = [len(one.rewards) for one in steps]
        every, own = Transitions.joined(steps), Transitions.joined(steps[:tasks])
        task = np.repeat(np.arange(tasks), counts[:tasks])
        N, S = tasks, world.functions.rows.shape[0] // tasks
        still = Family.zeros(kernel, N, own.actions.shape[1]).expansion
        q = own.states.shape[1]
        #: Shape (S, n, q + 1), of observations and the reward.
        self.values = np.zeros((S, len(every.rewards), q + 1))
        limits = world.limits.copy()
        limits[:, :q][:, world.is_angle == 0] = [[-np.inf], [np.inf]]
        limits[:, q:] = [[-np.inf], [np.inf]]
        free = world._replace(limits=limits, ends=0)
        width = np.where(world.is_angle == 1, limits[1, :q] - limits[0, :q], np.inf)
        for s in range(S):
            path = imagine(still, free, own.states, task, task + N * s, own.actions[:, None])
            rest = own.after - path.states[:, 1]
            with np.errstate(invalid="ignore"):
                wrapped = (rest + 0.5 * width) % width - 0.5 * width
            self.values[s, : len(own.rewards), :q] = np.where(world.is_angle == 1, wrapped, rest)
            rewards = own.rewards - path.rewards[:, 0]
            self.values[s, : len(own.rewards), q] = np.where(own.terminated, 0.0, rewards)
        #: Of every step, where its episode ends.
        edges = np.append(np.flatnonzero(every.first), len(every.rewards))
        self.ends = np.repeat(edges[1:], np.diff(edges))

    def along(self, sample: Integers, start: Integers, length: int) -> Floats:
        """Return those of rollouts from steps (n,) on in models, shape (n, length, q + 1).

        Nothing disturbs a rollout after the end of the episode that it replays.
        """
        ahead = start[:, None] + np.arange(length)
        there = ahead < self.ends[start, None]
        return self.values[sample[:, None], np.where(there, ahead, 0)] * there[..., None]
