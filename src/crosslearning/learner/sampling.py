"""Large samples of gradients at given policies, for certificates.

A gradient estimate grows with the square of the action's noise and its square with the fourth
power, so that rare actions make most of a variance and are often missing from a batch. So the noise
is drawn wider than the policy's and the estimates are weighted by the ratio of the two densities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crosslearning.errors import InputError
from crosslearning.learner.gradients import (
    GROUPS,
    Estimator,
    GradientMean,
    IndependentEstimates,
)
from crosslearning.rkhs import Family, Kernel
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts import Executor, Noise, SamplePlan, Samples, plan_samples

#: Samples of one plan. A plan's noise is as long as its longest path: many plans save memory.
_CHUNK = 2000


@dataclass(frozen=True)
class Sampling:
    """How gradients are sampled; the batch size groups the samples of a coupled estimator."""

    executor: Executor
    estimator: Estimator
    kernel: Kernel
    noise: Noise
    discount: float
    batch_size: int = 1

    @property
    def unit_size(self) -> int:
        """The number of samples of one independent estimate."""
        return self.batch_size if self.estimator.coupled else 1

    def count(self, samples: int) -> int:
        """Return the number of samples rounded up to whole groups."""
        if isinstance(samples, bool) or int(samples) != samples or samples < 1:
            raise InputError(f"samples must be a whole number of at least 1, got {samples!r}")
        whole = GROUPS * self.unit_size
        return -(-int(samples) // whole) * whole


def noise_scale(outputs: int) -> float:
    """Return the factor of the sampled action's noise: √(1 + 3/p).

    The best density for E|n|⁴ is ∝ |n|⁴ φ(n), with mean square p + 4; that for E|n|² has p + 2.
    In between, the ratio is at most (1 + 3/p)^(p/2) < e^1.5, for every p.
    """
    return float(np.sqrt(1.0 + 3.0 / outputs))


def draw_plans(
    sampling: Sampling, samples: int, generator: np.random.Generator
) -> list[tuple[SamplePlan, Floats]]:
    """Draw plans for ``samples`` samples a task, each with its ratios of shape (N, B).

    A coupled estimator keeps the policy's noise: its ratio would be a product over a batch.
    """
    plans = []
    for first in range(0, samples, _CHUNK):
        size = min(_CHUNK, samples - first)
        plan = plan_samples(generator, sampling.executor.tasks, size, sampling.discount)
        ratios = np.ones(plan.before.shape)
        if not sampling.estimator.coupled:
            outputs = plan.noise.shape[3]
            scale = noise_scale(outputs)
            rows = (*np.ix_(*map(np.arange, plan.before.shape)), plan.before)
            drawn = plan.noise[rows]
            # φ(n)/q(n) for n = scale · drawn, with q the wider density.
            ratios = scale**outputs * np.exp(-0.5 * (scale**2 - 1.0) * np.sum(drawn**2, axis=2))
            plan.noise[rows] = scale * drawn
        plans.append((plan._replace(noise=plan.noise * sampling.noise.std), ratios))
    return plans


def run_plans(
    sampling: Sampling, policies: Expansion, plans: Sequence[tuple[SamplePlan, Floats]]
) -> tuple[list[IndependentEstimates], int]:
    """Return the estimates of every task under the given policies, and the environment steps.

    The same plans under other policies share the noise, so that differences have little variance.
    """
    parts = [
        sampling.executor.samples(policies, plan, sampling.estimator.mirrored) for plan, _ in plans
    ]
    samples = Samples(*(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))
    ratios = np.concatenate([ratios for _, ratios in plans], axis=1)
    N, n = ratios.shape
    size = sampling.unit_size
    # Every estimate is a separate batch.
    batches = Samples._make(array.reshape(-1, size, *array.shape[2:]) for array in samples)
    estimates = sampling.estimator.estimate(batches, sampling.noise.variance, sampling.discount)
    knots, weights = (array.reshape(N, n // size, *array.shape[1:]) for array in estimates)
    units = [IndependentEstimates(knots[i], weights[i], ratios[i, ::size]) for i in range(N)]
    return units, int(samples.steps.sum())


class GapSample(NamedTuple):
    """The statistics for one task's gap: the mean, ⟨estimate, g − h_i⟩ (U,), and the estimates."""

    mean: GradientMean
    towards: Floats
    units: IndependentEstimates


def sample_gaps(
    sampling: Sampling, family: Family, plans: Sequence[tuple[SamplePlan, Floats]]
) -> tuple[list[GapSample], int]:
    """Return a :class:`GapSample` for every task, and the environment steps.

    The family is h_1 … h_N and g; the plans are those of :func:`draw_plans`.
    """
    expansion = family.expansion
    units, steps = run_plans(sampling, expansion, plans)
    result = []
    for i, unit in enumerate(units):
        U, B, q = unit.knots.shape
        values = expansion(unit.knots.reshape(U * B, q)).reshape(U, B, family.functions, -1)
        towards = unit.along(values[:, :, -1] - values[:, :, i])
        result.append(GapSample(GradientMean.of(sampling.kernel, unit), towards, unit))
    return result, steps
