"""Readers of users' numbers and names, with errors that say what was expected."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

import numpy as np

from crosslearning.errors import InputError, unknown_name
from crosslearning.tasks.task import Floats

T = TypeVar("T")


def read_array(what: str, given: Any, shape: tuple[int, ...]) -> Floats:
    """Return finite numbers of a shape; ``what`` names them in errors."""
    try:
        numbers = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.array(math.nan)
    if numbers.shape != shape or not np.all(np.isfinite(numbers)):
        one_axis, other = f"{shape[0]} finite numbers", f"finite numbers of shape {shape}"
        raise InputError(f"{what} is {given!r}; give {one_axis if len(shape) == 1 else other}")
    return numbers


def read_numbers(what: str, given: Any, count: int) -> tuple[float, ...]:
    """Return ``count`` finite floats."""
    return tuple(read_array(what, given, (count,)).tolist())


def read_number(what: str, given: Any, positive: bool = False) -> float:
    """Return one finite float."""
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{what} is {given!r}; give a finite number")
    if positive and number <= 0.0:
        raise InputError(f"{what} is {number}; it must be greater than 0")
    return number


def read_probability(what: str, given: Any) -> float:
    """Return a number in [0, 1]."""
    if not 0.0 <= (number := read_number(what, given)) <= 1.0:
        raise InputError(f"{what} is {number}; give a probability")
    return number


def read_interval(what: str, given: Any) -> tuple[float, float]:
    """Return two finite floats, the first below the second."""
    low, high = read_numbers(what, given, 2)
    if low >= high:
        raise InputError(f"{what} is ({low}, {high}); the first number must be the lower one")
    return low, high


def check_names(kind: str, given: Iterable[Any], known: Collection[str]) -> None:
    """Raise an error for the first unknown name; ``kind`` says what the names stand for."""
    for name in given:
        if name not in known:
            raise unknown_name(kind, str(name), known)


def replaced(kind: str, described: T, changes: dict[str, Any]) -> T:
    """Return a copy of a dataclass with some fields changed; an unknown name is an error."""
    check_names(kind, changes, [field.name for field in dataclasses.fields(described)])  # type: ignore[arg-type]
    return dataclasses.replace(described, **changes)  # type: ignore[type-var]
