"""The slots of a dictionary's arrays: compiled insertion of knots, and closing of gaps."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from crosslearning.compiled import FunctionPointer, compiled
from crosslearning.rkhs import program as programs

Floats = NDArray[np.float64]


@compiled
def insert_knots(
    terms: NDArray[np.int64],
    term_values: Floats,
    factors: NDArray[np.int64],
    biases: Floats,
    pair: FunctionPointer,
    knots: Floats,
    features: Floats,
    gram: Floats,
    scale: Floats,
    rows: Floats,
    old: int,
    new: Floats,
    added: Floats,
) -> int:
    """Put new knots and their weights into the slots from ``old``; return the new size.

    A knot that equals an earlier one adds its weights there instead. Returns −1, with
    nothing changed, if a kernel value is not finite.
    """
    program = programs.KernelProgram(terms, term_values, factors, biases, pair)
    points = np.empty((features.shape[0], len(new)))
    programs.embed_all(program, new, points)
    stop = old + len(new)
    filling, filling_features = knots[old:stop].copy(), features[:, old:stop].copy()
    knots[old:stop] = new
    features[:, old:stop] = points
    columns = np.empty((len(new), features.shape[1]))
    programs.kernel_columns(program, features, points, columns)
    if not np.all(np.isfinite(columns[:, :stop])):
        knots[old:stop] = filling
        features[:, old:stop] = filling_features
        return -1
    size = old
    source_of = np.empty(len(columns), dtype=np.int64)  # where ``columns`` has each new slot
    for n in range(len(columns)):
        source = old + n
        slot = size
        for i in range(size):
            d = 0
            while d < knots.shape[1] and knots[i, d] == knots[source, d]:
                d += 1
            if d == knots.shape[1]:
                slot = i
                break
        if slot == size:
            _move_knot(knots, features, source, slot)
            for i in range(old):
                gram[slot, i] = gram[i, slot] = columns[n, i]
            source_of[slot - old] = source
            for i in range(old, slot + 1):
                gram[slot, i] = gram[i, slot] = columns[n, source_of[i - old]]
            scale[slot] = 1.0 / math.sqrt(gram[slot, slot]) if gram[slot, slot] > 0.0 else 1.0
            size += 1
        for f in range(rows.shape[0]):
            for p in range(rows.shape[1]):
                rows[f, p, slot] += added[n, f, p]
    return size


@compiled
def _move_knot(knots: Floats, features: Floats, source: int, target: int) -> None:
    for d in range(knots.shape[1]):
        knots[target, d] = knots[source, d]
    for r in range(features.shape[0]):
        features[r, target] = features[r, source]


@compiled
def _move_row_and_column(matrix: Floats, source: int, target: int) -> None:
    for i in range(len(matrix)):
        matrix[target, i] = matrix[source, i]
    for i in range(len(matrix)):
        matrix[i, target] = matrix[i, source]


@compiled
def _clear_slot(gram: Floats, inverse: Floats, rows: Floats, slot: int) -> None:
    gram[slot, :] = 0.0
    gram[:, slot] = 0.0
    inverse[slot, :] = 0.0
    inverse[:, slot] = 0.0
    rows[:, :, slot] = 0.0


@compiled
def close_gaps(
    alive: NDArray[np.bool_],
    knots: Floats,
    features: Floats,
    gram: Floats,
    inverse: Floats,
    scale: Floats,
    rows: Floats,
    update: Floats,
) -> int:
    """Move the last knots that are alive into the slots of those that are not.

    ``update``, shape (k, C), holds one number per knot in every row and moves along. Returns
    how many knots are alive.
    """
    size = 0
    for j in range(len(alive)):
        if alive[j]:
            size += 1
    source = len(alive) - 1
    for slot in range(size):
        if alive[slot]:
            continue
        while not alive[source]:
            source -= 1
        _move_knot(knots, features, source, slot)
        _move_row_and_column(gram, source, slot)
        _move_row_and_column(inverse, source, slot)
        scale[slot] = scale[source]
        for f in range(rows.shape[0]):
            for p in range(rows.shape[1]):
                rows[f, p, slot] = rows[f, p, source]
        for k in range(len(update)):
            update[k, slot] = update[k, source]
        source -= 1
    for slot in range(size, len(alive)):
        _clear_slot(gram, inverse, rows, slot)
        for k in range(len(update)):
            update[k, slot] = 0.0
    return size
