"""Signatures with a key of this user's, so that what the library wrote is known from a forgery."""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

_LENGTH = 32


def sign(purpose: str, *parts: bytes) -> str | None:
    """Return the HMAC-SHA256 of parts, for one purpose alone; None if this user can keep no key."""
    key = _key()
    if key is None:
        return None
    made = hmac.new(key, digestmod="sha256")
    for part in (purpose.encode(), *parts):
        made.update(len(part).to_bytes(8, "big") + part)
    return made.hexdigest()


def is_signed(signature: object, purpose: str, *parts: bytes) -> bool:
    """Tell whether this user's key made a signature of these parts for this purpose."""
    expected = sign(purpose, *parts)
    given = str(signature).encode("utf-8", "replace")
    return expected is not None and hmac.compare_digest(given, expected.encode())


def _key() -> bytes | None:
    """Return the user's key, which is made on first use."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    path = Path(state) / "crosslearning" / "report-key"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(path, flags, 0o600), "wb") as stream:
            stream.write(secrets.token_bytes(_LENGTH))
    except FileExistsError:
        pass
    except (OSError, RuntimeError):  # a home that cannot be written to, or none
        return None
    try:
        key = path.read_bytes()
    except OSError:
        return None
    return key if len(key) == _LENGTH else None
