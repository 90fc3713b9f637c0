"""Rollouts where they are faster: in this process, or in several others.

The first plans are run and timed here. If they take long enough for other processes to pay, those
are started beside this one, given the next plans, and timed too. The faster one is kept. The
result is the same to the last bit.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from crosslearning.errors import CrossLearningError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import ActionScale, Episodes, Samples
from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan
from crosslearning.rollouts.pool import WorkerPool
from crosslearning.rollouts.sharded_executor import ShardedExecutor
from crosslearning.tasks import Task

#: Seconds of rollouts before processes are started: about what starting them costs.
_START_AFTER = 5.0
#: Seconds of rollouts that are timed before anything is decided.
_TIMED = 1.0
#: Seconds that the rollouts of one plan take at least, for processes to be started at all.
_SHORTEST_PLAN = 0.02
#: Processes have to be faster by this factor.
_FASTER = 1.15

_Result = TypeVar("_Result", Samples, Episodes)


@dataclass
class _Speed:
    """How long a step takes; the first call, which makes environments, is not counted."""

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


class AutoExecutor:
    """Runs environments of Python in this process, and in others once that has proved faster.

    Parameters
    ----------
    serial : GymnasiumExecutor
    make_parallel : callable
        Returns the executor with workers, when it is to be tried.
    """

    def __init__(
        self, serial: GymnasiumExecutor, make_parallel: Callable[[], ShardedExecutor]
    ) -> None:
        self._serial, self._make_parallel = serial, make_parallel
        self._parallel: ShardedExecutor | None = None
        self._speeds = {"serial": _Speed(), "parallel": _Speed()}
        #: Which of the two goes on, once it is known.
        self._chosen = ""
        self.events: deque[str] = deque()

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks."""
        return self._serial.tasks

    @property
    def scale(self) -> ActionScale:
        """From the actions of the policies to those of the tasks."""
        return self._serial.scale

    @property
    def pool(self) -> WorkerPool | None:
        """The workers, if they were chosen."""
        parallel = self._parallel if self._chosen == "parallel" else None
        return None if parallel is None else parallel.pool

    def samples(self, policies: Expansion, plan: SamplePlan, mirrored: bool) -> Samples:
        """Run one sample of every task B times."""
        return self._timed(
            lambda executor: executor.samples(policies, plan, mirrored),
            lambda result: int(result.steps.sum()),
        )

    def episodes(self, policies: Expansion, plan: EpisodePlan) -> Episodes:
        """Run whole episodes of every task."""
        return self._timed(
            lambda executor: executor.episodes(policies, plan),
            lambda result: int(result.lengths.sum()),
        )

    def _timed(
        self,
        run: Callable[[GymnasiumExecutor | ShardedExecutor], _Result],
        steps: Callable[[_Result], int],
    ) -> _Result:
        which = self._chosen or self._next()
        executor = self._parallel if which == "parallel" else self._serial
        assert executor is not None
        start = time.perf_counter()
        result = run(executor)
        # While the others start, they slow this process down: that would not be a fair time.
        if not self._chosen and (which == "parallel" or self._parallel is None):
            self._speeds[which].add(time.perf_counter() - start, steps(result))
            self._decide()
        return result

    def _next(self) -> str:
        """Return which runs the next plan: workers, as soon as they are ready to be tried."""
        if self._parallel is None:
            return "serial"
        pool = self._parallel.start()
        if pool.refused:
            self._stay(pool.refused)
        return "parallel" if not self._chosen and pool.ready else "serial"

    def _stay(self, reason: str = "") -> None:
        """Go on in this process, for good."""
        self._chosen = "serial"
        if self._parallel is not None:
            self._parallel.close()
        if reason:
            self.events.append(f"Rollouts stay in one process: {reason}")

    def _decide(self) -> None:
        serial, parallel = self._speeds["serial"], self._speeds["parallel"]
        if not serial.known:
            return
        if self._parallel is None:
            if serial.seconds / serial.calls < _SHORTEST_PLAN:
                self._stay()
            elif serial.seconds >= _START_AFTER:
                try:
                    self._parallel = self._make_parallel()
                except CrossLearningError as problem:  # such as tasks that cannot travel
                    self._stay(str(problem))
                else:
                    self._parallel.start()  # they get ready while this process goes on
        elif parallel.known:
            ratio = serial.seconds / serial.steps / (parallel.seconds / parallel.steps)
            if ratio < _FASTER:
                self._stay()
                return
            self._chosen = "parallel"
            self.events.append(
                f"Rollouts go on in {self._parallel.start().size} processes, {ratio:.1f} times as "
                "fast as in one. Otherwise: --on threads."
            )
            self._serial.close()

    def close(self) -> None:
        """End the workers, and close the environments."""
        self._serial.close()
        if self._parallel is not None:
            self._parallel.close()
