"""Regular files: an entry of a folder may be a pipe, a device or larger than the memory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from crosslearning.errors import StorageError, visible

#: No file of a run is larger, and a file that is read must fit into memory.
_MAX_BYTES = 1 << 31
#: Without O_NONBLOCK, opening a pipe that has no writer never returns. Both are absent somewhere.
_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def not_regular(path: Path) -> StorageError:
    """Return the error for an entry of a folder that is neither a regular file nor a folder."""
    what = "a link" if path.is_symlink() else "neither a file nor a folder"
    return StorageError(
        f"{visible(path)} is {what}, and only ordinary files are used: nothing was read or written "
        "through it. Remove it, or put there what is meant"
    )


def cannot_read(path: Path, problem: OSError | ValueError) -> StorageError:
    """Return the error for a file or folder that exists and cannot be read."""
    reason = getattr(problem, "strerror", None) or problem
    return StorageError(f"cannot read {visible(path)}: {reason}; see that you may read it")


def open_regular(
    path: Path, flags: int = os.O_RDONLY, name: str | None = None, folder: int | None = None
) -> int:
    """Return the descriptor of a regular file, by its path or by its name in an open folder."""
    handle = os.open(name or path, flags | _FLAGS, 0o666, dir_fd=folder)
    kind = os.fstat(handle).st_mode
    if stat.S_ISREG(kind):
        return handle
    os.close(handle)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise not_regular(path)


def read_open(path: Path, handle: int) -> bytes:
    """Return the content of an open file, and close it; huge files are refused."""
    with os.fdopen(handle, "rb") as stream:
        size = os.fstat(handle).st_size
        if size > _MAX_BYTES:
            raise StorageError(
                f"{visible(path)} has {size} bytes, more than any file of a run; it is not read"
            )
        return stream.read()


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file; pipes, devices and huge files are refused.

    Raises FileNotFoundError if it does not exist, and StorageError if it cannot be read.
    """
    try:
        return read_open(path, open_regular(path))
    except (FileNotFoundError, StorageError):
        raise
    except (OSError, ValueError) as problem:
        raise cannot_read(path, problem) from problem
