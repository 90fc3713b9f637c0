"""Kernels of the difference of two points, and polynomial ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.errors import LARGEST, InputError
from crosslearning.rkhs import formulas
from crosslearning.rkhs import program as programs
from crosslearning.rkhs.checks import Floats, finite_array
from crosslearning.rkhs.kernel import Factor, Kernel, Term, positive_vector, scaled_factor


def _marked(
    what: str, given: Mapping[int, float] | Sequence[Any], matrix: Floats, usual: float | None
) -> tuple[tuple[int, float], ...]:
    """Return ((dimension, size), ...) of marked dimensions; those without a size have the usual."""
    pairs = []
    for entry in given.items() if isinstance(given, Mapping) else given:
        if isinstance(entry, tuple | list):
            pairs.append((int(entry[0]), float(entry[1])))
        elif usual is not None:
            pairs.append((int(entry), usual))
        else:
            raise InputError(f"{what} is {given!r}; give each with its size, such as {{0: 0.1}}")
    for d, size in pairs:
        if not 0 <= d < len(matrix):
            raise InputError(f"{what} dimension {d} is not among 0 … {len(matrix) - 1}")
        if not (math.isfinite(size) and size > 0):
            name = "period" if what == "periodic" else "size"
            raise InputError(f"the {name} of dimension {d} must be positive, got {size}")
        if np.count_nonzero(matrix[d]) > 1:
            raise InputError(f"{what} dimension {d} has covariance with others; set those to zero")
    if len(dict(pairs)) < len(pairs):
        raise InputError(f"a {what} dimension is listed twice: {[d for d, _ in pairs]}")
    return tuple(sorted(pairs))


def _covariance(name: str, std: ArrayLike | None, covariance: ArrayLike | None) -> Floats:
    """Return Σ as a checked matrix, from widths or from itself."""
    if std is not None and covariance is None:
        widths = positive_vector("std", std)
        if not 1.0 / LARGEST <= min(widths) <= max(widths) <= LARGEST:
            raise InputError(f"std must be from {1.0 / LARGEST:g} to {LARGEST:g}, got {std!r}")
        return np.diag(np.square(widths))
    if covariance is None or std is not None:
        given = "neither" if std is None else "both"
        raise InputError(f"{name} needs std= (widths) or covariance= (their squares), got {given}")
    if np.ndim(covariance) != 2:
        return np.diag(positive_vector("covariance", covariance))
    matrix = finite_array("covariance", covariance, np.shape(covariance)[:1] * 2)
    if not np.array_equal(matrix, matrix.T):
        raise InputError(
            "covariance must be a symmetric matrix or squared widths; it is not symmetric"
        )
    if np.linalg.eigvalsh(matrix)[0] <= 0:
        raise InputError("covariance must be positive definite; an eigenvalue is not positive")
    return matrix


@dataclass(frozen=True, init=False)
class _Stationary(Kernel):
    """A function of the scaled difference of two points; give either ``std`` or ``covariance``.

    Parameters
    ----------
    std : sequence of q floats
        Widths in the units of the state.
    covariance : sequence of q floats, or (q, q) array
        Squared widths, or a symmetric positive definite matrix.
    periodic : sequence of int, or mapping from int to float
        Periodic dimensions, with period 2π or the period of the mapping. The difference is
        replaced by the chord of a circle with that circumference, so that the kernel stays
        positive definite, which a kernel of wrapped differences is not.
    logarithmic : mapping from int to float
        Dimensions in which ratios count: x enters as c·asinh(x/c), linear where |x| is well below
        the size c of the mapping, logarithmic well above. The width is that near 0.
    """

    covariance: tuple[tuple[float, ...], ...]
    periodic: tuple[tuple[int, float], ...] = ()
    logarithmic: tuple[tuple[int, float], ...] = ()
    kind: ClassVar[int]
    normalised = True

    def __init__(
        self,
        *,
        std: ArrayLike | None = None,
        covariance: ArrayLike | None = None,
        periodic: Mapping[int, float] | Sequence[int] = (),
        logarithmic: Mapping[int, float] | Sequence[tuple[int, float]] = (),
    ) -> None:
        matrix = _covariance(type(self).__name__, std, covariance)
        periods = _marked("periodic", periodic, matrix, 2 * math.pi)
        sizes = _marked("logarithmic", logarithmic, matrix, None)
        for d in dict(periods).keys() & dict(sizes).keys():
            raise InputError(f"dimension {d} is both periodic and logarithmic; drop one of them")
        rows = tuple(map(tuple, matrix.tolist()))
        vars(self).update(covariance=rows, periodic=periods, logarithmic=sizes, dimension=len(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as plain data for files."""
        data = super().to_dict()
        if not self.logarithmic:
            del data["logarithmic"]
        return data

    @property
    def std(self) -> tuple[float, ...]:
        """Widths: square roots of the covariance's diagonal."""
        return tuple(math.sqrt(row[d]) for d, row in enumerate(self.covariance))

    def _squared_distance(self, x: Floats, y: Floats) -> float:
        """Return Δᵀ Σ⁻¹ Δ, with chords for periodic differences."""
        x, y = np.array(x, dtype=np.float64), np.array(y, dtype=np.float64)
        for d, size in self.logarithmic:
            x[d], y[d] = size * math.asinh(x[d] / size), size * math.asinh(y[d] / size)
        difference = x - y
        wrapped = 0.0
        for d, period in self.periodic:
            chord = period / math.pi * math.sin(math.pi * difference[d] / period)
            wrapped += chord**2 / self.covariance[d][d]
            difference[d] = 0.0
        return float(difference @ np.linalg.solve(np.array(self.covariance), difference)) + wrapped

    def _products(self) -> list[list[Factor]]:
        periods, sizes = dict(self.periodic), dict(self.logarithmic)
        plain = [d for d in range(self.dimension) if d not in periods]
        sigma = np.array(self.covariance)[np.ix_(plain, plain)]
        if np.array_equal(sigma, np.diag(np.diag(sigma))):
            whitening = np.diag(1.0 / np.sqrt(np.diag(sigma)))
        else:
            whitening = np.linalg.inv(np.linalg.cholesky(sigma))
        terms = []
        for row, column in np.argwhere(whitening).tolist():
            scale, source = float(whitening[row, column]), plain[column]
            if source in sizes:
                size = sizes[source]
                terms.append(Term(source, row, scale * size, programs.LOGARITHM, 1 / size))
            else:
                terms.append(Term(source, row, scale))
        features = len(plain)
        for d, period in periods.items():
            frequency = 2 * math.pi / period
            for wave in (programs.COSINE, programs.SINE):
                terms.append(Term(d, features, 1 / (frequency * self.std[d]), wave, frequency))
                features += 1
        return [[Factor(self.kind, features, tuple(terms))]]


