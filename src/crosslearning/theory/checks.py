"""Checks of the numbers that the theorem is asked about."""

from __future__ import annotations

import math

from crosslearning.errors import InputError


def check_alpha(alpha: float) -> None:
    """Refuse an α that is not positive and finite."""
    if not 0.0 < alpha < math.inf:
        raise InputError(f"alpha must be positive and finite, got {alpha!r}")


def check_delta(delta: float) -> None:
    """Refuse a δ that is not strictly between 0 and 1."""
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta must be between 0 and 1, got {delta!r}; 0.05 is common")


def check_alpha_prime(alpha: float, alpha_prime: float) -> None:
    """Refuse an α' that is not above α."""
    if not alpha < alpha_prime < math.inf:
        raise InputError(
            f"alpha_prime must be finite and above alpha = {alpha}, got {alpha_prime!r}: the "
            "accuracy that is promised is worse than the one that is tested"
        )


def check_rise(rise: float) -> None:
    """Refuse a possible rise of the objective that is not a number of at least 0."""
    if not 0.0 <= rise < math.inf:
        raise InputError(
            f"rise must be finite and at least 0, got {rise!r}: it is how much the sum of the "
            "returns can still grow, sup F − F(h⁰)"
        )


def check_looks(looks: int) -> None:
    """Refuse a number of looks that is not a whole number of at least 1."""
    if isinstance(looks, bool) or int(looks) != looks or looks < 1:
        raise InputError(f"looks must be a whole number of at least 1, got {looks!r}")
