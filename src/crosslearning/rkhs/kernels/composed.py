"""Kernels of inner products, products of kernels, and kernels from a formula of your own."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crosslearning.compiled import FunctionPointer
from crosslearning.errors import InputError
from crosslearning.rkhs import program as programs
from crosslearning.rkhs.kernels.base import Factor, Kernel, positive_vector, scaled_factor

Floats = NDArray[np.float64]


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

    std: Sequence[float]
    degree: int
    bias: float = 1.0
    name: ClassVar[str] = "polynomial"

    def __post_init__(self) -> None:
        object.__setattr__(self, "std", positive_vector("std", self.std))
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

    def _factors(self) -> list[Factor]:
        return [scaled_factor(programs.POLYNOMIAL, self.std, bias=self.bias, degree=self.degree)]

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

    @property
    def normalised(self) -> bool:
        """Whether κ(x, x) = 1: if every part's is."""
        return all(kernel.normalised for kernel, _ in self.parts)

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        x, y = np.asarray(x), np.asarray(y)
        return math.prod(kernel.formula(x[[*d]], y[[*d]]) for kernel, d in self.parts)

    def _factors(self) -> list[Factor]:
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
        try:
            with np.errstate(all="ignore"), contextlib.suppress(ArithmeticError):
                self._pointer.python(np.ones(self.dimension), np.zeros(self.dimension))
        except IndexError as problem:
            # Compiled code would read past the end without a word.
            raise InputError(
                f"the formula reads more than the {dimension} coordinates it was said to: {problem}"
            ) from problem
        self.label = label or str(getattr(self._pointer.python, "__name__", "formula"))

    def __repr__(self) -> str:
        return f"PairKernel({self.label}, dimension={self.dimension})"

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        return float(self._pointer.python(np.asarray(x, float), np.asarray(y, float)))

    def _factors(self) -> list[Factor]:
        return [scaled_factor(programs.PAIR, [1.0] * self.dimension, pair=self._pointer)]

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel's name; its code stays with its author."""
        return {"kernel": self.name, "label": self.label, "dimension": self.dimension}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairKernel) and (
            (self._pointer.python, self.dimension) == (other._pointer.python, other.dimension)
        )

    def __hash__(self) -> int:
        return hash((self._pointer.python, self.dimension))
