"""How much of a direction is signal, and how far tasks agree, from parts of the episodes.

A regression is linear in its targets, so a direction f is a sum of contributions f_1 … f_K of parts
of the episodes, which are independent given the policy. Their products at the visited states,
G_kl = mean ⟨f_k, f_l⟩, tell signal from noise: of the expected |f|² = Σ_kl G_kl only the products
of different parts are free of noise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from crosslearning.rkhs.checks import Floats

#: The variance of a change of the reliability in an iteration.
_DRIFT = 0.02
#: The least variance of an estimate, which is rough itself.
_LEAST_VARIANCE = 1e-4
#: How many standard deviations below its mean the reliability is taken.
_CAUTION = 0.5
#: Between this share of signal and 1 less it, odds are finite.
_LEAST_SHARE = 0.01
#: A direction with less energy than this is zero.
_NOTHING = 1e-100


class Agreement(NamedTuple):
    """How far the parts of a direction agree; agreements of several tasks may be added."""

    signal: float  #: an unbiased estimate of the signal's |f|²
    energy: float  #: |f|², signal and noise
    variance: float  #: of the estimate, if there is no signal

    @classmethod
    def of(cls, products: Floats) -> Agreement:
        """Return that of K parts with the products G, shape (K, K).

        If the parts were noise alone, their signs could be flipped at random: the sum over k ≠ l
        then has mean 0 and variance 2 Σ_{k≠l} G_kl². Parts without episodes are zero.
        """
        own = np.diagonal(products)
        K = int(np.count_nonzero(own))
        if K < 2:
            return cls(0.0, float(np.sum(products)), 0.0)
        # K equal parts of a signal have the share (K − 1)/K of their products off the diagonal.
        scale = K / (K - 1)
        signal = scale * float(np.sum(products) - np.sum(own))
        variance = 2.0 * scale**2 * float(np.sum(products**2) - np.sum(own**2))
        return cls(signal, float(np.sum(products)), variance)

    @classmethod
    def together(cls, tasks: Floats) -> Agreement:
        """Return that of all tasks, whose products have the shape (N, K, K)."""
        return cls(*np.sum([cls.of(products) for products in tasks], axis=0).tolist())


class Reliability(NamedTuple):
    """What is known of the share c of signal in |f|²: its mean and variance.

    c changes slowly from one iteration to the next, a random walk, and every agreement is a
    measurement of it: Kalman's filter. The fewer tasks and episodes, the more the past counts.
    """

    mean: float = 0.3
    variance: float = 0.1

    def after(self, agreement: Agreement) -> Reliability:
        """Return what is known after one more iteration."""
        if agreement.energy <= _NOTHING:
            return self
        measured = float(np.clip(agreement.signal / agreement.energy, -1.0, 1.0))
        noise = agreement.variance / agreement.energy**2 + _LEAST_VARIANCE
        before = self.variance + _DRIFT
        gain = before / (before + noise)
        return Reliability(self.mean + gain * (measured - self.mean), (1.0 - gain) * before)

    @property
    def value(self) -> float:
        """A cautious estimate, half a standard deviation below the mean, as a share, 0 to 1."""
        return min(max(self.mean - _CAUTION * math.sqrt(self.variance), 0.0), 1.0)

    def episodes_for(self, share: float) -> float:
        """Return how many times the episodes would make the share of signal this one.

        Noise falls as 1/n with n episodes, so that the odds of signal, c/(1 − c), grow as n.
        """
        mean = min(max(self.mean, _LEAST_SHARE), 1.0 - _LEAST_SHARE)
        share = min(max(share, _LEAST_SHARE), 1.0 - _LEAST_SHARE)
        return share / (1.0 - share) * (1.0 - mean) / mean


def task_agreement(products: Floats) -> Floats:
    """Return the mean product of two tasks' signals, and of a task's with itself, shape (2,).

    ``products`` are those of all tasks' parts, shape (N, K, N, K). Two tasks' episodes are
    independent, so products between them need no correction; their ratio to those within a task
    is the correlation of the tasks.
    """
    N = len(products)
    totals = products.sum(axis=(1, 3))
    between = (np.sum(totals) - np.trace(totals)) / (N * (N - 1))
    within = np.mean([Agreement.of(products[i, :, i]).signal for i in range(N)])
    return np.array([between, within])


def correlation_of(between: float, within: float) -> float:
    """Return the correlation of tasks, 0 to 1; 0 if they disagree or have no signal."""
    return min(max(between, 0.0) / within, 1.0) if within > 0.0 else 0.0
