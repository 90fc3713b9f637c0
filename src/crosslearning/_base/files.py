"""Atomic writes, guarded run folders, and tensor files and documents with a checksum.

A tensor file is a safetensors file whose metadata hold its kind, its format version and a digest
of its content; a document is a JSON file with the same fields. Nothing in them is ever executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.ordinary_files import cannot_read as cannot_read
from crosslearning._base.ordinary_files import not_regular, open_regular, read_open
from crosslearning.errors import CrossLearningError, FileFormatError, InputError, StorageError

Arrays = dict[str, NDArray[Any]]

#: The exceptions that Python raises for malformed data.
MALFORMED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)

#: The suffix of temporary files; their names begin with a dot.
PART = ".part"


def check_page(path: Path, mark: str, kind: str) -> None:
    """Refuse to overwrite a file that lacks the ``mark`` of pages of its ``kind``."""
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

    The bytes go to a temporary file in the same folder, are flushed to disk, and are renamed.
    """
    target = Path(path)
    # The temporary name is longer than the final one, which may have the greatest length allowed.
    temporary = f".{target.name[:40]}.{secrets.token_hex(6)}{PART}"
    try:
        with _folder_of(target, make=True) as (folder, name):
            part = Path(name).parent / temporary
            try:
                handle = os.open(part, _NEW, 0o666, dir_fd=folder)
                with os.fdopen(handle, "wb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())
                _rename(folder, part, name)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(part, dir_fd=folder)
                raise
    except OSError as problem:
        raise StorageError(
            f"cannot write {target}: {problem.strerror or problem}; what was there before is "
            "unchanged. Free some space or choose another folder, and try again"
        ) from problem


def remove_parts(folder: Path) -> None:
    """Remove the temporary files of killed writers; no one else may be writing to the folder."""
    with contextlib.suppress(OSError):
        for name in list_folder(folder):
            if name.startswith(".") and name.endswith(PART):
                remove_file(folder / name)


# Run folders: symbolic links are not followed ---------------------------------------------------

#: Folders of runs and studies that this process has opened.
_guarded: set[Path] = set()
#: Absent on Windows.
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | getattr(os, "O_BINARY", 0)
_HAS_FOLDERS = {os.open, os.mkdir, os.unlink, os.rename} <= os.supports_dir_fd


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  (resolve() would follow links)


def guard(folder: Path, within: Iterable[str] | None = None) -> None:
    """Refuse a run folder that holds links or special files, and follow no link in it afterwards.

    The folder itself may be a link, since the user has named it. ``within`` restricts the check
    to the folders of these names.
    """
    _guarded.add(_absolute(folder))
    _refuse_links(folder, None if within is None else frozenset(within))


def _refuse_links(folder: Path, within: frozenset[str] | None) -> None:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return  # missing or unreadable
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(".") if within is None else entry.name in within:
                _refuse_links(Path(entry.path), None)
        elif not entry.is_file(follow_symlinks=False) and os.path.lexists(entry.path):
            raise not_regular(Path(entry.path))


@contextlib.contextmanager
def _folder_of(path: Path, make: bool = False) -> Iterator[tuple[int | None, str]]:
    """Yield the open folder of a file, and its name; below a guarded folder links are refused.

    On Windows, which opens no folders, it is None, and the name is the whole path.
    """
    absolute = _absolute(path)
    root = next((one for one in reversed(absolute.parents) if one in _guarded), absolute.parent)
    if make:
        root.mkdir(parents=True, exist_ok=True)
    *between, name = absolute.relative_to(root).parts or (".",)
    if not _HAS_FOLDERS:  # pragma: no cover
        for place in (root.joinpath(*between[: i + 1]) for i in range(len(between))):
            if place.is_symlink():
                raise not_regular(place)
            if make:
                place.mkdir(exist_ok=True)
        yield None, str(absolute)
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
        yield handle, name
    finally:
        os.close(handle)


def _rename(folder: int | None, old: str | Path, new: str) -> None:
    """Rename a file atomically, and flush the folder to disk."""
    os.replace(old, new, src_dir_fd=folder, dst_dir_fd=folder)
    with contextlib.suppress(OSError):  # Windows cannot open folders
        handle = os.open(Path(new).parent, os.O_RDONLY, dir_fd=folder)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _no_link(path: Path) -> int:
    """Return the flag that refuses links in a guarded folder; raise if the path is a link."""
    if not any(one in _guarded for one in _absolute(path).parents):
        return 0
    if path.is_symlink():
        raise not_regular(path)
    return _NOFOLLOW


def open_file(path: Path, flags: int = os.O_RDONLY) -> int:
    """Return the descriptor of a regular file; pipes, devices and guarded links are refused."""
    flags |= _no_link(path)
    with _folder_of(path) as (folder, name):
        return open_regular(path, flags, name, folder)


def read_file(path: Path) -> bytes:
    """Return the content of a regular file; see :func:`open_file`."""
    return read_open(path, open_file(path))


def list_folder(path: Path) -> list[str]:
    """Return the names in a folder; in a guarded folder it must not be a link."""
    with _folder_of(path) as (folder, name):
        if folder is None:  # pragma: no cover
            return [one.name for one in path.iterdir()]
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _no_link(path), dir_fd=folder)
    try:
        return os.listdir(handle)  # noqa: PTH208  (the path may have been replaced since)
    finally:
        os.close(handle)


