"""Kernels: the formula for one pair of points, and everything else from the base class.

A subclass states the formula and the program that compiled code reads; Gram matrices, shapes,
checks and files belong to :class:`Kernel`. To use a kernel of your own, give its formula to
:class:`PairKernel`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.compiled import FunctionPointer
from crosslearning.errors import FileFormatError, InputError, unknown_name
from crosslearning.rkhs import program as programs
from crosslearning.rkhs.checks import finite_matrix
from crosslearning.rkhs.program import KernelProgram

Floats = NDArray[np.float64]


class Kernel(abc.ABC):
    """A positive definite function κ of two states.

    Calling a kernel with points of shape (n, q), and optionally others of shape (m, q),
    returns the matrix of values, shape (n, n) or (n, m).
    """

    #: The name under which the kernel is written to files.
    name: ClassVar[str]
    #: The number q of coordinates of a state.
    dimension: int

    @abc.abstractmethod
    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y) for two points of shape (q,): the readable reference."""

    @abc.abstractmethod
    def _factors(self) -> list[_Factor]:
        """Return the product of factors that compiled code computes."""

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as plain data for files; see :func:`kernel_from_dict`."""

    @cached_property
    def program(self) -> KernelProgram:
        """The kernel in the form that compiled code reads."""
        return _assemble(self._factors())

    def embed(self, points: ArrayLike) -> Floats:
        """Return the features of points (n, q) as an array of shape (r, n)."""
        states = finite_matrix("points", points, columns=self.dimension)
        features = np.empty((int(self.program.factors[-1, 2]), len(states)))
        programs.embed_states(*self.program, states, features)
        return features

    def __call__(self, points: ArrayLike, others: ArrayLike | None = None) -> Floats:
        """Return κ at every pair: shape (n, n), or (n, m) if ``others`` are given."""
        left = self.embed(points)
        right = left if others is None else self.embed(others)
        values = np.empty((left.shape[1], right.shape[1]))
        programs.kernel_matrix(*self.program, right, left, values)
        return values

    def diagonal(self, points: ArrayLike) -> Floats:
        """Return κ(x, x) at every point, shape (n,)."""
        features = self.embed(points)
        values = np.empty((features.shape[1], 1))
        for n in range(features.shape[1]):
            one = np.ascontiguousarray(features[:, n : n + 1])
            programs.kernel_matrix(*self.program, one, one, values[n : n + 1])
        return values[:, 0]


class _Term(NamedTuple):
    """Part of an embedding: scale · wave(frequency · state[source]), added to a feature."""

    source: int
    feature: int
    scale: float
    wave: int = programs.IDENTITY
    frequency: float = 0.0


@dataclass(frozen=True)
class _Factor:
    """One factor of a product kernel before assembly: an embedding and a formula."""

    kind: int
    features: int
    terms: tuple[_Term, ...]
    bias: float = 0.0
    degree: int = 1
    pair: FunctionPointer | None = None

    def on(self, dimensions: Sequence[int]) -> _Factor:
        """Return the same factor reading other coordinates of a larger state."""
        return replace(
            self, terms=tuple(t._replace(source=dimensions[t.source]) for t in self.terms)
        )


def _scaled(kind: int, std: Sequence[float], **formula: Any) -> _Factor:
    """Return the factor whose features are the coordinates divided by their widths."""
    terms = tuple(_Term(source=d, feature=d, scale=1.0 / s) for d, s in enumerate(std))
    return _Factor(kind, len(std), terms, **formula)


def _one(x: Floats, y: Floats) -> float:
    return 1.0


@cache
def _no_pair() -> FunctionPointer:
    return FunctionPointer(_one, programs.PAIR_SIGNATURE)


def _assemble(factors: list[_Factor]) -> KernelProgram:
    stop = np.cumsum([factor.features for factor in factors])
    start = stop - [factor.features for factor in factors]
    terms = [
        term._replace(feature=term.feature + int(first))
        for factor, first in zip(factors, start, strict=True)
        for term in factor.terms
    ]
    pairs = [factor.pair for factor in factors if factor.pair is not None]
    if len(pairs) > 1:
        raise InputError(
            f"a product holds {len(pairs)} kernels from formulas, expected at most one; "
            "write them as one formula"
        )
    return KernelProgram(
        terms=np.array([(t.source, t.wave, t.feature) for t in terms], dtype=np.int64),
        term_values=np.array([(t.frequency, t.scale) for t in terms], dtype=np.float64),
        factors=np.array(
            [(f.kind, a, b, f.degree) for f, a, b in zip(factors, start, stop, strict=True)],
            dtype=np.int64,
        ),
        biases=np.array([f.bias for f in factors], dtype=np.float64),
        pair=pairs[0] if pairs else _no_pair(),
    )


def _positive_vector(what: str, given: ArrayLike) -> tuple[float, ...]:
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{what} must be numbers, one per dimension, got {given!r}") from problem
    if values.ndim != 1 or values.size == 0:
        raise InputError(
            f"{what} must be a sequence with one number per dimension, got shape {values.shape}"
        )
    if not np.all(np.isfinite(values)) or np.any(values <= 0):
        raise InputError(f"{what} must be positive and finite in every dimension, got {given!r}")
    return tuple(values.tolist())


def _periods(
    periodic: Mapping[int, float] | Sequence[int], dimension: int
) -> tuple[tuple[int, float], ...]:
    """Return ((dimension, period), ...) from a mapping, or from dimensions of period 2π."""
    if isinstance(periodic, Mapping):
        pairs = [(int(d), float(period)) for d, period in periodic.items()]
    else:
        pairs = [
            (int(d[0]), float(d[1])) if isinstance(d, tuple | list) else (int(d), 2 * math.pi)
            for d in cast("Sequence[Any]", periodic)
        ]
    for d, period in pairs:
        if not 0 <= d < dimension:
            raise InputError(f"periodic dimension {d} is not among 0 … {dimension - 1}")
        if not (math.isfinite(period) and period > 0):
            raise InputError(f"the period of dimension {d} must be positive, got {period}")
    if len({d for d, _ in pairs}) < len(pairs):
        raise InputError(f"a periodic dimension is listed twice: {[d for d, _ in pairs]}")
    return tuple(sorted(pairs))


@dataclass(frozen=True, init=False)
class _Stationary(Kernel):
    """A function of the scaled difference of two points.

    Give either ``std``, one width per dimension, or ``covariance``, their squares (a vector)
    or a full symmetric positive definite matrix.

    Parameters
    ----------
    std : sequence of q floats
        Widths in the units of the state.
    covariance : sequence of q floats, or (q, q) array
        Squared widths.
    periodic : sequence of int, or mapping from int to float
        Dimensions that wrap around, with period 2π, or with the period that the mapping
        gives. Such a dimension enters by the chord between two points of a circle with that
        circumference: for short differences the same as the plain one, and positive
        definite, which a kernel of wrapped differences is not.
    """

    #: Σ as a tuple of rows.
    covariance: tuple[tuple[float, ...], ...]
    periodic: tuple[tuple[int, float], ...] = ()
    kind: ClassVar[int]

    def __init__(
        self,
        *,
        std: ArrayLike | None = None,
        covariance: ArrayLike | None = None,
        periodic: Mapping[int, float] | Sequence[int] = (),
    ) -> None:
        if (std is None) == (covariance is None):
            raise InputError(
                f"{type(self).__name__} needs its widths once: either std= (widths) or "
                f"covariance= (their squares), got {'neither' if std is None else 'both'}"
            )
        if std is not None:
            matrix = np.diag(np.square(_positive_vector("std", std)))
        elif np.ndim(cast("Any", covariance)) == 2:
            matrix = finite_matrix("covariance", cast("ArrayLike", covariance))
        else:
            matrix = np.diag(_positive_vector("covariance", cast("ArrayLike", covariance)))
        if matrix.shape[0] != matrix.shape[1] or not np.array_equal(matrix, matrix.T):
            raise InputError(
                f"covariance must be a symmetric (q, q) matrix or a vector of q squared widths, "
                f"got shape {matrix.shape}"
                + (" that is not symmetric" if matrix.shape[0] == matrix.shape[1] else "")
            )
        if np.linalg.eigvalsh(matrix)[0] <= 0:
            raise InputError("covariance must be positive definite; an eigenvalue is not positive")
        periods = _periods(periodic, len(matrix))
        for d, _ in periods:
            if np.count_nonzero(matrix[d]) > 1:
                raise InputError(
                    f"periodic dimension {d} has covariance with others; set those entries to zero"
                )
        object.__setattr__(self, "covariance", tuple(map(tuple, matrix.tolist())))
        object.__setattr__(self, "periodic", periods)

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """The number q of coordinates."""
        return len(self.covariance)

    @property
    def std(self) -> tuple[float, ...]:
        """Widths: square roots of the covariance's diagonal."""
        return tuple(math.sqrt(row[d]) for d, row in enumerate(self.covariance))

    def _squared_distance(self, x: Floats, y: Floats) -> float:
        """Return Δᵀ Σ⁻¹ Δ, with chords in the place of periodic differences."""
        difference = np.asarray(x, dtype=np.float64) - np.asarray(y, dtype=np.float64)
        wrapped = 0.0
        for d, period in self.periodic:
            chord = period / math.pi * math.sin(math.pi * difference[d] / period)
            wrapped += chord**2 / self.covariance[d][d]
            difference[d] = 0.0
        return float(difference @ np.linalg.solve(np.array(self.covariance), difference)) + wrapped

    def _factors(self) -> list[_Factor]:
        periods = dict(self.periodic)
        plain = [d for d in range(self.dimension) if d not in periods]
        sigma = np.array(self.covariance)[np.ix_(plain, plain)]
        if np.array_equal(sigma, np.diag(np.diag(sigma))):
            whitening = np.diag(1.0 / np.sqrt(np.diag(sigma)))
        else:
            whitening = np.linalg.inv(np.linalg.cholesky(sigma))
        terms = [
            _Term(source=plain[column], feature=int(row), scale=float(whitening[row, column]))
            for row, column in np.argwhere(whitening)
        ]
        features = len(plain)
        for d, period in periods.items():
            frequency = 2 * math.pi / period
            for wave in (programs.COSINE, programs.SINE):
                terms.append(_Term(d, features, 1 / (frequency * self.std[d]), wave, frequency))
                features += 1
        return [_Factor(self.kind, features, tuple(terms))]

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as plain data."""
        return {
            "kernel": self.name,
            "covariance": [list(row) for row in self.covariance],
            "periodic": [[d, period] for d, period in self.periodic],
        }


class Gaussian(_Stationary):
    """κ(x, y) = exp(−½ Δᵀ Σ⁻¹ Δ) with Δ = x − y: the paper's kernel."""

    name = "gaussian"
    kind = programs.GAUSSIAN

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        return math.exp(-0.5 * self._squared_distance(x, y))


