"""Many runs at a time: processes, and a clean stop."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

#: Seconds between two looks at the running processes.
_LOOK = 0.5
#: Set in a worker by Ctrl-C, while it does what cannot be stopped half-way.
_pressed = threading.Event()


def in_processes(
    function: Callable[..., Any],
    rounds: Sequence[Sequence[tuple[Any, ...]]],
    workers: int,
    look: Callable[[], None],
) -> bool:
    """Call a function for each tuple of arguments, several at a time; False if interrupted.

    The function stands at module level; if it returns False, it was interrupted. A round of calls
    begins when the one before has ended. ``look`` is called again and again meanwhile.
    """
    # Fresh processes: a fork of a process with threads may stop for ever.
    context = multiprocessing.get_context("spawn")
    futures: list[Future[Any]] = []
    with ProcessPoolExecutor(workers, context, initializer=_leave_ctrl_c_to_parent) as pool:
        try:
            for calls in rounds:
                with _without_ctrl_c():
                    futures = [pool.submit(function, *call) for call in calls]
                pending = set(futures)
                while pending:
                    done, pending = wait(pending, timeout=_LOOK)
                    if any(future.result() is False for future in done):
                        raise KeyboardInterrupt
                    look()
        except BaseException as problem:
            # After a failure too: what has not begun would only delay the message.
            for future in futures:
                future.cancel()
            if not isinstance(problem, KeyboardInterrupt):
                raise
            return False
    return True


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Hold Ctrl-C back, so that a process which is started here does not die while it imports."""
    if not hasattr(signal, "pthread_sigmask"):  # pragma: no cover  (Windows)
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _leave_ctrl_c_to_parent() -> None:
    """Set up a worker: Ctrl-C ends the run that it drives; anything else is done to its end."""
    if hasattr(signal, "pthread_sigmask"):
        if signal.SIGINT in signal.sigpending():
            os._exit(130)  # pressed while this process was starting; it has nothing to save
        signal.signal(signal.SIGINT, lambda number, frame: _pressed.set())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def stop_is_asked() -> bool:
    """Tell a worker whether Ctrl-C was pressed: then it begins nothing new."""
    return _pressed.is_set()
