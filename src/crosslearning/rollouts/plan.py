"""The plan of an iteration: every random number that its rollouts will use.

Drawn in one place, from the run's one generator, before anything is run. A rollout is then a
pure function of its task, its policy and its part of the plan, so that one thread, several, or
another machine give the same bits, and a run that goes on is the run that was never stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.tasks import Task

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class SamplePlan(NamedTuple):
    """Random numbers for one gradient sample of every task, B times (Algorithm 1, line 1).

    Attributes
    ----------
    seeds : array of int, shape (N, B)
        Seeds for environments that draw their own start.
    uniforms : array, shape (N, B, u)
        Numbers in [0, 1) from which compiled dynamics make their start.
    before : array of int, shape (N, B)
        t: how many steps lead to the state that is sampled.
    after : array of int, shape (N, B)
        T: how many steps follow the sampled action.
    noise : array, shape (N, B, 1 + max(t + T), p)
        Standard normal numbers, one row a step: row t is the sampled action's.
    """

    seeds: Integers
    uniforms: Floats
    before: Integers
    after: Integers
    noise: Floats


class EpisodePlan(NamedTuple):
    """Random numbers for whole episodes of one task.

    Attributes
    ----------
    seeds : array of int, shape (n,)
    uniforms : array, shape (n, u)
    noise : array, shape (n, steps, p)
        Standard normal numbers; zero for a policy without noise.
    """

    seeds: Integers
    uniforms: Floats
    noise: Floats


_SEED_LIMIT = 2**31


def plan_samples(
    generator: np.random.Generator, tasks: Sequence[Task], batch_size: int, discount: float
) -> SamplePlan:
    """Draw the plan of one iteration: B samples for each task."""
    shape = (len(tasks), batch_size)
    outputs = tasks[0].action_space.shape[0]
    reset_size = max(task.reset_size for task in tasks)
    seeds = generator.integers(_SEED_LIMIT, size=shape)
    uniforms = generator.random((*shape, reset_size))
    # P(t) = (1−γ) γᵗ on t = 0, 1, …; NumPy's geometric distribution starts at 1.
    before = generator.geometric(1.0 - discount, size=shape) - 1
    after = generator.geometric(1.0 - discount, size=shape) - 1
    rows = 1 + int(np.max(before + after))
    noise = generator.standard_normal((*shape, rows, outputs))
    return SamplePlan(seeds, uniforms, before, after, noise)


def plan_episodes(
    generator: np.random.Generator, task: Task, episodes: int, steps: int, deterministic: bool
) -> EpisodePlan:
    """Draw the plan of whole episodes of one task."""
    outputs = task.action_space.shape[0]
    seeds = generator.integers(_SEED_LIMIT, size=episodes)
    uniforms = generator.random((episodes, task.reset_size))
    shape = (episodes, steps, outputs)
    noise = np.zeros(shape) if deterministic else generator.standard_normal(shape)
    return EpisodePlan(seeds, uniforms, noise)
