"""Which run folders are the user's own: signed by a key that only the user has.

A folder names code, and whoever opens it must not run what a stranger named. So a run is signed
when the user trains it: its configuration, the source of its tasks, where the modules of that
source are, and the place of the folder. A folder that was copied, moved or edited has no valid
signature, and its user is asked for ``--tasks``.
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
from typing import Any

from crosslearning._base.files import MALFORMED, read_file, write_atomically
from crosslearning.errors import StorageError
from crosslearning.tasks.sources import TaskSource, is_named

_BYTES = 32
#: Not on Windows.
_NOFOLLOW, _NONBLOCK = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)


def signature_file(folder: Path) -> Path:
    """Return where the signature of a folder is."""
    return folder / "signature.json"


def sign(folder: Path, config: bytes, source: TaskSource | None) -> None:
    """Say by a signature that a folder, with this configuration, is the user's own.

    Sets that ship need none. Where no key can be kept, there is none, and the user will be asked.
    """
    if source is None or is_named(source):
        return
    key = _key(make=True)
    if key is not None:
        signature = _signature(key, folder, config, source, source.paths)
        content = {"version": 1, "modules": dict(source.paths), "signature": signature}
        write_atomically(signature_file(folder), f"{json.dumps(content)}\n".encode())


def signed_paths(folder: Path, config: bytes, source: TaskSource) -> dict[str, str] | None:
    """Return where the modules of a source must be, or None if the user has not signed for them."""
    try:
        content = json.loads(read_file(signature_file(folder)))
        paths = {str(name): str(path) for name, path in content["modules"].items()}
        given = str(content["signature"]).encode()
    except (OSError, *MALFORMED):
        return None
    key = _key()
    if key is None:
        return None
    expected = _signature(key, folder, config, source, paths)
    return paths if hmac.compare_digest(given, expected.encode()) else None


def _signature(
    key: bytes, folder: Path, config: bytes, source: TaskSource, paths: Mapping[str, str]
) -> str:
    signed: list[Any] = [
        "crosslearning run 1",
        str(folder.resolve()),
        hashlib.sha256(config).hexdigest(),  # it holds the options of the tasks
        source.to_plain(),
        dict(paths),
    ]
    return hmac.new(key, json.dumps(signed, sort_keys=True).encode(), "sha256").hexdigest()


def is_signature(given: object, expected: str | None) -> bool:
    """Tell whether what a folder holds is the expected signature."""
    return (
        expected is not None
        and isinstance(given, str)
        and hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())
    )


def content_signature(purpose: str, *parts: bytes) -> str | None:
    """Return a signature of what the library wrote, by this user's key and for one purpose alone.

    None if this user can keep no key.
    """
    try:
        key = _key(make=True)
    except StorageError:
        key = None
    if key is None:
        return None
    made = hmac.new(key, digestmod="sha256")
    for part in (f"crosslearning {purpose}".encode(), *parts):
        made.update(len(part).to_bytes(8, "big") + part)
    return made.hexdigest()


def key_file() -> Path:
    """Return where the user's key is kept."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "crosslearning" / "signing-key"


def _key(make: bool = False) -> bytes | None:
    """Return the user's key, if there is one; what others could have written or read is refused."""
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
    """Make the key, unless it is there already or there is nowhere to keep it."""
    whole = path.with_name(f".{secrets.token_hex(8)}")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() or path.is_symlink():
            return
        handle = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW, 0o600)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(secrets.token_bytes(_BYTES))
            os.link(whole, path)  # in one step, and never over the key of another process
        finally:
            whole.unlink()


def _unsafe(why: str) -> StorageError:
    return StorageError(
        f"{key_file()}, the key that your runs are signed with, {why}; remove it, and a new one is "
        "made. Runs that were signed with it then ask for --tasks once"
    )
