"""The base class of kernels, the assembly of their programs for compiled code, and their check."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from crosslearning._base.compiled import FunctionPointer, pointer_to
from crosslearning.errors import InputError
from crosslearning.rkhs import program as programs
from crosslearning.rkhs.checks import Floats, finite_array
from crosslearning.rkhs.program import KernelProgram


class Kernel(abc.ABC):
    """A positive definite function κ of two states.

    Examples
    --------
    >>> from crosslearning.rkhs import Gaussian
    >>> kernel = Gaussian(std=[1.0]) + 2.0 * Gaussian(std=[0.1])
    >>> kernel.diagonal([[0.0], [5.0]])
    array([3., 3.])
    """

    name: ClassVar[str]  # in files
    dimension: int  # the number q of coordinates of a state
    normalised: bool = False  # whether κ(x, x) = 1 for every x, to the last bit

    @abc.abstractmethod
    def formula(self, x: Floats, y: Floats) -> float:
        """Return κ(x, y) for two points of shape (q,): the readable reference."""

    @abc.abstractmethod
    def _products(self) -> list[list[Factor]]:
        """Return the kernel as a sum of products of factors, for compiled code."""

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel as plain data for files; see :func:`kernel_from_dict`."""
        names = [field.name for field in fields(cast("Any", self)) if field.init]
        return {"kernel": self.name, **{name: _plain(getattr(self, name)) for name in names}}

    @cached_property
    def program(self) -> KernelProgram:
        """The kernel for compiled code."""
        return _assemble(self._products())

    def embed(self, points: ArrayLike) -> Floats:
        """Return the features of points (n, q) as an array of shape (r, n)."""
        states = finite_array("points", points, (None, self.dimension))
        features = np.empty((int(self.program.factors[-1, 2]), len(states)))
        programs.embed_states(self.program, states, features)
        return features

    def __call__(self, points: ArrayLike, others: ArrayLike | None = None) -> Floats:
        """Return κ at every pair: shape (n, n), or (n, m) if ``others`` are given."""
        left = self.embed(points)
        right = left if others is None else self.embed(others)
        values = np.empty((left.shape[1], right.shape[1]))
        programs.kernel_matrix(self.program, right, left, values)
        return values

    def diagonal(self, points: ArrayLike) -> Floats:
        """Return κ(x, x) at every point, shape (n,)."""
        if self.normalised:
            return np.ones(len(finite_array("points", points, (None, self.dimension))))
        features = self.embed(points)
        values = np.empty(features.shape[1])
        programs.kernel_diagonal(self.program, features, values)
        return values

    #: The class of sums, a subclass that registers itself here.
    _sum_of: ClassVar[Callable[..., Kernel]]
    #: NumPy scalars leave products with a kernel to __rmul__.
    __array_ufunc__ = None

    def _summands(self) -> tuple[Parts, tuple[float, ...]]:
        """Return the kernel as the parts of a sum, and their scales."""
        return ((self, tuple(range(self.dimension))),), (1.0,)

    def __add__(self, other: Kernel) -> Kernel:
        """Return the sum of two kernels of the same state."""
        if not isinstance(other, Kernel):
            return NotImplemented
        if self.dimension != other.dimension:
            read = f"they read {self.dimension} and {other.dimension} dimensions"
            name = "name those of each, Sum((kernel, dimensions), ...)"
            raise InputError(f"kernels that are added must read the same state; {read}: {name}")
        (parts, scales), (more, their_scales) = self._summands(), other._summands()
        return self._sum_of(*parts, *more, scales=scales + their_scales)

    def __mul__(self, scale: object) -> Kernel:
        """Return the kernel times a number of at least 0."""
        if not isinstance(scale, Real):
            return NotImplemented
        parts, scales = self._summands()
        return self._sum_of(*parts, scales=[float(scale) * old for old in scales])

    __rmul__ = __mul__


#: Kernels, each with the coordinates of a larger state that it reads.
Parts = tuple[tuple[Kernel, tuple[int, ...]], ...]


class Term(NamedTuple):
    """A term of an embedding: scale · wave(frequency · state[source]), added to a feature."""

    source: int
    feature: int
    scale: float
    wave: int = programs.IDENTITY
    frequency: float = 0.0


@dataclass(frozen=True)
class Factor:
    """One factor of a kernel before assembly: an embedding and a formula."""

    kind: int
    features: int
    terms: tuple[Term, ...]
    bias: float = 0.0
    degree: int = 1
    pair: FunctionPointer | None = None

    def on(self, dimensions: Sequence[int]) -> Factor:
        """Return the same factor of other coordinates."""
        terms = (term._replace(source=dimensions[term.source]) for term in self.terms)
        return replace(self, terms=tuple(terms))


