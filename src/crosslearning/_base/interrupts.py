"""Ctrl-C without harm: what is under way is finished first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred(
    signals: Sequence[signal.Signals] = (signal.SIGINT,), notice: Callable[[], None] | None = None
) -> Iterator[threading.Event]:
    """Turn signals into an event, so that nothing is left half done; ``notice`` answers the first.

    A second one raises KeyboardInterrupt at once. BoxSpec reach only the main thread; elsewhere,
    or where somebody else deals with Ctrl-C already, the event stays unset.
    """
    asked = threading.Event()
    theirs = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    if theirs or threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in signals}

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        if notice is not None:
            notice()

    for number in before:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
