"""Confidence intervals from independent gradient estimates.

Norms are biased. The norm of a mean is too long by the noise *across* it: with m̂ = ∇ + e,
⟨m̂, u⟩ = ‖∇‖ + ⟨e, u⟩ for the true direction u, and ⟨m̂, u⟩² = ‖m̂‖² − ‖e_⊥‖². So the expected
square of the noise across is subtracted from ‖m̂‖², not that of all noise.

A maximum over a ball is a maximum over directions. The stationarity gap is ⟨∇, f + r u⟩ at the
best unit vector u, where the mean of the scalars ⟨X, f + r u⟩ has no more than a scalar's error. So
the upper bound is the largest such bound over all directions compatible with the data; and any
direction independent of the sample it is applied to gives a lower bound. Neither needs the
gradient to be far from zero.

Samples are skewed. Scalar means get Hall's transformed t-interval, which corrects for skewness,
and means of squares a logarithmic one where that is wider.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from crosslearning._base.statistics import Interval, hall_margin, skewness_of, student_quantile
from crosslearning.learner.gradients.independent_estimates import (
    GROUPS,
    IndependentEstimates,
    group_products,
)
from crosslearning.rkhs import Kernel
from crosslearning.rkhs.checks import Floats

#: Directions at which the upper bound is searched: angles to the mean's direction.
_ANGLES = np.linspace(0.0, np.pi, 721)


def quantile(level: float) -> float:
    """Return the upper quantile of Student's t for the number of groups."""
    return student_quantile(level, GROUPS - 1)


