"""Worker pools: shards run in other processes, and those lost with a worker run again.

There are two engines: processes of this machine by loky, below, and tasks of a Ray cluster, in
:mod:`crosslearning.rollouts.ray_cluster`. A worker has one shard at a time, so that none waits
behind a slow one.
"""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crosslearning.errors import TaskError
from crosslearning.rollouts.data import Episodes, Samples
from crosslearning.rollouts.shards import Job, Shard
from crosslearning.rollouts.worker import PROTOCOL, Answer, WarningRecord, begin, run_job

#: How many workers may be lost over one rollout.
MOST_LOST = 3
#: Seconds between two polls of the workers, so that Ctrl-C is handled on every platform.
POLL = 1.0
#: Seconds without an answer after which a warning is issued.
_PATIENCE = 60.0


class LostError(Exception):
    """A worker is lost; the message says how it ended."""


@dataclass
class _QueuedJob:
    number: int  # its order in the plan
    job: Job
    lost: int = 0  # how many workers were lost over it


class WorkerPool(ABC):
    """Workers in other processes; ``names`` are those of the tasks, for messages."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        #: Warnings of the environments.
        self.warned: deque[WarningRecord] = deque()
        #: Messages about lost workers.
        self.events: deque[str] = deque()

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of workers wanted."""

    @property
    @abstractmethod
    def alive(self) -> int:
        """The number of workers that can take jobs."""

    @property
    def ready(self) -> bool:
        """Whether all workers have started."""
        return True

    @property
    def refused(self) -> str:
        """Why workers cannot make the tasks; empty if they can."""
        return ""

    @abstractmethod
    def _share(self, policies: bytes) -> Any:
        """Store the policies for all workers; return a reference for jobs."""

    @abstractmethod
    def _submit(self, policies: Any, job: bytes) -> Any:
        """Submit a job; return a future."""

    @abstractmethod
    def _wait(self, futures: Sequence[Any]) -> Sequence[Any]:
        """Return the futures that are done, after at most one poll interval."""

    @abstractmethod
    def _result(self, future: Any) -> bytes:
        """Return the answer of a future that is done, or raise LostError."""

    @abstractmethod
    def _abandon(self) -> None:
        """Stop the running jobs."""

    @abstractmethod
    def close(self) -> None:
        """End all workers at once."""

    def run(
        self, policies: bytes, jobs: Sequence[Job]
    ) -> Iterator[tuple[Shard, Samples | Episodes]]:
        """Yield the results of all jobs as they complete; the longest jobs start first."""
        queue = deque(_QueuedJob(number, job) for number, job in enumerate(jobs))
        queue = deque(sorted(queue, key=lambda one: -one.job.steps))
        # Jobs that were lost twice run one at a time, to identify the one that ends its worker.
        suspects: deque[_QueuedJob] = deque()
        running: dict[Any, _QueuedJob] = {}
        problems: dict[int, Exception] = {}
        shared, patience = self._share(policies), time.monotonic() + _PATIENCE
        try:
            while queue or suspects or running:
                while (queue and len(running) < self.size) or (suspects and not running):
                    one = (queue or suspects).popleft()
                    running[self._submit(shared, pickle.dumps(one.job, PROTOCOL))] = one
                lost: list[tuple[_QueuedJob, str]] = []
                for future in self._wait(list(running)):
                    one = running.pop(future)
                    try:
                        answer: Answer = pickle.loads(self._result(future))
                    except LostError as problem:
                        lost.append((one, str(problem)))
                        continue
                    patience = float("inf")
                    self.warned.extend(answer.warned)
                    if answer.problem is not None:
                        problems[one.number] = answer.problem
                    else:
                        assert answer.result is not None
                        yield one.job.shard, answer.result
                self._requeue(lost, queue, suspects, problems)
                if problems:
                    queue.clear()
                    suspects.clear()
                if time.monotonic() > patience:
                    patience = float("inf")
                    warnings.warn(
                        f"none of {self.size} workers has answered yet; waiting. Does the machine, "
                        "or the cluster, have processors to spare?",
                        stacklevel=2,
                    )
        finally:
            if running:  # interrupted
                self._abandon()
        if problems:
            raise problems[min(problems)]  # the first in the plan, whichever came first

    def _requeue(
        self,
        lost: Sequence[tuple[_QueuedJob, str]],
        queue: deque[_QueuedJob],
        suspects: deque[_QueuedJob],
        problems: dict[int, Exception],
    ) -> None:
        """Queue lost jobs again, the second time rollout by rollout, to name the culprit."""
        if lost:
            self.events.append(f"A worker {lost[0][1]}; its work is done again by another.")
        for one, how in lost:
            number, job, times = one.number, one.job, one.lost + 1
            if times == MOST_LOST:
                problems[number] = TaskError(
                    f"{times} workers were lost over task {self._names[job.shard.first]!r}, the "
                    f"episode with seed {job.plan.seeds[0, 0]}; the last one {how}. The iteration "
                    "was not applied"
                )
            elif times == MOST_LOST - 1:
                suspects.extend(_QueuedJob(number, part, times) for part in job.split())
            else:
                queue.appendleft(_QueuedJob(number, job, times))