def scaled_factor(kind: int, std: Sequence[float], **formula: Any) -> Factor:
    """Return the factor whose features are the coordinates divided by their widths."""
    terms = tuple(Term(source=d, feature=d, scale=1.0 / s) for d, s in enumerate(std))
    return Factor(kind, len(std), terms, **formula)


def _plain(value: Any) -> Any:
    if isinstance(value, Kernel):
        return value.to_dict()
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _one(x: Floats, y: Floats) -> float:
    return 1.0


def _assemble(products: list[list[Factor]]) -> KernelProgram:
    factors = [factor for product in products for factor in product]
    owner = [n for n, product in enumerate(products) for _ in product]
    stop = np.cumsum([factor.features for factor in factors])
    start = stop - [factor.features for factor in factors]
    terms = [
        term._replace(feature=term.feature + int(first))
        for factor, first in zip(factors, start, strict=True)
        for term in factor.terms
    ]
    # A product of sums repeats its parts.
    pairs = list({id(f.pair): f.pair for f in factors if f.pair is not None}.values())
    if len(pairs) > 1:
        held = f"a product or a sum holds {len(pairs)} kernels from formulas"
        raise InputError(f"{held}, expected at most one; write them as one formula")
    spans = zip(factors, start, stop, owner, strict=True)
    return KernelProgram(
        terms=np.array([(t.source, t.wave, t.feature) for t in terms], dtype=np.int64),
        term_values=np.array([(t.frequency, t.scale) for t in terms], dtype=np.float64),
        factors=np.array([(f.kind, a, b, f.degree, n) for f, a, b, n in spans], dtype=np.int64),
        biases=np.array([f.bias for f in factors], dtype=np.float64),
        pair=pairs[0] if pairs else pointer_to(_one, programs.PAIR_SIGNATURE),
    )


def positive_vector(what: str, given: ArrayLike) -> tuple[float, ...]:
    """Return ``given`` as a tuple of positive numbers."""
    values = finite_array(f"{what}, one number per dimension,", given, (None,))
    if values.size == 0 or np.any(values <= 0):
        raise InputError(f"{what} must be positive, one number per dimension, got {given!r}")
    return tuple(values.tolist())


def check_kernel(kernel: Kernel, points: ArrayLike | None = None, seed: int = 0) -> None:
    """Raise an error that names the first property of a kernel that fails.

    The properties: finite values; κ(x, y) = κ(y, x); positive semi-definite Gram matrices on the
    points, on nearly coincident and on repeated ones; a compiled kernel that equals its formula.

    Parameters
    ----------
    points : array_like, shape (n, q), optional
        Best states of your task; by default 60 normal points, drawn from the seed.

    Examples
    --------
    >>> from crosslearning.rkhs import Gaussian, check_kernel
    >>> check_kernel(Gaussian(std=[1.0, 2.0]))
    """
    generator = np.random.default_rng(seed)
    if points is None:
        points = 2.0 * generator.standard_normal((60, kernel.dimension))
    states = finite_array("points", points, (None, kernel.dimension))
    shifts = 1e-7 * generator.standard_normal(states.shape)
    samples = {
        "the points": states,
        "nearly coincident points": np.concatenate([states, states + shifts]),
        "repeated points": np.concatenate([states, states[:5]]),
    }
    for where, sample in samples.items():
        gram = kernel(sample)
        if not np.all(np.isfinite(gram)):
            raise InputError(f"the kernel is not finite on {where}")
        size = float(np.max(np.abs(gram)))
        if not np.max(np.abs(gram - gram.T)) <= 1e-12 * size:
            raise InputError(f"the kernel is not symmetric: κ(x, y) ≠ κ(y, x) on {where}")
        smallest = float(np.linalg.eigvalsh(gram)[0])
        # The rounding errors of the entries move an eigenvalue by at most this.
        if smallest < -1e-14 * size * len(sample):
            value = f"its Gram matrix on {where} has the eigenvalue {smallest:.3g}"
            raise InputError(f"the kernel is not positive definite: {value}")
    some = states[:12]
    formula = np.array([[kernel.formula(x, y) for y in some] for x in some])
    difference = float(np.max(np.abs(kernel(some) - formula)))
    if difference > 1e-12 * float(np.max(np.abs(formula))):
        raise InputError(f"the compiled kernel differs from its formula by {difference:.3g}")
