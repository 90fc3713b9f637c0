"""Kernels in plain NumPy, from the plain data that ``Kernel.to_dict`` gives.

They serve verification, policies without a compiler, and exports to other languages. They share
nothing with :mod:`crosslearning.rkhs`, so that an error in either shows as a difference. A kernel
is a sum of products of factors, and a factor is a formula of two feature vectors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import FileFormatError, MissingFormulaError

Floats = NDArray[np.float64]

#: Units in the last place by which two correct implementations of a formula may differ.
_UNITS = 64.0
_PRECISION = float(np.finfo(np.float64).eps)
#: States in a batch, which bounds the memory.
_ROWS = 1024
#: Formulas of the Euclidean distance of features, and of points divided by their widths.
_STATIONARY = ("gaussian", "matern32", "matern52")
_SCALED = ("laplacian", "linear", "polynomial", "pair")
_MATERN = {"matern32": 3.0, "matern52": 5.0}


@dataclass(frozen=True, eq=False)
class Factor:
    """One factor of a kernel: an embedding of points, and a formula of two embedded ones."""

    #: ``gaussian``, ``matern32``, ``matern52``, ``laplacian``, ``polynomial`` or ``pair``.
    formula: str
    #: The coordinates that enter by a linear map, and that map, shape (features, len(reads)).
    reads: tuple[int, ...]
    whitening: Floats
    #: (coordinate, size c): c·asinh(x/c) replaces x before the map.
    logarithmic: tuple[tuple[int, float], ...] = ()
    #: (coordinate, frequency, radius): two features, radius · (cos, sin)(frequency · x).
    circles: tuple[tuple[int, float, float], ...] = ()
    #: Of the polynomial.
    bias: float = 0.0
    degree: int = 1
    #: The factor by which a nearly singular covariance amplifies rounding errors.
    condition: float = 1.0
    label: str = ""

    def features(self, points: Floats) -> Floats:
        """Return the features of points (n, q), shape (features, n)."""
        plain = points[:, list(self.reads)]
        for d, size in self.logarithmic:
            column = self.reads.index(d)
            plain[:, column] = size * np.arcsinh(plain[:, column] / size)
        rows = [self.whitening @ plain.T]
        for d, frequency, radius in self.circles:
            angle = frequency * points[:, d]
            rows += [radius * np.cos(angle)[None, :], radius * np.sin(angle)[None, :]]
        return np.concatenate(rows)

    def require_formula(self) -> None:
        """Raise an error for a formula of the user's."""
        if self.formula == "pair":
            owner = f"the kernel {self.label!r} is a formula of its author's"
            remedy = "keep such a policy with its learner, by CrossLearner.save, or Family.save"
            raise MissingFormulaError(f"{owner}, and files never carry code: {remedy}")

    def values(self, left: Floats, right: Floats) -> Floats:
        """Return the formula at all pairs of embedded points, shape (n, m)."""
        self.require_formula()
        if self.formula == "polynomial":
            return np.asarray((self.bias + left.T @ right) ** self.degree)
        apart = self.apart(left, right)
        if self.formula == "gaussian":
            return np.exp(-0.5 * apart * apart)
        if self.formula == "laplacian":
            return np.exp(-apart)
        if self.formula not in _MATERN:
            raise FileFormatError(f"the kernel formula {self.formula!r} is not known here")
        r = math.sqrt(_MATERN[self.formula]) * apart
        bend = 0.0 if self.formula == "matern32" else 1.0 / 3.0
        return np.asarray((1.0 + r + bend * r * r) * np.exp(-r))

    def apart(self, left: Floats, right: Floats) -> Floats:
        """Return the distances of all pairs of embedded points, shape (n, m)."""
        total = np.zeros((left.shape[1], right.shape[1]))
        for one, other in zip(left, right, strict=True):
            # Products of large coordinates would cancel; squares may overflow to infinity.
            with np.errstate(over="ignore"):
                difference = one[:, None] - other[None, :]
                total += np.abs(difference) if self.formula == "laplacian" else difference**2
        return total if self.formula == "laplacian" else np.sqrt(total)

    def error(self, rows: Floats) -> Floats:
        """Return bounds on the rounding errors of the values at all pairs of points."""
        if self.formula == "polynomial":
            largest = (self.bias + np.abs(rows).T @ np.abs(rows)) ** self.degree
            return np.asarray(_UNITS * self.degree * _PRECISION * largest)
        reach = self.condition * (1.0 + float(np.max(np.abs(rows), initial=0.0)))
        return _UNITS * _PRECISION * reach * np.minimum(1.0 + self.apart(rows, rows), 3.0)


