"""Widths, noise and likeness of tasks from the data: the largest marginal likelihood.

The functions of N tasks are taken for Gaussian processes of covariance
s² (c + (1 − c) δ_ij) κ(x, x'), with κ the sum of a Gaussian kernel and of a linear one; c, between
0 and 1, says how alike the tasks are. Seen as a regression with a centre
(:mod:`crosslearning.rkhs.cross_regression`), c = 1 is ε = 0, c = 0 is ε = ∞, and in between a
multiplier belongs to every c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from crosslearning.rkhs.kernels.base import Kernel
from crosslearning.rkhs.kernels.composed import Linear, Sum
from crosslearning.rkhs.kernels.stationary import Gaussian

Floats = NDArray[np.float64]

#: Points of all tasks together that are looked at: more say little more of so few numbers.
_POINTS = 320
_MOST_STEPS = 60


class _Belief(NamedTuple):
    """What is thought of a number before the data: of its logarithm, or of the odds of c."""

    centre: float
    spread: float
    low: float
    high: float


#: For inputs and targets of unit spread. It matters only where there are hardly any data.
_WIDTH = _Belief(math.log(1.5), 1.5, math.log(0.15), math.log(60.0))
_SIGNAL = _Belief(0.0, 2.0, math.log(0.01), math.log(1e3))
_LINEAR = _Belief(-1.0, 2.0, math.log(1e-4), math.log(1e2))
_ALIKE = _Belief(2.0, 4.0, -6.0, 9.0)
_NOISE = _Belief(math.log(0.01), 3.0, math.log(5e-3), 0.0)


class Hyperparameters(NamedTuple):
    """What the evidence chooses.

    Attributes
    ----------
    widths : array, shape (q,)
        Of the Gaussian kernel.
    units : array, shape (q,)
        Of the linear one: the spread of the inputs.
    linear : float
        What the linear kernel is multiplied by.
    signal : float
        s²: the variance of the Gaussian part's values.
    alike : float
        c.
    noise : array, shape (p,)
        Standard deviations.
    evidence : float
        The logarithm of the marginal likelihood of the points that were looked at, and of the
        numbers themselves.
    """

    widths: Floats
    units: Floats
    linear: float
    signal: float
    alike: float
    noise: Floats
    evidence: float

    def ridge(self, tasks: int) -> float:
        """Return ρ of the regression that has these covariances."""
        return 1.0 / (self.signal * (1.0 - self.alike + self.alike * tasks))

    def multiplier(self, tasks: int) -> float:
        """Return μ of that regression: infinite for tasks that are all the same."""
        if self.alike >= 1.0:
            return math.inf
        return self.alike * tasks * self.ridge(tasks) / (1.0 - self.alike)

    def kernel(self, periodic: Sequence[int] = ()) -> Kernel:
        """Return κ; functions are not linear in coordinates that are angles."""
        straight = [d for d in range(len(self.widths)) if d not in set(periodic)]
        curved = Gaussian(std=self.widths, periodic=list(periodic))
        linear = Linear(std=self.units[straight].tolist(), bias=1.0)
        every = range(len(self.widths))
        return Sum((curved, every), (linear, straight), scales=[1.0, self.linear])


def most_likely(
    inputs: Sequence[Floats],
    targets: Sequence[Floats],
    *,
    periodic: Sequence[int] = (),
    start: Hyperparameters | None = None,
    alike: float | None = None,
) -> Hyperparameters:
    """Return the hyperparameters under which the targets are the least surprising.

    Parameters
    ----------
    inputs : sequence of N arrays, shapes (n_i, q)
    targets : sequence of N arrays, shapes (n_i, p)
        Of about zero mean and unit spread, over all tasks.
    periodic : sequence of int
        Coordinates that are angles.
    start : Hyperparameters, optional
        Where to begin to search.
    alike : float, optional
        c, if it is not to be searched for.
    """
    x, y, task = _some(inputs, targets)
    q, p = x.shape[1], y.shape[1]
    angles = set(periodic)
    squares = np.array([_squares(x[:, d], d in angles) for d in range(q)])
    units = np.array([math.sqrt(float(own.mean()) / 2.0) or 1.0 for own in squares])
    straight = (x / units)[:, [d for d in range(q) if d not in angles]]
    search = _Search(
        squares / units[:, None, None] ** 2,
        1.0 + straight @ straight.T,
        task[:, None] == task,
        y,
        alike,
    )
    beliefs = [_WIDTH] * q + [_SIGNAL, _LINEAR, _ALIKE] + [_NOISE] * p
    first = np.array([belief.centre for belief in beliefs])
    if start is not None:
        odds = math.log(max(start.alike, 1e-9) / max(1.0 - start.alike, 1e-9))
        linear = math.log(start.linear * start.signal)
        own = [math.log(start.signal), linear, odds]
        first = np.concatenate([np.log(start.widths / units), own, np.log(start.noise)])
    bounds = [(belief.low, belief.high) for belief in beliefs]
    found = minimize(
        search,
        np.clip(first, *np.array(bounds).T),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": _MOST_STEPS},
    )
    theta = found.x
    signal = math.exp(theta[q])
    return Hyperparameters(
        widths=np.exp(theta[:q]) * units,
        units=units,
        linear=math.exp(theta[q + 1]) / signal,
        signal=signal,
        alike=_from_odds(theta[q + 2]) if alike is None else alike,
        noise=np.exp(theta[q + 3 :]),
        evidence=-float(found.fun),
    )


def _from_odds(odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-odds))


def _some(
    inputs: Sequence[Floats], targets: Sequence[Floats]
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return some of the points, evenly over tasks and time, and whose they are."""
    each = max(1, _POINTS // len(inputs))
    picked = [
        np.unique(np.linspace(0, len(x) - 1, min(each, len(x))).round().astype(int)) for x in inputs
    ]
    x = np.concatenate([own[rows] for own, rows in zip(inputs, picked, strict=True)])
    y = np.concatenate([own[rows] for own, rows in zip(targets, picked, strict=True)])
    task = np.concatenate([np.full(len(rows), i) for i, rows in enumerate(picked)])
    return x, y, task


def _squares(values: Floats, angle: bool) -> Floats:
    difference = values[:, None] - values
    return 2.0 - 2.0 * np.cos(difference) if angle else difference**2


class _Search:
    """The negative logarithm of the evidence, and its gradient."""

    def __init__(
        self,
        squares: Floats,
        products: Floats,
        same: NDArray[np.bool_],
        y: Floats,
        alike: float | None,
    ) -> None:
        self.squares, self.products, self.same = squares, products, same
        self.y, self.alike = y, alike
        q, p = len(squares), y.shape[1]
        beliefs = [_WIDTH] * q + [_SIGNAL, _LINEAR, _ALIKE] + [_NOISE] * p
        self._centre = np.array([belief.centre for belief in beliefs])
        self._spread = np.array([belief.spread for belief in beliefs])

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return it for the logarithms of widths, s², linear part and noise, and the odds of c."""
        q = len(self.squares)
        inverse = np.exp(-2.0 * theta[:q])
        c = _from_odds(theta[q + 2]) if self.alike is None else self.alike
        variances = np.exp(2.0 * theta[q + 3 :])
        alike = np.where(self.same, 1.0, c)
        curved = math.exp(theta[q]) * alike
        curved *= np.exp(-0.5 * np.tensordot(inverse, self.squares, 1))
        linear = math.exp(theta[q + 1]) * alike * self.products
        values, vectors = np.linalg.eigh(curved + linear)
        values = np.maximum(values, 0.0)
        turned = vectors.T @ self.y
        spread = values[:, None] + variances
        alphas = turned / spread
        away = (theta - self._centre) / self._spread
        total = 0.5 * float(np.sum(turned * alphas) + np.sum(np.log(spread)) + away @ away)
        gradient = away / self._spread
        gradient[q + 3 :] += variances * np.sum(1.0 / spread - alphas**2, axis=0)
        # ½ tr((Σ_o C_o⁻¹ − α_o α_oᵀ) dC)
        back = vectors @ alphas
        outer = (vectors * np.sum(1.0 / spread, axis=1)) @ vectors.T - back @ back.T
        curved *= outer
        linear *= outer
        gradient[:q] += 0.5 * inverse * np.tensordot(self.squares, curved, 2)
        gradient[q] += 0.5 * float(np.sum(curved))
        gradient[q + 1] += 0.5 * float(np.sum(linear))
        if self.alike is None:
            between = ~self.same
            both = float(np.sum(curved[between]) + np.sum(linear[between]))
            gradient[q + 2] += 0.5 * (1.0 - c) * both
        return total, gradient
