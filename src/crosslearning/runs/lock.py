"""A lock for the one process that writes into a run folder; the system frees it if it dies."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypedDict

from crosslearning._base.files import guard, open_file
from crosslearning._base.plain_data import decode
from crosslearning.errors import FileFormatError, StorageError

#: The lock file of a folder; a killed process may leave it behind, unlocked.
NAME = ".lock"
#: Attempts at a lock, and seconds between them: lock_owner holds it for a moment.
_TRIES, _PAUSE = 5, 0.05
#: Locks of this process. A fork would share them, and keep them if this process is killed.
_held: set[int] = set()

if hasattr(os, "register_at_fork"):  # pragma: no branch  (not on Windows)

    def _release() -> None:
        while _held:
            with suppress(OSError):
                os.close(_held.pop())

    os.register_at_fork(after_in_child=_release)


@contextmanager
def folder_lock(folder: Path) -> Iterator[Callable[[], bool]]:
    """Lock a folder, which is made if it is missing; raise StorageError if it is locked.

    Yields a function that returns whether the lock file is still there: the folder may be removed.
    """
    path = folder / NAME
    guard(folder, ())
    handle = _open(path)
    _held.add(handle)
    try:
        owner = {"pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S"), "command": ""}
        owner["command"] = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(owner).encode())
        yield lambda: _is_at(handle, path)
    finally:
        # Removed before it is freed, so that nobody locks a file that is about to go.
        with suppress(OSError):
            if _is_at(handle, path):
                path.unlink()
        _held.discard(handle)
        os.close(handle)


def _open(path: Path) -> int:
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = open_file(path, os.O_RDWR | os.O_CREAT)
        except OSError as problem:
            raise StorageError(
                f"cannot write into {path.parent}: {problem.strerror}; choose another folder, or "
                "make this one writable"
            ) from problem
        try:
            _lock_soon(handle)
        except BlockingIOError as problem:
            text = _owner(handle)
            os.close(handle)
            raise StorageError(
                f"{path.parent} is being written by {text}; wait for it to end, stop it, or choose "
                "another folder. Nothing was changed"
            ) from problem
        except OSError as problem:
            warnings.warn(
                f"the file system of {path.parent} has no locks ({problem.strerror}); make sure "
                "that no other process trains in this folder",
                stacklevel=4,
            )
        if os.fstat(handle).st_nlink > 1:
            os.close(handle)
            raise StorageError(
                f"{path} is another name of some other file, which a lock must not be; remove it"
            )
        if _is_at(handle, path):
            return handle
        os.close(handle)  # its owner has removed it since: try the file that is there now


def lock_owner(folder: Path) -> str | None:
    """Return a description of the process that has locked a folder, or None."""
    try:
        guard(folder, ())
        handle = open_file(folder / NAME, os.O_RDWR)
    except (OSError, StorageError):
        return None  # it is not locked, or not readable
    try:
        _lock(handle)
    except BlockingIOError:
        return _owner(handle)
    except OSError:
        return None
    finally:
        os.close(handle)
    return None


def _lock_soon(handle: int) -> None:
    for _ in range(_TRIES - 1):
        try:
            return _lock(handle)
        except BlockingIOError:
            time.sleep(_PAUSE)
    return _lock(handle)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except OSError:
        return False


class _Owner(TypedDict):
    """The form of a lock file."""

    pid: int
    since: str
    command: str


def _owner(handle: int) -> str:
    try:
        owner = decode(os.pread(handle, 10_000, 0), _Owner, NAME)
        return f"process {owner['pid']}, since {owner['since']} ({owner['command']})"
    except (OSError, FileFormatError):
        return "another process, which has just begun"


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _lock(handle: int) -> None:
        # Locked bytes cannot be read there: one far beyond what is written.
        os.lseek(handle, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError as problem:
            raise BlockingIOError from problem
        finally:
            os.lseek(handle, 0, os.SEEK_SET)
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
