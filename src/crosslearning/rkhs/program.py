"""Kernels as data, and the compiled loops that read them.

A :class:`KernelProgram` is an embedding of states into feature vectors, and a sum of products of
factors over slices of those features. One compiled function serves every kernel, so its machine
code is cached once. Features have one row per feature and one column per knot, so that loops over
knots are vectorised.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import types

from crosslearning._base.compiled import FastEntry, FunctionPointer, compiled, compiled_reordered
from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rkhs.formulas import CONSTANT, factor_column, factor_pull_back

# The function of a coordinate that enters the embedding.
IDENTITY = 0
COSINE = 1
SINE = 2
LOGARITHM = 3  # asinh

#: A user's formula for one pair of points.
PAIR_SIGNATURE = types.float64(types.float64[::1], types.float64[::1])


class KernelProgram(NamedTuple):
    """A kernel in the form that compiled code reads.

    Few arrays, because their descriptors are copied at every compiled call.
    """

    #: (terms, 3): the coordinate that a term of the embedding reads, its function (``COSINE``, …),
    #: and the feature that it adds to.
    terms: Integers
    #: (terms, 2): the frequency inside the function, and the scale of the term.
    term_values: Floats
    #: (factors, 5): the formula, the first feature, the one after the last, the polynomial's
    #: degree, and the product that the factor belongs to; the factors of one are adjacent.
    factors: Integers
    #: (factors,): the polynomial's constant, or the value of a constant factor.
    biases: Floats
    #: The user's formula, if a factor is one.
    pair: FunctionPointer


class Expansion(NamedTuple):
    """Functions in the form that compiled code reads: h_f(s) = Σ_m κ(s_m, s) w_mf."""

    program: KernelProgram
    features: Floats  # (r, C), the embedded knots
    rows: Floats  # (functions, p, C), the weights; zero in unused columns

    def __call__(self, states: Floats) -> Floats:
        """Evaluate every function at states (n, q): shape (n, functions, p)."""
        values = np.empty((len(states), self.rows.shape[0], self.rows.shape[1]))
        _evaluate_family(*self, states, values)
        return values

    def each(self, states: Floats, which: Integers) -> Floats:
        """Evaluate function ``which[n]`` at state n of (n, q): shape (n, p)."""
        values = np.empty((len(states), self.rows.shape[1]))
        _evaluate_each(*self, states, which, values)
        return values


@compiled
def embed(program: KernelProgram, state: Floats, features: Floats) -> None:
    """Fill ``features``, shape (r,), with the embedding of ``state``, shape (q,)."""
    for r in range(features.shape[0]):
        features[r] = 0.0
    for k in range(program.terms.shape[0]):
        coordinate = state[program.terms[k, 0]]
        wave = program.terms[k, 1]
        if wave == COSINE:
            coordinate = math.cos(program.term_values[k, 0] * coordinate)
        elif wave == SINE:
            coordinate = math.sin(program.term_values[k, 0] * coordinate)
        elif wave == LOGARITHM:
            coordinate = math.asinh(program.term_values[k, 0] * coordinate)
        features[program.terms[k, 2]] += program.term_values[k, 1] * coordinate


@compiled
def embed_pull_back(program: KernelProgram, state: Floats, gradient: Floats, out: Floats) -> None:
    """Fill ``out``, shape (q,), with the gradient in the state, given that (r,) in the features."""
    for d in range(out.shape[0]):
        out[d] = 0.0
    for k in range(program.terms.shape[0]):
        source, wave = program.terms[k, 0], program.terms[k, 1]
        frequency, slope = program.term_values[k, 0], program.term_values[k, 1]
        if wave == COSINE:
            slope *= -frequency * math.sin(frequency * state[source])
        elif wave == SINE:
            slope *= frequency * math.cos(frequency * state[source])
        elif wave == LOGARITHM:
            # 1/√(1+u²), without overflow.
            slope *= frequency / math.hypot(1.0, frequency * state[source])
        out[source] += slope * gradient[program.terms[k, 2]]


@compiled
def embed_all(program: KernelProgram, states: Floats, features: Floats) -> None:
    """Fill ``features``, shape (r, n), with the embeddings of ``states``, shape (n, q)."""
    one = np.empty(features.shape[0])
    for n in range(states.shape[0]):
        embed(program, states[n], one)
        np.positive(one, features[:, n])


@compiled_reordered
def _multiply(
    program: KernelProgram, f: int, features: Floats, point: Floats, scratch: Floats, out: Floats
) -> None:
    """Multiply out[m] by factor f between ``point`` and knot m."""
    if program.factors[f, 0] == CONSTANT:
        number = program.biases[f]
        for m in range(out.shape[0]):
            out[m] *= number
    else:
        factor_column(program, f, features, point, scratch)
        for m in range(out.shape[0]):
            out[m] *= scratch[m]


@compiled_reordered
def _sum_column(
    program: KernelProgram,
    first: int,
    last: int,
    features: Floats,
    point: Floats,
    scratch: Floats,
    out: Floats,
) -> None:
    """Fill out[m] with the sum of the products of the factors from ``first`` to ``last``."""
    owner = program.factors[:, 4]
    product = np.empty(out.shape[0] if owner[first] != owner[last - 1] else 0)
    f = first
    while f < last:
        start, column = f, out if f == first else product
        factor_column(program, start, features, point, column)
        f += 1
        while f < last and owner[f] == owner[start]:
            _multiply(program, f, features, point, scratch, column)
            f += 1
        if start > first:
            for m in range(out.shape[0]):
                out[m] += product[m]


@compiled_reordered
def partial_column(
    program: KernelProgram,
    first: int,
    last: int,
    features: Floats,
    point: Floats,
    scratch: Floats,
    out: Floats,
) -> None:
    """Fill a column of the kernel of the factors from ``first`` to ``last``."""
    if last == first + 1:
        # The most common kernel has one factor: a third faster without the code for sums.
        factor_column(program, first, features, point, out)
    else:
        _sum_column(program, first, last, features, point, scratch, out)


@compiled_reordered
def kernel_column(
    program: KernelProgram, features: Floats, point: Floats, scratch: Floats, out: Floats
) -> None:
    """Fill out[m] = κ(point, knot m) from an embedded point (r,) and embedded knots (r, L)."""
    partial_column(program, 0, program.factors.shape[0], features, point, scratch, out)


@compiled_reordered
def partial_pull_back(
    program: KernelProgram,
    first: int,
    last: int,
    features: Floats,
    point: Floats,
    weights: Floats,
    work: Floats,
    out: Floats,
) -> None:
    """Fill out[d] = Σ_m weights[m] ∂κ(point, knot m)/∂point[d], for some factors' κ.

    The point and the knots, shape (r, L), are embedded; ``work``, shape (3, L), is work space.
    """
    others, factor, slopes = work[0], work[1], work[2]
    for f in range(first, last):
        if program.factors[f, 0] == CONSTANT:
            continue
        # The product rule: the factor's slope is multiplied by the other factors.
        np.positive(weights, others)
        for g in range(first, last):
            if g != f and program.factors[g, 4] == program.factors[f, 4]:
                _multiply(program, g, features, point, factor, others)
        factor_pull_back(program, f, features, point, others, slopes, out)


@compiled
def kernel_columns(program: KernelProgram, features: Floats, points: Floats, out: Floats) -> None:
    """Fill out[n, m] = κ(point n, knot m) from embedded points (r, n) and knots (r, L)."""
    scratch = np.empty(features.shape[1])
    point = np.empty(points.shape[0])
    for n in range(points.shape[1]):
        np.positive(points[:, n], point)
        kernel_column(program, features, point, scratch, out[n])


@compiled
def _fill_diagonal(program: KernelProgram, features: Floats, out: Floats) -> None:
    """Fill out[n] = κ(point n, point n) from embedded points (r, n)."""
    point, one = np.empty(features.shape[0]), np.empty((features.shape[0], 1))
    scratch, value = np.empty(1), np.empty(1)
    for n in range(features.shape[1]):
        np.positive(features[:, n], point)
        np.positive(point, one[:, 0])
        kernel_column(program, one, point, scratch, value)
        out[n] = value[0]


@compiled_reordered
def inner(column: Floats, row: Floats) -> float:
    """Return Σ_m column[m] row[m]."""
    total = 0.0
    for m in range(column.shape[0]):
        total += column[m] * row[m]
    return total


@compiled
def weigh(column: Floats, weights: Floats, out: Floats) -> None:
    """Fill out[p] = Σ_m column[m] weights[p, m]: a function's value from a kernel column."""
    for p in range(weights.shape[0]):
        out[p] = inner(column, weights[p])


