"""The formulas of kernels: values and slopes between one point and all knots.

A factor of a kernel is a formula over a slice of the features. Every function here fills a
column, one number per knot, in loops that are vectorised.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crosslearning._base.compiled import compiled, compiled_reordered
from crosslearning.rkhs.checks import Floats

if TYPE_CHECKING:
    from crosslearning.rkhs.program import KernelProgram

# The formula of a factor, of two feature vectors z, z' (slices of the embedding). Those of the
# Euclidean distance come first.
GAUSSIAN = 0  # exp(-|z-z'|² / 2)
MATERN_3_2 = 1  # (1+r) exp(-r),          r = √3 |z-z'|
MATERN_5_2 = 2  # (1+r+r²/3) exp(-r),     r = √5 |z-z'|
LAPLACIAN = 3  # exp(-Σ|z-z'|)
POLYNOMIAL = 4  # (bias + z·z')^degree
PAIR = 5  # a formula of the user's
CONSTANT = 6  # a number, the bias; never the first factor of a product

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
# Adding and subtracting 1.5·2⁵² rounds a small double to an integer held in its low bits.
_ROUND = 6755399441055744.0
# Below this a kernel value is under 1e-304, which no sum can resolve.
_SMALLEST_EXPONENT = -700.0
# The cube root of a double's precision balances truncation and rounding in a central difference.
_DIFFERENCE_STEP = 6.0554544523933395e-06


@compiled
def exp_of_negative(x: float) -> float:
    """Return exp(x) for x ≤ 0 to the last two units, in a form that vectorises.

    exp(x) = 2ⁿ exp(r) with n = round(x / ln 2) and |r| ≤ ½ ln 2. exp(r) = 1 + r + r² c(r)
    where c is the Chebyshev fit of degree 9 to (exp(r) − 1 − r)/r² (relative error 2e-17),
    its even and odd powers summed apart to shorten the chain. NaN is preserved.
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


@compiled_reordered
def _squared_distances(features: Floats, point: Floats, start: int, stop: int, out: Floats) -> None:
    """Fill out[m] = Σ_d (features[d, m] - point[d])², up to four dimensions per pass.

    Rows and numbers are local variables, because the compiler cannot know that ``out`` does not
    overlap with their arrays.
    """
    d = start
    if (stop - start) % 2 == 1:
        row, value = features[d], point[d]
        for m in range(out.shape[0]):
            a = row[m] - value
            out[m] = a * a
        d += 1
    else:
        out[:] = 0.0
    if (stop - d) % 4 == 2:
        row, value, row_2, value_2 = features[d], point[d], features[d + 1], point[d + 1]
        for m in range(out.shape[0]):
            a, b = row[m] - value, row_2[m] - value_2
            out[m] += a * a + b * b
        d += 2
    while d < stop:
        row, value, row_2, value_2 = features[d], point[d], features[d + 1], point[d + 1]
        row_3, row_4 = features[d + 2], features[d + 3]
        value_3, value_4 = point[d + 2], point[d + 3]
        for m in range(out.shape[0]):
            a, b = row[m] - value, row_2[m] - value_2
            c, e = row_3[m] - value_3, row_4[m] - value_4
            out[m] += (a * a + b * b) + (c * c + e * e)
        d += 4


@compiled_reordered
def _inner_products(
    bias: float, features: Floats, point: Floats, start: int, stop: int, out: Floats
) -> None:
    """Fill out[m] = bias + Σ_d features[d, m] point[d]."""
    out[:] = bias
    for d in range(start, stop):
        for m in range(out.shape[0]):
            out[m] += features[d, m] * point[d]


