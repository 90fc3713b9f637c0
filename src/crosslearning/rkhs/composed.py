"""Products and sums of kernels, and kernels from formulas or files."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crosslearning._base.compiled import FunctionPointer
from crosslearning.errors import FileFormatError, InputError, MissingFormulaError, unknown_name
from crosslearning.rkhs import formulas, kernels
from crosslearning.rkhs import program as programs
from crosslearning.rkhs.checks import Floats, count, finite_array
from crosslearning.rkhs.kernel import Factor, Kernel, Parts, scaled_factor


class _Composed(Kernel):
    """A combination of kernels, each on its own group of dimensions."""

    parts: Parts

    def _set(self, parts: tuple[Any, ...], **others: Any) -> None:
        """Check the parts, and set all attributes."""
        if not parts:
            raise InputError(f"a {self.name} needs at least one part: (kernel, dimensions)")
        checked = []
        for part in parts:
            two = isinstance(part, tuple | list) and len(part) == 2
            if not (two and isinstance(part[0], Kernel)):
                expected = "a kernel with the dimensions that it reads, as (kernel, [0, 2])"
                raise InputError(f"a part of a {self.name} must be {expected}, got {part!r}")
            kernel, dims = part[0], tuple(int(d) for d in part[1])
            if len(dims) != kernel.dimension:
                reads = f"{type(kernel).__name__} reads {kernel.dimension} dimensions"
                raise InputError(f"{reads}, got {dims}")
            checked.append((kernel, dims))
        read = {d for _, dims in checked for d in dims}
        if read != set(range(len(read))):
            raise InputError(f"the parts must read every dimension 0 … {max(read)}, got {read}")
        vars(self).update(parts=tuple(checked), dimension=len(read), **others)
        # Whether κ(x, x) = 1, with the rounding of compiled code.
        total = 0.0
        for product in self._products():
            total += math.prod(f.bias for f in product if f.kind == formulas.CONSTANT)
        normalised = all(kernel.normalised for kernel, _ in checked) and total == 1.0
        vars(self).update(normalised=normalised)

    def _values(self, x: Floats, y: Floats) -> list[float]:
        x, y = np.asarray(x), np.asarray(y)
        return [kernel.formula(x[[*dims]], y[[*dims]]) for kernel, dims in self.parts]

    def _part_products(self) -> list[list[list[Factor]]]:
        return [
            [[factor.on(dims) for factor in product] for product in kernel._products()]
            for kernel, dims in self.parts
        ]


@dataclass(frozen=True, init=False)
class Product(_Composed):
    """A product of kernels, each on its own group of dimensions.

    Parameters
    ----------
    *parts : (kernel, dimensions)
        Each kernel with the coordinates of the state that it reads. Together they must read every
        coordinate 0 … q−1. Parts that are sums are multiplied out.

    Examples
    --------
    >>> from crosslearning.rkhs import Gaussian, Linear, Product
    >>> Product((Gaussian(std=[1.0]), [0]), (Linear([1.0]), [1]))([[0.0, 2.0]], [[0.0, 3.0]])
    array([[6.]])
    """

    parts: Parts
    name: ClassVar[str] = "product"

    def __init__(self, *parts: tuple[Kernel, Sequence[int]]) -> None:
        self._set(parts)

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        return math.prod(self._values(x, y))

    def _products(self) -> list[list[Factor]]:
        choices = itertools.product(*self._part_products())
        return [list(itertools.chain(*choice)) for choice in choices]


@dataclass(frozen=True, init=False)
class Sum(_Composed):
    """A sum of kernels, each on its own group of dimensions.

    Parameters
    ----------
    *parts : (kernel, dimensions)
        As for :class:`Product`.
    scales : sequence of float, optional
        The factor of each part: at least 0, and not all 0. By default 1.

    Examples
    --------
    >>> from crosslearning.rkhs import Gaussian, Linear, Sum
    >>> Sum((Gaussian(std=[1.0]), [0]), (Linear([1.0]), [1]))([[0.0, 2.0]], [[0.0, 3.0]])
    array([[7.]])
    """

    parts: Parts
    scales: tuple[float, ...]
    name: ClassVar[str] = "sum"

    def __init__(
        self, *parts: tuple[Kernel, Sequence[int]], scales: Sequence[float] | None = None
    ) -> None:
        given = [1.0] * len(parts) if scales is None else scales
        checked = finite_array("scales", given, (len(parts),))
        if np.any(checked < 0) or (parts and not np.any(checked > 0)):
            raise InputError(f"scales must be at least 0 and not all 0, got {checked.tolist()}")
        self._set(parts, scales=tuple(checked.tolist()))

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        return sum(s * value for s, value in zip(self.scales, self._values(x, y), strict=True))

    def _products(self) -> list[list[Factor]]:
        return [
            [*product, Factor(formulas.CONSTANT, 0, (), bias=scale)] if scale != 1.0 else product
            for scale, products in zip(self.scales, self._part_products(), strict=True)
            for product in products
        ]

    def _summands(self) -> tuple[Parts, tuple[float, ...]]:
        return self.parts, self.scales


Kernel._sum_of = Sum


class PairKernel(Kernel):
    """A kernel of your own, from the formula for one pair of points.

    The formula is compiled; it may use arithmetic, ``math`` and the NumPy that Numba supports.
    It must be symmetric and positive definite: see :func:`crosslearning.rkhs.check_kernel`.

    Parameters
    ----------
    formula : callable
        ``formula(x, y)`` with two arrays of shape (q,), returning a float.
    dimension : int
        The number q of coordinates.
    label : str, optional
        The name in files, by default that of the function. Files hold no code: to load a family,
        pass this kernel to ``Family.load(path, kernel=...)``.

    Examples
    --------
    >>> from crosslearning.rkhs import PairKernel
    >>> PairKernel(lambda x, y: 1.0 + x[0] * y[0], dimension=1)([[2.0]], [[3.0]])
    array([[7.]])
    """

    name = "pair"

    def __init__(
        self, formula: Callable[..., float], dimension: int, label: str | None = None
    ) -> None:
        if not callable(formula):
            raise InputError(f"formula must be a function of two points, got {formula!r}")
        self.dimension = count("dimension", dimension)
        self._pointer = FunctionPointer(formula, programs.PAIR_SIGNATURE)
        try:
            with np.errstate(all="ignore"), contextlib.suppress(ArithmeticError):
                self._pointer.python(np.ones(self.dimension), np.zeros(self.dimension))
        except IndexError as problem:
            # Compiled code does not check bounds.
            message = f"the formula reads more than the {dimension} coordinates given: {problem}"
            raise InputError(message) from problem
        self.label = label or str(getattr(self._pointer.python, "__name__", "formula"))

    def __repr__(self) -> str:
        return f"PairKernel({self.label}, dimension={self.dimension})"

    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y)."""
        return float(self._pointer.python(np.asarray(x, float), np.asarray(y, float)))

    def _products(self) -> list[list[Factor]]:
        return [[scaled_factor(formulas.PAIR, [1.0] * self.dimension, pair=self._pointer)]]

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel's label and dimension, without its code."""
        return {"kernel": self.name, "label": self.label, "dimension": self.dimension}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairKernel) and (
            (self._pointer.python, self.dimension) == (other._pointer.python, other.dimension)
        )

    def __hash__(self) -> int:
        return hash((self._pointer.python, self.dimension))