@dataclass(frozen=True)
class GradientMean:
    """The mean m̂ of independent estimates ("units") of a gradient, and its intervals.

    ``products``, shape (U, K), are ⟨unit, mean of group k⟩, from :func:`group_products`.
    """

    products: Floats

    @classmethod
    def of(cls, kernel: Kernel, units: IndependentEstimates) -> GradientMean:
        """Return the mean of units."""
        return cls(group_products(kernel, units))

    @property
    def count(self) -> int:
        """How many units there are."""
        return len(self.products)

    @cached_property
    def gram(self) -> Floats:
        """⟨mean of group k, mean of group l⟩, shape (K, K)."""
        K = self.products.shape[1]
        gram = self.products.reshape(K, -1, K).mean(axis=1)
        return np.asarray(0.5 * (gram + gram.T))

    @cached_property
    def with_mean(self) -> Floats:
        """⟨unit, m̂⟩, shape (U,)."""
        return np.asarray(self.products.mean(axis=1))

    @cached_property
    def square(self) -> float:
        """‖m̂‖²."""
        return max(float(self.with_mean.mean()), 0.0)

    def unbiased_square(self, squares: Floats) -> float:
        """Return the U-statistic of ‖∇‖², the mean of ⟨X_a, X_b⟩ over a ≠ b, from all ‖X_u‖²."""
        n = self.count
        return (n * self.square - float(squares.mean())) / (n - 1)

    @cached_property
    def _unit(self) -> Floats:
        """⟨unit, m̂/‖m̂‖⟩, shape (U,); zero if m̂ is."""
        if self.square == 0.0:
            return np.zeros(self.count)
        return np.asarray(self.with_mean / np.sqrt(self.square))

    @cached_property
    def _centred(self) -> Floats:
        """Gram matrix of the groups' means around m̂; their covariance is C over a group's size."""
        centred = self.gram - self.gram.mean(axis=0)
        return np.asarray(centred - centred.mean(axis=1)[:, None])

    @cached_property
    def _noise_square(self) -> float:
        """The trace of C², from products of different groups, with C the covariance of a unit."""
        return _mean_product_square(self._centred) * (self.count // GROUPS) ** 2

    @cached_property
    def _noise_across(self) -> tuple[float, float, float]:
        """The traces of C and C² and the largest eigenvalue of C, across m̂ alone."""
        K, size = GROUPS, self.count // GROUPS
        along = self._unit.reshape(K, size).mean(axis=1)
        along = along - along.mean()
        across = self._centred - np.outer(along, along)
        # Rounding errors are not noise.
        across[np.abs(across) < 1e-12 * np.trace(self.gram)] = 0.0
        trace = max(float(np.trace(across)), 0.0) / (K - 1)
        largest = max(float(np.linalg.eigvalsh(across)[-1]), 0.0) / (K - 1)
        return size * trace, size**2 * _mean_product_square(across), size * largest

    def norm(self, confidence: float) -> Interval:
        """Return ‖∇‖ with its interval."""
        return self.ball_maximum(np.zeros(self.count), 0.0, 1.0, confidence)

    def ball_maximum(
        self, towards: Floats, distance: float, radius: float, confidence: float
    ) -> Interval:
        """Return max ⟨∇, f + r u⟩ = ⟨∇, f⟩ + r‖∇‖ over the unit ball, with its interval.

        ``towards``, shape (U,), holds ⟨unit, f⟩; if ``distance``, ‖f‖, is at most r, the maximum
        is not negative.
        """
        level = 0.5 + 0.5 * confidence
        low = self.lower_bound(towards, radius, level)
        high = self.upper_bound(towards, radius, level)
        across = self._noise_across[0] / self.count
        value = float(towards.mean()) + radius * np.sqrt(max(self.square - across, 0.0))
        if distance <= radius * (1.0 + 1e-9):
            low, high, value = max(low, 0.0), max(high, 0.0), max(value, 0.0)
        high = max(low, high)
        return Interval(float(np.clip(value, low, high)), low, high)

    def upper_bound(self, towards: Floats, radius: float, level: float) -> float:
        """Return an upper bound of ⟨∇, f⟩ + r‖∇‖ at a level of confidence.

        For the unit vector u along ∇, at the angle φ to m̂, with w the part of u across m̂,

            ⟨m̂, f + r u⟩ + z sd(f + r cosφ m̂/‖m̂‖)/√n + z r sinφ sd(w)/√n

        is one, by the triangle inequality for standard deviations, and sd(w) is at most the root
        of the largest eigenvalue. The largest is taken over all angles φ that are compatible with
        the expected noise across.
        """
        z, n = quantile(level), self.count
        trace, trace_of_square, largest = self._noise_across
        norm = np.sqrt(self.square)
        # ⟨m̂, u⟩² = ‖m̂‖² − ‖e_⊥‖², and ‖e_⊥‖² is random.
        reach = max(self.square - trace / n, 0.0) + z * np.sqrt(2.0 * trace_of_square) / n
        cosines = np.cos(_ANGLES)
        if norm > 0.0:
            limit = min(np.sqrt(reach) / norm, 1.0)
            cosines = np.append(cosines[cosines <= limit], limit)
        f, m = towards - towards.mean(), self._unit - self._unit.mean()
        # Second and third moments of ⟨X, f + r cosφ m̂/‖m̂‖⟩ as polynomials in c = r cosφ.
        c = radius * cosines
        second = np.mean(f * f) + c * (2.0 * np.mean(f * m) + c * np.mean(m * m))
        third = np.mean(f**3) + c * (
            3.0 * np.mean(f * f * m) + c * (3.0 * np.mean(f * m * m) + c * np.mean(m**3))
        )
        second = np.maximum(second, 0.0)
        skewness = np.divide(third, second**1.5, out=np.zeros_like(third), where=second > 0.0)
        # Rounding near second = 0 must not make a skewness that no sample can have.
        skewness = np.clip(skewness, -np.sqrt(n), np.sqrt(n))
        errors = hall_margin(-skewness, n, z) * np.sqrt(second / n)
        sines = np.sqrt(np.maximum(1.0 - cosines**2, 0.0))
        bounds = c * norm + errors + z * radius * sines * np.sqrt(largest / n)
        return float(towards.mean() + np.max(bounds))

    def lower_bound(self, towards: Floats, radius: float, level: float) -> float:
        """Return a lower bound of ⟨∇, f⟩ + r‖∇‖ at a level of confidence.

        Every unit is multiplied with the direction of the mean of the *other* groups: the expected
        mean of these scalars is below the maximum. The directions share samples, which adds
        tr C²/(n² ‖m̂‖²) to the variance; it matters only if noise dominates the gradient.
        """
        z, n, K = quantile(level), self.count, GROUPS
        own = np.repeat(np.arange(K), n // K)
        total = K * self.with_mean - self.products[np.arange(n), own]
        squares = np.sum(self.gram) - 2.0 * self.gram.sum(axis=1) + np.diag(self.gram)
        lengths = np.sqrt(np.maximum(squares, 0.0))[own]
        along = np.divide(total, lengths, out=np.zeros(n), where=lengths > 0.0)
        values = towards + radius * along
        error = float(np.var(values, ddof=1)) / n
        if self.square > 0.0:
            error += radius**2 * self._noise_square / (n**2 * self.square)
        return float(values.mean() - hall_margin(skewness_of(values), n, z) * np.sqrt(error))


def _mean_product_square(gram: Floats) -> float:
    """Return the mean of the squared entries off the diagonal."""
    K = len(gram)
    return float(np.sum(gram**2) - np.sum(np.diag(gram) ** 2)) / (K * (K - 1))