class Matern32(_Stationary):
    """κ = (1 + r) exp(−r) with r = √(3 Δᵀ Σ⁻¹ Δ): once differentiable functions."""

    name = "matern32"
    kind = programs.MATERN_3_2

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        r = math.sqrt(3.0 * self._squared_distance(x, y))
        return (1.0 + r) * math.exp(-r)


class Matern52(_Stationary):
    """κ = (1 + r + r²/3) exp(−r) with r = √(5 Δᵀ Σ⁻¹ Δ): twice differentiable functions."""

    name = "matern52"
    kind = programs.MATERN_5_2

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        r = math.sqrt(5.0 * self._squared_distance(x, y))
        return (1.0 + r + r * r / 3.0) * math.exp(-r)


@dataclass(frozen=True)
class Laplacian(Kernel):
    """κ(x, y) = exp(−Σ_d |x_d − y_d| / std_d): continuous, not differentiable functions.

    Parameters
    ----------
    std : sequence of q floats
        The length of decay in each dimension.
    """

    std: tuple[float, ...]
    name = "laplacian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "std", _positive_vector("std", self.std))

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """The number q of coordinates."""
        return len(self.std)

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        return math.exp(-sum(abs(a - b) / s for a, b, s in zip(x, y, self.std, strict=True)))

    def _factors(self) -> list[_Factor]:
        return [_scaled(programs.LAPLACIAN, self.std)]

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as plain data."""
        return {"kernel": self.name, "std": list(self.std)}


@dataclass(frozen=True)
class Polynomial(Kernel):
    """κ(x, y) = (bias + Σ_d x_d y_d / std_d²)^degree: polynomials of the state.

    Parameters
    ----------
    std : sequence of q floats
        The size of each coordinate that counts as one.
    degree : int
        At least 1.
    bias : float
        At least 0. With 0 only the monomials of exactly this degree remain.
    """

    std: tuple[float, ...]
    degree: int
    bias: float = 1.0
    name: ClassVar[str] = "polynomial"

    def __post_init__(self) -> None:
        object.__setattr__(self, "std", _positive_vector("std", self.std))
        if isinstance(self.degree, bool) or int(self.degree) != self.degree or self.degree < 1:
            raise InputError(f"degree must be a whole number of at least 1, got {self.degree!r}")
        if not (math.isfinite(self.bias) and self.bias >= 0):
            raise InputError(
                f"bias must be at least 0, got {self.bias!r}: with less the kernel is not "
                "positive definite"
            )

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """The number q of coordinates."""
        return len(self.std)

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        terms = (a / s * b / s for a, b, s in zip(x, y, self.std, strict=True))
        return float((self.bias + sum(terms)) ** self.degree)

    def _factors(self) -> list[_Factor]:
        return [_scaled(programs.POLYNOMIAL, self.std, bias=self.bias, degree=self.degree)]

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as plain data."""
        return {
            "kernel": self.name,
            "std": list(self.std),
            "degree": self.degree,
            "bias": self.bias,
        }


