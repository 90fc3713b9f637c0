"""Rollouts by workers: processes of this machine, or of a Ray cluster.

A plan is cut into shards, and a worker has one at a time, so that none waits behind a slow one. A
rollout is a pure function of its task, its policy and its part of the plan: any cut gives the same
bits, and a shard that was lost with its worker is run again.
"""

from __future__ import annotations

import math
import pickle
import sys
import time
import warnings
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import pairwise, product
from typing import Any

import numpy as np

from crosslearning.errors import TaskError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import ActionScale
from crosslearning.rollouts.executor import Executor, Result, empty_result
from crosslearning.rollouts.plan import Plan, SamplePlan
from crosslearning.rollouts.worker import PROTOCOL, Job, pack_setup
from crosslearning.tasks import Task

#: More shards than workers, so that a slow one does not delay all others.
SHARDS_PER_WORKER = 4
#: How many workers may be lost over one rollout.
MOST_LOST = 3
#: Seconds between two polls of the workers, so that Ctrl-C is handled on every platform.
POLL = 1.0
#: Seconds without an answer after which a warning is issued.
_PATIENCE = 60.0


class ShardedExecutor(Executor):
    """Cuts plans into shards, runs them on workers and assembles the results.

    ``workers`` None stands for as many as can run. ``step_seconds`` limits the duration of an
    environment step. Workers start with the first plan.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        workers: int | None = None,
        scale: ActionScale | None = None,
        step_seconds: float | None = None,
    ) -> None:
        super().__init__(tasks, scale)
        # The sub-environments of a vector environment are reset together: their waves stay whole.
        compiled = all(task.dynamics is not None for task in tasks)
        self._whole_tasks = any(task.vector for task in tasks) and not compiled
        self._wanted = workers
        # Here, so that tasks that cannot be sent are refused before any worker starts.
        self._setup = pack_setup(self.tasks, self.scale, step_seconds)
        self._warned: dict[Any, Any] = {}

    @abstractmethod
    def start(self) -> None:
        """Start the workers unless they run; they initialise in the background."""

    @abstractmethod
    def _alive(self) -> int:
        """Return the number of workers that can take jobs, 0 before the start."""

    @abstractmethod
    def _submit(self, job: bytes) -> Future[bytes]:
        """Submit a job to a worker's ``run_job``."""

    @abstractmethod
    def _how_lost(self, problem: BaseException) -> str:
        """Return how the worker of a failed future ended; raise if it was not lost."""

    @property
    def workers(self) -> tuple[int, int]:
        """The number of live workers, and of those wanted."""
        return self._alive(), self._size

    @property
    def _size(self) -> int:
        return self._wanted or self._alive()

    def run(self, policies: Expansion, plan: Plan, mirrored: bool = False) -> Result:
        """Run a plan on the workers; the longest jobs start first."""
        self.start()
        result = empty_result(self.tasks, plan)

        def job_at(number: int, place: Place, lost: int = 0) -> Job:
            rows = policies._replace(rows=policies.rows[place[0]])
            return Job(number, place, part_of(plan, place), mirrored, rows, lost)

        places = cut(plan, self._size, self._whole_tasks)
        jobs = [job_at(number, place) for number, place in enumerate(places)]
        queue = deque(sorted(jobs, key=lambda job: -job.steps))
        # Rollouts lost twice run one at a time, to identify the one that ends its worker.
        suspects: deque[Job] = deque()
        running: dict[Future[bytes], Job] = {}
        problems: dict[int, Exception] = {}
        patience = time.monotonic() + _PATIENCE
        try:
            while queue or suspects or running:
                while (queue and len(running) < self._size) or (suspects and not running):
                    job = (queue or suspects).popleft()
                    running[self._submit(pickle.dumps(job, PROTOCOL))] = job
                done, pending = wait(running, timeout=POLL, return_when=FIRST_COMPLETED)
                if any(future.exception() for future in done):
                    done |= wait(pending, timeout=POLL).done  # others may be lost with it
                how = ""
                for future in done:
                    job = running.pop(future)
                    problem = future.exception()
                    if problem is not None:
                        how = self._how_lost(problem)
                        job.lost += 1
                        if job.lost == MOST_LOST:
                            problems[job.number] = self._culprit(job, how)
                        elif job.lost == MOST_LOST - 1:
                            number, lost = job.number, job.lost
                            suspects += [job_at(number, one, lost) for one in single(job.place)]
                        else:
                            queue.appendleft(job)
                        continue
                    part, problem, warned = pickle.loads(future.result())
                    patience = math.inf
                    for text, category, file, line in warned:
                        warnings.warn_explicit(text, category, file, line, registry=self._warned)
                    if problem is None:
                        put(part, job.place, result)
                    else:
                        problems[job.number] = problem
                if how:
                    self.events.append(f"A worker {how}; its work is done again by another.")
                if problems:
                    queue.clear()
                    suspects.clear()
                if time.monotonic() > patience:
                    patience = math.inf
                    warnings.warn(
                        f"none of {self._size} workers has answered yet; waiting. Does the "
                        "machine, or the cluster, have processors to spare?",
                        stacklevel=2,
                    )
        finally:
            if running:  # interrupted
                self.close()
        if problems:
            raise problems[min(problems)]  # the first in the plan, whichever came first
        return result

    def _culprit(self, job: Job, how: str) -> TaskError:
        return TaskError(
            f"{job.lost} workers were lost over task {self.tasks[job.place[0].start].name!r}, the "
            f"episode with seed {job.plan.seeds[0, 0]}; the last one {how}. The iteration was not "
            "applied"
        )

    def __del__(self) -> None:
        # At interpreter exit closing may fail; workers end with this process.
        if not sys.is_finalizing():
            self.close()


# Shards -----------------------------------------------------------------------------------------

#: Tasks and rollouts of each: an index into the arrays of a plan and of its result.
Place = tuple[slice, slice]


def cut(plan: Plan, workers: int, whole_tasks: bool = False) -> list[Place]:
    """Return the places of shards; with ``whole_tasks``, a task's rollouts stay together."""
    (tasks, samples), wanted = plan.seeds.shape, SHARDS_PER_WORKER * workers
    blocks = min(tasks, wanted)
    pieces = 1 if whole_tasks else min(samples, math.ceil(wanted / blocks))
    rows = np.linspace(0, tasks, blocks + 1).astype(int).tolist()
    columns = np.linspace(0, samples, pieces + 1).astype(int).tolist()
    return [(slice(*row), slice(*column)) for row in pairwise(rows) for column in pairwise(columns)]


def single(place: Place) -> list[Place]:
    """Return the places of the rollouts of a shard, one by one."""
    rows, columns = place
    pairs = product(range(rows.start, rows.stop), range(columns.start, columns.stop))
    return [(slice(task, task + 1), slice(sample, sample + 1)) for task, sample in pairs]


def part_of(plan: Plan, place: Place) -> Plan:
    """Return a part of a plan, without rows of noise that it does not use."""
    arrays: dict[str, Any] = {name: array[place] for name, array in plan._asdict().items()}
    if isinstance(plan, SamplePlan):
        rows = 1 + int(np.max(arrays["before"] + arrays["after"]))
        arrays["noise"] = arrays["noise"][:, :, :rows]
    return plan._replace(**{name: np.ascontiguousarray(array) for name, array in arrays.items()})


def put(part: Result, place: Place, result: Result) -> None:
    """Write the result of a shard into that of the whole plan."""
    for source, target in zip(part, result, strict=True):
        if isinstance(target, np.ndarray):
            # The states of a shard's tasks may be smaller than those of others.
            target[place][..., : source.shape[-1]] = source