def remove_file(path: Path) -> None:
    """Remove a file if it exists."""
    with contextlib.suppress(FileNotFoundError), _folder_of(path) as (folder, name):
        os.unlink(name, dir_fd=folder)


def rename_file(path: Path, name: str) -> None:
    """Rename a file within its folder, atomically."""
    with _folder_of(path) as (folder, old):
        _rename(folder, old, str(Path(old).parent / name))


# Tensor files and documents ---------------------------------------------------------------------


def _digest(arrays: Mapping[str, NDArray[Any]], content: Mapping[str, Any]) -> str:
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
    """Write named arrays and a JSON description to one file, atomically."""
    # Imported here and below: a policy's file, which is a document, needs NumPy alone.
    from safetensors.numpy import save

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content = {"kind": kind, "version": version, **description}
    content["sha256"] = _digest(contiguous, content)
    # One key, since safetensors orders several differently from run to run.
    metadata = {"crosslearning": json.dumps(content, sort_keys=True)}
    write_atomically(path, save(contiguous, metadata=metadata))


def read_tensors(path: str | Path, kind: str, version: int) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the description that were written."""
    with _opened(Path(path), kind, version) as (opened, description):
        arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        _check_digest(Path(path), description.pop("sha256", None), arrays, description)
    return arrays, description


def read_description(path: str | Path, kind: str, version: int) -> dict[str, Any]:
    """Return the description without reading the arrays; the checksum is not verified."""
    with _opened(Path(path), kind, version) as (_, description):
        return description


@contextlib.contextmanager
def _reading(source: Path, damage: str, *malformed: type[Exception]) -> Iterator[None]:
    """Turn the exceptions of reading a file into the library's errors."""
    try:
        yield
    except FileNotFoundError as problem:
        raise InputError(f"no such file: {source}") from problem
    except CrossLearningError:
        raise
    except OSError as problem:
        raise cannot_read(source, problem) from problem
    except MALFORMED + malformed as problem:
        raise FileFormatError(
            f"{source} is {damage} ({problem}); restore it from a copy"
        ) from problem


@contextlib.contextmanager
def _opened(source: Path, kind: str, version: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield an open tensor file and its description, whose kind and version are checked."""
    from safetensors import SafetensorError, safe_open

    reading = _reading(source, "damaged or cut short", SafetensorError)
    with reading, os.fdopen(open_file(source), "rb") as stream:
        # By its descriptor: the path may have been replaced since.
        same = Path(f"/dev/fd/{stream.fileno()}")
        with safe_open(same if same.exists() else source, framework="numpy") as opened:
            try:
                description = dict(json.loads((opened.metadata() or {})["crosslearning"]))
            except MALFORMED as problem:
                raise FileFormatError(f"{source} is not a crosslearning file") from problem
            _check_kind(source, description, kind, version)
            yield opened, description


def write_document(path: str | Path, kind: str, version: int, content: Mapping[str, Any]) -> None:
    """Write plain data to a JSON file, atomically, with kind, format version and checksum."""
    text = json.dumps(document(kind, version, content), allow_nan=False)
    write_atomically(path, f"{text}\n".encode())


def document(kind: str, version: int, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain data with the fields that :func:`read_document` checks."""
    whole = {"kind": kind, "version": version, **content}
    return {**whole, "sha256": _digest({}, whole)}


def read_document(path: str | Path, kind: str, version: int) -> dict[str, Any]:
    """Return the data that were written; a checksum is optional, as other programs write none."""
    source = Path(path)
    with _reading(source, "damaged, cut short, or no JSON"):
        content = json.loads(read_file(source))
    _check_kind(source, content, kind, version)
    if "sha256" in content:
        _check_digest(source, content.pop("sha256"), {}, content)
    return dict(content)


def _check_digest(source: Path, digest: Any, arrays: Arrays, content: Mapping[str, Any]) -> None:
    if digest != _digest(arrays, content):
        raise FileFormatError(
            f"{source} was changed after it was written: its checksum does not match; restore it "
            "from a copy"
        )


def _check_kind(source: Path, description: Any, kind: str, version: int) -> None:
    try:
        actual_kind, actual_version = description["kind"], description["version"]
    except (KeyError, TypeError) as problem:
        raise FileFormatError(f"{source} is not a crosslearning file") from problem
    if actual_kind != kind:
        raise FileFormatError(f"{source} holds a {actual_kind}, expected a {kind}")
    if not isinstance(actual_version, int) or actual_version > version:
        raise FileFormatError(
            f"{source} has format version {actual_version}, this crosslearning reads up to "
            f"{version}; install a newer crosslearning"
        )