@dataclass(frozen=True)
class Linear(Polynomial):
    """κ(x, y) = bias + Σ_d x_d y_d / std_d²: linear policies, or affine ones if bias > 0.

    Its functions are known in closed form: h(s) = (Σ_m w_m s_mᵀ/std²) s + bias Σ_m w_m.

    Parameters
    ----------
    std : sequence of q floats
        The size of each coordinate that counts as one.
    bias : float
        At least 0.
    """

    degree: int = field(default=1, init=False)
    bias: float = 0.0
    name: ClassVar[str] = "linear"

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as plain data."""
        return {"kernel": self.name, "std": list(self.std), "bias": self.bias}


@dataclass(frozen=True, init=False)
class Product(Kernel):
    """A product of kernels, each on its own group of dimensions.

    Parameters
    ----------
    *parts : (kernel, dimensions)
        Each kernel with the coordinates of the state that it reads, as many as its own
        dimension. Together they must read every coordinate 0 … q−1.

    Examples
    --------
    >>> Product((Gaussian(std=[1.0, 2.0]), [0, 2]), (Laplacian(std=[0.5]), [1])).dimension
    3
    """

    parts: tuple[tuple[Kernel, tuple[int, ...]], ...]
    name: ClassVar[str] = "product"

    def __init__(self, *parts: tuple[Kernel, Sequence[int]]) -> None:
        if not parts:
            raise InputError("a product needs at least one part: (kernel, dimensions)")
        checked = tuple((kernel, tuple(int(d) for d in dims)) for kernel, dims in parts)
        for kernel, dims in checked:
            if len(dims) != kernel.dimension:
                raise InputError(
                    f"{type(kernel).__name__} reads {kernel.dimension} dimensions, got the "
                    f"{len(dims)} dimensions {dims}"
                )
        read = {d for _, dims in checked for d in dims}
        if read != set(range(len(read))):
            raise InputError(
                f"the parts must read every dimension 0 … {max(read)}; they read {sorted(read)}"
            )
        object.__setattr__(self, "parts", checked)

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """The number q of coordinates."""
        return 1 + max(d for _, dims in self.parts for d in dims)

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        x, y = np.asarray(x), np.asarray(y)
        return math.prod(kernel.formula(x[[*d]], y[[*d]]) for kernel, d in self.parts)

    def _factors(self) -> list[_Factor]:
        return [f.on(dims) for kernel, dims in self.parts for f in kernel._factors()]

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as plain data."""
        return {
            "kernel": self.name,
            "parts": [[kernel.to_dict(), list(dims)] for kernel, dims in self.parts],
        }