@dataclass(frozen=True, eq=False)
class Product:
    """A number times factors; a kernel is the sum of such products."""

    scale: float
    factors: tuple[Factor, ...]


def products_of(kernel: Mapping[str, Any], dimensions: Sequence[int]) -> list[Product]:
    """Return the products whose sum is a described kernel of some dimensions of a point."""
    name = kernel["kernel"]
    if name in (*_STATIONARY, *_SCALED):
        factor = (_stationary if name in _STATIONARY else _scaled)(kernel, dimensions)
        return [Product(1.0, (factor,))]
    if name not in ("product", "sum"):
        raise FileFormatError(f"the kernel {name!r} is not known")
    parts = [products_of(part, [dimensions[d] for d in dims]) for part, dims in kernel["parts"]]
    if name == "sum":
        return [
            replace(product, scale=scale * product.scale)
            for scale, products in zip(_scales(kernel), parts, strict=True)
            for product in products
        ]
    products = []
    for choice in itertools.product(*parts):
        factors = tuple(factor for product in choice for factor in product.factors)
        products.append(Product(math.prod(product.scale for product in choice), factors))
    return products


def _scaled(kernel: Mapping[str, Any], dimensions: Sequence[int]) -> Factor:
    name, reads = kernel["kernel"], tuple(dimensions)
    if name == "pair":
        return Factor(name, reads, np.eye(len(reads)), label=str(kernel.get("label")))
    whitening = np.diag(1.0 / _vector(kernel["std"], len(reads)))
    if name == "laplacian":
        return Factor(name, reads, whitening)
    bias, degree = float(kernel["bias"]), int(kernel.get("degree", 1))
    if not (0.0 <= bias < math.inf and degree >= 1):
        raise FileFormatError(f"a polynomial kernel has the bias {bias} and the degree {degree}")
    return Factor("polynomial", reads, whitening, bias=bias, degree=degree)


def _stationary(kernel: Mapping[str, Any], dimensions: Sequence[int]) -> Factor:
    """Return a function of Δᵀ Σ⁻¹ Δ; in a periodic dimension Δ is the chord on its circle."""
    covariance = _covariance(kernel, len(dimensions))
    periods, sizes = _marked(kernel, "periodic"), _marked(kernel, "logarithmic")
    widths = np.sqrt(np.diag(covariance))
    plain = [d for d in range(len(dimensions)) if d not in periods]
    root = np.linalg.cholesky(covariance[np.ix_(plain, plain)])
    circles = []
    for d, period in sorted(periods.items()):
        frequency = 2 * math.pi / period
        circles.append((dimensions[d], frequency, 1.0 / (frequency * float(widths[d]))))
    return Factor(
        kernel["kernel"],
        tuple(dimensions[d] for d in plain),
        np.linalg.inv(root),
        tuple((dimensions[d], size) for d, size in sorted(sizes.items())),
        tuple(circles),
        # A full covariance that is nearly singular costs digits.
        condition=float(np.linalg.cond(covariance / widths / widths[:, None])),
    )


class PlainFamily:
    """Functions h_f(s) = Σ_m κ(s_m, s) w_mf of knots (L, q) and weights (L, functions, p)."""

    def __init__(self, kernel: Mapping[str, Any], knots: Floats, weights: Floats) -> None:
        self.kernel, self.knots, self.weights = kernel, knots, weights
        self.products = products_of(kernel, range(knots.shape[1]))
        for factor in itertools.chain(*(product.factors for product in self.products)):
            factor.require_formula()
        self._embedded = _embedded(self.products, knots)
        self._rows = weights.reshape(len(knots), math.prod(weights.shape[1:]))

    @property
    def dimension(self) -> int:
        """The number q of coordinates of a state."""
        return int(self.knots.shape[1])

    @property
    def outputs(self) -> int:
        """The dimension p of the values."""
        return int(self.weights.shape[2])

    def expansion(self, states: Floats) -> Floats:
        """Evaluate every function at states (n, q): shape (n, functions, p)."""
        values = np.empty((len(states), *self.weights.shape[1:]))
        for start in range(0, len(states), _ROWS):
            rows = slice(start, start + _ROWS)
            embedded = _embedded(self.products, states[rows])
            columns = _sum_of_products(self.products, embedded, self._embedded)
            values[rows] = (columns @ self._rows).reshape(-1, *self.weights.shape[1:])
        return values


