"""Checks of what every estimate here is asked for."""

from __future__ import annotations

from crosslearning.errors import InputError


def checked_seed(seed: int) -> int:
    """Return a seed, or say what is wrong with it."""
    if isinstance(seed, bool) or int(seed) != seed or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")
    return int(seed)
