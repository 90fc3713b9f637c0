"""Rollouts by a pool of workers: processes of this machine, or of a Ray cluster."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import ActionScale, Episodes, Samples
from crosslearning.rollouts.executor import Executor, empty_episodes
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.rollouts.pool import WorkerPool
from crosslearning.rollouts.shards import Job, Shard, cut, part_of, put
from crosslearning.rollouts.worker import pack_policies, pack_setup
from crosslearning.tasks import Task


class ShardedExecutor(Executor):
    """Cuts plans into shards, runs them on workers and assembles the results.

    Parameters
    ----------
    tasks : sequence of Task
    make_pool : callable
        From the packed setup to the worker pool; called when workers are first needed.
    scale : ActionScale, optional
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        make_pool: Callable[[bytes], WorkerPool],
        scale: ActionScale | None = None,
    ) -> None:
        super().__init__(tasks, scale)
        self._compiled = all(task.dynamics is not None for task in tasks)
        # The sub-environments of a vector environment are reset together: their waves stay whole.
        self._whole_tasks = any(task.vector for task in tasks) and not self._compiled
        self._make_pool = make_pool
        # Here, so that tasks that cannot be sent are refused before any worker starts.
        self._setup = pack_setup(self.tasks, self.scale)
        self.pool: WorkerPool | None = None
        self._warned: dict[Any, Any] = {}

    def start(self) -> WorkerPool:
        """Return the pool; its workers need not be ready yet."""
        if self.pool is None:
            self.pool = self._make_pool(self._setup)
        return self.pool

    def samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        """Run B samples of every task."""
        result = self.empty_samples(plan)
        for shard, part in self._run(policies, plan, mirrored):
            put(part, shard, result)
        return result

    def run_episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run episodes without collecting their outcomes."""
        result = empty_episodes(self.tasks, plan)
        outcomes: list[list[Any]] = [[{}] * plan.seeds.shape[1] for _ in self.tasks]
        for shard, part in self._run(policies, plan):
            put(part, shard, result)
            for task, ended in zip(outcomes[shard.first : shard.last], part.outcomes, strict=False):
                task[shard.first_sample : shard.last_sample] = ended
        return result._replace(outcomes=() if self._compiled else outcomes)

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
        """End the workers; the next plan starts new ones."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None

    def __del__(self) -> None:
        # At interpreter exit closing may fail; workers end with this process.
        if getattr(self, "pool", None) is not None and not sys.is_finalizing():
            self.close()
