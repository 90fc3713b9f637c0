"""The kernels once more, in plain NumPy, for checks that must not trust the library's code.

A kernel comes as the plain data that a file holds. Each formula returns its values together
with a bound on what rounding may have done to them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import FileFormatError, MissingFormulaError

Floats = NDArray[np.float64]

#: Units in the last place that two right implementations of one formula may lie apart.
_UNITS = 64.0
_PRECISION = float(np.finfo(np.float64).eps)
_ROWS = 64
#: Kernels of the points divided by their widths.
_OF_SCALED = ("laplacian", "linear", "polynomial")


def kernel_matrix(kernel: Mapping[str, Any], points: Floats) -> tuple[Floats, Floats]:
    """Return κ at every pair of points (n, q), and bounds on its rounding error, both (n, n)."""
    name = kernel["kernel"]
    if name in _OF_DISTANCE:
        return _stationary(kernel, points, _OF_DISTANCE[name])
    if name == "product":
        return _product(kernel["parts"], points)
    if name == "sum":
        return _sum(kernel["parts"], _scales(kernel), points)
    if name == "pair":
        raise MissingFormulaError(
            f"the kernel {kernel.get('label')!r} is a formula of its author's, and not in the file"
        )
    if name not in _OF_SCALED:
        raise FileFormatError(f"the kernel {name!r} is not known")
    scaled = points / _vector(kernel["std"], points)
    if name == "laplacian":
        apart = _pairwise(scaled, lambda difference: np.abs(difference).sum(axis=2))
        return np.exp(-apart), _stationary_error(scaled, apart)
    bias, degree = float(kernel["bias"]), int(kernel.get("degree", 1))
    largest = (bias + np.abs(scaled) @ np.abs(scaled).T) ** degree
    return (bias + scaled @ scaled.T) ** degree, _UNITS * degree * _PRECISION * largest


def kernel_features(kernel: Mapping[str, Any], points: Floats) -> Floats:
    """Return the numbers by which compiled code knows points (n, q), shape (r, n).

    Plain coordinates are divided by their widths, or whitened if the covariance is full; a
    logarithmic one is bent before; a periodic one becomes a point on a circle; products and sums
    have their parts' one after the other, and a product of sums is multiplied out.
    """
    return np.concatenate(_feature_products(kernel, points))


def _feature_products(kernel: Mapping[str, Any], points: Floats) -> list[Floats]:
    """Return the features of each of the products that a kernel is the sum of."""
    name = kernel["kernel"]
    if name == "pair":
        return [points.T]
    if name in _OF_SCALED:
        return [(points / _vector(kernel["std"], points)).T]
    if name in ("product", "sum"):
        parts = [_feature_products(part, points[:, list(dims)]) for part, dims in kernel["parts"]]
        if name == "sum":
            return [rows for products in parts for rows in products]
        return [np.concatenate(choice) for choice in itertools.product(*parts)]
    points = _bent(kernel, points)
    covariance, periods = _widths(kernel, points)
    plain = [d for d in range(points.shape[1]) if d not in periods]
    root = np.linalg.cholesky(covariance[np.ix_(plain, plain)])
    rows = [np.linalg.solve(root, points[:, plain].T)]
    for d, period in sorted(periods.items()):
        radius = period / (2 * math.pi) / math.sqrt(covariance[d, d])
        angle = 2 * math.pi / period * points[:, d]
        rows += [radius * np.cos(angle)[None, :], radius * np.sin(angle)[None, :]]
    return [np.concatenate(rows)]


def same_kernel(one: Any, other: Any) -> bool:
    """Tell whether two descriptions mean one kernel, however its widths are written."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return False
    return _alike(_normal_form(one), _normal_form(other))


def _normal_form(kernel: Mapping[str, Any]) -> Any:
    name = kernel.get("kernel")
    if name in _OF_DISTANCE:
        size = len(kernel["std"] if kernel.get("std") is not None else kernel["covariance"])
        covariance, periods = _widths(kernel, np.zeros((0, size)))
        marked = sorted(periods.items()), sorted(_sizes(kernel).items())
        return [name, covariance.tolist(), *([list(pair) for pair in own] for own in marked)]
    if name in ("product", "sum"):
        parts = [[_normal_form(part), list(dims)] for part, dims in kernel["parts"]]
        return [name, parts, _scales(kernel) if name == "sum" else []]
    return [name, sorted((key, value) for key, value in kernel.items() if key != "kernel")]


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-14)
    return bool(one == other)


def _matern(r: Floats, bend: float) -> Floats:
    return (1.0 + r + bend * r * r) * np.exp(-r)


#: Kernels as functions of the squared distance.
_OF_DISTANCE: dict[str, Callable[[Floats], Floats]] = {
    "gaussian": lambda square: np.exp(-0.5 * square),
    "matern32": lambda square: _matern(np.sqrt(3.0 * square), 0.0),
    "matern52": lambda square: _matern(np.sqrt(5.0 * square), 1.0 / 3.0),
}


