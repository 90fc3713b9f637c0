"""Rollouts by a pool of workers: processes of this machine, or of a Ray cluster."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import ActionScale, Episodes, Samples
from crosslearning.rollouts.executor import Executor, empty_result
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.rollouts.pool import WorkerPool
from crosslearning.rollouts.shards import Job, cut, part_of, put
from crosslearning.rollouts.worker import pack_policies, pack_setup
from crosslearning.tasks import Task


class ShardedExecutor(Executor):
    """Cuts plans into shards, runs them on workers and assembles the results.

    ``make_pool`` returns the pool for a packed setup; it is called when workers are first needed.
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

    def run(
        self, policies: Expansion, plan: SamplePlan | EpisodePlan, mirrored: bool = False
    ) -> Samples | Episodes:
        """Run a plan on the workers."""
        pool, (N, n) = self.start(), plan.seeds.shape
        shards = cut(N, n, pool.size, self._whole_tasks)
        jobs = [Job(shard, part_of(plan, shard), mirrored) for shard in shards]
        result: Samples | Episodes = empty_result(self.tasks, plan)
        outcomes: list[list[Any]] = [[{}] * n for _ in self.tasks]
        for shard, part in pool.run(pack_policies(policies, len(self.tasks)), jobs):
            put(part, shard, result)
            if isinstance(part, Episodes):
                for task, ended in zip(range(shard.first, shard.last), part.outcomes, strict=False):
                    outcomes[task][shard.first_sample : shard.last_sample] = ended
        while pool.warned:
            text, category, file, line = pool.warned.popleft()
            warnings.warn_explicit(text, category, file, line, registry=self._warned)
        if isinstance(result, Episodes) and not self._compiled:
            return result._replace(outcomes=outcomes)
        return result

    def close(self) -> None:
        """End the workers; the next plan starts new ones."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None

    def __del__(self) -> None:
        # At interpreter exit closing may fail; workers end with this process.
        if getattr(self, "pool", None) is not None and not sys.is_finalizing():
            self.close()
