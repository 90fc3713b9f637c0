"""Hyperparameters by marginal likelihood: widths, noise and the correlation of tasks.

The functions of N tasks are Gaussian processes of covariance s² (c + (1 − c) δ_ij) κ(x, x'), with
κ the sum of a Gaussian and a linear kernel, and c in [0, 1] the correlation of tasks. As a
regression with a centre (:mod:`crosslearning.rkhs.cross_regression`), c = 1 is ε = 0, c = 0 is
ε = ∞, and every c in between has a multiplier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.linalg

from crosslearning.errors import InputError
from crosslearning.rkhs.checks import Floats, Integers, finite_array
from crosslearning.rkhs.composed import Sum
from crosslearning.rkhs.kernel import Kernel
from crosslearning.rkhs.kernels import Gaussian, Linear

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

#: Points of all tasks together: more would hardly change so few numbers.
_POINTS = 320
_MAX_STEPS = 60
#: The same for the choice among the starts.
_FEW_POINTS = 96
_FEW_STEPS = 30
#: Degrees of freedom of Student's t in robust fits.
_DEGREES = 4.0
#: How often the weights of points are set anew.
_REWEIGHED = 2
#: The relative gain of evidence in a step at which the search ends.
_ENOUGH = 1e-5
#: The largest root mean square of targets that the priors allow.
_LARGEST_TARGETS = 30.0
# Normal priors with bounds, of logarithms and the log odds of c: centre, spread, lowest, highest.
# They are for inputs and targets of unit spread, and matter only for very few data.
_WIDTH = (math.log(1.5), 1.5, math.log(0.15), math.log(60.0))
_SIGNAL = (0.0, 2.0, math.log(0.01), math.log(1e3))
_LINEAR = (-1.0, 2.0, math.log(1e-4), math.log(1e2))
_ALIKE = (2.0, 4.0, -6.0, 7.0)
_NOISE = (math.log(0.01), 3.0, math.log(5e-3), 0.0)


class Hyperparameters(NamedTuple):
    """The hyperparameters of greatest evidence.

    ``widths`` are of the Gaussian kernel, ``units`` of the linear one, the spread of the inputs,
    both of shape (q,); ``linear`` is the scale of the linear kernel, ``signal`` s², the variance of
    the Gaussian part, ``alike`` c; ``noise`` are standard deviations, shape (p,); ``evidence`` is
    the log marginal likelihood of the points that were used, plus the log prior.

    Examples
    --------
    >>> from crosslearning.rkhs import most_likely
    >>> most_likely([[[0.0], [0.5], [1.0]]], [[[0.0], [0.5], [0.8]]]).kernel().dimension
    1
    """

    widths: Floats
    units: Floats
    linear: float
    signal: float
    alike: float
    noise: Floats
    evidence: float

    def ridge(self, tasks: int) -> float:
        """Return ρ of the regression with these covariances."""
        return 1.0 / (self.signal * (1.0 - self.alike + self.alike * tasks))

    def multiplier(self, tasks: int) -> float:
        """Return μ of that regression; infinite for equal tasks."""
        if self.alike >= 1.0:
            return math.inf
        return self.alike * tasks * self.ridge(tasks) / (1.0 - self.alike)

    def kernel(self, periodic: Sequence[int] = ()) -> Kernel:
        """Return κ; its linear part leaves out angles."""
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
    least_weight: float = 1.0,
) -> Hyperparameters:
    """Return the hyperparameters of greatest evidence.

    The evidence can have several local maxima: a rough function, or a smooth one with noise. So it
    is maximised from several starts on a few points, and from the best of them on more.

    Parameters
    ----------
    inputs : sequence of N arrays, shapes (n_i, q)
        A task may have no points. A coordinate that does not vary gets a width near 1.5.
    targets : sequence of N arrays, shapes (n_i, p)
        Of about zero mean and unit spread, over all tasks: below 0.005 everything is noise.
    periodic : sequence of int
        Coordinates that are angles.
    start : Hyperparameters, optional
        A further start.
    alike : float, optional
        c, if it is known.
    least_weight : float
        Below 1, the noise is Student's t, so that a few points far off hardly matter: one of
        weight w counts as if its noise were σ/√w, and w is at least this.

    Examples
    --------
    >>> from crosslearning.rkhs import most_likely
    >>> most_likely([[[0.0], [0.5], [1.0]]], [[[0.0], [0.5], [0.8]]]).widths.shape
    (1,)
    """
    points = _checked(inputs, targets)
    q, p = points.x.shape[1], points.y.shape[1]
    angles = {int(d) for d in periodic}
    if not angles <= set(range(q)):
        raise InputError(f"periodic must name some of the coordinates 0 … {q - 1}, got {periodic}")
    if alike is not None and not 0.0 <= alike <= 1.0:
        raise InputError(f"alike must be from 0 to 1, got {alike!r}")
    points = points.some(_POINTS)
    spreads = [float(_squares(points.x[:, d], d in angles).mean()) / 2.0 for d in range(q)]
    units = np.array([math.sqrt(spread) or 1.0 for spread in spreads])
    few = points.some(_FEW_POINTS)
    more = len(few.x) < len(points.x)
    search, steps = _Search(few, units, angles, alike), _FEW_STEPS if more else _MAX_STEPS
    maxima = [search.maximum(first, steps) for first in _starts(q, p, units, start)]
    best = min(maxima, key=lambda one: float(one.fun))
    if more:
        search = _Search(points, units, angles, alike)
    if least_weight < 1.0:
        for _ in range(_REWEIGHED):
            search.weigh(best.x, least_weight)
            best = search.maximum(best.x, _MAX_STEPS)
    elif more:
        best = search.maximum(best.x, _MAX_STEPS)
    theta, signal = best.x, math.exp(best.x[q])
    alike = _from_odds(theta[q + 2]) if alike is None else alike
    widths, noise = np.exp(theta[:q]) * units, np.exp(theta[q + 3 :])
    linear, evidence = math.exp(theta[q + 1]) / signal, -float(best.fun)
    return Hyperparameters(widths, units, linear, signal, alike, noise, evidence)


def _priors(q: int, p: int) -> Floats:
    return np.array([_WIDTH] * q + [_SIGNAL, _LINEAR, _ALIKE] + [_NOISE] * p)


def _starts(q: int, p: int, units: Floats, given: Hyperparameters | None) -> list[Floats]:
    """Return the starts: smooth functions, rough ones, much noise, and the given one."""
    usual, rough, noisy = (_priors(q, p)[:, 0] for _ in range(3))
    rough[:q] = math.log(0.5)
    noisy[:q], noisy[q + 3 :] = math.log(3.0), math.log(0.3)
    if given is None:
        return [usual, rough, noisy]
    odds = math.log(max(given.alike, 1e-9) / max(1.0 - given.alike, 1e-9))
    scales = [math.log(given.signal), math.log(given.linear * given.signal), odds]
    first = np.concatenate([np.log(given.widths / units), scales, np.log(given.noise)])
    return [usual, rough, noisy, first]


class _Points(NamedTuple):
    """Points of all tasks: inputs (n, q), targets (n, p), and the index of the task (n,)."""

    x: Floats
    y: Floats
    task: Integers

    def some(self, most: int) -> _Points:
        """Return at most so many of the points, evenly spaced over tasks and time."""
        tasks, rows = np.unique(self.task), []
        for i in tasks:
            members = np.flatnonzero(self.task == i)
            some = min(max(1, most // len(tasks)), len(members))
            rows.append(members[np.linspace(0, len(members) - 1, some).round().astype(int)])
        kept = np.concatenate(rows)
        return _Points(self.x[kept], self.y[kept], self.task[kept])


def _checked(inputs: Sequence[Floats], targets: Sequence[Floats]) -> _Points:
    if len(inputs) != len(targets):
        given = f"inputs are of {len(inputs)} tasks and targets of {len(targets)}"
        raise InputError(f"{given}; give one array of each for every task")
    if not any(map(len, inputs)):
        raise InputError("there are no points to learn from; give some")
    q, p = np.shape(inputs[0])[-1], np.shape(targets[0])[-1]
    x = [finite_array(f"inputs of task {i}", x, (None, q)) for i, x in enumerate(inputs)]
    y = [finite_array(f"targets of task {i}", y, (len(x[i]), p)) for i, y in enumerate(targets)]
    task = np.repeat(np.arange(len(x)), list(map(len, x)))
    points = _Points(np.concatenate(x), np.concatenate(y), task)
    size = np.sqrt(np.mean(points.y**2, axis=0))
    if np.any(size > _LARGEST_TARGETS):
        o = int(np.argmax(size))
        given = f"those of output {o} have a root mean square of {size[o]:.3g}: divide them by it"
        raise InputError(f"targets must be of about unit spread, over all tasks; {given}")
    return points


def _from_odds(odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-odds))


def _squares(values: Floats, angle: bool) -> Floats:
    difference = values[:, None] - values
    return 2.0 - 2.0 * np.cos(difference) if angle else difference**2


class _Search:
    """The negative logarithm of the evidence, and its gradient."""

    def __init__(
        self, points: _Points, units: Floats, angles: set[int], alike: float | None
    ) -> None:
        q, self.y, self.alike = points.x.shape[1], points.y, alike
        x = points.x / units
        self.squares = np.array(
            [_squares(points.x[:, d], d in angles) / units[d] ** 2 for d in range(q)]
        )
        straight = x[:, [d for d in range(q) if d not in angles]]
        self.products = 1.0 + straight @ straight.T
        self.same = points.task[:, None] == points.task
        priors = _priors(q, self.y.shape[1])
        self.bounds = priors[:, 2:]
        self._centre, self._spread = priors[:, 0], priors[:, 1]
        self._constant = 0.5 * self.y.size * math.log(2.0 * math.pi)
        #: The noise of a point is σ²/w.
        self.weights = np.ones(len(self.y))

    def weigh(self, theta: Floats, least: float) -> None:
        """Set the weights of Student's t from the leave-one-out errors of hyperparameters."""
        q, squares = len(self.squares), np.zeros(len(self.y))
        curved, linear = self._parts(theta)
        covariance = curved + linear
        for y, variance in zip(self.y.T, np.exp(2.0 * theta[q + 3 :]), strict=True):
            inverted, _ = _inverted(covariance, variance / self.weights)
            diagonal = np.diagonal(inverted)
            # The error at a point without it, relative to its predictive variance, whose noise is
            # that of a point of weight 1.
            left = 1.0 / diagonal + variance * (1.0 - 1.0 / self.weights)
            squares += (inverted @ y / diagonal) ** 2 / left
        self.weights = student_weights(squares / self.y.shape[1], least)

    def maximum(self, first: Floats, steps: int) -> OptimizeResult:
        from scipy.optimize import minimize  # an eighth of the start of every command

        options = {"maxiter": steps, "ftol": _ENOUGH}
        start, how = np.clip(first, *self.bounds.T), "L-BFGS-B"
        return minimize(self, start, jac=True, method=how, bounds=self.bounds, options=options)

    def _parts(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the covariances of the Gaussian and of the linear part."""
        q = len(self.squares)
        c = _from_odds(theta[q + 2]) if self.alike is None else self.alike
        alike = np.where(self.same, 1.0, c)
        curved = math.exp(theta[q]) * alike
        curved *= np.exp(-0.5 * np.tensordot(np.exp(-2.0 * theta[:q]), self.squares, 1))
        return curved, math.exp(theta[q + 1]) * alike * self.products

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return them for logarithms of widths, s² and linear part, log odds of c, log noise."""
        q = len(self.squares)
        inverse = np.exp(-2.0 * theta[:q])
        c = _from_odds(theta[q + 2]) if self.alike is None else self.alike
        variances = np.exp(2.0 * theta[q + 3 :])
        curved, linear = self._parts(theta)
        covariance = curved + linear
        away = (theta - self._centre) / self._spread
        total, gradient = 0.5 * float(away @ away) + self._constant, away / self._spread
        # ½ tr((Σ_o C_o⁻¹ − α_o α_oᵀ) dC)
        outer = np.zeros_like(covariance)
        for o, (y, variance) in enumerate(zip(self.y.T, variances, strict=True)):
            inverted, half_log = _inverted(covariance, variance / self.weights)
            alphas = inverted @ y
            total += 0.5 * float(y @ alphas) + half_log
            inverted -= np.outer(alphas, alphas)
            gradient[q + 3 + o] += variance * float(np.sum(np.diagonal(inverted) / self.weights))
            outer += inverted
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


def student_weights(squares: Floats, least: float) -> Floats:
    """Return the weights of points in a fit with Student's t, from squared relative errors."""
    return np.clip((_DEGREES + 1.0) / (_DEGREES + squares), least, 1.0)


def _inverted(covariance: Floats, variances: Floats) -> tuple[Floats, float]:
    """Return C⁻¹ of C = covariance + diag(variances), and ½ ln det C."""
    # The noise has a lower bound, so that rounding leaves C positive definite.
    factor = scipy.linalg.cholesky(covariance + np.diag(variances), lower=True)
    half_log = float(np.sum(np.log(np.diag(factor))))
    # The factor has zeros above its diagonal, and so has the result.
    inverted, _ = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    return inverted + np.tril(inverted, -1).T, half_log
