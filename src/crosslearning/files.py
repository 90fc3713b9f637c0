"""Files that are either whole or not there: atomic writes, tensors and documents with a checksum.

A tensor file is a safetensors file whose metadata names its kind, its format version and a
digest of everything in it; a document is a JSON file that does. Nothing in them is ever executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import CrossLearningError, FileFormatError, InputError, StorageError
from crosslearning.plain_data import read_bytes

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
    if path.is_file() and mark.encode() not in read_bytes(path):
        raise InputError(
            f"{path} is there and is no {kind}; choose another name, so that nothing is lost"
        )


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write ``content`` to ``path``: readers see the old file or the new one, never a part.

    The bytes go to a temporary file in the same folder, reach the disk, and take the final
    name in one step.
    """
    target = Path(path)
    temporary: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A name may be as long as the system lets it be, and this one is longer.
        prefix = f".{target.name[:40]}."
        handle, temporary = tempfile.mkstemp(PART, prefix, target.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes a private file; a shared run is for colleagues too.
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(target)
        _flush_folder(target.parent)
    except OSError as problem:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        raise StorageError(
            f"cannot write {target}: {problem.strerror or problem}; what was there before is "
            "unchanged. Free some space or choose another folder, and try again"
        ) from problem


def remove_parts(folder: Path) -> None:
    """Remove what killed writers left in a folder that nobody else writes to."""
    for left in folder.glob(f".*{PART}"):
        with contextlib.suppress(OSError):
            left.unlink()


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system lets folders be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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

    if not source.is_file():
        raise InputError(f"no such file: {source}")
    try:
        with safe_open(source, framework="numpy") as opened:
            yield opened
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
    if not source.is_file():
        raise InputError(f"no such file: {source}")
    try:
        content = json.loads(read_bytes(source))
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
