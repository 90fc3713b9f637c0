"""Batches of independent gradient estimates, and their inner products.

Certificates are statistics of many independent unbiased estimates. Each is a function in the RKHS;
the statistics need only inner products, which are kernel values at the knots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslearning.errors import InputError
from crosslearning.rkhs import Kernel
from crosslearning.rkhs.checks import Floats

#: Estimates are gathered into this many groups, whose means have a Gram matrix of fixed size.
GROUPS = 100
#: Kernel values that are held at a time: they fit into a processor's cache.
_BLOCK = 200_000
#: Estimates whose squares are computed together.
_TILE = 32


@dataclass(frozen=True)
class IndependentEstimates:
    """Independent unbiased estimates of one gradient: ratio_u Σ_b κ(knots[u, b], ·) weights[u, b].

    Knots and weights have shapes (U, B, q) and (U, B, p); ``ratios``, shape (U,), are the policy's
    density over that of the drawn noise, and not in the weights.
    """

    knots: Floats
    weights: Floats
    ratios: Floats

    def __len__(self) -> int:
        return len(self.ratios)

    def minus(self, other: IndependentEstimates, scale: float) -> IndependentEstimates:
        """Return the differences times ``scale``; both from the same plans."""
        knots = np.concatenate([self.knots, other.knots], axis=1)
        weights = np.concatenate([self.weights, -other.weights], axis=1)
        return IndependentEstimates(knots, weights * scale, self.ratios)

    def squares(self, kernel: Kernel) -> Floats:
        """Return ‖estimate‖² without the ratio, shape (U,)."""
        U, B, q = self.knots.shape
        squares = np.empty(U)
        for first in range(0, U, _TILE):
            weights = self.weights[first : first + _TILE]
            T = len(weights)
            gram = kernel(self.knots[first : first + T].reshape(T * B, q)).reshape(T, B, T, B)
            own = gram[np.arange(T), :, np.arange(T), :]
            squares[first : first + T] = np.einsum("uap,uab,ubp->u", weights, own, weights)
        return squares

    def along(self, values: Floats) -> Floats:
        """Return ⟨estimate, f⟩, shape (U,), from values (U, B, p) of a function at the knots."""
        return np.asarray(np.einsum("ubp,ubp->u", self.weights, values) * self.ratios)


def group_products(kernel: Kernel, units: IndependentEstimates) -> Floats:
    """Return ⟨estimate u, mean of group k⟩, shape (U, K); a group is U/K neighbours."""
    U, B, q = units.knots.shape
    K = GROUPS
    if U % K:
        raise InputError(f"{U} estimates do not make {K} equal groups; take a multiple of {K}")
    knots = units.knots.reshape(U * B, q)
    weights = (units.weights * units.ratios[:, None, None]).reshape(U * B, -1)
    grouped = weights.reshape(K, U * B // K, -1) / (U // K)
    products = np.empty((U, K))
    step = max(1, _BLOCK // (U * B * B))
    for first in range(0, U, step):
        rows = slice(first * B, min(first + step, U) * B)
        values = kernel(knots[rows], knots).reshape(-1, K, U * B // K)
        # The groups' means at the block's knots: (K, rows, p).
        means = np.matmul(values.transpose(1, 0, 2), grouped)
        inner = np.einsum("krp,rp->rk", means, weights[rows])
        products[first : first + step] = inner.reshape(-1, B, K).sum(axis=1)
    return products
