"""Many runs at a time: processes, one progress bar for all, and a clean stop."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from crosslearning.runs.folder import RunFolder

#: Seconds between two looks at the running processes.
_LOOK = 0.5


def in_processes(
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    workers: int,
    console: Console,
    label: str,
    total: float | None = None,
    completed: Callable[[], float] | None = None,
) -> bool:
    """Call a function for each tuple of arguments, several at a time; False if interrupted.

    Parameters
    ----------
    function : callable
        At module level; returning False means that it was interrupted.
    calls : sequence of tuples
        Arguments of each call.
    workers : int
        Processes.
    console : Console
    label : str
        What the progress bar says.
    total, completed : optional
        The bar's length and how far it is; by default calls are counted.
    """
    # Fresh processes: a fork of a process with threads may stop for ever.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_leave_ctrl_c_to_parent)
    with _bar(console) as progress, pool:
        bar = progress.add_task(label, total=total or len(calls))
        with _without_ctrl_c():
            futures: list[Future[Any]] = [pool.submit(function, *call) for call in calls]
        try:
            pending = set(futures)
            while pending:
                done, pending = wait(pending, timeout=_LOOK)
                if any(future.result() is False for future in done):
                    raise KeyboardInterrupt
                counted = len(futures) - len(pending)
                progress.update(bar, completed=completed() if completed else counted)
        except BaseException as problem:
            # After a failure too: what has not begun would only delay the message.
            for future in futures:
                future.cancel()
            if not isinstance(problem, KeyboardInterrupt):
                raise
            return False
        progress.update(bar, completed=total or len(calls))
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
    """Set up a worker: a run that it drives listens to Ctrl-C, anything else goes on to its end."""
    if hasattr(signal, "pthread_sigmask"):
        if signal.SIGINT in signal.sigpending():
            os._exit(130)  # pressed while this process was starting; it has nothing to save
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def iteration_of(path: Path) -> int:
    """Return how far a run is, from the end of its metrics."""
    folder = RunFolder(path)
    if folder.model.exists():
        return int(folder.config().iterations)
    try:
        with folder.metrics.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - 4096))
            lines = stream.read().split(b"\n")
        return int(json.loads(lines[-2])["iteration"])
    except (OSError, ValueError, IndexError, KeyError):
        return 0


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal or console.quiet,
    )
