"""Families that the tests of this room share: random, clustered and repeated knots."""

from __future__ import annotations

import numpy as np

from crosslearning.rkhs import Family, Gaussian
from crosslearning.rkhs.program import evaluate_pull_back


def knots_of(kind: str, generator: np.random.Generator, count: int, dimension: int = 3):
    """Return knots, shape (count, dimension), of a named kind of difficulty."""
    if kind == "random":
        return generator.uniform(0.0, 8.0, (count, dimension))
    if kind == "clustered":
        centres = generator.uniform(0.0, 8.0, (5, dimension))
        spread = 10.0 ** generator.uniform(-9.0, 0.0, (count, 1))
        shifts = spread * generator.standard_normal((count, dimension))
        return centres[generator.integers(5, size=count)] + shifts
    if kind == "duplicated":
        return np.round(generator.uniform(0.0, 3.0, (count, dimension)))
    raise AssertionError(kind)


def random_family(
    seed: int, functions: int, outputs: int, knots: int = 12, scale: float = 1.0, kind="random"
) -> Family:
    """Return a family with normal weights of a given scale."""
    generator = np.random.default_rng(seed)
    weights = scale * generator.standard_normal((knots, functions, outputs))
    return Family(Gaussian(std=[1.0, 1.3, 0.7]), knots_of(kind, generator, knots), weights)


def extended_distances(before: Family, after: Family) -> np.ndarray:
    """Return ‖f_before − f_after‖ in extended precision, shape (functions,).

    Only for Gaussian kernels with a width per dimension. Knots of ``after`` must be among
    those of ``before``, so that equal weights cancel before anything is rounded.
    """
    index = {tuple(knot): i for i, knot in enumerate(before.knots)}
    difference = before.weights.astype(np.longdouble)
    for knot, weight in zip(after.knots, after.weights, strict=True):
        difference[index[tuple(knot)]] -= weight.astype(np.longdouble)
    std = np.array(
        [np.sqrt(np.longdouble(row[d])) for d, row in enumerate(before.kernel.covariance)]
    )
    scaled = before.knots.astype(np.longdouble) / std
    gram = np.exp(-np.sum((scaled[:, None] - scaled[None]) ** 2, axis=-1) / 2)
    squares = np.einsum("afp,ab,bfp->f", difference, gram, difference)
    return np.sqrt(np.maximum(squares, 0))


def gradient(family, state, adjoint=(1.0,), function=0):
    """Return the gradient (q,) of adjointᵀ h at one state."""
    state, adjoint = np.array(state, dtype=np.float64), np.array(adjoint, dtype=np.float64)
    program, features, rows = family.expansion
    point, work = np.empty(len(features)), np.empty((4, len(family.knots)))
    out = np.empty(len(state))
    evaluate_pull_back(
        program, features, rows[function], state, adjoint, point, work, np.empty_like(point), out
    )
    return out