_STATIONARY = (kernels.Gaussian, kernels.Matern32, kernels.Matern52, kernels.Laplacian)
_OTHERS = (kernels.Polynomial, kernels.Linear, Product, Sum)
_KERNELS: dict[str, Any] = {kind.name: kind for kind in (*_STATIONARY, *_OTHERS)}


def kernel_from_dict(data: Mapping[str, Any]) -> Kernel:
    """Return the kernel that ``Kernel.to_dict`` described; a :class:`PairKernel` is refused.

    Examples
    --------
    >>> from crosslearning.rkhs import Gaussian, kernel_from_dict
    >>> kernel_from_dict(Gaussian(std=[1.0, 2.0]).to_dict()).dimension
    2
    """
    name = data.get("kernel") if isinstance(data, Mapping) else None
    if name == PairKernel.name:
        owner = f"the kernel {data.get('label')!r} is a formula of its author's, not in the file"
        raise MissingFormulaError(f"{owner}; pass it when loading: Family.load(path, kernel=...)")
    if not isinstance(name, str):
        raise FileFormatError(f"the kernel's description is not readable: {data!r}")
    if name not in _KERNELS:
        raise unknown_name("kernel", name, _KERNELS)
    kind, given = _KERNELS[name], {key: data[key] for key in data if key != "kernel"}
    known = list(inspect.signature(kind).parameters)
    for field in given:
        if field not in known:
            raise unknown_name(f"field of a {name} kernel", str(field), ["kernel", *known])
    try:
        parts = [(kernel_from_dict(part), dims) for part, dims in given.pop("parts", ())]
        kernel: Kernel = kind(*parts, **given)
        return kernel
    except MissingFormulaError:
        raise
    except (OverflowError, TypeError, ValueError) as problem:
        message = f"the description of the {name} kernel is damaged: {problem}"
        raise FileFormatError(message) from problem
