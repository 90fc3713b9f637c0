"""Signatures of the user's own run folders.

A folder names code, and opening a stranger's folder must not run it. So training signs the
configuration, the source of the tasks, the paths of its modules, and the path of the folder. A
folder that was copied, moved or edited has no valid signature, and needs ``--tasks``.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from crosslearning._base.files import read_file, write_atomically
from crosslearning._base.plain_data import decode
from crosslearning.errors import FileFormatError, StorageError

if TYPE_CHECKING:
    from crosslearning.tasks.sources import TaskSource

#: The file of a folder's signature.
NAME = "signature.json"
_BYTES = 32
#: Not on Windows.
_NOFOLLOW, _NONBLOCK = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)


class _Signed(msgspec.Struct):
    """The content of ``signature.json``."""

    version: int
    modules: dict[str, str]
    signature: str


def sign(folder: Path, config: bytes, source: TaskSource | None) -> None:
    """Sign a folder with this configuration, unless its tasks ship or no key can be kept."""
    from crosslearning.tasks.sources import is_named

    if source is None or is_named(source):
        return
    if (key := _key(make=True)) is not None:
        signature = _signature(key, folder, config, source, source.paths)
        content = {"version": 1, "modules": dict(source.paths), "signature": signature}
        write_atomically(folder / NAME, f"{json.dumps(content)}\n".encode())


def signed_paths(folder: Path, config: bytes, source: TaskSource) -> dict[str, str] | None:
    """Return the signed paths of a source's modules, or None without a valid signature."""
    try:
        signed = decode(read_file(folder / NAME), _Signed, folder / NAME)
    except (OSError, FileFormatError):
        return None
    key = _key()
    if key is None:
        return None
    expected = _signature(key, folder, config, source, signed.modules)
    return signed.modules if is_signature(signed.signature, expected) else None


def _signature(
    key: bytes, folder: Path, config: bytes, source: TaskSource, paths: Mapping[str, str]
) -> str:
    # The configuration holds the options of the tasks.
    digest, place = hashlib.sha256(config).hexdigest(), str(folder.resolve())
    signed = ["crosslearning run 1", place, digest, source.to_plain(), dict(paths)]
    return hmac.new(key, json.dumps(signed, sort_keys=True).encode(), "sha256").hexdigest()


def is_signature(given: object, expected: str | None) -> bool:
    """Return whether a signature is the expected one."""
    if expected is None or not isinstance(given, str):
        return False
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def content_signature(purpose: str, *parts: bytes) -> str | None:
    """Return a signature by the user's key, valid for one purpose; None without a key."""
    with suppress(StorageError):
        if (key := _key(make=True)) is not None:
            made = hmac.new(key, digestmod="sha256")
            for part in (f"crosslearning {purpose}".encode(), *parts):
                made.update(len(part).to_bytes(8, "big") + part)
            return made.hexdigest()
    return None


def key_file() -> Path:
    """Return the path of the user's key."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "crosslearning" / "signing-key"


def _key(make: bool = False) -> bytes | None:
    """Return the user's key, if there is one; raise StorageError if others could access it."""
    path = key_file()
    if make:
        _make_key(path)
    try:
        handle = os.open(path, os.O_RDONLY | _NOFOLLOW | _NONBLOCK)
    except OSError as problem:
        if path.is_symlink():
            raise _unsafe("is a link") from problem
        return None
    with os.fdopen(handle, "rb") as stream:
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise _unsafe("is no plain file")
        if hasattr(os, "getuid"):  # pragma: no branch  (not on Windows)
            if about.st_uid != os.getuid():
                raise _unsafe("belongs to somebody else")
            if about.st_mode & 0o077 or path.parent.stat().st_mode & 0o022:
                raise _unsafe("can be read or written by others")
        key = stream.read(_BYTES + 1)
    if len(key) != _BYTES:
        raise _unsafe(f"does not hold {_BYTES} bytes")
    return key


def _make_key(path: Path) -> None:
    """Make the key, unless it exists or the folder is not writable."""
    whole = path.with_name(f".{secrets.token_hex(8)}")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() or path.is_symlink():
            return
        handle = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW, 0o600)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(secrets.token_bytes(_BYTES))
            os.link(whole, path)  # atomic, and never over the key of another process
        finally:
            whole.unlink()


def _unsafe(why: str) -> StorageError:
    return StorageError(
        f"{key_file()}, the key that your runs are signed with, {why}; remove it, and a new one is "
        "made. Runs that were signed with it then ask for --tasks once"
    )