class PairKernel(Kernel):
    """A kernel of your own, from the formula for one pair of points.

    The formula is compiled; it may use arithmetic, ``math`` and the NumPy that Numba knows.
    It must be symmetric and positive definite: see :func:`crosslearning.rkhs.check_kernel`.

    Parameters
    ----------
    formula : callable
        ``formula(x, y)`` with two arrays of shape (q,), returning a float.
    dimension : int
        The number q of coordinates.
    label : str, optional
        The name that files carry; by default the function's own. Files never carry code: to
        load a family, pass this kernel to ``Family.load(path, kernel=...)``.

    Examples
    --------
    >>> def rational_quadratic(x, y):
    ...     return 1.0 / (1.0 + np.sum((x - y) ** 2))
    >>> kernel = PairKernel(rational_quadratic, dimension=2)
    >>> float(kernel([[0.0, 0.0]], [[1.0, 0.0]])[0, 0])
    0.5
    """

    name = "pair"

    def __init__(
        self, formula: Callable[..., float], dimension: int, label: str | None = None
    ) -> None:
        if not callable(formula):
            raise InputError(f"formula must be a function of two points, got {formula!r}")
        if int(dimension) != dimension or dimension < 1:
            raise InputError(f"dimension must be a whole number of at least 1, got {dimension!r}")
        self.dimension = int(dimension)
        self._pointer = FunctionPointer(formula, programs.PAIR_SIGNATURE)
        self.label = label or str(getattr(self._pointer.python, "__name__", "formula"))

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        return float(self._pointer.python(np.asarray(x, float), np.asarray(y, float)))

    def _factors(self) -> list[_Factor]:
        return [_scaled(programs.PAIR, [1.0] * self.dimension, pair=self._pointer)]

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel's name; its code stays with its author."""
        return {"kernel": self.name, "label": self.label, "dimension": self.dimension}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairKernel) and (
            (self._pointer.python, self.dimension) == (other._pointer.python, other.dimension)
        )

    def __hash__(self) -> int:
        return hash((self._pointer.python, self.dimension))


