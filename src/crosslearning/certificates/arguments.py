"""Checks of what certificates and the theorem are asked about: one sentence for each."""

from __future__ import annotations

import math

from crosslearning.errors import InputError

#: No measured number is near these; squares of what lies between them are numbers still.
_LEAST, _MOST = 1e-70, 1e70
_WHOLE = {"looks": 1, "samples": 2, "seed": 0}


def check_asked(**asked: float) -> None:
    """Refuse a number that makes no sense for what it is called; α comes before α'.

    Known are ``epsilon``, ``alpha``, ``alpha_prime``, ``delta``, ``rise`` (of the objective),
    ``looks``, ``samples`` and ``seed``.
    """
    for name, value in asked.items():
        fine, expected = _judge(name, value, asked.get("alpha", 0.0))
        if not fine:
            raise InputError(f"{name} must be {expected}, got {value!r}")


def _judge(name: str, value: float, alpha: float) -> tuple[bool, str]:
    """Return whether a number is fine, and what it should be."""
    if name in _WHOLE:
        whole = not isinstance(value, bool) and value % 1 == 0 and value >= _WHOLE[name]
        return whole, f"a whole number of at least {_WHOLE[name]}"
    between = _LEAST <= value <= _MOST
    if name == "epsilon":
        said = f"at least 0 (inf allowed) and not beyond {_MOST:g} or {_LEAST:g}"
        return between or value in (0.0, math.inf), said
    if name == "alpha":
        return between, f"positive and finite, from {_LEAST:g} to {_MOST:g}"
    if name == "delta":
        return between and value < 1.0, f"between 0 and 1, at least {_LEAST:g} (0.05 is common)"
    if name == "alpha_prime":
        said = f"finite and above alpha = {alpha}: what is promised is worse than what is tested"
        return alpha < value < math.inf, said
    said = "finite and at least 0: how much the sum of the returns can still grow, sup F − F(h⁰)"
    return 0.0 <= value < math.inf, said
