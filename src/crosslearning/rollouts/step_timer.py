"""A limit on the duration of an environment step, enforced inside a worker process."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from typing import Any


class StepTimeout(BaseException):
    """A step took too long. Not an Exception: an environment must not catch it by accident."""


class StepTimer:
    """Interrupts steps that take longer than so many seconds.

    An alarm raises :class:`StepTimeout` where Python can be interrupted. Code that holds the
    interpreter, such as an endless compiled loop, ends its process after twice the time.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._alarm = hasattr(signal, "setitimer")  # not on Windows
        self._armed = -seconds
        self._devnull = open(os.devnull, "w")  # noqa: PTH123, SIM115  (kept open)
        if self._alarm:
            signal.signal(signal.SIGALRM, _interrupt)

    def __enter__(self) -> None:
        now = time.monotonic()
        if now - self._armed > 0.25 * self.seconds:
            self._armed = now
            faulthandler.dump_traceback_later(2.0 * self.seconds, exit=True, file=self._devnull)
        if self._alarm:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, *problem: object) -> None:
        if self._alarm:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def stop(self) -> None:
        """Disarm while the worker waits for a job."""
        faulthandler.cancel_dump_traceback_later()
        self._armed = -self.seconds


def _interrupt(*_: Any) -> None:
    raise StepTimeout
