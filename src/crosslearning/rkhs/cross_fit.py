"""The fit of a cross-learned regression: functions, posterior, and measures of optimality."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.errors import InputError
from crosslearning.rkhs.checks import Floats, finite_array
from crosslearning.rkhs.coupled_ridge import CoupledRidge, Solution
from crosslearning.rkhs.evidence import student_weights
from crosslearning.rkhs.family import Family
from crosslearning.rkhs.knot_coordinates import KnotCoordinates, blocks
from crosslearning.rkhs.multipliers import FitStatus

#: Points at which the calibration is measured, about.
_CHECKED = 600
#: The normal quantile of a two-sided band of 90 %.
_NORMAL = 1.6448536269514722
#: Between what a calibration lies: few points say little.
_CALIBRATIONS = (0.85, 4.0)
_LEAST_LEFT, _TINY = 1e-3, 1e-300


class Optimality(NamedTuple):
    """Residuals of the Karush-Kuhn-Tucker conditions; all zero at the solution.

    ``stationarity`` is the gradient of the Lagrangian in f_1 … f_N and f_c, relative to that of the
    data at zero; ``feasibility`` the excess of the largest distance over ε, relative to ε;
    ``complementarity`` the largest μ_i |ε² − ‖f_i − f_c‖²|, or their sum if the method is relaxed,
    relative to the objective.

    Examples
    --------
    >>> from crosslearning.rkhs import CrossRegression, Gaussian
    >>> regression = CrossRegression(Gaussian(std=[1.0]), tasks=2, outputs=1)
    >>> regression.add(0, [[0.0], [1.0]], [[0.0], [0.8]])
    >>> max(regression.fit(epsilon=0.05).optimality()) < 1e-6
    True
    """

    stationarity: float
    feasibility: float
    complementarity: float


class Gap(NamedTuple):
    """The duality gap over all functions, not only those on the knots.

    ``primal`` is the objective of the fit, ``dual`` a lower bound on that of any functions within ε
    of a centre.

    Examples
    --------
    >>> from crosslearning.rkhs import CrossRegression, Gaussian
    >>> regression = CrossRegression(Gaussian(std=[1.0]), tasks=2, outputs=1)
    >>> regression.add(0, [[0.0], [1.0]], [[0.0], [0.8]])
    >>> regression.fit(epsilon=0.05).gap().relative < 1e-9
    True
    """

    primal: float
    dual: float

    @property
    def relative(self) -> float:
        """The gap relative to the objective."""
        return max(self.primal - self.dual, 0.0) / max(abs(self.primal), 1e-300)


@dataclass(frozen=True, eq=False)
class CrossFit:
    """The functions of a cross-learned regression.

    ``epsilon`` is the radius that was given, or that results from a multiplier. The search for the
    multipliers ended with ``status`` after some Newton ``steps``; ``residual`` is the largest error
    of a distance, relative to ε.

    Examples
    --------
    >>> from crosslearning.rkhs import CrossRegression, Gaussian
    >>> regression = CrossRegression(Gaussian(std=[1.0]), tasks=2, outputs=1)
    >>> regression.add(0, [[0.0], [1.0]], [[0.0], [0.8]])
    >>> regression.fit(epsilon=0.05).distances.round(6)
    array([0.05, 0.05])
    """

    epsilon: float
    method: str  # exact or relaxed
    status: FitStatus
    residual: float
    steps: int
    coordinates: KnotCoordinates = field(repr=False)
    problem: CoupledRidge = field(repr=False)
    solution: Solution = field(repr=False)
    inputs: Sequence[Floats] = field(repr=False)
    targets: Sequence[Floats] = field(repr=False)
    point_weights: Sequence[Floats] = field(repr=False)

    @cached_property
    def family(self) -> Family:
        """The functions f_1 … f_N and f_c."""
        functions = np.concatenate([self.solution.functions, self.solution.centre[None]])
        weights = self.coordinates.weights(functions)
        return Family(self.coordinates.kernel, self.coordinates.knots, weights)

    @property
    def multipliers(self) -> Floats:
        """The multipliers μ_i of the constraints, shape (N,)."""
        return self.solution.multipliers

    @property
    def distances(self) -> Floats:
        """The distances ‖f_i − f_c‖, shape (N,)."""
        return self.solution.distances

    def functions(self) -> Floats:
        """Return f_1 … f_N in the knots' coordinates, shape (N, m, p)."""
        return self.solution.functions

    def weights(self, functions: Floats) -> Floats:
        """Return the weights (m, F, p) of functions (F, m, p) in the knots' coordinates."""
        return self.coordinates.weights(functions)

    def samples(self, normal: Floats) -> Floats:
        """Return posterior samples, without the knots' residual variance, shape (S · N, m, p).

        ``normal``, shape (S, N + 1, m, p), are standard normal numbers. The samples are in the
        knots' coordinates; the tasks of one are adjacent and share its centre.
        """
        m, p = self.solution.centre.shape
        given = finite_array("normal", normal, (None, self.problem.size + 1, m, p))
        drawn = self.problem.drawn(self.solution, given)
        return np.asarray((self.functions() + drawn).reshape(-1, m, p))

    @cached_property
    def calibration(self) -> float:
        """The factor by which posterior samples spread more than they say, or less.

        Nine in ten of the leave-one-out errors lie within the band of 90 % that is wider by this.
        The errors follow from the fit of all points: with a point's noise s² and its posterior
        variance v, the error without it is e/(1 − v/s²), and its variance v/(1 − v/s²).
        """
        relative = []
        step = max(1, -(-sum(map(len, self.inputs)) // _CHECKED))
        for i, (x, error, w) in enumerate(
            zip(self.inputs, self._errors, self.point_weights, strict=True)
        ):
            some = slice(0, len(x), step)
            variance = self.problem.variance_at(
                self.solution, i, self.coordinates.features(x[some])
            )
            left = 1.0 - variance * w[some, None] / self.problem.variance
            # What rounding leaves of a point that nothing else says anything about.
            left = np.maximum(left, _LEAST_LEFT)
            relative.append(np.abs(error[some]) / np.sqrt(np.maximum(variance * left, _TINY)))
        factor = float(np.quantile(np.concatenate(relative), 0.9)) / _NORMAL
        return float(np.clip(factor, *_CALIBRATIONS))

    def robust_weights(self, least: float = 1.0) -> list[Floats]:
        """Return weights of every task's points by how little of them the functions explain.

        What the knots leave unexplained counts as noise of a point (the fully independent training
        conditional). With ``least`` below 1 the noise is Student's t: a point far off the functions
        hardly pulls at them, but has at least this share of its weight.
        """
        prior = np.diagonal(self.problem.covariance(self.multipliers))
        inverse = float(np.mean(1.0 / self.problem.variance))
        weights = []
        for i, (x, error) in enumerate(zip(self.inputs, self._errors, strict=True)):
            left = np.concatenate(
                [np.empty(0), *(self.coordinates.unexplained(x[part]) for part in blocks(len(x)))]
            )
            own = 1.0 / (1.0 + inverse * prior[i] * left)
            squares = own * np.mean(error**2 / self.problem.variance, axis=1)
            weights.append(own * student_weights(squares, least))
        return weights

    def variance(self, task: int, points: ArrayLike) -> Floats:
        """Return the posterior variance of a task's function at points (n, q), shape (n, p).

        It includes the residual variance of the knots, but not the noise of a measurement.
        """
        if not 0 <= task < self.problem.size:
            raise InputError(f"no task {task}; there are {self.problem.size}, from 0")
        x = finite_array("points", points, (None, self.coordinates.kernel.dimension))
        prior = self.problem.covariance(self.multipliers)[task, task]
        variance = np.empty((len(x), len(self.problem.variance)))
        for part in blocks(len(x)):
            phi = self.coordinates.features(x[part])
            left = self.coordinates.unexplained(x[part], phi)
            variance[part] = self.problem.variance_at(self.solution, task, phi)
            variance[part] += prior * left[:, None]
        return variance

    def log_evidence(self) -> float:
        """Return the log marginal likelihood of all targets.

        It is that of the Gaussian process on the knots less ½ Σ_i C_ii Σ_n w (κ(x, x) − |φ(x)|²)
        over σ²: a lower bound on that of the whole process (Titsias, 2009).
        """
        prior = np.diagonal(self.problem.covariance(self.multipliers))
        left = float(prior @ [task.unexplained for task in self.problem.tasks])
        unexplained = left * float(np.sum(1.0 / self.problem.variance))
        return self.problem.log_evidence(self.solution) - 0.5 * unexplained

    @cached_property
    def _errors(self) -> list[Floats]:
        """Y − f_i(x) at every point of every task, N arrays (n_i, p)."""
        errors = [targets.copy() for targets in self.targets]
        for x, error, function in zip(self.inputs, errors, self.functions(), strict=True):
            for part in blocks(len(x)):
                error[part] -= self.coordinates.features(x[part]).T @ function
        return errors

    def residuals(self) -> Floats:
        """Return the root mean square of y − f_i(x) by task and output, (N, p); NaN if no data."""
        none = np.full(len(self.problem.variance), np.nan)
        return np.array([np.sqrt(np.mean(e**2, axis=0)) if len(e) else none for e in self._errors])

    def objective(self) -> float:
        """Return Σ_i [ Σ_n w |y − f_i(x)|²/σ² + ρ ‖f_i‖² ]."""
        misfit = sum(
            float(np.sum(w[:, None] * error**2 / self.problem.variance))
            for w, error in zip(self.point_weights, self._errors, strict=True)
        )
        return misfit + self.problem.ridge * float(np.sum(self.functions() ** 2))

    def optimality(self) -> Optimality:
        """Return the residuals of the optimality conditions on the knots."""
        mu, d = self.multipliers, self.solution.differences
        variance, rho = self.problem.variance, self.problem.ridge
        functions, tasks = self.functions(), self.problem.tasks
        right = np.array([task.right / variance for task in tasks])
        slopes = rho * functions - right
        slopes += np.array(
            [t.product @ f / variance for t, f in zip(tasks, functions, strict=True)]
        )
        scale = max(math.sqrt(float(np.sum(right**2))), 1e-300)
        if np.isinf(mu[0]):
            stationarity = math.sqrt(float(np.sum(np.sum(slopes, axis=0) ** 2))) / scale
            return Optimality(stationarity, float(np.max(self.distances)), 0.0)
        pulls = mu[:, None, None] * d
        centre = np.sum(pulls, axis=0)
        stationarity = math.sqrt(float(np.sum((slopes + pulls) ** 2) + np.sum(centre**2))) / scale
        if math.isinf(self.epsilon):
            return Optimality(stationarity, 0.0, 0.0)
        slack = self.epsilon**2 - self.distances**2
        if self.method == "relaxed":
            slack = np.array([np.mean(slack)])
            mu = np.array([np.sum(mu)])
        beyond = float(np.max(np.sqrt(np.maximum(self.epsilon**2 - slack, 0.0)))) / self.epsilon
        complementarity = float(np.max(mu * np.abs(slack))) / max(self.objective(), 1e-300)
        return Optimality(stationarity, max(beyond - 1.0, 0.0), complementarity)

    def gap(self) -> Gap:
        """Return the objective and its lower bound over all functions.

        The bound is the dual objective 2αᵀy − αᵀ(C ⊗ K + σ²)α − ε² Σμ of the whole problem, K
        being the kernel at all pairs of points, at the α = t w (y − f)/σ² of the best t.
        """
        variance = self.problem.variance
        covariance = self.problem.covariance(self.multipliers)
        weights = [w[:, None] for w in self.point_weights]
        alphas = [w * error / variance for w, error in zip(weights, self._errors, strict=True)]
        linear = sum(float(np.sum(a * y)) for a, y in zip(alphas, self.targets, strict=True))
        square = sum(
            float(np.sum(variance / w * a**2)) for w, a in zip(weights, alphas, strict=True)
        )
        square += self._kernel_form(alphas, covariance)
        best = linear**2 / square if square > 0.0 else 0.0
        finite = 0.0 < self.epsilon < math.inf
        pull = self.epsilon**2 * float(np.sum(self.multipliers)) if finite else 0.0
        return Gap(self.objective(), best - pull)

    def _kernel_form(self, alphas: Sequence[Floats], covariance: Floats) -> float:
        """Return αᵀ(C ⊗ K)α, from every pair of blocks once."""
        parts = [
            (i, x[rows], alpha[rows])
            for i, (x, alpha) in enumerate(zip(self.inputs, alphas, strict=True))
            for rows in blocks(len(x))
        ]
        total = 0.0
        for a, (i, x, alpha) in enumerate(parts):
            for b, (j, others, beta) in enumerate(parts[: a + 1]):
                form = float(np.sum(alpha * (self.coordinates.kernel(x, others) @ beta)))
                total += (1.0 if a == b else 2.0) * float(covariance[i, j]) * form
        return total