@compiled
def evaluate(
    program: KernelProgram,
    features: Floats,
    weights: Floats,
    state: Floats,
    point: Floats,
    work: Floats,
    out: Floats,
) -> None:
    """Fill ``out`` (p,) with the value of a function of weights (p, L) at a state (q,).

    ``point`` (r,) and ``work`` (2, L) are work space.
    """
    embed(program, state, point)
    kernel_column(program, features, point, work[1], work[0])
    weigh(work[0], weights, out)


@compiled_reordered
def _combine(weights: Floats, adjoint: Floats, out: Floats) -> None:
    """Fill out[m] = Σ_p adjoint[p] weights[p, m]."""
    out[:] = 0.0
    for p in range(weights.shape[0]):
        row, factor = weights[p], adjoint[p]
        for m in range(out.shape[0]):
            out[m] += factor * row[m]


@compiled
def evaluate_pull_back(
    program: KernelProgram,
    features: Floats,
    weights: Floats,
    state: Floats,
    adjoint: Floats,
    point: Floats,
    work: Floats,
    point_gradient: Floats,
    out: Floats,
) -> None:
    """Fill ``out`` (q,) with ∂/∂state of Σ_p adjoint[p] h_p(state).

    ``point`` and ``point_gradient`` (r,) and ``work`` (4, L) are work space.
    """
    embed(program, state, point)
    _combine(weights, adjoint, work[3])
    last = program.factors.shape[0]
    partial_pull_back(program, 0, last, features, point, work[3], work, point_gradient)
    embed_pull_back(program, state, point_gradient, out)


