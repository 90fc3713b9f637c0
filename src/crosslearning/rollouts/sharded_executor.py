"""Rollouts by workers elsewhere: processes of this machine, or those of a Ray cluster."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.crew import Crew
from crosslearning.rollouts.data import ActionScale, Episodes, Samples
from crosslearning.rollouts.executor import empty_episodes
from crosslearning.rollouts.outcomes import tell_outcomes
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.rollouts.shards import Job, Shard, cut, part_of, put
from crosslearning.rollouts.worker import pack_kit, pack_policies
from crosslearning.tasks import Task

#: From what workers begin with to the workers.
Hire = Callable[[bytes], Crew]


class ShardedExecutor:
    """Cuts plans into shards, lets workers run them and puts together what they find.

    Parameters
    ----------
    tasks : sequence of Task
    hire : callable
        Returns the crew, from what a worker begins with; called when it is first needed.
    scale : ActionScale, optional
        From the policies' actions to the tasks' units; by default they are the same.
    """

    def __init__(self, tasks: Sequence[Task], hire: Hire, scale: ActionScale | None = None) -> None:
        self.tasks = tuple(tasks)
        self.scale = scale or ActionScale.none(tasks[0].action_size)
        self._compiled = all(task.dynamics is not None for task in tasks)
        # The sub-environments of a vector environment begin together: another cut, other waves.
        self._whole_tasks = any(task.vector for task in tasks) and not self._compiled
        self._hire = hire
        # What cannot travel is told at once, and workers start when they are needed.
        self._kit = pack_kit(self.tasks, self.scale)
        #: The workers, once they were started.
        self.crew: Crew | None = None
        self._told: dict[Any, Any] = {}

    def start(self) -> Crew:
        """Start the workers, unless they were, and return them; they need not be ready yet."""
        if self.crew is None:
            self.crew = self._hire(self._kit)
        return self.crew

    def samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        """Run one sample of every task B times."""
        N, B = plan.before.shape
        result = Samples.empty(N, B, self.tasks[0].observation_size, plan.noise.shape[3])
        for shard, found in self._run(policies, plan, mirrored):
            put(found, shard, result)
        return result

    def episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run whole episodes of every task."""
        return tell_outcomes(self.tasks, self.run_episodes(policies, plan))

    def run_episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run episodes whose outcomes are still one by one, or in their last states."""
        result = empty_episodes(self.tasks, plan)
        ends: list[list[Any]] = [[{}] * plan.seeds.shape[1] for _ in self.tasks]
        for shard, found in self._run(policies, plan):
            put(found, shard, result)
            for task, own in zip(ends[shard.first : shard.last], found.outcomes, strict=False):
                task[shard.first_sample : shard.last_sample] = own
        return result._replace(outcomes=() if self._compiled else ends)

    def _run(
        self, policies: Expansion, plan: SamplePlan | EpisodePlan, mirrored: bool = False
    ) -> Iterator[tuple[Shard, Any]]:
        crew = self.start()
        N, n = plan.seeds.shape
        shards = cut(N, n, max(1, crew.size), self._whole_tasks)
        jobs = [Job(shard, part_of(plan, shard), mirrored) for shard in shards]
        yield from crew.run(pack_policies(policies, len(self.tasks)), jobs)
        while crew.told:
            text, category, file, line = crew.told.popleft()
            warnings.warn_explicit(text, category, file, line, registry=self._told)

    def close(self) -> None:
        """End the workers; asked again, others are started."""
        if self.crew is not None:
            self.crew.close()
            self.crew = None

    def __del__(self) -> None:
        # When Python itself ends, what closing needs may be gone; workers end with this process.
        if getattr(self, "crew", None) is not None and not sys.is_finalizing():
            self.close()
