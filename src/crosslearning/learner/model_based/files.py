"""What is learned from, and what the evidence chose, as arrays for files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import FileFormatError, InputError
from crosslearning.learner.model_based.transitions import Transitions
from crosslearning.rkhs import Family
from crosslearning.rkhs.evidence import Hyperparameters

Floats = NDArray[np.float64]

_CHOICES = "choices"


def pack_data(data: Sequence[Transitions]) -> dict[str, Floats]:
    """Return the transitions of all tasks as a few arrays."""
    joined = Transitions.joined(data)
    counts = np.array([len(own.rewards) for own in data], dtype=np.float64)
    return {**joined._asdict(), "counts": counts}


def unpack_data(arrays: Mapping[str, Floats], tasks: int, q: int, p: int) -> list[Transitions]:
    """Return what :func:`pack_data` packed, or raise FileFormatError if it does not fit."""
    counts = arrays["counts"]
    if counts.shape != (tasks,) or np.any(counts < 0) or np.any(counts % 1):
        raise FileFormatError("its parts do not fit together: transitions")
    n = int(counts.sum())
    for name, empty in Transitions.none(q, p)._asdict().items():
        array = arrays[name]
        if array.shape != (n, *empty.shape[1:]) or not np.all(np.isfinite(array)):
            raise FileFormatError(f"its parts do not fit together: {name} of transitions")
    ends = np.cumsum(counts.astype(np.int64))
    return [
        Transitions(*(arrays[name][end - int(count) : end].copy() for name in Transitions._fields))
        for count, end in zip(counts, ends, strict=True)
    ]


def pack_choices(chosen: Sequence[Hyperparameters]) -> dict[str, Floats]:
    """Return the hyperparameters of every output as one table."""
    rows = [np.concatenate([np.ravel(field) for field in own]) for own in chosen]
    return {_CHOICES: np.array(rows)} if rows else {}


def unpack_choices(arrays: Mapping[str, Floats], inputs: int) -> list[Hyperparameters]:
    """Return what :func:`pack_choices` packed."""
    if _CHOICES not in arrays:
        return []
    table = arrays[_CHOICES]
    if table.ndim != 2 or table.shape[1] != 2 * inputs + 5 or not np.all(np.isfinite(table)):
        raise FileFormatError("its parts do not fit together: choices")
    found = []
    for row in table:
        widths, units, rest = (
            row[:inputs].copy(),
            row[inputs : 2 * inputs].copy(),
            row[2 * inputs :],
        )
        linear, signal, alike, noise, evidence = (float(value) for value in rest)
        found.append(
            Hyperparameters(widths, units, linear, signal, alike, np.array([noise]), evidence)
        )
    return found


def unpack_models(
    arrays: Mapping[str, Floats],
    chosen: Sequence[Hyperparameters],
    angles: Sequence[int],
    functions: int,
) -> list[Family]:
    """Return the functions of every output from their knots and weights, if there are any yet."""
    if not arrays:
        return []
    try:
        found = [
            Family(own.kernel(angles), arrays[f"{o}.knots"], arrays[f"{o}.weights"])
            for o, own in enumerate(chosen)
        ]
    except (KeyError, InputError) as problem:
        raise FileFormatError("its parts do not fit together: the models") from problem
    same = all(family.weights.shape[1:] == (functions, 1) for family in found)
    if not same or len(arrays) != 2 * len(found):
        raise FileFormatError("its parts do not fit together: the models")
    return found


def unpack_values(
    arrays: Mapping[str, Floats], tasks: int, q: int
) -> tuple[list[list[Floats]], list[list[Floats]]]:
    """Return states and returns of every batch and task, from arrays ``0.states`` and so on."""
    states: list[list[Floats]] = []
    returns: list[list[Floats]] = []
    for b in range(len(arrays) // 2):
        seen, worth = arrays[f"{b}.states"], arrays[f"{b}.returns"]
        fits = seen.size and worth.ndim == 2 and seen.shape == (tasks, worth.shape[1], q)
        fits = fits and len(worth) == tasks
        if not fits or not (np.all(np.isfinite(seen)) and np.all(np.isfinite(worth))):
            raise FileFormatError("its parts do not fit together: values")
        states.append(list(seen.copy()))
        returns.append(list(worth.copy()))
    return states, returns