def _stationary(
    kernel: Mapping[str, Any], points: Floats, formula: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    """Return a function of Δᵀ Σ⁻¹ Δ; in a periodic dimension Δ is the chord on its circle."""
    points = _bent(kernel, points)
    covariance, periods = _widths(kernel, points)
    precision = np.linalg.inv(covariance)

    def squares(difference: Floats) -> Floats:
        for d, period in periods.items():
            difference[:, :, d] = period / math.pi * np.sin(math.pi / period * difference[:, :, d])
        values: Floats = np.sum((difference @ precision) * difference, axis=2)
        return np.maximum(values, 0.0)

    square = _pairwise(points, squares)
    # A full covariance that is nearly singular costs digits.
    variances = np.diag(covariance)
    condition = float(np.linalg.cond(covariance / np.sqrt(np.outer(variances, variances))))
    scaled = points / np.sqrt(variances)
    return formula(square), condition * _stationary_error(scaled, np.sqrt(square))


def _pairwise(points: Floats, measure: Callable[[Floats], Floats]) -> Floats:
    """Return ``measure`` of the differences of all pairs, a few rows at a time."""
    rows = [
        measure(points[start : start + _ROWS, None, :] - points[None, :, :])
        for start in range(0, len(points), _ROWS)
    ]
    return np.concatenate([*rows, np.zeros((0, len(points)))])


def _stationary_error(scaled: Floats, apart: Floats) -> Floats:
    """Bound the error of a kernel of differences: large coordinates cancel in them."""
    reach = 1.0 + float(np.max(np.abs(scaled), initial=0.0))
    return _UNITS * _PRECISION * reach * np.minimum(1.0 + apart, 3.0)


def _product(parts: Sequence[Any], points: Floats) -> tuple[Floats, Floats]:
    values = np.ones((len(points), len(points)))
    largest = np.ones_like(values)
    for part, dims in parts:
        own, error = kernel_matrix(part, points[:, list(dims)])
        values = values * own
        largest = largest * (np.abs(own) + error)
    return values, largest - np.abs(values) + _UNITS * _PRECISION * largest


def _sum(parts: Sequence[Any], scales: Sequence[float], points: Floats) -> tuple[Floats, Floats]:
    values = np.zeros((len(points), len(points)))
    errors = np.zeros_like(values)
    for (part, dims), scale in zip(parts, scales, strict=True):
        own, error = kernel_matrix(part, points[:, list(dims)])
        values = values + scale * own
        errors = errors + scale * (error + _UNITS * _PRECISION * np.abs(own))
    return values, errors


def _scales(kernel: Mapping[str, Any]) -> list[float]:
    """Return what each part of a sum is multiplied by."""
    given = kernel.get("scales")
    scales = [1.0] * len(kernel["parts"]) if given is None else [float(scale) for scale in given]
    if len(scales) != len(kernel["parts"]) or not all(0.0 <= s < math.inf for s in scales):
        raise FileFormatError(f"the scales {given!r} of a sum do not fit its parts")
    return scales


def _vector(widths: Any, points: Floats) -> Floats:
    vector = np.asarray(widths, dtype=np.float64)
    if vector.shape != (points.shape[1],) or not np.all(vector > 0):
        raise FileFormatError(f"the kernel's widths {widths!r} do not fit its points")
    return vector


def _widths(kernel: Mapping[str, Any], points: Floats) -> tuple[Floats, dict[int, float]]:
    """Return Σ as a matrix, and the periods of the dimensions that wrap around."""
    q = points.shape[1]
    if kernel.get("std") is not None:
        covariance = np.diag(np.square(_vector(kernel["std"], points)))
    else:
        covariance = np.asarray(kernel["covariance"], dtype=np.float64)
        covariance = np.diag(covariance) if covariance.ndim == 1 else covariance
    if covariance.shape != (q, q) or not np.all(np.linalg.eigvalsh(covariance) > 0):
        raise FileFormatError(f"the kernel's covariance {kernel.get('covariance')!r} is no good")
    periods = {}
    for entry in kernel.get("periodic") or ():
        d, period = entry if isinstance(entry, list | tuple) else (entry, 2 * math.pi)
        periods[int(d)] = float(period)
    return covariance, periods


def _sizes(kernel: Mapping[str, Any]) -> dict[int, float]:
    """Return the logarithmic dimensions with their sizes."""
    return {int(d): float(size) for d, size in kernel.get("logarithmic") or ()}


def _bent(kernel: Mapping[str, Any], points: Floats) -> Floats:
    """Return the points with c·asinh(x/c) in the place of x in every logarithmic dimension."""
    bent = points.copy()
    for d, size in _sizes(kernel).items():
        bent[:, d] = size * np.arcsinh(points[:, d] / size)
    return bent
