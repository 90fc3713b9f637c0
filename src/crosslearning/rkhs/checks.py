"""Checks of the arguments of public functions."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.errors import InputError, refuse_huge

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def finite_array(what: str, given: ArrayLike, shape: tuple[int | None, ...]) -> Floats:
    """Return ``given`` as a finite C-contiguous array of that shape, where None is any length."""
    try:
        array = np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        message = f"{what} must be an array of numbers, got {type(given).__name__}"
        raise InputError(message) from problem
    expected = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
    # ascontiguousarray turns a scalar into an array of shape (1,).
    if np.ndim(given) != len(shape) or any(
        n is not None and n != m for n, m in zip(shape, array.shape, strict=True)
    ):
        raise InputError(f"{what} must have shape {expected}, got {np.shape(given)}")
    if not np.all(np.isfinite(array)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        value = f"{array[where]} at index {where}"
        raise InputError(f"{what} must be finite, got {value}; nothing was changed")
    return array


def radius(what: str, given: float) -> float:
    """Return ``given`` as a number ≥ 0, infinity allowed."""
    try:
        value = float(given)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{what} must be a number of at least 0, got {given!r}") from problem
    if math.isnan(value) or value < 0:
        raise InputError(f"{what} must be a number of at least 0 (infinity allowed), got {given!r}")
    refuse_huge(what, value)
    return value


def count(what: str, given: int, least: int = 1) -> int:
    """Return ``given`` as a whole number of at least ``least``."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < least:
        raise InputError(f"{what} must be a whole number of at least {least}, got {given!r}")
    return int(given)