class Gaussian(_Stationary):
    """κ(x, y) = exp(−½ Δᵀ Σ⁻¹ Δ) with Δ = x − y: the paper's kernel.

    Examples
    --------
    >>> from crosslearning.rkhs import Gaussian
    >>> Gaussian(std=[1.0])([[0.0], [1.0]]).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    name = "gaussian"
    kind = formulas.GAUSSIAN

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        return math.exp(-0.5 * self._squared_distance(x, y))


class Matern32(_Stationary):
    """κ = (1 + r) exp(−r) with r = √(3 Δᵀ Σ⁻¹ Δ): rougher functions than the Gaussian's.

    Examples
    --------
    >>> from crosslearning.rkhs import Matern32
    >>> Matern32(std=[1.0])([[0.0]], [[1.0]]).round(4)
    array([[0.4834]])
    """

    name = "matern32"
    kind = formulas.MATERN_3_2

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        r = math.sqrt(3.0 * self._squared_distance(x, y))
        return (1.0 + r) * math.exp(-r)


class Matern52(_Stationary):
    """κ = (1 + r + r²/3) exp(−r) with r = √(5 Δᵀ Σ⁻¹ Δ): between Matérn 3/2 and Gaussian.

    Examples
    --------
    >>> from crosslearning.rkhs import Matern52
    >>> Matern52(std=[1.0])([[0.0]], [[1.0]]).round(4)
    array([[0.524]])
    """

    name = "matern52"
    kind = formulas.MATERN_5_2

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        r = math.sqrt(5.0 * self._squared_distance(x, y))
        return (1.0 + r + r * r / 3.0) * math.exp(-r)


@dataclass(frozen=True)
class _Scaled(Kernel):
    """A function of coordinates that are divided by their widths."""

    std: Sequence[float]

    def __post_init__(self) -> None:
        std = positive_vector("std", self.std)
        vars(self).update(std=std, dimension=len(std))


class Laplacian(_Scaled):
    """κ(x, y) = exp(−Σ_d |x_d − y_d| / std_d): continuous, not differentiable functions.

    Parameters
    ----------
    std : sequence of q floats
        The length of decay in each dimension.

    Examples
    --------
    >>> from crosslearning.rkhs import Laplacian
    >>> Laplacian([1.0])([[0.0]], [[1.0]]).round(4)
    array([[0.3679]])
    """

    name = "laplacian"
    normalised = True

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        return math.exp(-sum(abs(a - b) / s for a, b, s in zip(x, y, self.std, strict=True)))

    def _products(self) -> list[list[Factor]]:
        return [[scaled_factor(formulas.LAPLACIAN, self.std)]]


@dataclass(frozen=True)
class Polynomial(_Scaled):
    """κ(x, y) = (bias + Σ_d x_d y_d / std_d²)^degree: polynomials of the state.

    Parameters
    ----------
    std : sequence of q floats
        The unit of each coordinate.
    degree : int
        At least 1.
    bias : float
        At least 0; with 0 only the monomials of exactly this degree remain.

    Examples
    --------
    >>> from crosslearning.rkhs import Polynomial
    >>> Polynomial([1.0], degree=2)([[2.0]], [[3.0]])
    array([[49.]])
    """

    degree: int
    bias: float = 1.0
    name: ClassVar[str] = "polynomial"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.degree, bool) or int(self.degree) != self.degree or self.degree < 1:
            raise InputError(f"degree must be a whole number of at least 1, got {self.degree!r}")
        if not (math.isfinite(self.bias) and self.bias >= 0):
            raise InputError(f"bias must be at least 0, got {self.bias!r}")

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        terms = (a / s * b / s for a, b, s in zip(x, y, self.std, strict=True))
        return float((self.bias + sum(terms)) ** self.degree)

    def _products(self) -> list[list[Factor]]:
        return [[scaled_factor(formulas.POLYNOMIAL, self.std, bias=self.bias, degree=self.degree)]]


@dataclass(frozen=True)
class Linear(Polynomial):
    """κ(x, y) = bias + Σ_d x_d y_d / std_d²: linear policies, or affine ones if bias > 0.

    Its functions are known in closed form: h(s) = (Σ_m w_m s_mᵀ/std²) s + bias Σ_m w_m.
    The parameters are those of :class:`Polynomial`, but for the degree.

    Examples
    --------
    >>> from crosslearning.rkhs import Linear
    >>> Linear([1.0], bias=1.0)([[2.0]], [[3.0]])
    array([[7.]])
    """

    degree: int = field(default=1, init=False)
    bias: float = 0.0
    name: ClassVar[str] = "linear"
