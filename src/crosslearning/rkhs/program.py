"""Kernels as data, and the compiled loops that read them.

A kernel is handed to compiled code as a :class:`KernelProgram`: an embedding of states into
feature vectors, and a product of factors over slices of those features. One compiled body
serves every kernel, so its machine code is cached once and a rollout can call it.

Features are stored with one row per feature and one column per knot, so that the loops over
knots run in SIMD lanes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import types

from crosslearning.compiled import FastEntry, FunctionPointer, compiled, compiled_reordered
from crosslearning.rkhs.checks import Floats, Integers

# What a factor computes from two feature vectors z, z' (slices of the embedding).
GAUSSIAN = 0  # exp(-|z-z'|² / 2)
MATERN_3_2 = 1  # (1+r) exp(-r),          r = √3 |z-z'|
MATERN_5_2 = 2  # (1+r+r²/3) exp(-r),     r = √5 |z-z'|
LAPLACIAN = 3  # exp(-Σ|z-z'|)
POLYNOMIAL = 4  # (bias + z·z')^degree
PAIR = 5  # a formula of the user's

# How a coordinate of the state enters the embedding.
IDENTITY = 0
COSINE = 1
SINE = 2
LOGARITHM = 3  # asinh: the number itself near 0, its logarithm far away

#: A user's formula for one pair of points.
PAIR_SIGNATURE = types.float64(types.float64[::1], types.float64[::1])


class KernelProgram(NamedTuple):
    """A kernel in the form that compiled code reads.

    Few arrays, because compiled code hands a copy of their descriptors to every call. What
    Python calls is a :class:`FastEntry` or takes the fields one by one: Numba looks at the
    inside of a named tuple fifty times more slowly than at plain arguments.

    Attributes
    ----------
    terms : array of int, shape (terms, 3)
        The embedding as a sum of terms: which coordinate of the state a term reads, its wave
        (the coordinate itself, or a cosine, sine or asinh of it), and the feature that it adds
        to.
    term_values : array, shape (terms, 2)
        The frequency inside the wave, and the scale of the term.
    factors : array of int, shape (factors, 4)
        Which formula each factor is, the first feature that it reads and the one after the
        last, and the polynomial's degree.
    biases : array, shape (factors,)
        The polynomial's constant.
    pair : FunctionPointer
        The user's formula, if a factor is one.
    """

    terms: Integers
    term_values: Floats
    factors: Integers
    biases: Floats
    pair: FunctionPointer


class Expansion(NamedTuple):
    """Functions in the form that compiled code reads: h_f(s) = Σ_m κ(s_m, s) w_mf.

    ``features``, shape (r, C), are the embedded knots, and ``rows``, shape (functions, p, C), the
    weights; columns without weights may be filling.
    """

    program: KernelProgram
    features: Floats
    rows: Floats

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


_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
# Adding and subtracting 1.5·2⁵² rounds a small double to an integer held in its low bits.
_ROUND = 6755399441055744.0
# Below this a kernel value is under 1e-304: no sum of ours can see the difference.
_SMALLEST_EXPONENT = -700.0


@compiled
def exp_of_negative(x: float) -> float:
    """Return exp(x) for x ≤ 0 to the last two units, in a form that becomes SIMD code.

    exp(x) = 2ⁿ exp(r) with n = round(x / ln 2) and |r| ≤ ½ ln 2. exp(r) = 1 + r + r² c(r)
    where c is the Chebyshev fit of degree 9 to (exp(r) − 1 − r)/r² (relative error 2e-17),
    its even and odd powers summed apart to shorten the chain. A NaN stays a NaN.
    """
    x = _SMALLEST_EXPONENT if x < _SMALLEST_EXPONENT else x
    shifted = x * _LOG2_E + _ROUND
    n = shifted - _ROUND
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    q = r * r
    even = 2.7620088445409746e-07
    even = even * q + 2.4801521295954376e-05
    even = even * q + 0.0013888888917213717
    even = even * q + 0.04166666666662413
    even = even * q + 0.5000000000000001
    odd = 2.510038549551032e-08
    odd = odd * q + 2.7557268459997064e-06
    odd = odd * q + 0.00019841269863053618
    odd = odd * q + 0.008333333333330062
    odd = odd * q + 0.16666666666666669
    p = (odd * r + even) * q + (r + 1.0)
    exponent = np.float64(shifted).view(np.int64) << 52
    return np.int64(np.float64(p).view(np.int64) + exponent).view(np.float64)


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
def embed_all(program: KernelProgram, states: Floats, features: Floats) -> None:
    """Fill ``features``, shape (r, n), with the embeddings of ``states``, shape (n, q)."""
    one = np.empty(features.shape[0])
    for n in range(states.shape[0]):
        embed(program, states[n], one)
        for r in range(features.shape[0]):
            features[r, n] = one[r]


@compiled_reordered
def _squared_distances(features: Floats, point: Floats, start: int, stop: int, out: Floats) -> None:
    """Fill out[m] = Σ_d (features[d, m] - point[d])², four dimensions a pass where it can.

    The rows and numbers are taken out of their arrays first: the compiler cannot know that
    ``out`` is not among them, and would load them anew for every knot.
    """
    d = start
    if (stop - start) % 2 == 1:
        row, value = features[d], point[d]
        for m in range(out.shape[0]):
            a = row[m] - value
            out[m] = a * a
        d += 1
    else:
        for m in range(out.shape[0]):
            out[m] = 0.0
    if (stop - d) % 4 == 2:
        row, value, row_2, value_2 = features[d], point[d], features[d + 1], point[d + 1]
        for m in range(out.shape[0]):
            a, b = row[m] - value, row_2[m] - value_2
            out[m] += a * a + b * b
        d += 2
    while d < stop:
        row, value, row_2, value_2 = features[d], point[d], features[d + 1], point[d + 1]
        row_3, value_3, row_4, value_4 = (
            features[d + 2],
            point[d + 2],
            features[d + 3],
            point[d + 3],
        )
        for m in range(out.shape[0]):
            a, b = row[m] - value, row_2[m] - value_2
            c, e = row_3[m] - value_3, row_4[m] - value_4
            out[m] += (a * a + b * b) + (c * c + e * e)
        d += 4


@compiled_reordered
def _factor_column(
    program: KernelProgram, f: int, features: Floats, point: Floats, out: Floats
) -> None:
    """Fill out[m] with factor f's value between ``point`` and every column of ``features``."""
    kind, start, stop = program.factors[f, 0], program.factors[f, 1], program.factors[f, 2]
    if kind == GAUSSIAN:
        _squared_distances(features, point, start, stop, out)
        for m in range(out.shape[0]):
            out[m] = exp_of_negative(-0.5 * out[m])
    elif kind == MATERN_3_2:
        _squared_distances(features, point, start, stop, out)
        for m in range(out.shape[0]):
            r = math.sqrt(3.0 * out[m])
            out[m] = (1.0 + r) * exp_of_negative(-r)
    elif kind == MATERN_5_2:
        _squared_distances(features, point, start, stop, out)
        for m in range(out.shape[0]):
            r = math.sqrt(5.0 * out[m])
            out[m] = (1.0 + r + r * r / 3.0) * exp_of_negative(-r)
    elif kind == LAPLACIAN:
        for m in range(out.shape[0]):
            out[m] = 0.0
        for d in range(start, stop):
            for m in range(out.shape[0]):
                out[m] += abs(features[d, m] - point[d])
        for m in range(out.shape[0]):
            out[m] = exp_of_negative(-out[m])
    elif kind == POLYNOMIAL:
        for m in range(out.shape[0]):
            out[m] = program.biases[f]
        for d in range(start, stop):
            for m in range(out.shape[0]):
                out[m] += features[d, m] * point[d]
        for m in range(out.shape[0]):
            base, power = out[m], out[m]
            for _ in range(program.factors[f, 3] - 1):
                power *= base
            out[m] = power
    else:
        x = point[start:stop].copy()
        y = np.empty_like(x)
        for m in range(out.shape[0]):
            for d in range(stop - start):
                y[d] = features[start + d, m]
            out[m] = program.pair(x, y)


