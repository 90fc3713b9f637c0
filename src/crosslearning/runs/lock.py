"""A lock for the one process that writes into a run folder; the system frees it if it dies."""

from __future__ import annotations

import errno
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout, lock_descriptor

from crosslearning._base.files import guard, open_file
from crosslearning.errors import StorageError, visible

#: The lock file of a folder; a killed process may leave it behind, unlocked.
NAME = ".lock"
#: Seconds to wait for a lock: lock_owner holds it for a moment.
_PATIENCE = 0.2
#: The owner that has written nothing yet.
_UNKNOWN = "another process, which has just begun"
#: The errors of file systems without locks.
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextmanager
def folder_lock(folder: Path) -> Iterator[Callable[[], bool]]:
    """Lock a folder, which is made if it is missing; raise StorageError if it is locked.

    Yields a function that returns whether the lock file is still there: the folder may be removed.
    A fork of this process does not hold the lock.
    """
    path = folder / NAME
    guard(folder, ())
    locked: list[os.stat_result] = []

    def sign(handle: int) -> None:
        locked.append(os.fstat(handle))
        if locked[0].st_nlink > 1:
            raise StorageError(f"{path} is another name of some other file; remove this name")
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        owner = f"process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M:%S} ({command})"
        os.ftruncate(handle, 0)
        os.write(handle, owner.encode("utf-8", "backslashreplace"))

    def is_there() -> bool:
        with suppress(OSError):
            return not locked or os.path.samestat(locked[0], path.lstat())
        return False

    lock = FileLock(path, timeout=_PATIENCE, on_acquired=sign)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        remedy = "wait for it to end, stop it, or choose another folder. Nothing was changed"
        owner = lock_owner(folder) or _UNKNOWN
        raise StorageError(f"{folder} is being written by {owner}; {remedy}") from None
    except StorageError:
        raise
    except OSError as problem:
        if problem.errno not in _NO_LOCKS:
            reason = f"{problem.strerror}; choose another folder, or make this one writable"
            raise StorageError(f"cannot write into {folder}: {reason}") from problem
        remedy = "make sure that no other process trains in this folder"
        text = f"the file system of {folder} has no locks ({problem}); {remedy}"
        warnings.warn(text, stacklevel=3)
    try:
        yield is_there
    finally:
        # Removed before it is freed, so that nobody locks a file that is about to go.
        if lock.is_locked and is_there():
            with suppress(OSError):
                path.unlink()
        lock.release()


def lock_owner(folder: Path) -> str | None:
    """Return a description of the process that has locked a folder, or None."""
    with suppress(OSError):  # it is not locked, or not readable
        guard(folder, ())
        with os.fdopen(open_file(folder / NAME, os.O_RDWR), "r+b") as file:
            if not lock_descriptor(file.fileno(), blocking=False):
                # What the owner wrote; in a stranger's folder it may be anything.
                text = visible(file.read(10_000).decode(errors="replace"), 1000)
                return text if text.startswith("process ") else _UNKNOWN
    return None
