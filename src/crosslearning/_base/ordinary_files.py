"""Ordinary files: what a folder holds may be a pipe, a device or larger than the memory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from crosslearning.errors import StorageError, visible

#: No file of a run is larger, and what is read must fit into memory.
_MOST_BYTES = 1 << 31


def check_size(path: Path, size: int) -> None:
    """Refuse a file that would fill the memory."""
    if size > _MOST_BYTES:
        raise StorageError(
            f"{visible(path)} has {size} bytes, more than any file of a run; it is not read"
        )


def read_bytes(path: Path) -> bytes:
    """Return the content of an ordinary file.

    A pipe or a device, which may never end, is refused, as is a file too large for memory.

    Raises
    ------
    FileNotFoundError
        If nothing is there, or a link to nothing.
    StorageError
        If it cannot be read.
    """
    try:
        # A pipe without a writer would keep whoever opens it waiting.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as stream:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(f"{visible(path)} is no ordinary file; it is not read")
            check_size(path, status.st_size)
            return stream.read()
    except (FileNotFoundError, StorageError):
        raise
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise StorageError(f"cannot read {visible(path)}: {why}; see that you may read it") from (
            problem
        )
