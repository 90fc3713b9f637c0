"""Rollouts by workers elsewhere: processes of this machine, or those of a Ray cluster."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import ActionScale, Episodes, Samples
from crosslearning.rollouts.executor import empty_episodes
from crosslearning.rollouts.outcomes import collect_outcomes
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.rollouts.pool import WorkerPool
from crosslearning.rollouts.shards import Job, Shard, cut, part_of, put
from crosslearning.rollouts.worker import pack_policies, pack_setup
from crosslearning.tasks import Task

#: From what workers begin with to the workers.
MakePool = Callable[[bytes], WorkerPool]


class ShardedExecutor:
    """Cuts plans into shards, lets workers run them and puts their results together.

    Parameters
    ----------
    tasks : sequence of Task
    make_pool : callable
        Returns the workers, from what they begin with; called when they are first needed.
    scale : ActionScale, optional
        From the policies' actions to the tasks' units; by default they are the same.
    """

    def __init__(
        self, tasks: Sequence[Task], make_pool: MakePool, scale: ActionScale | None = None
    ) -> None:
        self.tasks = tuple(tasks)
        self.scale = scale or ActionScale.none(tasks[0].action_size)
        self._compiled = all(task.dynamics is not None for task in tasks)
        # The sub-environments of a vector environment begin together: another cut, other waves.
        self._whole_tasks = any(task.vector for task in tasks) and not self._compiled
        self._make_pool = make_pool
        # What cannot travel is refused at once, and workers start when they are needed.
        self._setup = pack_setup(self.tasks, self.scale)
        #: The workers, once there are some.
        self.pool: WorkerPool | None = None
        self._warned: dict[Any, Any] = {}

    def start(self) -> WorkerPool:
        """Return the workers, which need not be ready yet."""
        if self.pool is None:
            self.pool = self._make_pool(self._setup)
        return self.pool

    def samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        """Run one sample of every task B times."""
        N, B = plan.before.shape
        result = Samples.empty(N, B, self.tasks[0].observation_size, plan.noise.shape[3])
        for shard, part in self._run(policies, plan, mirrored):
            put(part, shard, result)
        return result

    def episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run whole episodes of every task."""
        return collect_outcomes(self.tasks, self.run_episodes(policies, plan))

    def run_episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run episodes whose outcomes are still one by one, or in their last states."""
        result = empty_episodes(self.tasks, plan)
        ends: list[list[Any]] = [[{}] * plan.seeds.shape[1] for _ in self.tasks]
        for shard, part in self._run(policies, plan):
            put(part, shard, result)
            for task, ended in zip(ends[shard.first : shard.last], part.outcomes, strict=False):
                task[shard.first_sample : shard.last_sample] = ended
        return result._replace(outcomes=() if self._compiled else ends)

    def _run(
        self, policies: Expansion, plan: SamplePlan | EpisodePlan, mirrored: bool = False
    ) -> Iterator[tuple[Shard, Any]]:
        pool = self.start()
        N, n = plan.seeds.shape
        shards = cut(N, n, pool.size, self._whole_tasks)
        jobs = [Job(shard, part_of(plan, shard), mirrored) for shard in shards]
        yield from pool.run(pack_policies(policies, len(self.tasks)), jobs)
        while pool.warned:
            text, category, file, line = pool.warned.popleft()
            warnings.warn_explicit(text, category, file, line, registry=self._warned)

    def close(self) -> None:
        """End the workers; asked again, others are started."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None

    def __del__(self) -> None:
        # When Python itself ends, what closing needs may be gone; workers end with this process.
        if getattr(self, "pool", None) is not None and not sys.is_finalizing():
            self.close()
