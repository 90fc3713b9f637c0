"""Shards: parts of a plan that run independently.

A rollout is a pure function of its task, its policy and its part of the plan, so any partition
gives the same bits, and a shard that was lost with its worker can be run again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from crosslearning.rollouts.data import Episodes, Samples
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan

#: More shards than workers, so that a slow one does not delay all others.
SHARDS_PER_WORKER = 4


class Shard(NamedTuple):
    """The rollouts ``first_sample`` … ``last_sample``−1 of the tasks ``first`` … ``last``−1."""

    first: int
    last: int
    first_sample: int
    last_sample: int

    @property
    def place(self) -> tuple[slice, slice]:
        """Index into the arrays of a plan and of its result."""
        return slice(self.first, self.last), slice(self.first_sample, self.last_sample)


def cut(tasks: int, samples: int, workers: int, whole_tasks: bool = False) -> list[Shard]:
    """Return the shards of a plan with so many samples of each task.

    With ``whole_tasks``, all rollouts of a task are in one shard.
    """
    wanted = SHARDS_PER_WORKER * workers
    blocks = min(tasks, wanted)
    pieces = 1 if whole_tasks else min(samples, math.ceil(wanted / blocks))
    rows = np.linspace(0, tasks, blocks + 1).astype(int).tolist()
    columns = np.linspace(0, samples, pieces + 1).astype(int).tolist()
    return [Shard(*row, *column) for row in pairwise(rows) for column in pairwise(columns)]


class Job(NamedTuple):
    """A shard, its part of the plan, and whether its samples are mirrored."""

    shard: Shard
    plan: SamplePlan | EpisodePlan
    mirrored: bool = False

    @property
    def steps(self) -> int:
        """The most environment steps it can take."""
        if isinstance(self.plan, EpisodePlan):
            return int(self.plan.seeds.size * self.plan.noise.shape[2])
        lengths = self.plan.before + 1 + self.plan.after
        return int(lengths.sum()) * (2 if self.mirrored else 1)

    def split(self) -> Iterator[Job]:
        """Yield one job for each rollout."""
        first, _, first_sample, _ = self.shard
        for i, b in np.ndindex(*self.plan.seeds.shape):
            plan = part_of(self.plan, Shard(i, i + 1, b, b + 1))
            task, sample = first + i, first_sample + b
            yield Job(Shard(task, task + 1, sample, sample + 1), plan, self.mirrored)


def part_of(plan: SamplePlan | EpisodePlan, shard: Shard) -> SamplePlan | EpisodePlan:
    """Return a shard's part of a plan, without rows of noise that it does not use."""
    arrays: dict[str, Any] = {k: array[shard.place] for k, array in plan._asdict().items()}
    if isinstance(plan, SamplePlan):
        rows = 1 + int(np.max(arrays["before"] + arrays["after"]))
        arrays["noise"] = arrays["noise"][:, :, :rows]
    return plan._replace(**{name: np.ascontiguousarray(array) for name, array in arrays.items()})


def put(part: Samples | Episodes, shard: Shard, result: Samples | Episodes) -> None:
    """Write the result of a shard into that of the whole plan."""
    for source, target in zip(part, result, strict=True):
        if isinstance(target, np.ndarray):
            place: Any = shard.place
            if target.ndim == 4 and source.shape[3] < target.shape[3]:  # states of smaller tasks
                place = (*place, slice(None), slice(source.shape[3]))
            target[place] = source