class ProcessPool(WorkerPool):
    """Processes of this machine, started at once.

    ``setup`` is from :func:`~crosslearning.rollouts.worker.pack_setup`; ``step_seconds`` is the
    time limit of an environment step.
    """

    def __init__(
        self, setup: bytes, names: Sequence[str], workers: int, step_seconds: float | None = None
    ) -> None:
        super().__init__(names)
        self._workers, self._step_seconds, self._calls = workers, step_seconds, 0
        self._folder = tempfile.TemporaryDirectory(prefix="crosslearning-")
        self._setup = Path(self._folder.name) / "setup"
        self._setup.write_bytes(setup)
        self._executor: Any = None
        self._started: list[Future[str]] = []
        self._start()

    def _start(self) -> None:
        """Start the processes, unless they run; they initialise in the background."""
        from loky.process_executor import ProcessPoolExecutor

        if self._executor is not None:
            return
        setup = str(self._setup), self._setup, self._step_seconds
        with safe_start():
            self._executor = ProcessPoolExecutor(
                self._workers, initializer=_set_up_process, initargs=(os.getpid(),)
            )
            self._started = [self._executor.submit(begin, *setup) for _ in range(self._workers)]

    @property
    def size(self) -> int:
        """The number of workers wanted."""
        return self._workers

    @property
    def alive(self) -> int:
        """The number of running processes."""
        return len(self.pids)

    @property
    def pids(self) -> list[int]:
        """The process identifiers."""
        processes = {} if self._executor is None else self._executor._processes or {}
        return [pid for pid, process in processes.items() if process.is_alive()]

    @property
    def ready(self) -> bool:
        """Whether all workers have started."""
        return all(one.done() for one in self._started)

    @property
    def refused(self) -> str:
        """Why workers cannot make the tasks; empty if they can."""
        done = (one for one in self._started if one.done() and one.exception() is None)
        return next((one.result() for one in done if one.result()), "")

    def _share(self, policies: bytes) -> tuple[int, Path]:
        self._calls += 1
        path = self._setup.with_name("policies")
        path.write_bytes(policies)
        return self._calls, path

    def _submit(self, policies: tuple[int, Path], job: bytes) -> Future[bytes]:
        self._start()
        setup = str(self._setup), self._setup, self._step_seconds
        with safe_start():
            try:
                future: Future[bytes] = self._executor.submit(run_job, *setup, *policies, job)
            except RuntimeError:  # the executor broke since the last answer
                future = Future()
                future.set_exception(LostError("was lost"))
        return future

    def _wait(self, futures: Sequence[Future[bytes]]) -> Sequence[Future[bytes]]:
        done, pending = wait(futures, timeout=POLL, return_when=FIRST_COMPLETED)
        if any(isinstance(one.exception(), RuntimeError) for one in done):
            done |= wait(pending, timeout=POLL).done  # all are lost with one
        return list(done)

    def _result(self, future: Future[bytes]) -> bytes:
        from loky.process_executor import BrokenProcessPool

        try:
            return future.result()
        except BrokenProcessPool as problem:
            if self._executor is not None and self._executor._flags.broken is not None:
                self._executor.shutdown(wait=False, kill_workers=True)
                self._executor = None  # the next job starts another
            raise LostError(_exit_of(str(problem))) from None

    def _abandon(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, kill_workers=True)
            self._executor, self._started = None, []

    def close(self) -> None:
        """End all workers at once."""
        self._abandon()
        self._folder.cleanup()


def _exit_of(text: str) -> str:
    """Return how a worker ended, from loky's message."""
    codes = text.rpartition("exit codes of the workers are {")[2].partition("}")[0]
    for name, _, number in (code.partition("(") for code in codes.split(", ") if "(" in code):
        if name.startswith("SIG"):
            return f"was ended by {name}"
        if number.rstrip(")") != "0":
            return f"ended with code {number.rstrip(')')}"
    return "was lost"


@contextmanager
def safe_start() -> Iterator[None]:
    """Start processes that import nothing from the working folder and ignore Ctrl-C."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    blocked = hasattr(signal, "pthread_sigmask")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if blocked else None
    try:
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _set_up_process(parent: int) -> None:
    """Ignore Ctrl-C, and exit when the parent is gone, even if it was killed."""
    os.environ.pop("PYTHONSAFEPATH", None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
