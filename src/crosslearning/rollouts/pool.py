"""Worker pools: shards go to other processes, and what is lost with a worker is run again.

Two engines run them: processes of this machine by loky, and tasks of a Ray cluster. Each worker
has one shard at a time, so that nothing piles up behind a slow one.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crosslearning.errors import InputError, TaskError
from crosslearning.rollouts.data import Episodes, Samples
from crosslearning.rollouts.shards import Job, Shard
from crosslearning.rollouts.worker import (
    Answer,
    WarningRecord,
    begin,
    run_job,
    run_packed,
)

#: How many workers may be lost over one rollout.
MOST_LOST = 3
#: Seconds between two looks at the workers, so that Ctrl-C is noticed everywhere.
_POLL = 1.0
#: After so many seconds without an answer it is said that no worker is ready.
_PATIENCE = 60.0


class LostError(Exception):
    """A worker is gone; the message says how it ended."""


@dataclass
class _Piece:
    """A job on its way: its place in the order of the plan, and how often it was lost."""

    number: int
    job: Job
    lost: int = 0


class WorkerPool(ABC):
    """Workers in other processes.

    Parameters
    ----------
    names : sequence of str
        Of the tasks, for messages.

    Attributes
    ----------
    warned : deque of WarningRecord
        What environments warned of, for whoever takes it.
    events : deque of str
        What happened to workers, in sentences, for whoever shows them.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self.warned: deque[WarningRecord] = deque()
        self.events: deque[str] = deque()

    # What an engine has to say ------------------------------------------------------------

    @property
    @abstractmethod
    def size(self) -> int:
        """How many workers there are to be."""

    @property
    @abstractmethod
    def alive(self) -> int:
        """How many of them can take work."""

    @property
    def ready(self) -> bool:
        """Whether all workers have begun."""
        return True

    @property
    def refused(self) -> str:
        """Why the tasks cannot be made there; empty if nothing speaks against it."""
        return ""

    @abstractmethod
    def _share(self, policies: bytes) -> Any:
        """Put the policies where every worker finds them; return what a job needs to do so."""

    @abstractmethod
    def _submit(self, policies: Any, job: bytes) -> Any:
        """Hand a job to a worker; return a future."""

    @abstractmethod
    def _wait(self, futures: Sequence[Any]) -> Sequence[Any]:
        """Return those that are done, after a moment if none is."""

    @abstractmethod
    def _result(self, future: Any) -> bytes:
        """Return the answer of a future that is done, or raise LostError."""

    @abstractmethod
    def _abandon(self) -> None:
        """Stop what is running."""

    @abstractmethod
    def close(self) -> None:
        """End all workers, whatever they do."""

    # What both do -------------------------------------------------------------------------

    def run(
        self, policies: bytes, jobs: Sequence[Job]
    ) -> Iterator[tuple[Shard, Samples | Episodes]]:
        """Yield the result of every job, as it comes; the longest jobs are begun first."""
        longest_first = sorted(enumerate(jobs), key=lambda one: -one[1].steps)
        waiting = deque(_Piece(number, job) for number, job in longest_first)
        # Jobs that were lost twice: one at a time, to tell which of them ends its worker.
        suspects: deque[_Piece] = deque()
        running: dict[Any, _Piece] = {}
        problems: dict[int, Exception] = {}
        shared, patience = self._share(policies), time.monotonic() + _PATIENCE
        try:
            while waiting or suspects or running:
                while waiting and len(running) < self.size:
                    piece = waiting.popleft()
                    running[self._submit(shared, _packed(piece.job))] = piece
                if suspects and not running:
                    piece = suspects.popleft()
                    running[self._submit(shared, _packed(piece.job))] = piece
                lost: list[tuple[_Piece, str]] = []
                for future in self._wait(list(running)):
                    piece = running.pop(future)
                    try:
                        answer: Answer = pickle.loads(self._result(future))
                    except LostError as problem:
                        lost.append((piece, str(problem)))
                        continue
                    patience = float("inf")
                    self.warned.extend(answer.warned)
                    if answer.problem is not None:
                        problems[piece.number] = answer.problem
                    else:
                        assert answer.result is not None
                        yield piece.job.shard, answer.result
                self._run_again(lost, waiting, suspects, problems)
                if problems:
                    waiting.clear()
                    suspects.clear()
                if time.monotonic() > patience:
                    patience = float("inf")
                    warnings.warn(
                        f"none of {self.size} workers has answered yet; waiting. Does the machine, "
                        "or the cluster, have processors to spare?",
                        stacklevel=2,
                    )
        finally:
            if running:  # interrupted: nobody waits for these any more
                self._abandon()
        if problems:
            # Of several the first in the order of the plan, whoever was faster.
            raise problems[min(problems)]

    def _run_again(
        self,
        lost: Sequence[tuple[_Piece, str]],
        waiting: deque[_Piece],
        suspects: deque[_Piece],
        problems: dict[int, Exception],
    ) -> None:
        """Queue once more what was lost; at last rollout by rollout, to tell which it is."""
        if lost:
            how = lost[0][1]
            self.events.append(f"A worker {how}; its work is done again by another.")
        for piece, how in lost:
            number, job, times = piece.number, piece.job, piece.lost + 1
            if times == MOST_LOST:
                problems[number] = TaskError(
                    f"{times} workers were lost over task {self._names[job.shard.first]!r}, the "
                    f"episode with seed {job.plan.seeds[0, 0]}; the last one {how}. The iteration "
                    "was not applied"
                )
            elif times == MOST_LOST - 1:
                suspects.extend(_Piece(number, one, times) for one in job.split())
            else:
                waiting.appendleft(_Piece(number, job, times))