def kernel_from_dict(data: Mapping[str, Any]) -> Kernel:
    """Return the kernel that ``Kernel.to_dict`` wrote.

    A kernel with a formula of the user's is not in the file and raises an error that says so.
    """
    builders: dict[str, Callable[[dict[str, Any]], Kernel]] = {
        **{
            kernel.name: lambda d, kernel=kernel: kernel(  # type: ignore[misc]
                covariance=d["covariance"],
                periodic={int(k): float(v) for k, v in d["periodic"]},
            )
            for kernel in (Gaussian, Matern32, Matern52)
        },
        "laplacian": lambda d: Laplacian(d["std"]),
        "polynomial": lambda d: Polynomial(d["std"], d["degree"], d["bias"]),
        "linear": lambda d: Linear(d["std"], bias=d["bias"]),
        "product": lambda d: Product(*((kernel_from_dict(k), dims) for k, dims in d["parts"])),
    }
    name = data.get("kernel") if isinstance(data, Mapping) else None
    if name == PairKernel.name:
        raise InputError(
            f"the kernel {data.get('label')!r} is a formula of its author's and is not in the "
            "file; pass it when loading: Family.load(path, kernel=...)"
        )
    if not isinstance(name, str):
        raise FileFormatError(f"the kernel's description is not readable: {data!r}")
    if name not in builders:
        raise unknown_name("kernel", name, builders)
    try:
        return builders[name](dict(data))
    except (KeyError, TypeError, ValueError) as problem:
        raise FileFormatError(f"the description of the {name} kernel is damaged: {problem}") from (
            problem
        )
