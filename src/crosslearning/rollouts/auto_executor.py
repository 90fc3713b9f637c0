"""Rollouts in this process or in several others, whichever is faster.

The first plans run here and are timed. If they take long enough for processes to pay, workers are
started in the background, run the next plans and are timed too. The faster way is kept; both give
the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from crosslearning.errors import CrossLearningError, InputError
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import Samples
from crosslearning.rollouts.executor import Executor, Result
from crosslearning.rollouts.gymnasium_executor import GymnasiumExecutor
from crosslearning.rollouts.plan import Plan
from crosslearning.rollouts.process_executor import ProcessExecutor

#: Seconds of rollouts before processes are started: about the cost of starting them.
_START_AFTER = 5.0
#: Seconds of rollouts that are timed before a decision.
_TIMED = 1.0
#: Processes are not started if a plan takes fewer seconds.
_SHORTEST_PLAN = 0.02
#: The speed-up from which processes are kept.
_FASTER = 1.15


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