def _packed(job: Job) -> bytes:
    return pickle.dumps(job, protocol=4)


class ProcessPool(WorkerPool):
    """Processes of this machine.

    Parameters
    ----------
    setup : bytes
        What a worker begins with, as :func:`crosslearning.rollouts.worker.pack_setup` made it.
    names : sequence of str
        Of the tasks.
    workers : int
    step_seconds : float, optional
        The longest that a step of an environment may take.
    """

    def __init__(
        self, setup: bytes, names: Sequence[str], workers: int, step_seconds: float | None = None
    ) -> None:
        super().__init__(names)
        self._setup, self._workers, self._step_seconds = setup, workers, step_seconds
        self._executor: Any = None
        self._started: list[Future[str]] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._calls = 0

    def start(self) -> None:
        """Start the processes, unless they are there; they get ready by themselves."""
        from loky.process_executor import ProcessPoolExecutor

        if self._executor is not None:
            return
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="crosslearning-")
        path = Path(self._folder.name) / "setup"
        path.write_bytes(self._setup)
        with safe_start():
            self._executor = ProcessPoolExecutor(
                self._workers, initializer=_set_up_process, initargs=(os.getpid(),)
            )
            self._started = [
                self._executor.submit(begin, str(path), self._step_seconds)
                for _ in range(self._workers)
            ]

    @property
    def size(self) -> int:
        """How many workers there are to be."""
        return self._workers

    @property
    def alive(self) -> int:
        """How many processes are at work."""
        return len(self.pids)

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        processes = {} if self._executor is None else self._executor._processes or {}
        return [pid for pid, process in processes.items() if process.is_alive()]

    @property
    def ready(self) -> bool:
        """Whether all of them have begun."""
        return all(one.done() for one in self._started)

    @property
    def refused(self) -> str:
        """Why the tasks cannot be made there; empty if nothing speaks against it."""
        done = (one for one in self._started if one.done() and one.exception() is None)
        return next((one.result() for one in done if one.result()), "")

    def _share(self, policies: bytes) -> tuple[int, str]:
        self.start()
        self._calls += 1
        assert self._folder is not None
        path = Path(self._folder.name) / "policies"
        path.write_bytes(policies)
        return self._calls, str(path)

    def _submit(self, policies: tuple[int, str], job: bytes) -> Future[bytes]:
        self.start()
        assert self._folder is not None
        setup = str(Path(self._folder.name) / "setup")
        with safe_start():
            try:
                future: Future[bytes] = self._executor.submit(
                    run_job, setup, self._step_seconds, *policies, job
                )
            except RuntimeError:  # it broke since the last answer
                future = Future()
                future.set_exception(LostError("was lost"))
        return future

    def _wait(self, futures: Sequence[Future[bytes]]) -> Sequence[Future[bytes]]:
        done, pending = wait(futures, timeout=_POLL, return_when=FIRST_COMPLETED)
        if any(isinstance(one.exception(), RuntimeError) for one in done):
            done |= wait(pending, timeout=_POLL).done  # all are lost with one
        return list(done)

    def _result(self, future: Future[bytes]) -> bytes:
        from loky.process_executor import BrokenProcessPool

        try:
            return future.result()
        except BrokenProcessPool as problem:
            self._restart()
            raise LostError(_ending(str(problem))) from None

    def _restart(self) -> None:
        """Put away an executor that is broken; the next job starts another."""
        if self._executor is not None and self._executor._flags.broken is not None:
            self._executor.shutdown(wait=False, kill_workers=True)
            self._executor = None

    def _abandon(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, kill_workers=True)
            self._executor, self._started = None, []

    def close(self) -> None:
        """End all workers, whatever they do."""
        self._abandon()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _ending(text: str) -> str:
    """Return how a worker ended, from what loky says of it."""
    codes = text.rpartition("exit codes of the workers are {")[2].partition("}")[0]
    kinds = [code.partition("(") for code in codes.split(", ") if "(" in code]
    for name, _, number in kinds:
        if name.startswith("SIG"):
            return f"was ended by {name}"
        if number.rstrip(")") != "0":
            return f"ended with code {number.rstrip(')')}"
    return "was lost"


