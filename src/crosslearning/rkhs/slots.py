"""The arrays of a dictionary: compiled insertion of knots, and closing of gaps."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.compiled import FastEntry, compiled
from crosslearning.rkhs import program as programs
from crosslearning.rkhs.checks import Floats


class Slots(NamedTuple):
    """C slots, of which the first hold the knots; the others hold copies of knots, no weights."""

    knots: Floats  # (C, q)
    features: Floats  # (r, C)
    rows: Floats  # (functions, p, C)
    gram: Floats  # (C, C)
    inverse: Floats  # (C, C)
    scale: Floats  # (C,): 1/√κ(s, s), since the inverse is that of the normalised kernel


@compiled
def _insert_knots(
    program: programs.KernelProgram, slots: Slots, old: int, new: Floats, added: Floats
) -> int:
    """Insert knots and weights from slot ``old`` on; an equal knot adds its weights there.

    Returns the new size, or −1, with nothing changed, if a kernel value is not finite.
    """
    knots, features, gram = slots.knots, slots.features, slots.gram
    points = np.empty((features.shape[0], len(new)))
    programs.embed_all(program, new, points)
    stop = old + len(new)
    filling, filling_features = knots[old:stop].copy(), features[:, old:stop].copy()
    np.positive(new, knots[old:stop])
    np.positive(points, features[:, old:stop])
    columns = np.empty((len(new), features.shape[1]))
    programs.kernel_columns(program, features, points, columns)
    if not np.all(np.isfinite(columns[:, :stop])):
        np.positive(filling, knots[old:stop])
        np.positive(filling_features, features[:, old:stop])
        return -1
    size = old
    source_of = np.empty(len(columns), dtype=np.int64)  # the column of each new slot
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
            np.positive(knots[source], knots[slot])
            np.positive(features[:, source], features[:, slot])
            for i in range(old):
                gram[slot, i] = gram[i, slot] = columns[n, i]
            source_of[slot - old] = source
            for i in range(old, slot + 1):
                gram[slot, i] = gram[i, slot] = columns[n, source_of[i - old]]
            square = gram[slot, slot]
            slots.scale[slot] = 1.0 / math.sqrt(square) if square > 0.0 else 1.0
            size += 1
        slots.rows[:, :, slot] += added[n]
    return size


@compiled
def _close_gaps(alive: NDArray[np.bool_], slots: Slots, update: Floats) -> int:
    """Move the last knots, and their columns of ``update`` (k, C), into the gaps; count them."""
    size = int(np.count_nonzero(alive))
    source = len(alive) - 1
    for slot in range(size):
        if alive[slot]:
            continue
        while not alive[source]:
            source -= 1
        np.positive(slots.knots[source], slots.knots[slot])
        np.positive(slots.features[:, source], slots.features[:, slot])
        np.positive(slots.rows[:, :, source], slots.rows[:, :, slot])
        for matrix in (slots.gram, slots.inverse):
            np.positive(matrix[source], matrix[slot])
            np.positive(matrix[:, source], matrix[:, slot])
        slots.scale[slot] = slots.scale[source]
        np.positive(update[:, source], update[:, slot])
        source -= 1
    cleared = slice(size, len(alive))
    for matrix in (slots.gram, slots.inverse):
        matrix[cleared, :] = 0.0
        matrix[:, cleared] = 0.0
    slots.rows[:, :, cleared] = 0.0
    update[:, cleared] = 0.0
    return size


@compiled
def add_multiples(rows: Floats, first: int, factors: Floats) -> None:
    """Add to row i of rows (functions, p, C) factors[i] times row first + i."""
    for i in range(len(factors)):
        for p in range(rows.shape[1]):
            for c in range(rows.shape[2]):
                rows[i, p, c] += factors[i] * rows[first + i, p, c]


@compiled
def fill_symmetric(upper: Floats, out: Floats) -> None:
    """Fill out, shape (C, C), with the symmetric matrix of an upper triangle, and zeros around."""
    n = len(upper)
    out[:] = 0.0
    for i in range(n):
        for j in range(i, n):
            out[i, j] = upper[i, j]
    # In squares that fit into the cache: one of the two accesses has a large stride.
    for a in range(0, n, 32):
        for b in range(a, n, 32):
            for i in range(a, min(a + 32, n)):
                for j in range(max(b, i), min(b + 32, n)):
                    out[j, i] = out[i, j]


insert_knots = FastEntry(_insert_knots)
close_gaps = FastEntry(_close_gaps)
