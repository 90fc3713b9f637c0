"""Gradient estimators: from samples to functions (Algorithm 1, lines 6 and 7).

An estimate of ∇U_i is a function Σ_b κ(s_b, ·) w_b: knots and weights. All estimators are
unbiased; they differ in their variance and in their requirements of a task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crosslearning._base.compiled import FastEntry, compiled
from crosslearning.errors import InputError, unknown_name
from crosslearning.rkhs import program as programs
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts.data import Samples


class Gradients(NamedTuple):
    """Estimates of ∇U_i for every task: Σ_b κ(knots[i, b], ·) weights[i, b].

    The knots have shape (N, B, q), the weights (N, B, p).
    """

    knots: Floats
    weights: Floats


def _score(samples: Samples, values: Floats, variance: Floats, discount: float) -> Gradients:
    """Return Σ⁻¹ (a − h(s)) Q̂ / (1 − γ), averaged over the batch (Algorithm 1, lines 6, 7)."""
    batch = samples.deviations.shape[1]
    scale = values[:, :, None] / ((1.0 - discount) * batch)
    return Gradients(samples.observations, samples.deviations / variance * scale)


def geometric(samples: Samples, variance: Floats, discount: float) -> Gradients:
    """Return Algorithm 1 as it is printed, averaged over the batch."""
    return _score(samples, samples.values[:, :, 0], variance, discount)


def antithetic(samples: Samples, variance: Floats, discount: float) -> Gradients:
    """Return half the difference of two mirrored actions' values, at the same state.

    State and later noise are shared, so that parts independent of the action cancel. The task must
    be one whose state can be set.
    """
    values = 0.5 * (samples.values[:, :, 0] - samples.values[:, :, 1])
    return _score(samples, values, variance, discount)


def baseline(samples: Samples, variance: Floats, discount: float) -> Gradients:
    """Return Algorithm 1 minus the mean value of the batch's other samples as a baseline."""
    values = samples.values[:, :, 0]
    batch = values.shape[1]
    if batch < 2:
        raise InputError("the baseline estimator needs batch_size ≥ 2: it compares samples")
    others = (values.sum(axis=1, keepdims=True) - values) / (batch - 1)
    return _score(samples, values - others, variance, discount)


@dataclass(frozen=True)
class Estimator:
    """An estimator and its requirements.

    ``estimate`` maps samples, the noise variance and the discount to gradients. ``mirrored``: it
    needs the mirrored action's value. ``coupled``: a sample's weight depends on the other samples
    of its batch; else a batch is the mean of independent estimates.
    """

    estimate: Callable[[Samples, Floats, float], Gradients]
    mirrored: bool
    coupled: bool = False


ESTIMATORS = {
    "geometric": Estimator(geometric, mirrored=False),
    "antithetic": Estimator(antithetic, mirrored=True),
    "baseline": Estimator(baseline, mirrored=False, coupled=True),
}


def estimator_of(name: str) -> Estimator:
    """Return the estimator of that name."""
    if name not in ESTIMATORS:
        raise unknown_name("estimator", name, ESTIMATORS)
    return ESTIMATORS[name]


def gradient_geometry(policies: Expansion, gradients: Gradients) -> tuple[Floats, Floats]:
    """Return ‖∇̂_i‖² and ⟨∇̂_i, g − h_i⟩, each of shape (N,); g is function N."""
    squares, towards = np.empty((2, len(gradients.knots)))
    _geometry(policies, *gradients, squares, towards)
    return squares, towards


@compiled
def _fill_geometry(
    policies: Expansion, knots: Floats, weights: Floats, squares: Floats, towards: Floats
) -> None:
    """Fill the inner products of gradients Σ_b κ(knots[i, b], ·) weights[i, b].

    With itself by the double sum; with g − h_i by the reproducing property, through the
    functions' values at the knots.
    """
    program, features, rows = policies
    N, B, p = weights.shape
    own, gram = np.empty((features.shape[0], B)), np.empty((B, B))
    columns = np.empty((B, features.shape[1]))
    centre, value = np.empty(p), np.empty(p)
    for i in range(N):
        programs.embed_all(program, knots[i], own)
        programs.kernel_columns(program, own, own, gram)
        programs.kernel_columns(program, features, own, columns)
        square = toward = 0.0
        for a in range(B):
            programs.weigh(columns[a], rows[N], centre)
            programs.weigh(columns[a], rows[i], value)
            for k in range(p):
                toward += weights[i, a, k] * (centre[k] - value[k])
                for b in range(B):
                    square += gram[a, b] * weights[i, a, k] * weights[i, b, k]
        squares[i], towards[i] = max(square, 0.0), toward


_geometry = FastEntry(_fill_geometry)
