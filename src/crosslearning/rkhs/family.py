"""A family: vector-valued functions on one set of knots."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crosslearning._base.files import read_tensors, write_tensors
from crosslearning.errors import FileFormatError, InputError
from crosslearning.rkhs.checks import Floats, count, finite_array
from crosslearning.rkhs.composed import kernel_from_dict
from crosslearning.rkhs.kernel import Kernel
from crosslearning.rkhs.program import Expansion

FILE_KIND = "family"
FILE_VERSION = 1


class Family:
    """Functions h_f(s) = Σ_m κ(s_m, s) w_mf, all on the same knots s_m; immutable.

    Where one function is the centre of the others, it is the last.

    Parameters
    ----------
    knots : array_like, shape (L, q)
    weights : array_like, shape (L, functions, p)

    Examples
    --------
    >>> from crosslearning.rkhs import Family, Gaussian
    >>> family = Family(Gaussian(std=[1.0]), [[0.0], [1.0]], [[[1.0], [0.0]], [[0.5], [0.0]]])
    >>> family([0.0]).round(4)
    array([[1.3033],
           [0.    ]])
    >>> family.distances().round(4)
    array([1.3625])
    """

    def __init__(self, kernel: Kernel, knots: ArrayLike, weights: ArrayLike) -> None:
        if not isinstance(kernel, Kernel):
            raise InputError(f"kernel must be a Kernel, got {type(kernel).__name__}")
        if np.size(np.asarray(knots, dtype=object)) == 0:
            zero = "for functions that are zero use Family.zeros(kernel, functions, outputs)"
            raise InputError(f"a family needs at least one knot, got none; {zero}")
        centres = finite_array("knots", knots, (None, kernel.dimension)).copy()
        w = finite_array("weights", weights, (len(centres), None, None)).copy()
        if 0 in w.shape:
            raise InputError(f"weights need at least one function and one output, got {w.shape}")
        self._set(kernel, centres, w)

    def _set(self, kernel: Kernel, knots: Floats, weights: Floats) -> None:
        knots.flags.writeable = False
        weights.flags.writeable = False
        self.kernel = kernel
        self.knots = knots
        self.weights = weights

    @classmethod
    def _trusted(cls, kernel: Kernel, knots: Floats, weights: Floats) -> Family:
        """Return a family without checking or copying its arrays."""
        family = cls.__new__(cls)
        family._set(kernel, knots, weights)
        return family

    @classmethod
    def zeros(cls, kernel: Kernel, functions: int, outputs: int) -> Family:
        """Return ``functions`` functions that are zero, without knots."""
        shape = (0, count("functions", functions), count("outputs", outputs))
        return cls._trusted(kernel, np.empty((0, kernel.dimension)), np.empty(shape))

    def __repr__(self) -> str:
        return (
            f"Family({self.functions} functions to R^{self.outputs} on {len(self.knots)} knots "
            f"in R^{self.kernel.dimension}, {self.kernel.name} kernel)"
        )

    @property
    def functions(self) -> int:
        """The number of functions."""
        return int(self.weights.shape[1])

    @property
    def outputs(self) -> int:
        """The dimension p of their values."""
        return int(self.weights.shape[2])

    def __call__(self, states: ArrayLike) -> Floats:
        """Evaluate every function at a state (q,) or states (n, q).

        Returns an array of shape (functions, p) or (n, functions, p).
        """
        single = np.ndim(states) == 1
        q = self.kernel.dimension
        batch = np.atleast_2d(finite_array("states", states, (q,) if single else (None, q)))
        values = self.expansion(batch)
        return values[0] if single else values

    @cached_property
    def expansion(self) -> Expansion:
        """The functions for compiled code."""
        # Always a copy: for read-only arrays Numba would compile a second version.
        rows = np.array(self.weights.transpose(1, 2, 0), order="C")
        return Expansion(self.kernel.program, self.kernel.embed(self.knots), rows)

    @cached_property
    def gram(self) -> Floats:
        """The knots' Gram matrix K, shape (L, L)."""
        gram = self.kernel(self.knots)
        gram.flags.writeable = False
        return gram

    def inner_products(self) -> Floats:
        """Return ⟨h_f, h_g⟩ = Σ_p W_fpᵀ K W_gp for all pairs, shape (functions, functions)."""
        return weighted_inner_products(self.gram, self.expansion.rows)

    def norms(self) -> Floats:
        """Return the RKHS norm of every function, shape (functions,)."""
        return _norms(self.gram, self.expansion.rows)

    def differences(self, about_mean: bool = False) -> Floats:
        """Return D_ij = ⟨h_i − g, h_j − g⟩ with g the last function, shape (N, N).

        About the mean, the mean of the h_i takes the place of g.
        """
        if self.functions < 2:
            raise InputError("differences need at least two functions; the last is the centre")
        rows = self.expansion.rows
        origin = rows[:-1].mean(axis=0) if about_mean else rows[-1]
        return weighted_inner_products(self.gram, rows[:-1] - origin)

    def distances(self) -> Floats:
        """Return ‖h_i − g‖ with g the last function, shape (functions − 1,)."""
        rows = self.expansion.rows
        return _norms(self.gram, rows[:-1] - rows[-1])

    def distances_to(self, other: Family) -> Floats:
        """Return ‖h_f − h'_f‖, shape (functions,), between families of the same kernel."""
        if other.kernel != self.kernel or other.weights.shape[1:] != self.weights.shape[1:]:
            raise InputError(f"distances need the same kernel and shape; got {self} and {other}")
        knots = np.concatenate([self.knots, other.knots])
        if len(knots) == 0:
            return np.zeros(self.functions)
        # Common knots are merged, so that equal weights cancel exactly.
        unique, index = np.unique(knots, axis=0, return_inverse=True)
        difference = np.zeros((len(unique), self.functions, self.outputs))
        np.add.at(difference, index, np.concatenate([self.weights, -other.weights]))
        return Family._trusted(self.kernel, unique, difference).norms()

    def mix(self, matrix: ArrayLike) -> Family:
        """Return h'_f = Σ_g matrix[f, g] h_g; the matrix has shape (new functions, functions)."""
        mixing = finite_array("matrix", matrix, (None, self.functions))
        return self._with_weights(np.einsum("fg,lgp->lfp", mixing, self.weights, optimize=True))

    def select(self, *functions: int) -> Family:
        """Return the family of the given functions, in the given order."""
        if not functions:
            raise InputError("select needs the number of at least one function")
        for f in functions:
            if not -self.functions <= f < self.functions:
                raise InputError(f"no function {f}; there are {self.functions}")
        return self._with_weights(self.weights[:, list(functions)])

    def _with_weights(self, weights: Floats) -> Family:
        family = Family._trusted(self.kernel, self.knots, np.ascontiguousarray(weights))
        if "gram" in vars(self):
            vars(family)["gram"] = self.gram
        return family

    def save(self, path: str | Path) -> None:
        """Write the family to a safetensors file, atomically."""
        arrays = {"knots": self.knots, "weights": self.weights}
        write_tensors(path, FILE_KIND, FILE_VERSION, arrays, {"kernel": self.kernel.to_dict()})

    @classmethod
    def load(cls, path: str | Path, kernel: Kernel | None = None) -> Family:
        """Read a family from a file.

        Only one with a :class:`PairKernel` needs the ``kernel``; it must be that of the file.
        """
        arrays, description = read_tensors(path, FILE_KIND, FILE_VERSION)
        stored: Any = description.get("kernel")
        if kernel is None:
            kernel = kernel_from_dict(stored)
        elif kernel.to_dict() != stored:
            raise InputError(f"{path} was saved with the kernel {stored}, got {kernel.to_dict()}")
        try:
            knots, weights = arrays["knots"], arrays["weights"]
            if len(knots) == 0:
                return cls.zeros(kernel, weights.shape[1], weights.shape[2])
            return cls(kernel, knots, weights)
        except (InputError, LookupError) as problem:
            raise FileFormatError(f"{path} does not hold a family: {problem}") from problem


def _norms(gram: Floats, rows: Floats) -> Floats:
    """Return √(Σ_p rows_fpᵀ K rows_fp), shape (functions,)."""
    squares: Floats = np.einsum("fpl,fpl->f", rows, rows @ gram)
    return np.sqrt(np.maximum(squares, 0.0))


def weighted_inner_products(gram: Floats, rows: Floats) -> Floats:
    """Return G_fg = Σ_p rows_fpᵀ K rows_gp, symmetric to the last bit; rows (functions, p, L)."""
    functions, outputs, knots = rows.shape
    flat = rows.reshape(functions * outputs, knots)
    values = flat @ gram
    products = rows.reshape(functions, -1) @ values.reshape(functions, -1).T
    return 0.5 * (products + products.T)
