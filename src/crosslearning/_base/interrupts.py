"""Signals that wait until the current step is finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


@contextmanager
def kept_handlers(*signals: signal.Signals) -> Iterator[None]:
    """Restore the handlers of signals afterwards; only the main thread can change them."""
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in signals if main}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deferred(
    signals: Sequence[signal.Signals] = (signal.SIGINT,), notice: Callable[[], None] | None = None
) -> Iterator[threading.Event]:
    """Turn signals into an event; ``notice`` is called at the first, and a second one interrupts.

    Python delivers signals to the main thread only. In other threads, and where Ctrl-C already
    has a handler, the event stays unset.
    """
    received = threading.Event()
    handled = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    if handled or threading.current_thread() is not threading.main_thread():
        yield received
        return

    def receive(number: int, frame: FrameType | None) -> None:
        if received.is_set():
            raise KeyboardInterrupt
        received.set()
        if notice is not None:
            notice()

    with kept_handlers(*signals):
        for number in signals:
            signal.signal(number, receive)
        yield received
