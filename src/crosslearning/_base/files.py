"""Files that are either whole or not there: atomic writes, tensors and documents with a checksum.

A tensor file is a safetensors file whose metadata names its kind, its format version and a
digest of everything in it; a document is a JSON file that does. Nothing in them is ever executed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.ordinary_files import check_size
from crosslearning.errors import CrossLearningError, FileFormatError, InputError, StorageError

Arrays = dict[str, NDArray[Any]]

#: What Python raises at data that are not what they should be, however strange they are.
MALFORMED = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)

#: How the names of files end that are being written; they begin with a dot.
PART = ".part"


def check_page(path: Path, mark: str, kind: str) -> None:
    """Refuse to write a page over what is no page of its kind.

    Parameters
    ----------
    path : Path
    mark : str
        What every page of the kind holds.
    kind : str
        What it is called, such as ``"playground"``.
    """
    if path.is_dir():
        raise InputError(
            f"{path} is a folder; give the name of a file with --out, such as {kind}.html"
        )
    if path.is_file() and mark.encode() not in read_file(path):
        raise InputError(
            f"{path} is there and is no {kind}; choose another name, so that nothing is lost"
        )


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write ``content`` to ``path``: readers see the old file or the new one, never a part.

    The bytes go to a temporary file in the same folder, reach the disk, and take the final
    name in one step.
    """
    target = Path(path)
    # A name may be as long as the system lets it be, and this one is longer.
    whole = f".{target.name[:40]}.{secrets.token_hex(6)}{PART}"
    try:
        with _folder_of(target, make=True) as (folder, name):
            try:
                handle = os.open(_in(folder, whole), _NEW, 0o666, dir_fd=folder.descriptor)
                with os.fdopen(handle, "wb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())
                _rename(folder, whole, name)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(_in(folder, whole), dir_fd=folder.descriptor)
                raise
    except OSError as problem:
        raise StorageError(
            f"cannot write {target}: {problem.strerror or problem}; what was there before is "
            "unchanged. Free some space or choose another folder, and try again"
        ) from problem


def remove_parts(folder: Path) -> None:
    """Remove what killed writers left in a folder that nobody else writes to."""
    with contextlib.suppress(OSError):
        for name in list_folder(folder):
            if name.startswith(".") and name.endswith(PART):
                remove_file(folder / name)


# Run folders: nothing is reached through a link ------------------------------------------------

#: Folders of runs and studies that this process has opened.
_guarded: set[Path] = set()
#: Not on Windows.
_NOFOLLOW, _NONBLOCK = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | getattr(os, "O_BINARY", 0)
_HAS_FOLDERS = {os.open, os.mkdir, os.unlink, os.rename} <= os.supports_dir_fd


class _Folder(NamedTuple):
    """A folder that is open, or where folders cannot be opened its path."""

    descriptor: int | None
    path: Path


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  (links are to be seen, not followed)


def guard(folder: Path, within: Iterable[str] | None = None) -> None:
    """Refuse a run folder that holds links or special files, and follow none in it from now on.

    The folder itself may be a link: its user has named it. Where ``within`` is given, folders with
    other names are not looked into.
    """
    _guarded.add(_absolute(folder))
    _refuse_strange(folder, None if within is None else frozenset(within))


def _refuse_strange(folder: Path, within: frozenset[str] | None) -> None:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return  # what is not there, or cannot be looked into, holds nothing that could be followed
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(".") if within is None else entry.name in within:
                _refuse_strange(Path(entry.path), None)
        elif not entry.is_file(follow_symlinks=False) and os.path.lexists(entry.path):
            raise _strange(Path(entry.path))


def _strange(path: Path) -> StorageError:
    what = "a link" if path.is_symlink() else "neither a file nor a folder"
    return StorageError(
        f"{path} is {what}, and a run is made of plain files: nothing was read or written through "
        "it. Remove it, or put there what is meant"
    )


@contextlib.contextmanager
def _folder_of(path: Path, make: bool = False) -> Iterator[tuple[_Folder, str]]:
    """Yield the open folder of a file and the name that the file has in it.

    Below a guarded folder no component is followed if it is a link.
    """
    absolute = _absolute(path)
    root = next((one for one in reversed(absolute.parents) if one in _guarded), absolute.parent)
    if make:
        root.mkdir(parents=True, exist_ok=True)
    *between, name = absolute.relative_to(root).parts or (".",)
    if not _HAS_FOLDERS:  # pragma: no cover  (Windows)
        for place in (root.joinpath(*between[: i + 1]) for i in range(len(between))):
            if place.is_symlink():
                raise _strange(place)
            if make:
                place.mkdir(exist_ok=True)
        yield _Folder(None, absolute.parent), name
        return
    handle = os.open(root, _FOLDER)
    try:
        for part in between:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=handle)
            inner = os.open(part, _FOLDER | _NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield _Folder(handle, absolute.parent), name
    finally:
        os.close(handle)


def _in(folder: _Folder, name: str) -> str:
    return name if folder.descriptor is not None else str(folder.path / name)


def _rename(folder: _Folder, old: str, new: str) -> None:
    """Give a file its final name in one step, and bring that to the disk."""
    at = folder.descriptor
    os.replace(_in(folder, old), _in(folder, new), src_dir_fd=at, dst_dir_fd=at)
    with contextlib.suppress(OSError):  # where the system lets folders be opened
        handle = os.open(_in(folder, "."), os.O_RDONLY, dir_fd=at)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _no_link(path: Path) -> int:
    """Return the flag that refuses a link, in a guarded folder, and say so if it is one."""
    if not any(one in _guarded for one in _absolute(path).parents):
        return 0
    if path.is_symlink():
        raise _strange(path)
    return _NOFOLLOW


def open_file(path: Path, flags: int = os.O_RDONLY) -> int:
    """Return the descriptor of a plain file, and of nothing else.

    In a guarded folder no link is followed to it; a pipe is not waited for.
    """
    flags |= _NONBLOCK | getattr(os, "O_BINARY", 0) | _no_link(path)
    with _folder_of(path) as (folder, name):
        handle = os.open(_in(folder, name), flags, 0o666, dir_fd=folder.descriptor)
    kind = os.fstat(handle).st_mode
    if not stat.S_ISREG(kind):
        os.close(handle)
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise _strange(path)
    return handle


def read_file(path: Path) -> bytes:
    """Return the content of a plain file; see :func:`open_file`."""
    with os.fdopen(open_file(path), "rb") as stream:
        check_size(path, os.fstat(stream.fileno()).st_size)
        return stream.read()


def list_folder(path: Path) -> list[str]:
    """Return the names in a folder; in a guarded folder it must not be a link."""
    with _folder_of(path) as (folder, name):
        if folder.descriptor is None:  # pragma: no cover  (Windows)
            return [one.name for one in path.iterdir()]
        flags = os.O_RDONLY | os.O_DIRECTORY | _no_link(path)
        handle = os.open(name, flags, dir_fd=folder.descriptor)
    try:
        return os.listdir(handle)  # noqa: PTH208  (a path could be another by now)
    finally:
        os.close(handle)


def remove_file(path: Path) -> None:
    """Remove a file, if it is there."""
    with contextlib.suppress(FileNotFoundError), _folder_of(path) as (folder, name):
        os.unlink(_in(folder, name), dir_fd=folder.descriptor)


def rename_file(path: Path, name: str) -> None:
    """Give a file another name in its folder, in one step."""
    with _folder_of(path) as (folder, old):
        _rename(folder, old, name)


def cannot_read(path: Path, problem: OSError) -> StorageError:
    """Return the error for a file or folder that is there and cannot be read."""
    return StorageError(
        f"cannot read {path}: {problem.strerror or problem}; see that you may read it"
    )


def _digest(arrays: Mapping[str, NDArray[Any]], content: Mapping[str, Any]) -> str:
    """Return a digest of the arrays and of everything in ``content``."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def write_tensors(
    path: str | Path,
    kind: str,
    version: int,
    arrays: Mapping[str, NDArray[Any]],
    description: Mapping[str, Any],
) -> None:
    """Write named arrays and a JSON description to one file, atomically.

    ``kind`` and ``version``, of its format, say what the file is: :func:`read_tensors` checks both.
    The arrays keep their dtypes and shapes; the description is plain data.
    """
    # Imported here and below: a policy's file, which is a document, needs NumPy alone.
    from safetensors.numpy import save

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content = {"kind": kind, "version": version, **description}
    content["sha256"] = _digest(contiguous, content)
    # One key only: safetensors writes several in an order that differs from run to run, and
    # the same content must be the same file.
    metadata = {"crosslearning": json.dumps(content, sort_keys=True)}
    write_atomically(path, save(contiguous, metadata=metadata))


def read_tensors(path: str | Path, kind: str, version: int) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the description that were written, or say what is wrong."""
    source = Path(path)
    with _opened(source) as opened:
        arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        description = _description(source, opened, kind, version)
        try:
            same = description.pop("sha256", None) == _digest(arrays, description)
        except MALFORMED as problem:
            raise FileFormatError(f"{source} is not a crosslearning file") from problem
    if not same:
        raise FileFormatError(_CHANGED.format(source))
    return arrays, description


def read_description(path: str | Path, kind: str, version: int) -> dict[str, Any]:
    """Return the description alone, at once, however large the arrays are.

    A file that was cut short is refused; one that was edited is not, see :func:`read_tensors`.
    """
    source = Path(path)
    with _opened(source) as opened:
        return _description(source, opened, kind, version)


@contextlib.contextmanager
def _opened(source: Path) -> Iterator[Any]:
    """Open a tensor file, or say what is wrong with it."""
    from safetensors import SafetensorError, safe_open

    try:
        with os.fdopen(open_file(source), "rb") as stream:
            # By the descriptor, so that it is read what was opened.
            same = Path(f"/dev/fd/{stream.fileno()}")
            with safe_open(same if same.exists() else source, framework="numpy") as opened:
                yield opened
    except FileNotFoundError as problem:
        raise InputError(f"no such file: {source}") from problem
    except CrossLearningError:
        raise
    except OSError as problem:
        raise cannot_read(source, problem) from problem
    except (SafetensorError, *MALFORMED) as problem:
        raise FileFormatError(
            f"{source} is damaged or cut short ({problem}); restore it from a copy"
        ) from problem


def _description(source: Path, opened: Any, kind: str, version: int) -> dict[str, Any]:
    try:
        description: dict[str, Any] = dict(json.loads((opened.metadata() or {})["crosslearning"]))
    except MALFORMED as problem:
        raise FileFormatError(f"{source} is not a crosslearning file") from problem
    _check_kind(source, description, kind, version)
    return description


def write_document(path: str | Path, kind: str, version: int, content: Mapping[str, Any]) -> None:
    """Write plain data to a JSON file, atomically, with its kind, format version and checksum."""
    text = json.dumps(document(kind, version, content), allow_nan=False)
    write_atomically(path, f"{text}\n".encode())


def document(kind: str, version: int, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain data with what :func:`read_document` checks."""
    whole = {"kind": kind, "version": version, **content}
    return {**whole, "sha256": _digest({}, whole)}


def read_document(path: str | Path, kind: str, version: int) -> dict[str, Any]:
    """Return the data that were written, or say what is wrong.

    A document without a checksum, such as one that another program wrote, is taken as it is.
    """
    source = Path(path)
    try:
        content = json.loads(read_file(source))
    except FileNotFoundError as problem:
        raise InputError(f"no such file: {source}") from problem
    except OSError as problem:
        raise cannot_read(source, problem) from problem
    except MALFORMED as problem:
        raise FileFormatError(
            f"{source} is damaged, cut short, or no JSON ({problem}); restore it from a copy"
        ) from problem
    _check_kind(source, content, kind, version)
    if "sha256" in content and content.pop("sha256") != _digest({}, content):
        raise FileFormatError(_CHANGED.format(source))
    return dict(content)


_CHANGED = (
    "{} was changed after it was written: its checksum does not match; restore it from a copy"
)


def _check_kind(source: Path, description: Any, kind: str, version: int) -> None:
    """Refuse what is not of this kind, or of a newer version."""
    try:
        found_kind, found_version = description["kind"], description["version"]
    except (KeyError, TypeError) as problem:
        raise FileFormatError(f"{source} is not a crosslearning file") from problem
    if found_kind != kind:
        raise FileFormatError(f"{source} holds a {found_kind}, expected a {kind}")
    if not isinstance(found_version, int) or found_version > version:
        raise FileFormatError(
            f"{source} has format version {found_version}, this crosslearning reads up to "
            f"{version}; install a newer crosslearning"
        )
