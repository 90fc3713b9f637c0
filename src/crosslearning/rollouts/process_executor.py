"""Rollouts by processes of this machine."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

from crosslearning.rollouts.sharded_executor import POLL, ShardedExecutor
from crosslearning.rollouts.worker import begin, run_job


class ProcessExecutor(ShardedExecutor):
    """Runs rollouts in processes of this machine."""

    _pool: Any = None
    _first: Future[int] | None = None

    def start(self) -> None:
        """Start the processes unless they run; they initialise in the background."""
        if self._pool is None:
            with safe_start():
                arguments = os.getpid(), self._setup
                self._pool = ProcessPoolExecutor(
                    self._wanted, initializer=_set_up, initargs=arguments
                )
                self._first = self._pool.submit(os.getpid)

    @property
    def ready(self) -> bool:
        """Whether a worker has started."""
        return self._first is not None and self._first.done()

    @property
    def pids(self) -> list[int]:
        """The identifiers of the running processes."""
        processes = {} if self._pool is None else self._pool._processes or {}
        return [pid for pid, process in processes.items() if process.is_alive()]

    def _alive(self) -> int:
        return len(self.pids)

    def _submit(self, job: bytes) -> Future[bytes]:
        self.start()
        future: Future[bytes] = Future()
        with safe_start():
            try:
                future = self._pool.submit(run_job, "", b"", job)
            except BrokenProcessPool as problem:  # since the last answer
                future.set_exception(problem)
        return future

    def _how_lost(self, problem: BaseException) -> str:
        if not isinstance(problem, BrokenProcessPool):
            raise problem
        if self._pool is not None and self._pool._flags.broken is not None:
            self._pool.shutdown(wait=False, kill_workers=True)
            self._pool = None  # the next job starts another
        # loky's message lists the names and codes of exits.
        for name, code in re.findall(r"(\w+)\((-?\d+)\)", str(problem)):
            if name.startswith("SIG"):
                return f"was ended by {name}"
            if code != "0":
                return f"ended with code {code}"
        return "was lost"

    def close(self) -> None:
        """End all processes at once; the next plan starts new ones."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None


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


def _set_up(parent: int, setup: bytes) -> None:
    """Make the tasks, ignore Ctrl-C, and exit when the parent is gone, even if it was killed."""
    os.environ.pop("PYTHONSAFEPATH", None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    begin("", setup)
