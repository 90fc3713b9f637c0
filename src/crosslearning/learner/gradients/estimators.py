"""Gradient estimators: from samples to functions (Algorithm 1, lines 6 and 7).

An estimate of ∇U_i is a function Σ_b κ(s_b, ·) w_b: knots and weights. Every estimator here is
unbiased; they differ in their variance and in what they ask of a task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from crosslearning.errors import InputError, unknown_name
from crosslearning.rkhs.checks import Floats
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

    The state and the later noise are shared, so what does not depend on the action cancels.
    The task must be one that can be put back into a state.
    """
    values = 0.5 * (samples.values[:, :, 0] - samples.values[:, :, 1])
    return _score(samples, values, variance, discount)


def baseline(samples: Samples, variance: Floats, discount: float) -> Gradients:
    """Return Algorithm 1 with the mean value of the batch's other samples taken off.

    The others know nothing of this sample's action, so the expectation does not change.
    """
    values = samples.values[:, :, 0]
    batch = values.shape[1]
    if batch < 2:
        raise InputError("the baseline estimator needs batch_size ≥ 2: it compares samples")
    others = (values.sum(axis=1, keepdims=True) - values) / (batch - 1)
    return _score(samples, values - others, variance, discount)


@dataclass(frozen=True)
class Estimator:
    """An estimator and what it asks of the rollouts.

    Attributes
    ----------
    estimate : callable
        From samples, the variance of the noise and the discount to gradients.
    mirrored : bool
        Whether it needs the mirrored action's value.
    coupled : bool
        Whether a sample's weight depends on the other samples of its batch. If it does not, a
        batch of one is an estimate of its own, and a batch the mean of such.
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
    """Return the estimator of that name, or say which names there are."""
    if name not in ESTIMATORS:
        raise unknown_name("estimator", name, ESTIMATORS)
    return ESTIMATORS[name]
