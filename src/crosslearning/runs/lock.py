"""A lock for the one process that writes into a run folder; the system frees it if it dies."""

from __future__ import annotations

import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from crosslearning._base.files import guard, open_file
from crosslearning.errors import StorageError, visible

#: The lock file of a folder; a killed process may leave it behind, unlocked.
NAME = ".lock"
#: Attempts at a lock, and seconds between them: lock_owner holds it for a moment.
_TRIES, _PAUSE = 5, 0.05
#: The owner that has written nothing yet.
_UNKNOWN = "another process, which has just begun"
#: Locks of this process. A fork would share them, and keep them if this process is killed.
_held: set[int] = set()


def _release() -> None:
    while _held:
        with suppress(OSError):
            os.close(_held.pop())


if hasattr(os, "register_at_fork"):  # pragma: no branch  (not on Windows)
    os.register_at_fork(after_in_child=_release)


@contextmanager
def folder_lock(folder: Path) -> Iterator[Callable[[], bool]]:
    """Lock a folder, which is made if it is missing; raise StorageError if it is locked.

    Yields a function that returns whether the lock file is still there: the folder may be removed.
    """
    path = folder / NAME
    guard(folder, ())
    handle = _acquire(path)
    _held.add(handle)
    try:
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        owner = f"process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M:%S} ({command})"
        os.ftruncate(handle, 0)
        os.write(handle, owner.encode("utf-8", "backslashreplace"))
        yield lambda: _is_at(handle, path)
    finally:
        # Removed before it is freed, so that nobody locks a file that is about to go.
        with suppress(OSError):
            if _is_at(handle, path):
                path.unlink()
        _held.discard(handle)
        os.close(handle)


def _acquire(path: Path) -> int:
    """Return the descriptor of the lock file, locked."""
    owner = _UNKNOWN
    for _ in range(_TRIES):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = open_file(path, os.O_RDWR | os.O_CREAT)
        except OSError as problem:
            reason = f"{problem.strerror}; choose another folder, or make this one writable"
            raise StorageError(f"cannot write into {path.parent}: {reason}") from problem
        if os.fstat(handle).st_nlink > 1:
            os.close(handle)
            raise StorageError(f"{path} is another name of some other file; remove this name")
        try:
            _lock(handle)
            if _is_at(handle, path):  # else its owner has removed it since
                return handle
        except BlockingIOError:
            owner = _owner(handle)
        except (OSError, ImportError) as problem:
            remedy = "make sure that no other process trains in this folder"
            text = f"the file system of {path.parent} has no locks ({problem}); {remedy}"
            warnings.warn(text, stacklevel=4)
            return handle
        os.close(handle)
        time.sleep(_PAUSE)
    remedy = "wait for it to end, stop it, or choose another folder. Nothing was changed"
    raise StorageError(f"{path.parent} is being written by {owner}; {remedy}")


def lock_owner(folder: Path) -> str | None:
    """Return a description of the process that has locked a folder, or None."""
    with suppress(OSError, ImportError):  # it is not locked, or not readable
        guard(folder, ())
        with os.fdopen(open_file(folder / NAME, os.O_RDWR), "r+b") as file:
            try:
                _lock(file.fileno())
            except BlockingIOError:
                return _owner(file.fileno())
    return None


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except OSError:
        return False


def _owner(handle: int) -> str:
    """Return what the owner wrote, which in a stranger's folder may be anything."""
    text = visible(os.pread(handle, 10_000, 0).decode(errors="replace"), 1000)
    return text if text.startswith("process ") else _UNKNOWN


def _lock(handle: int) -> None:
    import fcntl  # not on Windows

    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