def kernel_matrix(kernel: Mapping[str, Any], points: Floats) -> tuple[Floats, Floats]:
    """Return κ at every pair of points (n, q), and bounds on its rounding error, both (n, n)."""
    products = products_of(kernel, range(points.shape[1]))
    embedded = _embedded(products, points)
    errors = np.zeros((len(points), len(points)))
    for product, rows in zip(products, embedded, strict=True):
        size = largest = np.full_like(errors, product.scale)
        for factor, z in zip(product.factors, rows, strict=True):
            values = np.abs(factor.values(z, z))
            size, largest = size * values, largest * (values + factor.error(z))
        errors += largest - size + _UNITS * _PRECISION * largest
    return _sum_of_products(products, embedded, embedded), errors


def kernel_features(kernel: Mapping[str, Any], points: Floats) -> Floats:
    """Return the features of points (n, q) as compiled code has them, shape (r, n)."""
    rows = _embedded(products_of(kernel, range(points.shape[1])), points)
    return np.concatenate([z for product in rows for z in product])


def _embedded(products: Sequence[Product], points: Floats) -> list[list[Floats]]:
    return [[factor.features(points) for factor in product.factors] for product in products]


def _sum_of_products(
    products: Sequence[Product], left: list[list[Floats]], right: list[list[Floats]]
) -> Floats:
    """Return κ at all pairs of embedded points, shape (n, m)."""
    total: Floats | float = 0.0
    for product, one, other in zip(products, left, right, strict=True):
        values: Floats | float = product.scale
        for factor, x, y in zip(product.factors, one, other, strict=True):
            values = values * factor.values(x, y)
        total = total + values
    return np.asarray(total)


def same_kernel(one: Any, other: Any) -> bool:
    """Return whether two descriptions mean the same kernel, however its widths are written."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return False
    try:
        return _alike(_normal_form(one), _normal_form(other))
    except (AttributeError, LookupError, TypeError, ValueError):
        return False  # one of them describes no kernel


def _normal_form(kernel: Mapping[str, Any]) -> Any:
    name = kernel.get("kernel")
    if name in _STATIONARY:
        size = len(kernel["std"] if kernel.get("std") is not None else kernel["covariance"])
        covariance = _covariance(kernel, size)
        marked = (sorted(_marked(kernel, what).items()) for what in ("periodic", "logarithmic"))
        return [name, covariance.tolist(), *([list(pair) for pair in pairs] for pairs in marked)]
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


def _scales(kernel: Mapping[str, Any]) -> list[float]:
    given = kernel.get("scales")
    scales = [1.0] * len(kernel["parts"]) if given is None else list(map(float, given))
    if len(scales) != len(kernel["parts"]) or not all(0.0 <= s < math.inf for s in scales):
        raise FileFormatError(f"the scales {given!r} of a sum do not fit its parts")
    return scales


def _vector(widths: Any, size: int) -> Floats:
    vector = np.asarray(widths, dtype=np.float64)
    if vector.shape != (size,) or not np.all((vector > 0) & (vector < math.inf)):
        raise FileFormatError(f"the kernel's widths {widths!r} do not fit its points")
    return vector


def _covariance(kernel: Mapping[str, Any], size: int) -> Floats:
    """Return Σ as a matrix."""
    if kernel.get("std") is not None:
        return np.diag(np.square(_vector(kernel["std"], size)))
    covariance = np.asarray(kernel["covariance"], dtype=np.float64)
    covariance = np.diag(covariance) if covariance.ndim == 1 else covariance
    fine = covariance.shape == (size, size) and bool(np.all(np.isfinite(covariance)))
    if not fine or not np.all(np.linalg.eigvalsh(covariance) > 0):
        raise FileFormatError(f"the kernel's covariance {kernel.get('covariance')!r} is no good")
    return covariance


def _marked(kernel: Mapping[str, Any], what: str) -> dict[int, float]:
    """Return the periodic or logarithmic dimensions with their sizes."""
    entries = kernel.get(what) or ()
    pairs = (e if isinstance(e, list | tuple) else (e, 2 * math.pi) for e in entries)
    return {int(d): float(size) for d, size in pairs}
