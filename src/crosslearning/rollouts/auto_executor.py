"""Rollouts in this process or in several others, whichever is faster.

The first plans run here and are timed. If they take long enough for processes to pay, workers are
started in the background, run the next plans and are timed too. The faster way is kept; both give
the same bits.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from crosslearning.errors import CrossLearningError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import Episodes, Samples
from crosslearning.rollouts.executor import Executor
from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.rollouts.pool import WorkerPool
from crosslearning.rollouts.sharded_executor import ShardedExecutor

#: Seconds of rollouts before processes are started: about the cost of starting them.
_START_AFTER = 5.0
#: Seconds of rollouts that are timed before a decision.
_TIMED = 1.0
#: Processes are not started if a plan takes fewer seconds.
_SHORTEST_PLAN = 0.02
#: The speed-up from which processes are kept.
_FASTER = 1.15


@dataclass
class _Timing:
    """Time of rollouts; the first call, which makes environments, is not counted."""

    seconds: float = 0.0
    steps: int = 0
    calls: int = -1

    def add(self, seconds: float, steps: int) -> None:
        self.calls += 1
        if self.calls:
            self.seconds += seconds
            self.steps += steps

    @property
    def known(self) -> bool:
        return self.calls >= 2 and self.seconds >= _TIMED and self.steps > 0


class AutoExecutor(Executor):
    """Runs Python environments in this process, or in others once that has proved faster.

    ``make_parallel`` returns the executor with workers, when it is first tried.
    """

    def __init__(
        self, serial: GymnasiumExecutor, make_parallel: Callable[[], ShardedExecutor]
    ) -> None:
        super().__init__(serial.tasks, serial.scale)
        self._serial, self._make_parallel = serial, make_parallel
        self._parallel: ShardedExecutor | None = None
        self._timings = {"serial": _Timing(), "parallel": _Timing()}
        self._chosen = ""
        self.events: deque[str] = deque()

    @property
    def pool(self) -> WorkerPool | None:
        """The workers, if they were chosen."""
        parallel = self._parallel if self._chosen == "parallel" else None
        return None if parallel is None else parallel.pool

    def run(
        self, policies: Expansion, plan: SamplePlan | EpisodePlan, mirrored: bool = False
    ) -> Samples | Episodes:
        """Run a plan, here or on workers."""
        which = self._chosen or self._next()
        executor = self._parallel if which == "parallel" else self._serial
        assert executor is not None
        start = time.perf_counter()
        result = executor.run(policies, plan, mirrored)
        # Workers that are starting slow this process down: that would not be a fair time.
        if not self._chosen and (which == "parallel" or self._parallel is None):
            seconds = time.perf_counter() - start
            steps = result.steps if isinstance(result, Samples) else result.lengths
            self._timings[which].add(seconds, int(steps.sum()))
            self._decide()
        return result

    def _next(self) -> str:
        """Return which one runs the next plan: workers, as soon as they are ready."""
        if self._parallel is None:
            return "serial"
        pool = self._parallel.start()
        if pool.refused:
            self._stay_serial(pool.refused)
        return "parallel" if not self._chosen and pool.ready else "serial"

    def _stay_serial(self, reason: str = "") -> None:
        self._chosen = "serial"
        if self._parallel is not None:
            self._parallel.close()
        if reason:
            self.events.append(f"Rollouts stay in one process: {reason}")

    def _decide(self) -> None:
        serial, parallel = self._timings["serial"], self._timings["parallel"]
        if not serial.known:
            return
        if self._parallel is None:
            if serial.seconds / serial.calls < _SHORTEST_PLAN:
                self._stay_serial()
            elif serial.seconds >= _START_AFTER:
                try:
                    self._parallel = self._make_parallel()
                except CrossLearningError as problem:  # such as tasks that cannot be sent
                    self._stay_serial(str(problem))
                else:
                    self._parallel.start()  # in the background
        elif parallel.known:
            speed_up = serial.seconds / serial.steps / (parallel.seconds / parallel.steps)
            if speed_up < _FASTER:
                self._stay_serial()
                return
            self._chosen = "parallel"
            self.events.append(
                f"Rollouts go on in {self._parallel.start().size} processes, {speed_up:.1f} times "
                "as fast as in one. Otherwise: --on threads."
            )
            self._serial.close()

    def close(self) -> None:
        """End the workers and close the environments."""
        self._serial.close()
        if self._parallel is not None:
            self._parallel.close()