@compiled_reordered
def factor_column(
    program: KernelProgram, f: int, features: Floats, point: Floats, out: Floats
) -> None:
    """Fill out[m] with factor f's value between ``point`` and every column of ``features``."""
    kind, start, stop = program.factors[f, 0], program.factors[f, 1], program.factors[f, 2]
    if kind <= MATERN_5_2:
        _squared_distances(features, point, start, stop, out)
    if kind == GAUSSIAN:
        for m in range(out.shape[0]):
            out[m] = exp_of_negative(-0.5 * out[m])
    elif kind == MATERN_3_2:
        for m in range(out.shape[0]):
            r = math.sqrt(3.0 * out[m])
            out[m] = (1.0 + r) * exp_of_negative(-r)
    elif kind == MATERN_5_2:
        for m in range(out.shape[0]):
            r = math.sqrt(5.0 * out[m])
            out[m] = (1.0 + r + r * r / 3.0) * exp_of_negative(-r)
    elif kind == LAPLACIAN:
        out[:] = 0.0
        for d in range(start, stop):
            for m in range(out.shape[0]):
                out[m] += abs(features[d, m] - point[d])
        for m in range(out.shape[0]):
            out[m] = exp_of_negative(-out[m])
    elif kind == POLYNOMIAL:
        _inner_products(program.biases[f], features, point, start, stop, out)
        for m in range(out.shape[0]):
            base, power = out[m], out[m]
            for _ in range(program.factors[f, 3] - 1):
                power *= base
            out[m] = power
    else:
        x = point[start:stop].copy()
        y = np.empty_like(x)
        for m in range(out.shape[0]):
            np.positive(features[start:stop, m], y)
            out[m] = program.pair(x, y)


@compiled_reordered
def factor_pull_back(
    program: KernelProgram,
    f: int,
    features: Floats,
    point: Floats,
    weights: Floats,
    slopes: Floats,
    out: Floats,
) -> None:
    """Fill out[d] = Σ_m weights[m] ∂/∂point[d] of factor f, for the features d that it reads.

    ``slopes``, shape (L,), is work space. At its kink the Laplacian has the mean slope of both
    sides. The slopes of a user's formula are central differences.
    """
    kind, start, stop = program.factors[f, 0], program.factors[f, 1], program.factors[f, 2]
    if kind == PAIR:
        x = point[start:stop].copy()
        y = np.empty_like(x)
        out[start:stop] = 0.0
        for m in range(slopes.shape[0]):
            np.positive(features[start:stop, m], y)
            for d in range(stop - start):
                value = x[d]
                step = _DIFFERENCE_STEP * max(1.0, abs(value))
                x[d] = value + step
                difference = program.pair(x, y)
                x[d] = value - step
                difference -= program.pair(x, y)
                x[d] = value
                out[start + d] += weights[m] * difference / (2.0 * step)
        return
    # The slope in the squared distance or the inner product, the same for all features.
    if kind <= MATERN_5_2:
        _squared_distances(features, point, start, stop, slopes)
    elif kind == LAPLACIAN:
        factor_column(program, f, features, point, slopes)
    else:
        _inner_products(program.biases[f], features, point, start, stop, slopes)
    for m in range(slopes.shape[0]):
        if kind == GAUSSIAN:
            slopes[m] = weights[m] * exp_of_negative(-0.5 * slopes[m])
        elif kind == MATERN_3_2:
            r = math.sqrt(3.0 * slopes[m])
            slopes[m] = 3.0 * weights[m] * exp_of_negative(-r)
        elif kind == MATERN_5_2:
            r = math.sqrt(5.0 * slopes[m])
            slopes[m] = (5.0 / 3.0) * weights[m] * (1.0 + r) * exp_of_negative(-r)
        elif kind == LAPLACIAN:
            slopes[m] *= weights[m]
        else:
            base, power = slopes[m], program.factors[f, 3] * weights[m]
            for _ in range(program.factors[f, 3] - 1):
                power *= base
            slopes[m] = power
    for d in range(start, stop):
        row, value, total = features[d], point[d], 0.0
        for m in range(slopes.shape[0]):
            if kind <= MATERN_5_2:
                total += slopes[m] * (row[m] - value)
            elif kind == LAPLACIAN:
                total += slopes[m] * (1.0 if row[m] > value else (-1.0 if row[m] < value else 0.0))
            else:
                total += slopes[m] * row[m]
        out[d] = total
