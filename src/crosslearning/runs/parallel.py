"""Function calls in processes of this computer or of a Ray cluster, with a clean stop."""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from crosslearning.errors import InputError
from crosslearning.rollouts.process_executor import safe_start

#: Seconds between two calls of ``update``.
_POLL = 0.5
#: Retries of a call whose node was lost.
_RETRIES = 10
#: Seconds for remote runs to save themselves.
_PARTING = 60.0
#: Set in a worker by Ctrl-C while it is not driving a run.
_pressed = threading.Event()


def in_processes(
    function: Callable[..., Any],
    rounds: Sequence[Sequence[tuple[Any, ...]]],
    workers: int,
    update: Callable[[], None],
) -> bool:
    """Call a function for each tuple of arguments, in ``workers`` processes; False if interrupted.

    The function is of module level, and returns False if it was interrupted. A round of calls
    begins when the round before has ended. ``update`` is called repeatedly meanwhile.
    """
    # A fork of a process with threads may deadlock.
    context = multiprocessing.get_context("spawn")
    futures: list[Future[Any]] = []
    with safe_start():
        executor = ProcessPoolExecutor(workers, context, initializer=_leave_ctrl_c_to_parent)
    with executor as pool:
        try:
            for calls in rounds:
                with safe_start():
                    futures = [pool.submit(function, *call) for call in calls]
                pending = set(futures)
                while pending:
                    done, pending = wait(pending, timeout=_POLL)
                    if any(future.result() is False for future in done):
                        raise KeyboardInterrupt
                    update()
        except BaseException as problem:
            # After a failure too: calls that have not begun would only delay the message.
            for future in futures:
                future.cancel()
            if not isinstance(problem, KeyboardInterrupt):
                raise
            return False
    return True


def on_ray(
    function: Callable[..., Any],
    rounds: Sequence[Sequence[tuple[Any, ...]]],
    workers: int | None,
    update: Callable[[], None],
    address: str | None = None,
) -> bool:
    """Do what :func:`in_processes` does on a Ray cluster, whose nodes share the working folder.

    A call that is lost with a node is repeated on another. ``workers`` None: all processors.
    """
    from cloudpickle import dumps

    from crosslearning.rollouts.ray_cluster import join, leave

    ray = join(address)
    try:
        call = ray.remote(num_cpus=1, max_retries=_RETRIES)(_call_remotely)
        here = str(Path.cwd()), [str(Path(place).absolute()) for place in sys.path]
        most = workers or sum(map(len, rounds))
        for calls in rounds:
            waiting = list(reversed(calls))
            running: list[Any] = []
            try:
                while waiting or running:
                    while waiting and len(running) < most:
                        running.append(call.remote(*here, dumps((function, waiting.pop()))))
                    done, running = ray.wait(running, timeout=_POLL)
                    if any(ray.get(one) is False for one in done):
                        raise KeyboardInterrupt
                    update()
            except BaseException as problem:
                for one in running:
                    ray.cancel(one)  # like Ctrl-C: a run is saved
                if running:
                    ray.wait(running, num_returns=len(running), timeout=_PARTING)
                if isinstance(problem, ray.exceptions.RayTaskError):
                    raise problem.as_instanceof_cause() from None
                if not isinstance(problem, KeyboardInterrupt):
                    raise
                return False
    finally:
        leave()
    return True


def _call_remotely(folder: str, modules: list[str], packed: bytes) -> Any:
    """Call a function on a node, in the same folder and with the same module path."""
    try:
        os.chdir(folder)
    except OSError as problem:
        raise InputError(
            f"the folder {folder} is not on the machine {platform.node()}: {problem}; a study on "
            "several machines needs one that all of them share"
        ) from problem
    from cloudpickle import loads

    sys.path += [place for place in modules if place not in sys.path]
    function, arguments = loads(packed)
    return function(*arguments)


def _leave_ctrl_c_to_parent() -> None:
    """Set up a worker: Ctrl-C ends the run that it drives; other steps are completed."""
    if hasattr(signal, "pthread_sigmask"):
        if signal.SIGINT in signal.sigpending():
            os._exit(130)  # pressed while this process was starting
        signal.signal(signal.SIGINT, lambda number, frame: _pressed.set())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def stop_is_asked() -> bool:
    """Return in a worker whether Ctrl-C was pressed: then it starts no new step."""
    return _pressed.is_set()
