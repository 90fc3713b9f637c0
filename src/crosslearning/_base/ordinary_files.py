"""Regular files: an entry of a folder may be a pipe, a device or larger than the memory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from crosslearning.errors import StorageError, visible

#: No file of a run is larger, and a file that is read must fit into memory.
_MAX_BYTES = 1 << 31


def check_size(path: Path, size: int) -> None:
    """Refuse a file that would fill the memory."""
    if size > _MAX_BYTES:
        raise StorageError(
            f"{visible(path)} has {size} bytes, more than any file of a run; it is not read"
        )


def cannot_read(path: Path, problem: OSError | ValueError) -> StorageError:
    """Return the error for a file or folder that exists and cannot be read."""
    reason = getattr(problem, "strerror", None) or problem
    return StorageError(f"cannot read {visible(path)}: {reason}; see that you may read it")


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file; pipes, devices and huge files are refused.

    Raises FileNotFoundError if it does not exist, and StorageError if it cannot be read.
    """
    try:
        # Without O_NONBLOCK, opening a pipe that has no writer never returns.
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
        raise cannot_read(path, problem) from problem
