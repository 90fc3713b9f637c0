"""A worker that is a process of its own on this machine."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from crosslearning.errors import InputError
from crosslearning.rollouts.crew import HungError, LostError
from crosslearning.rollouts.watch import PLACE, read_place
from crosslearning.rollouts.worker import Desk

_POLICIES, _JOB, _READY = b"policies", b"job", b"ready"
#: Fresh processes: a fork of one with threads may stop for ever.
_CONTEXT = multiprocessing.get_context("spawn")
#: Only one process is started at a time, since the main module is hidden meanwhile; and none
#: when this one ends.
_starting, _ending = threading.Lock(), threading.Event()


class ProcessHand:
    """A process that runs shards, as its thread sees it.

    Parameters
    ----------
    kit : bytes
        What it begins with.
    limit : float, optional
        Seconds that a step of an environment may take.
    """

    def __init__(self, kit: bytes, limit: float | None = None) -> None:
        self._kit, self._limit, self._owner = kit, limit, os.getpid()
        self._process: Any = None
        self._connection: Any = None
        self._place: Any = None
        self._call = -1
        _hands.add(self)

    def start(self) -> None:
        """Start the process; return when it has made its tasks."""
        self.stop()
        self._call = -1
        self._connection, theirs = _CONTEXT.Pipe()
        self._place = _CONTEXT.RawArray("d", PLACE)
        # No daemon, which could not have processes of its own, as some environments do.
        self._process = _CONTEXT.Process(target=_serve, args=(theirs, self._place))
        with _without_main():
            if _ending.is_set():
                raise LostError("is not wanted any more")
            self._process.start()
        theirs.close()
        try:
            self._connection.send_bytes(self._kit)
            said = self._connection.recv_bytes()
        except (EOFError, OSError):
            raise self._lost() from None
        if said != _READY:
            raise InputError(f"a worker cannot make the tasks: {said.decode()}")

    def run(self, call: int, policies: bytes, job: bytes) -> bytes:
        """Return the answer to a job."""
        try:
            if call != self._call:
                self._connection.send_bytes(_POLICIES)
                self._connection.send_bytes(policies)
                self._call = call
            self._connection.send_bytes(_JOB)
            self._connection.send_bytes(job)
            if self._limit is not None:
                self._await(self._limit)
            return self._connection.recv_bytes()  # type: ignore[no-any-return]
        except (EOFError, OSError):
            raise self._lost() from None

    def _await(self, limit: float) -> None:
        """Wait for the answer, and look how long the environment has been at its step."""
        while not self._connection.poll(min(0.25 * limit, 1.0)):
            place = read_place(self._place)
            if place.seconds > limit:
                self.stop()
                raise HungError(place)

    def _lost(self) -> LostError:
        # A moment to learn how it ended.
        self._process.join(5.0)
        code = self._process.exitcode
        if code is not None and code < 0:
            with suppress(ValueError):
                return LostError(f"was ended by {signal.Signals(-code).name}")
        return LostError(f"ended with code {code}")

    def stop(self) -> None:
        """End the process, whatever it does."""
        process = self._process
        # A fork of this process has the hands, but not the processes.
        if process is not None and process.pid is not None and os.getpid() == self._owner:
            process.kill()
            process.join(5.0)

    @property
    def pid(self) -> int | None:
        """The number of the process, if there is one."""
        return None if self._process is None else self._process.pid


#: All that may have a process, so that none outlives this one.
_hands: weakref.WeakSet[ProcessHand] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    with _starting:
        _ending.set()
    for hand in list(_hands):
        hand.stop()


@contextmanager
def safe_path() -> Iterator[None]:
    """Let processes that are started here not look for modules in the working folder.

    Python would look there first, also for its own: a stranger's ``runpy.py`` would be run. Where
    this process looks for modules is told to them once they have started.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the main module, so that a new process does not run the user's script once more.

    What tasks need of it travels with them.
    """
    with _starting, safe_path():
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


# In the process -----------------------------------------------------------------------------


def _serve(connection: Connection, place: Any) -> None:
    """Make the tasks, then answer jobs until nobody asks any more."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        desk = Desk(connection.recv_bytes(), place)
    except Exception as problem:
        connection.send_bytes(f"{type(problem).__name__}: {problem}".encode())
        time.sleep(1.0)  # until it was read
        return
    connection.send_bytes(_READY)
    with suppress(EOFError, OSError):
        while True:
            what = connection.recv_bytes()
            content = connection.recv_bytes()
            if what == _POLICIES:
                desk.take(content)
            else:
                connection.send_bytes(desk.answer(content))
    desk.close()


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, also if it was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
