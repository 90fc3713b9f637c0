"""Scalar linear-quadratic tasks with everything the theorem speaks of in closed form.

System i is x' = A_i x + B_i a with the reward −(Q x² + R a²), the start uniform in [−1, 1], and
the policy a = M x + n with noise of variance v. With the linear kernel κ(s, s') = s s' a policy is
its number M, norms are absolute values, and the gradient is dU/dM. The antithetic estimate of
``batch`` samples is drawn from its exact distribution, without simulating a step, so that
thousands of runs take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_HORIZON = 400  # sums over geometric times; 0.8^400 is 1e-39
_AT_A_TIME = 10_000


@dataclass(frozen=True)
class ScalarTasks:
    """N scalar systems; every method takes gains M of shape (…, N), with 0 < A + BM < 1."""

    A: Floats
    B: Floats
    Q: float = 1.0
    R: float = 0.3
    variance: float = 0.1
    discount: float = 0.8

    @classmethod
    def spread(cls, tasks: int) -> ScalarTasks:
        """Return N tasks that differ in how fast they come to rest and in what an action does."""
        return cls(np.linspace(0.75, 0.9, tasks), np.linspace(0.6, 0.4, tasks))

    def returns(self, gains: Floats) -> Floats:
        """Return U_i(M_i), shape (…, N)."""
        cost = self.Q + self.R * gains**2
        constant = self.R * self.variance / (1.0 - self.discount)
        return -cost * self._squares(gains) - constant

    def gradients(self, gains: Floats) -> Floats:
        """Return dU_i/dM_i, shape (…, N)."""
        F = self.A + self.B * gains
        P = (self.Q + self.R * gains**2) / (1.0 - self.discount * F**2)
        slope = self.R * gains + self.discount * self.B * P * F
        return -2.0 * slope * self._squares(gains)

    def curvatures(self, gains: Floats) -> Floats:
        """Return d²U_i/dM_i², shape (…, N)."""
        F, left = self.A + self.B * gains, 1.0 - self.discount * (self.A + self.B * gains) ** 2
        P, Z = (self.Q + self.R * gains**2) / left, self._squares(gains)
        growth = 2.0 * self.discount * F * self.B / left
        slope = self.R * gains + self.discount * self.B * P * F
        bend = self.discount * self.B * ((2.0 * self.R * gains / left + P * growth) * F)
        bend += self.R + self.discount * self.B**2 * P
        return -2.0 * (bend * Z + slope * Z * growth)

    def best(self) -> Floats:
        """Return the gains with the largest U_i, shape (N,), by bisection on the gradient."""
        # U rises below the best gain and falls above it, where A + BM is between 0 and 1.
        low, high = (1e-6 - self.A) / self.B, (1.0 - 1e-6 - self.A) / self.B
        for _ in range(100):
            middle = 0.5 * (low + high)
            rising = self.gradients(middle) > 0.0
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        return 0.5 * (low + high)

    def deviations(self, gains: Floats) -> Floats:
        """Return σ_i of one antithetic sample, shape (…, N)."""
        times = np.arange(_HORIZON).reshape((-1, *(1,) * np.ndim(gains)))
        shares = (1.0 - self.discount) * self.discount**times
        along, later = self._future(gains, times)
        F2, spread = (self.A + self.B * gains) ** 2, self.B**2 * self.variance
        square, fourth = np.full(np.shape(F2), 1.0 / 3.0), np.full(np.shape(F2), 1.0 / 5.0)
        squares, fourths = 0.0, 0.0
        for t in range(_HORIZON):
            squares, fourths = squares + shares[t] * square, fourths + shares[t] * fourth
            fourth = F2**2 * fourth + 6.0 * F2 * spread * square + 3.0 * spread**2
            square = F2 * square + spread
        moment = (shares * along**2).sum(axis=0) * fourths + (shares * later).sum(axis=0) * squares
        return np.sqrt(12.0 / (1.0 - self.discount) ** 2 * moment - self.gradients(gains) ** 2)

    def sample(self, gains: Floats, batch: int, generator: np.random.Generator) -> Floats:
        """Return the mean of ``batch`` antithetic samples of each gradient, shape (…, N).

        A sample is −2 n² s (a_T s + ξ_T) / (v (1 − γ)): s is the state at a geometric time t, n the
        noise of its action, T the geometric number of further steps and ξ_T what later noise adds.
        """
        total = np.zeros(np.shape(gains))
        F, v = self.A + self.B * gains, self.variance
        decay, spread = np.log(F), np.sqrt(self.B**2 * v / (1.0 - F**2))
        rest = batch
        while rest:
            # As many at a time as fit into the processor's cache.
            shape = (max(1, min(rest, _AT_A_TIME // F.size)), *F.shape)
            rest -= shape[0]
            t, T = generator.geometric(1.0 - self.discount, (2, *shape)) - 1
            start = generator.uniform(-1.0, 1.0, shape)
            n, before, after = generator.standard_normal((3, *shape))
            left = np.exp(t * decay)  # what is left of the start
            s = left * start + before * spread * np.sqrt(1.0 - left**2)
            along, later = self._future(gains, T)
            total += (n**2 * s * (along * s + np.sqrt(later) * after)).sum(axis=0)
        return -2.0 * total / ((1.0 - self.discount) * batch)

    def _squares(self, gains: Floats) -> Floats:
        """Return Σ_t γᵗ E[x_t²]."""
        F, rate = self.A + self.B * gains, self.discount
        start = 1.0 / 3.0 + rate / (1.0 - rate) * self.B**2 * self.variance
        return start / (1.0 - rate * F**2)

    def _future(self, gains: Floats, T: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return a_T and Var ξ_T."""
        F, M, B = self.A + self.B * gains, gains, self.B
        cost, left = self.Q + self.R * M**2, 1.0 - F**2
        powers = np.exp(2.0 * T * np.log(F))
        total = (1.0 - powers) / left
        along = self.R * M + cost * B * F * total
        # The noise j steps later has the factor p Fʲ − k F^(2T−j); its square is summed over j.
        k = B**2 * cost / left
        p = k + self.R * M * B / F
        later = p**2 * F**2 * total - 2.0 * p * k * powers * T + k**2 * powers * total
        return along, self.variance * np.maximum(later, 0.0)


def project(gains: Floats, centre: Floats, epsilon: float) -> tuple[Floats, Floats]:
    """Return the exact projection of numbers: h of shape (…, N) and g of shape (…).

    The best g is where its pull to the old centre and the pulls of the h_i outside balance; that
    balance grows with g, so it is found by bisection.
    """
    low = np.minimum(gains.min(axis=-1), centre)
    high = np.maximum(gains.max(axis=-1), centre)
    for _ in range(60):
        g = 0.5 * (low + high)
        away = gains - g[..., None]
        pull = (np.sign(away) * np.maximum(np.abs(away) - epsilon, 0.0)).sum(axis=-1)
        rising = g - centre < pull
        low, high = np.where(rising, g, low), np.where(rising, high, g)
    g = 0.5 * (low + high)
    return g[..., None] + np.clip(gains - g[..., None], -epsilon, epsilon), g


def gaps(slopes: Floats, gains: Floats, centre: Floats, epsilon: float) -> Floats:
    """Return ⟨∇_i, g − h_i⟩ + ε ‖∇_i‖, shape (…, N)."""
    return slopes * (centre[..., None] - gains) + epsilon * np.abs(slopes)
