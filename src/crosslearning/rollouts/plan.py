"""The plan of an iteration: every random number that its rollouts will use.

A plan is drawn in one place, from the run's generator, before any rollout. A rollout is then a
pure function of its task, its policy and its part of the plan: threads, processes and other
machines give the same bits, and so does a resumed run.

The noise is scaled here: if executors multiplied, those that fuse a product with a sum would
round differently from those that do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crosslearning.rollouts.data import Floats, Integers
from crosslearning.tasks import Task


class SamplePlan(NamedTuple):
    """Random numbers for B gradient samples of every task (Algorithm 1, line 1).

    Attributes
    ----------
    seeds : array of int, shape (N, B)
        Seeds for environments that draw their initial state.
    uniforms : array, shape (N, B, u)
        Numbers in [0, 1) from which compiled dynamics make their initial state.
    before, after : arrays of int, shape (N, B)
        t and T: the number of steps before and after the sampled action.
    noise : array, shape (N, B, 1 + max(t + T), p)
        Added to the mean actions, one row per step; row t is the sampled action's.
    """

    seeds: Integers
    uniforms: Floats
    before: Integers
    after: Integers
    noise: Floats

    def most_steps(self, mirrored: bool) -> int:
        """Return the environment steps of the samples if no episode ends early."""
        return (1 + mirrored) * int(np.sum(self.before + self.after + 1))


class EpisodePlan(NamedTuple):
    """Random numbers for n episodes of every task, as in :class:`SamplePlan`.

    ``noise`` has shape (N, n, horizon, p) and is zero for deterministic policies.
    """

    seeds: Integers
    uniforms: Floats
    noise: Floats

    @property
    def most_steps(self) -> int:
        """The environment steps if no episode ends early."""
        return int(np.prod(self.noise.shape[:3]))


Plan = SamplePlan | EpisodePlan
_SEED_LIMIT = 2**31


def plan_samples(
    generator: np.random.Generator,
    tasks: Sequence[Task],
    batch_size: int,
    discount: float,
    noise_std: Floats | None = None,
) -> SamplePlan:
    """Draw the plan of B samples for each task; by default with unit noise."""
    shape = (len(tasks), batch_size)
    seeds, uniforms = _starts(generator, tasks, batch_size)
    # P(t) = (1−γ) γᵗ on t = 0, 1, …; NumPy's geometric distribution starts at 1.
    before = generator.geometric(1.0 - discount, size=shape) - 1
    after = generator.geometric(1.0 - discount, size=shape) - 1
    rows = 1 + int(np.max(before + after))
    drawn = generator.standard_normal((*shape, rows, tasks[0].action_size))
    return SamplePlan(
        seeds, uniforms, before, after, drawn if noise_std is None else drawn * noise_std
    )


def plan_episodes(
    generator: np.random.Generator,
    tasks: Sequence[Task],
    episodes: int,
    horizon: int,
    noise_std: Floats | None = None,
) -> EpisodePlan:
    """Draw the plan of episodes of every task; by default without noise."""
    seeds, uniforms = _starts(generator, tasks, episodes)
    shape = (len(tasks), episodes, horizon, tasks[0].action_size)
    drawn = np.zeros(shape) if noise_std is None else generator.standard_normal(shape) * noise_std
    return EpisodePlan(seeds, uniforms, drawn)


def _starts(
    generator: np.random.Generator, tasks: Sequence[Task], count: int
) -> tuple[Integers, Floats]:
    shape = (len(tasks), count)
    seeds = generator.integers(_SEED_LIMIT, size=shape)
    return seeds, generator.random((*shape, max(task.reset_size for task in tasks)))