@contextmanager
def safe_start() -> Iterator[None]:
    """Start processes that import nothing from the working folder, and that do not see Ctrl-C."""
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
    """Leave Ctrl-C to the parent, and end with it, also if it was killed."""
    os.environ.pop("PYTHONSAFEPATH", None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class RayPool(WorkerPool):
    """Workers of a Ray cluster, each with one processor.

    Parameters
    ----------
    setup : bytes
    names : sequence of str
    address : str, optional
        ``host:port`` of the cluster; by default that of this machine, which is started if there
        is none.
    workers : int, optional
        By default as many as the cluster has processors, also when machines join it.
    step_seconds : float, optional
    """

    def __init__(
        self,
        setup: bytes,
        names: Sequence[str],
        address: str | None = None,
        workers: int | None = None,
        step_seconds: float | None = None,
    ) -> None:
        from crosslearning.rollouts.ray_cluster import join

        super().__init__(names)
        self._ray = join(address)
        self._workers, self._step_seconds = workers, step_seconds
        self._setup = self._ray.put(setup)  # once, for all workers
        self._key = self._setup.hex()
        self._call = self._ray.remote(num_cpus=1, max_retries=0)(_run_there)
        self._calls, self._looked, self._processors = 0, 0.0, 1
        self._running: set[Any] = set()

    @property
    def size(self) -> int:
        """How many workers there are to be."""
        return self._workers or self.alive

    @property
    def alive(self) -> int:
        """How many processors the cluster has for them."""
        if time.monotonic() - self._looked > _POLL:
            self._looked, before = time.monotonic(), self._processors
            self._processors = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
            if self._processors < before:
                self.events.append(
                    f"A machine of the cluster was lost; {self._processors} processors are left."
                )
        return min(self._workers or self._processors, self._processors)

    def _share(self, policies: bytes) -> tuple[int, Any]:
        self._calls += 1
        return self._calls, self._ray.put(policies)

    def _submit(self, policies: tuple[int, Any], job: bytes) -> Any:
        number, stored = policies
        future = self._call.remote(self._key, self._setup, self._step_seconds, number, stored, job)
        self._running.add(future)
        return future

    def _wait(self, futures: Sequence[Any]) -> Sequence[Any]:
        done: list[Any] = self._ray.wait(list(futures), timeout=_POLL)[0]
        return done

    def _result(self, future: Any) -> bytes:
        errors = self._ray.exceptions
        self._running.discard(future)
        try:
            answer: bytes = self._ray.get(future)
            return answer
        except errors.RayTaskError as problem:
            raise InputError(f"a worker of the cluster failed: {problem}") from None
        except errors.RayError as problem:
            kind = type(problem).__name__.removesuffix("Error")
            raise LostError(f"of the cluster was lost ({kind})") from None

    def _abandon(self) -> None:
        for future in self._running:
            with suppress(Exception):  # the cluster may be gone
                self._ray.cancel(future, force=True)
        self._running.clear()

    def close(self) -> None:
        """Stop what is running, and leave the cluster."""
        from crosslearning.rollouts.ray_cluster import leave

        self._abandon()
        leave()


def _run_there(
    key: str, setup: bytes, step_seconds: float | None, number: int, policies: bytes, job: bytes
) -> bytes:
    """Run a shard in a process of the cluster."""
    return run_packed(key, lambda: setup, step_seconds, number, lambda: policies, job)
