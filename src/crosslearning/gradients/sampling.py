"""Independent gradient estimates by the thousand, and their inner products.

What is certified about a gradient is read off many independent unbiased estimates of it: the
units. Each is a function in the RKHS; all that statistics need of them are inner products, which
are kernel values at the knots.

The noise of the sampled actions is drawn wider than the policy's and the estimates are weighted
by the ratio of the two densities, which changes no expectation. A gradient estimate grows with
the square of that noise, and its square with the fourth power, so that a few rare actions make
most of a variance: drawn from the policy itself, they are often missing from a batch, and what is
computed from it looks better than the truth. Drawn wider they are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.gradients.estimators import Estimator
from crosslearning.rkhs import Kernel
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts import Executor, plan_samples
from crosslearning.rollouts.plan import SamplePlan
from crosslearning.rollouts.samples import Samples
from crosslearning.tasks import Task

Floats = NDArray[np.float64]

#: Units are gathered into this many groups, whose means have a Gram matrix of a fixed size.
GROUPS = 100
#: Samples of one plan. The noise of a plan is as long as its longest path, so many short plans
#: take less memory than one.
_CHUNK = 2000
#: Kernel values that are held at a time: as many as a processor's cache holds.
_BLOCK = 200_000
#: Units whose own squares are computed together.
_TILE = 32


@dataclass(frozen=True)
class Sampling:
    """How gradients are sampled: what stays the same from batch to batch.

    Parameters
    ----------
    tasks : sequence of Task
    executor : Executor
    estimator : Estimator
    kernel : Kernel
    variance : array, shape (p,)
        Of the exploration noise.
    discount : float
    batch_size : int
        B of the run: the units of an estimator whose samples are coupled.
    """

    tasks: Sequence[Task]
    executor: Executor
    estimator: Estimator
    kernel: Kernel
    variance: Floats
    discount: float
    batch_size: int

    @property
    def unit_size(self) -> int:
        """How many samples make an estimate that is independent of the others."""
        return self.batch_size if self.estimator.coupled else 1

    def count(self, samples: int) -> int:
        """Return how many samples are drawn for a wanted number: whole groups, rounded up."""
        if isinstance(samples, bool) or int(samples) != samples or samples < 1:
            raise InputError(f"samples must be a whole number of at least 1, got {samples!r}")
        whole = GROUPS * self.unit_size
        return -(-int(samples) // whole) * whole


@dataclass(frozen=True)
class Units:
    """Independent unbiased estimates of one gradient: ratio_u Σ_b κ(knots[u, b], ·) weights[u, b].

    Attributes
    ----------
    knots : array, shape (U, B, q)
    weights : array, shape (U, B, p)
        Without the ratios: these are estimates as the run would make them.
    ratios : array, shape (U,)
        Density of the policy's noise over that of the noise which was drawn.
    """

    knots: Floats
    weights: Floats
    ratios: Floats

    def __len__(self) -> int:
        return len(self.ratios)

    def minus(self, other: Units, scale: float) -> Units:
        """Return the units' differences times ``scale``; both from the same plans."""
        return Units(
            np.concatenate([self.knots, other.knots], axis=1),
            np.concatenate([self.weights, -other.weights], axis=1) * scale,
            self.ratios,
        )

    def part(self, units: slice) -> Units:
        """Return some of the units."""
        return Units(self.knots[units], self.weights[units], self.ratios[units])

    def squares(self, kernel: Kernel) -> Floats:
        """Return ‖estimate‖² as the run would make it, without the ratio, shape (U,)."""
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
        """Return ⟨unit, f⟩, shape (U,), from the values (U, B, p) of a function at the knots."""
        return np.asarray(np.einsum("ubp,ubp->u", self.weights, values) * self.ratios)


def noise_scale(outputs: int) -> float:
    """Return by what the sampled action's noise is stretched: √(1 + 3/p).

    The density that suits E|n|⁴ best is ∝ |n|⁴ φ(n), whose mean square is p + 4; that for E|n|²
    has p + 2. In between, the ratio is never above (1 + 3/p)^(p/2) < e^1.5, for every p.
    """
    return float(np.sqrt(1.0 + 3.0 / outputs))


def draw_plans(
    sampling: Sampling, samples: int, generator: np.random.Generator
) -> list[tuple[SamplePlan, Floats]]:
    """Draw plans for ``samples`` samples a task, each with its ratios of shape (N, B).

    An estimator whose samples are coupled keeps the policy's own noise: there the ratio of a
    unit would be a product over its batch, which varies more than it saves.
    """
    plans = []
    for first in range(0, samples, _CHUNK):
        size = min(_CHUNK, samples - first)
        plan = plan_samples(generator, sampling.tasks, size, sampling.discount)
        ratios = np.ones(plan.before.shape)
        if not sampling.estimator.coupled:
            outputs = plan.noise.shape[3]
            scale = noise_scale(outputs)
            rows = (*np.ix_(*map(np.arange, plan.before.shape)), plan.before)
            drawn = plan.noise[rows]
            # φ(n)/q(n) for n = scale · drawn, with q the wider density.
            ratios = scale**outputs * np.exp(-0.5 * (scale**2 - 1.0) * np.sum(drawn**2, axis=2))
            plan.noise[rows] = scale * drawn
        plans.append((plan, ratios))
    return plans


def run_plans(
    sampling: Sampling, policies: Expansion, plans: Sequence[tuple[SamplePlan, Floats]]
) -> tuple[list[Units], int]:
    """Return the units of every task under the given policies, and the environment steps taken.

    The same plans under other policies give units whose noise is shared, so that differences
    have little variance.
    """
    parts = [
        sampling.executor.samples(policies, plan, sampling.estimator.mirrored) for plan, _ in plans
    ]
    samples = Samples(*(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))
    ratios = np.concatenate([ratios for _, ratios in plans], axis=1)
    N, n = ratios.shape
    size = sampling.unit_size
    # Every unit is handed to the estimator as a batch of its own.
    batches = Samples._make(array.reshape(-1, size, *array.shape[2:]) for array in samples)
    estimates = sampling.estimator.estimate(batches, sampling.variance, sampling.discount)
    units = []
    for i in range(N):
        own = slice(i * n // size, (i + 1) * n // size)
        units.append(Units(estimates.knots[own], estimates.weights[own], ratios[i, ::size]))
    return units, int(samples.steps.sum())


def group_products(kernel: Kernel, units: Units) -> Floats:
    """Return ⟨unit u, mean of group k⟩, shape (U, K); a group is U/K neighbouring units.

    All pairs of knots are visited, a block at a time.
    """
    U, B, q = units.knots.shape
    K = GROUPS
    if U % K:
        raise InputError(f"{U} units do not make {K} groups of the same size")
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