@compiled_reordered
def kernel_column(
    program: KernelProgram, features: Floats, point: Floats, scratch: Floats, out: Floats
) -> None:
    """Fill out[m] = κ(point, knot m) from an embedded point (r,) and embedded knots (r, L)."""
    for f in range(program.factors.shape[0]):
        _factor_column(program, f, features, point, out if f == 0 else scratch)
        if f > 0:
            for m in range(out.shape[0]):
                out[m] *= scratch[m]


@compiled
def kernel_columns(program: KernelProgram, features: Floats, points: Floats, out: Floats) -> None:
    """Fill out[n, m] = κ(point n, knot m) from embedded points (r, n) and knots (r, L)."""
    scratch = np.empty(features.shape[1])
    point = np.empty(points.shape[0])
    for n in range(points.shape[1]):
        for r in range(points.shape[0]):
            point[r] = points[r, n]
        kernel_column(program, features, point, scratch, out[n])


@compiled_reordered
def weigh(column: Floats, weights: Floats, out: Floats) -> None:
    """Fill out[p] = Σ_m column[m] weights[p, m]: a function's value from a kernel column."""
    for p in range(weights.shape[0]):
        total = 0.0
        for m in range(column.shape[0]):
            total += column[m] * weights[p, m]
        out[p] = total


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
    """Fill ``out``, shape (p,), with the value of one function at ``state``, shape (q,).

    Its weights have shape (p, L). ``point``, shape (r,), and ``work``, shape (2, L), are work
    space for the embedded state and for kernel columns.
    """
    embed(program, state, point)
    kernel_column(program, features, point, work[1], work[0])
    weigh(work[0], weights, out)


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


# What Python calls.
embed_states = FastEntry(embed_all)
kernel_matrix = FastEntry(kernel_columns)
_evaluate_family = FastEntry(_fill_family)
_evaluate_each = FastEntry(_fill_each)
