"""One coordinate, one action: how noisy a policy gradient is, in closed form.

For the scalar system x' = A x + B a with the reward −(Q x² + R a²), and the policy a = M x + n
with noise n of variance v, the antithetic estimate of the gradient can be written out by hand.
So its mean, its variance and the curvature of U are known, and whatever estimates them can be
tested against the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.tasks.linear_quadratic import LinearQuadratic

Floats = NDArray[np.float64]

#: Sums over geometric times are cut where what is left over is below this share.
_TAIL = 1e-15


@dataclass(frozen=True)
class ScalarQuadratic:
    """A scalar system with a quadratic cost, and the moments of its gradient estimates.

    Parameters
    ----------
    system : LinearQuadratic
        With one coordinate and one action.
    variance : float
        v, of the exploration noise.
    discount : float
        γ.

    Notes
    -----
    With the linear kernel κ(s, s') = s s' a policy h(s) = M s has the norm |M|, and ∇U is the
    function (∂U/∂M) s, of norm |∂U/∂M|.

    Write F = A + BM, s for the state at which the action is sampled and n for its noise. The
    state k steps later is m_k ± Fᵏ⁻¹B n, with m_k = Fᵏs + Σ_{0<j<k} Fᵏ⁻¹⁻ʲ B n_j and the upper
    sign for the action, the lower one for its mirror image. Half the difference of the two
    returns over T more steps is −2 n Z, with

        Z = R M s + Σ_{k=1..T} Fᵏ⁻¹ B ((Q + R M²) m_k + R M n_k) = a_T s + ξ_T,

    where ξ_T is a sum of later noise, independent of s and n. So the estimate is the function
    w s' · s with w = −2 n² Z / (v (1−γ)), and since E n⁴ = 3 v²

        E‖estimate‖² = 12/(1−γ)² (E[a_T²] E[s⁴] + E[ξ_T²] E[s²]).
    """

    system: LinearQuadratic
    variance: float
    discount: float

    def __post_init__(self) -> None:
        if (self.system.state_size, self.system.outputs) != (1, 1):
            raise InputError(
                f"the system has {self.system.state_size} coordinates and "
                f"{self.system.outputs} actions; give one with one of each"
            )

    def gradient(self, gain: float) -> float:
        """Return ∂U/∂M at M = ``gain``: the one number of the function ∇U."""
        return float(self.system.gradient([[gain]], self.variance, self.discount)[0, 0])

    def best_gain(self) -> float:
        """Return the M at which the gradient is zero."""
        return float(self.system.best_gain(self.discount)[0, 0])

    def curvature(self, gain: float) -> float:
        """Return ∂²U/∂M² at M = ``gain``, by differentiating P and Z of the closed form.

        ∂U/∂M = −2 E Z with E = R M + γ B P F, P = (Q + R M²)/(1 − γF²) and
        Z = (S₀ + γ/(1−γ) B²v)/(1 − γF²).
        """
        (A, B, Q, R), discount = self._numbers(), self.discount
        F, M = A + B * gain, gain
        left = 1.0 - discount * F * F
        P, Z = (Q + R * M * M) / left, self.discounted_square(gain)
        slope = 2.0 * discount * F * B / left
        P_slope, Z_slope = 2.0 * R * M / left + P * slope, Z * slope
        E = R * M + discount * B * P * F
        E_slope = R + discount * B * (P_slope * F + P * B)
        return -2.0 * (E_slope * Z + E * Z_slope)

    def discounted_square(self, gain: float) -> float:
        """Return Z = Σ_t γᵗ E[x_t²]."""
        return float(np.sum(self._state_moments(gain)[0])) / (1.0 - self.discount)

    def second_moment(self, gain: float) -> float:
        """Return E‖estimate‖² for one sample of the antithetic estimator."""
        (A, B, Q, R), v = self._numbers(), self.variance
        F, M = A + B * gain, gain
        squares, fourths = self._state_moments(gain)
        times, shares = self._times()
        # a_T and the coefficients of n_1 … n_T in ξ_T, for every T.
        k = np.arange(1, len(times))
        along = R * M + np.concatenate(
            [[0.0], np.cumsum(B * (Q + R * M * M) * F ** (2.0 * k - 1.0))]
        )
        later = np.zeros(len(times))
        for T in times[1:]:
            j = np.arange(1, T + 1)
            # Σ_{k=j+1..T} F^(2k−2−j): a geometric sum of T − j terms, the first F^j.
            ratio = F * F
            count = (T - j).astype(np.float64)
            total = count if ratio == 1.0 else (1.0 - ratio**count) / (1.0 - ratio)
            c = B * B * (Q + R * M * M) * F**j * total + R * M * B * F ** (j - 1.0)
            later[T] = v * float(np.sum(c * c))
        spread = float(shares @ along**2) * float(np.sum(fourths))
        spread += float(shares @ later) * float(np.sum(squares))
        return 12.0 / (1.0 - self.discount) ** 2 * spread

    def deviation(self, gain: float) -> float:
        """Return the root of E‖estimate − ∇U‖² for one sample of the antithetic estimator."""
        return math.sqrt(self.second_moment(gain) - self.gradient(gain) ** 2)

    def _numbers(self) -> tuple[float, float, float, float]:
        system = self.system
        return system.A[0][0], system.B[0][0], system.Q[0][0], system.R[0][0]

    def _times(self) -> tuple[NDArray[np.int64], Floats]:
        """Return the times 0, 1, … and their shares (1−γ)γᵗ, up to a negligible rest."""
        count = 1 + math.ceil(math.log(_TAIL) / math.log(self.discount))
        times = np.arange(count, dtype=np.int64)
        return times, np.asarray((1.0 - self.discount) * self.discount**times)

    def _state_moments(self, gain: float) -> tuple[Floats, Floats]:
        """Return the shares (1−γ)γᵗ times E[x_t²] and E[x_t⁴], for every t."""
        A, B, _, _ = self._numbers()
        F, spread = A + B * gain, B * B * self.variance
        times, shares = self._times()
        if not self.discount * F**4 < 1.0:
            raise InputError(
                f"discount · (A + BM)⁴ is {self.discount * F**4:.6g} for this M; the estimate has "
                "a second moment only below 1"
            )
        low, high = self.system.start_low[0], self.system.start_high[0]
        # Of a uniform start: E[x²] = (l² + lh + h²)/3, E[x⁴] = (l⁴ + l³h + l²h² + lh³ + h⁴)/5.
        square = sum(low**i * high ** (2 - i) for i in range(3)) / 3.0
        fourth = sum(low**i * high ** (4 - i) for i in range(5)) / 5.0
        squares, fourths = np.empty((2, len(times)))
        for t in times:
            squares[t], fourths[t] = square, fourth
            fourth = F**4 * fourth + 6.0 * F * F * spread * square + 3.0 * spread**2
            square = F * F * square + spread
        return shares * squares, shares * fourths
