"""Checks of what every estimate here is asked for."""

from __future__ import annotations

from crosslearning.errors import InputError


def checked_confidence(confidence: float) -> float:
    """Return a level of confidence, or say what is wrong with it."""
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence must be between 0 and 1, such as 0.95, got {confidence}")
    return float(confidence)


def checked_seed(seed: int) -> int:
    """Return a seed, or say what is wrong with it."""
    if isinstance(seed, bool) or int(seed) != seed or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")
    return int(seed)
