"""Rollouts by processes of this machine, or in this one, whichever is faster.

To find that out, the first plans run here and are timed. If they take long enough for processes to
pay, these are started in the background, run the next plans and are timed too. The faster way is
kept; both give the same bits.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

from crosslearning.errors import CrossLearningError, InputError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import Samples
from crosslearning.rollouts.executor import Executor, Result
from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor
from crosslearning.rollouts.plan import Plan
from crosslearning.rollouts.sharded_executor import POLL, ShardedExecutor
from crosslearning.rollouts.worker import begin, run_job

#: Seconds of rollouts before processes are started: about the cost of starting them.
_START_AFTER = 5.0
#: Seconds of rollouts that are timed before a decision.
_TIMED = 1.0
#: Processes are not started if a plan takes fewer seconds.
_SHORTEST_PLAN = 0.02
#: The speed-up from which processes are kept.
_FASTER = 1.15


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


class AutoExecutor(Executor):
    """Runs Python environments in this process, or in others once that has proved faster.

    ``make_parallel`` returns the executor with workers, when it is first tried.
    """

    def __init__(
        self, serial: GymnasiumExecutor, make_parallel: Callable[[], ProcessExecutor]
    ) -> None:
        super().__init__(serial.tasks, serial.scale)
        self._serial, self._make_parallel = serial, make_parallel
        self._parallel: ProcessExecutor | None = None
        self._decided = False
        #: Seconds and steps of the plans of the executor that is being timed.
        self._timed: list[tuple[float, int]] = []
        self._serial_rate = 0.0  # seconds per step

    @property
    def workers(self) -> tuple[int, int]:
        """The number of live workers, and of those wanted, if they were chosen."""
        return self._parallel.workers if self._decided and self._parallel is not None else (0, 0)

    def run(self, policies: Expansion, plan: Plan, mirrored: bool = False) -> Result:
        """Run a plan, here or on workers as soon as they are ready."""
        executor: Executor = self._serial
        if self._parallel is not None and (self._decided or self._parallel.ready):
            executor = self._parallel
        start = time.perf_counter()
        try:
            result = executor.run(policies, plan, mirrored)
        except InputError as problem:
            if executor is self._serial or self._decided:
                raise
            self._stay_serial(str(problem))  # such as a task that a worker cannot make
            return self._serial.run(policies, plan, mirrored)
        # Workers that are starting slow this process down: that would not be a fair time.
        if not self._decided and (executor is not self._serial or self._parallel is None):
            steps = result.steps if isinstance(result, Samples) else result.lengths
            self._timed.append((time.perf_counter() - start, int(steps.sum())))
            self._decide()
        return result

    def _decide(self) -> None:
        times, steps = zip(*self._timed, strict=True)
        # The first plan, which makes environments, is not counted.
        calls, seconds, count = len(times) - 1, sum(times[1:]), sum(steps[1:])
        if calls < 2 or seconds < _TIMED or count == 0:
            return
        if self._parallel is not None:
            speed_up = self._serial_rate / (seconds / count)
            if speed_up < _FASTER:
                self._stay_serial()
                return
            self._decided = True
            self._serial.close()
            self.events.append(
                f"Rollouts go on in {self._parallel.workers[1]} processes, {speed_up:.1f} times "
                "as fast as in one. Otherwise: --on threads."
            )
        elif seconds / calls < _SHORTEST_PLAN:
            self._stay_serial()
        elif seconds >= _START_AFTER:
            self._timed, self._serial_rate = [], seconds / count
            try:
                self._parallel = self._make_parallel()
            except CrossLearningError as problem:  # such as tasks that cannot be sent
                self._stay_serial(str(problem))
            else:
                self._parallel.events = self.events
                self._parallel.start()  # in the background

    def _stay_serial(self, reason: str = "") -> None:
        self._decided = True
        if self._parallel is not None:
            self._parallel.close()
            self._parallel = None
        if reason:
            self.events.append(f"Rollouts stay in one process: {reason}")

    def close(self) -> None:
        """End the workers and close the environments."""
        self._serial.close()
        if self._parallel is not None:
            self._parallel.close()


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
