"""A policy as flat numbers, as other languages evaluate it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.plain_kernels import Factor, PlainFamily
from crosslearning.errors import InputError
from crosslearning.export import Precision
from crosslearning.learner import Policy
from crosslearning.rollouts.data import ActionScale

Floats = NDArray[np.float64]

TYPES: dict[Precision, type[np.floating]] = {"double": np.float64, "float": np.float32}
#: What C, Structured Text and ONNX can compute.
FORMULAS = ("gaussian", "laplacian", "matern32", "matern52", "polynomial")


@dataclass(frozen=True, eq=False)
class Part:
    """One factor of the kernel, and its columns among the features."""

    factor: Factor
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Program:
    """The action clip(centre + half · Σ_m κ(s, s_m) w_m, low, high)."""

    parts: Sequence[Part]  # the different factors of the kernel
    products: Sequence[tuple[float, Sequence[int]]]  # the kernel: Σ scale · Π parts
    knots: Floats  # embedded, shape (L, features)
    weights: Floats  # (L, p)
    scale: ActionScale
    low: Floats  # (p,)
    high: Floats

    @classmethod
    def of(cls, policy: Policy) -> Program:
        """Return the program of a policy."""
        return cls.of_function(policy.plain, policy.scale, *policy.actions.ends)

    @classmethod
    def of_function(
        cls, plain: PlainFamily, scale: ActionScale, low: Floats, high: Floats
    ) -> Program:
        """Return the program of a function; one without knots gets a knot without weight."""
        knots, weights = plain.knots, plain.weights[:, 0]
        if len(knots) == 0:
            knots, weights = np.zeros((1, plain.dimension)), np.zeros((1, plain.outputs))
        # A factor may be in several products.
        factors = list({id(f): f for product in plain.products for f in product.factors}.values())
        parts, embedded, stop = [], [], 0
        for factor in factors:
            if factor.formula not in FORMULAS:
                raise InputError(
                    f"C and ONNX cannot compute the kernel formula {factor.formula!r}; they know "
                    f"{', '.join(FORMULAS)}. Export to JSON"
                )
            embedded.append(factor.features(knots))
            parts.append(Part(factor, stop, stop := stop + len(embedded[-1])))
        products = [
            (product.scale, [factors.index(factor) for factor in product.factors])
            for product in plain.products
        ]
        features = np.concatenate(embedded).T
        return cls(parts, products, features, weights, scale, low, high)