@compiled
def _fill_family(
    program: KernelProgram, features: Floats, weights: Floats, states: Floats, out: Floats
) -> None:
    """Fill out[n, f] with function f at state n; weights (F, p, L), out (n, F, p)."""
    point = np.empty(features.shape[0])
    work = np.empty((2, features.shape[1]))
    for n in range(states.shape[0]):
        embed(program, states[n], point)
        kernel_column(program, features, point, work[1], work[0])
        for f in range(weights.shape[0]):
            weigh(work[0], weights[f], out[n, f])


@compiled
def _fill_each(
    program: KernelProgram,
    features: Floats,
    weights: Floats,
    states: Floats,
    which: Integers,
    out: Floats,
) -> None:
    """Fill out[n] with function which[n] at state n; weights (F, p, L), out (n, p)."""
    point = np.empty(features.shape[0])
    work = np.empty((2, features.shape[1]))
    for n in range(states.shape[0]):
        evaluate(program, features, weights[which[n]], states[n], point, work, out[n])


# The entry points from Python: Numba's dispatch on named tuples is slow.
embed_states = FastEntry(embed_all)
kernel_matrix = FastEntry(kernel_columns)
kernel_diagonal = FastEntry(_fill_diagonal)
_evaluate_family = FastEntry(_fill_family)
_evaluate_each = FastEntry(_fill_each)
