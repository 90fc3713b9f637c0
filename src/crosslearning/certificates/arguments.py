"""Checks of what certificates and the theorem are asked about: one sentence for each."""

from __future__ import annotations

import math

from crosslearning.errors import InputError

#: No measured number is near these; squares of what lies between them are numbers still.
_LEAST, _MOST = 1e-70, 1e70


def check_epsilon(epsilon: float) -> None:
    """Refuse an ε that is none, or so large or small that its square is no number."""
    if not (epsilon in (0.0, math.inf) or _LEAST <= epsilon <= _MOST):
        raise InputError(
            f"epsilon must be at least 0 (inf allowed) and not beyond {_MOST:g} or {_LEAST:g}, got "
            f"{epsilon!r}"
        )


def check_alpha(alpha: float) -> None:
    """Refuse an α that is not positive, or so large or small that its square is no number."""
    if not _LEAST <= alpha <= _MOST:
        raise InputError(
            f"alpha must be positive and finite, from {_LEAST:g} to {_MOST:g}, got {alpha!r}"
        )


def check_delta(delta: float) -> None:
    """Refuse a δ that is not strictly between 0 and 1, or too small to divide by."""
    if not _LEAST <= delta < 1.0:
        raise InputError(
            f"delta must be between 0 and 1, at least {_LEAST:g}, got {delta!r}; 0.05 is common"
        )


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
    _check_whole("looks", looks, 1)


def check_samples(samples: int) -> None:
    """Refuse a number of samples from which nothing can be said."""
    _check_whole("samples", samples, 2)


def check_seed(seed: int) -> None:
    """Refuse a seed that is not a whole number of at least 0."""
    _check_whole("seed", seed, 0)


def _check_whole(name: str, number: int, least: int) -> None:
    if isinstance(number, bool) or int(number) != number or number < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {number!r}")
