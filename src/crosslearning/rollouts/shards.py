"""Shards of a plan: parts that workers run on their own, and where their results belong.

A rollout is a pure function of its task, its policy and its part of the plan, so any cut gives
the same bits, and a part that was lost with its worker can simply be run again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from crosslearning.rollouts.data import Episodes, Samples
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan

#: More shards than workers, so that a slow one does not hold all others.
SHARDS_PER_WORKER = 4


class Shard(NamedTuple):
    """The rollouts ``first_sample`` … ``last_sample``−1 of the tasks ``first`` … ``last``−1."""

    first: int
    last: int
    first_sample: int
    last_sample: int

    @property
    def place(self) -> tuple[slice, slice]:
        """Where they stand in the arrays of a plan and of its result."""
        return slice(self.first, self.last), slice(self.first_sample, self.last_sample)


def cut(tasks: int, samples: int, workers: int, whole_tasks: bool = False) -> list[Shard]:
    """Return shards of a plan of so many tasks and samples; always the same for the same numbers.

    Parameters
    ----------
    tasks, samples : int
        N, and how many rollouts of each.
    workers : int
    whole_tasks : bool
        Whether the rollouts of a task stay together.
    """
    wanted = SHARDS_PER_WORKER * workers
    blocks = min(tasks, wanted)
    pieces = 1 if whole_tasks else min(samples, math.ceil(wanted / blocks))
    rows = np.linspace(0, tasks, blocks + 1).astype(int).tolist()
    columns = np.linspace(0, samples, pieces + 1).astype(int).tolist()
    return [
        Shard(first, last, first_sample, last_sample)
        for first, last in pairwise(rows)
        for first_sample, last_sample in pairwise(columns)
    ]


class Job(NamedTuple):
    """What a worker is asked for.

    Attributes
    ----------
    shard : Shard
    plan : SamplePlan or EpisodePlan
        Its part.
    mirrored : bool
        Of samples: whether with the opposite action too.
    """

    shard: Shard
    plan: SamplePlan | EpisodePlan
    mirrored: bool = False

    @property
    def steps(self) -> int:
        """How many environment steps it may take, so that the longest can be begun first."""
        if isinstance(self.plan, EpisodePlan):
            return int(self.plan.seeds.size * self.plan.noise.shape[2])
        lengths = self.plan.before + 1 + self.plan.after
        return int(lengths.sum()) * (2 if self.mirrored else 1)

    def split(self) -> Iterator[Job]:
        """Yield a job for every rollout alone."""
        first, _, first_sample, _ = self.shard
        for i, b in np.ndindex(*self.plan.seeds.shape):
            own = part_of(self.plan, Shard(i, i + 1, b, b + 1))
            task, sample = first + i, first_sample + b
            yield Job(Shard(task, task + 1, sample, sample + 1), own, self.mirrored)


def part_of(plan: SamplePlan | EpisodePlan, shard: Shard) -> SamplePlan | EpisodePlan:
    """Return a shard's part of a plan, with no more rows of noise than it uses."""
    arrays: dict[str, Any] = {k: array[shard.place] for k, array in plan._asdict().items()}
    if isinstance(plan, SamplePlan):
        rows = 1 + int(np.max(arrays["before"] + arrays["after"]))
        arrays["noise"] = arrays["noise"][:, :, :rows]
    return plan._replace(**{name: np.ascontiguousarray(array) for name, array in arrays.items()})


def put(found: Samples | Episodes, shard: Shard, result: Samples | Episodes) -> None:
    """Write the result of a shard to its place in that of the whole plan."""
    for own, whole in zip(found, result, strict=True):
        if isinstance(whole, np.ndarray):
            place: Any = shard.place
            if whole.ndim == 4 and own.shape[3] < whole.shape[3]:  # states of smaller tasks
                place = (*place, slice(None), slice(own.shape[3]))
            whole[place] = own
