"""What a cross-learned regression found, and how good it is."""

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
from crosslearning.rkhs.family import Family
from crosslearning.rkhs.knot_coordinates import KnotCoordinates, blocks
from crosslearning.rkhs.multipliers import FitStatus, Found


class Optimality(NamedTuple):
    """How well the conditions of Karush, Kuhn and Tucker hold; all zero at the solution.

    Attributes
    ----------
    stationarity : float
        The slope of the Lagrangian in f_1 … f_N and f_c, relative to that of the data at zero.
    feasibility : float
        By how much the farthest function is beyond ε, as a share of ε.
    complementarity : float
        The largest μ_i |ε² − ‖f_i − f_c‖²|, relative to the objective; for the relaxed method
        that of their sum.

    Examples
    --------
    >>> import numpy as np
    >>> from crosslearning.rkhs import CrossRegression, Gaussian
    >>> x = np.linspace(-1.0, 1.0, 9)[:, None]
    >>> regression = CrossRegression(Gaussian(std=[1.0]), tasks=2, outputs=1)
    >>> regression.add(0, x, np.sin(x))
    >>> regression.add(1, x, np.sin(x) + 0.2 * x)
    >>> max(regression.fit(epsilon=0.05).optimality()) < 1e-6
    True
    """

    stationarity: float
    feasibility: float
    complementarity: float


class Gap(NamedTuple):
    """The objective between two bounds, over all functions and not only those on the knots.

    Attributes
    ----------
    primal : float
        The objective of the fit.
    dual : float
        No functions within ε of a centre have a lower objective.

    Examples
    --------
    >>> import numpy as np
    >>> from crosslearning.rkhs import CrossRegression, Gaussian
    >>> x = np.linspace(-1.0, 1.0, 9)[:, None]
    >>> regression = CrossRegression(Gaussian(std=[1.0]), tasks=2, outputs=1)
    >>> regression.add(0, x, np.sin(x))
    >>> regression.add(1, x, np.sin(x) + 0.2 * x)
    >>> gap = regression.fit(epsilon=0.05).gap()
    >>> gap.dual <= gap.primal + 1e-9
    True
    """

    primal: float
    dual: float

    @property
    def relative(self) -> float:
        """At most this share of the objective could still be gained."""
        return max(self.primal - self.dual, 0.0) / max(abs(self.primal), 1e-300)


class Points(NamedTuple):
    """The points that were fitted: N arrays (n_i, q) and N arrays (n_i, p)."""

    inputs: Sequence[Floats]
    targets: Sequence[Floats]


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Fitted functions.

    Attributes
    ----------
    epsilon : float
        The radius that was asked for, or that a multiplier leads to.
    method : str
        ``"exact"`` or ``"relaxed"``.
    status : FitStatus
        How the search for the multipliers ended, as a sentence.
    residual : float
        How far the farthest distance was from where it should be, as a share of ε.
    steps : int
        How many systems for the centre that took, line searches not counted.

    Examples
    --------
    >>> import numpy as np
    >>> from crosslearning.rkhs import CrossRegression, Gaussian
    >>> x = np.linspace(-1.0, 1.0, 9)[:, None]
    >>> regression = CrossRegression(Gaussian(std=[1.0]), tasks=2, outputs=1)
    >>> regression.add(0, x, np.sin(x))
    >>> regression.add(1, x, np.sin(x) + 0.2 * x)
    >>> fit = regression.fit(epsilon=0.05)
    >>> bool((fit.distances <= 0.05 + 1e-9).all()), fit.family.functions
    (True, 3)
    """

    epsilon: float
    method: str
    status: FitStatus
    residual: float
    steps: int
    coordinates: KnotCoordinates = field(repr=False)
    problem: CoupledRidge = field(repr=False)
    solution: Solution = field(repr=False)
    points: Points = field(repr=False)

    @classmethod
    def of(
        cls,
        found: Found,
        problem: CoupledRidge,
        coordinates: KnotCoordinates,
        points: Points,
        epsilon: float,
        method: str,
    ) -> CrossFit:
        """Return the fit that a search found; what rounding left beyond ε is pulled inside."""
        solution = found.solution
        distances = solution.distances
        reached = float(np.max(distances) if method == "exact" else _root_mean_square(distances))
        if reached > epsilon > 0.0:
            # A little less than ε, for the norm of what is computed to be at most ε.
            limit = epsilon * (1.0 - 4.0 * np.finfo(np.float64).eps)
            farthest = distances if method == "exact" else np.full_like(distances, reached)
            shorter = limit / np.maximum(farthest, limit)
            solution = solution._replace(differences=solution.differences * shorter[:, None, None])
        return cls(
            epsilon,
            method,
            found.status,
            found.residual,
            found.steps,
            coordinates,
            problem,
            solution,
            points,
        )

    @cached_property
    def family(self) -> Family:
        """The functions f_1 … f_N and f_c."""
        functions = np.concatenate([self.solution.functions, self.solution.centre[None]])
        weights = self.coordinates.weights(functions)
        return Family(self.coordinates.kernel, self.coordinates.knots, weights)

    @property
    def multipliers(self) -> Floats:
        """μ_i, what a little more of ε² would take off the objective, shape (N,)."""
        return self.solution.multipliers

    @cached_property
    def distances(self) -> Floats:
        """The distances ‖f_i − f_c‖, shape (N,)."""
        return self.solution.distances

    def functions(self) -> Floats:
        """Return f_1 … f_N in the knots' coordinates, shape (N, m, p)."""
        return self.solution.functions

    def weights(self, functions: Floats) -> Floats:
        """Return the weights (m, F, p) of functions (F, m, p) in the knots' coordinates."""
        return self.coordinates.weights(functions)

    # The Gaussian process --------------------------------------------------------------

    def samples(self, normal: Floats) -> Floats:
        """Return functions drawn from the posterior, in the knots' coordinates.

        What the knots cannot explain is not drawn; :meth:`variance` has it.

        Parameters
        ----------
        normal : array, shape (S, N + 1, m, p)
            Standard normal numbers.

        Returns
        -------
        array, shape (S · N, m, p)
            The tasks of a sample together; they share its centre.
        """
        m, p = self.solution.centre.shape
        given = finite_array("normal", normal, (None, self.problem.size + 1, m, p))
        drawn = self.problem.drawn(self.solution, given)
        return np.asarray((self.functions() + drawn).reshape(-1, m, p))

    def variance(self, task: int, points: ArrayLike) -> Floats:
        """Return the posterior variance of a task's function at points (n, q), shape (n, p).

        It is that of the function, without the noise of a measurement. Where the knots leave
        something of a point unexplained, the prior's variance of that is added.
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
        """Return the logarithm of the marginal likelihood of all targets.

        Of the Gaussian process on the knots, less ½ Σ_i C_ii Σ_n (κ(x, x) − |φ(x)|²)/σ² for what
        they leave unexplained: a lower bound on that of the whole process (Titsias, 2009), and
        equal to it if there are as many knots as it takes.
        """
        prior = np.diagonal(self.problem.covariance(self.multipliers))
        left = float(prior @ [task.unexplained for task in self.problem.tasks])
        unexplained = left * float(np.sum(1.0 / self.problem.variance))
        return self.problem.log_evidence(self.solution) - 0.5 * unexplained

    # How good it is --------------------------------------------------------------------

    @cached_property
    def _errors(self) -> list[Floats]:
        """Y − f_i(x) at every point of every task, N arrays (n_i, p)."""
        errors = [targets.copy() for targets in self.points.targets]
        for x, error, function in zip(self.points.inputs, errors, self.functions(), strict=True):
            for part in blocks(len(x)):
                error[part] -= self.coordinates.features(x[part]).T @ function
        return errors

    def residuals(self) -> Floats:
        """Return the root mean square of y − f_i(x), a task and an output, shape (N, p).

        It is NaN for a task without points.
        """
        shape = (self.problem.size, len(self.problem.variance))
        residuals = np.full(shape, np.nan)
        for i, errors in enumerate(self._errors):
            if len(errors):
                residuals[i] = np.sqrt(np.mean(errors**2, axis=0))
        return residuals

    def objective(self) -> float:
        """Return Σ_i [ Σ_n |y − f_i(x)|²/σ² + ρ ‖f_i‖² ]."""
        misfit = sum(float(np.sum(error**2 / self.problem.variance)) for error in self._errors)
        return misfit + self.problem.ridge * float(np.sum(self.functions() ** 2))

    def optimality(self) -> Optimality:
        """Return how well the conditions of optimality hold on the knots."""
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
        """Return the objective, and a bound below which no functions at all can bring it.

        The bound is the dual objective 2αᵀy − αᵀ(C ⊗ K + σ²)α − ε² Σμ of the whole problem, K
        being the kernel at all pairs of points, at the α = t (y − f)/σ² of the best t. So it
        says what fewer knots than points cost, and what multipliers that are not quite right
        do. It takes the kernel at all pairs of points, a block at a time.
        """
        variance = self.problem.variance
        covariance = self.problem.covariance(self.multipliers)
        alphas = [error / variance for error in self._errors]
        linear = sum(float(np.sum(a * y)) for a, y in zip(alphas, self.points.targets, strict=True))
        square = sum(float(np.sum(variance * a**2)) for a in alphas)
        square += self._kernel_form(alphas, covariance)
        best = linear**2 / square if square > 0.0 else 0.0
        finite = 0.0 < self.epsilon < math.inf
        pull = self.epsilon**2 * float(np.sum(self.multipliers)) if finite else 0.0
        return Gap(self.objective(), best - pull)

    def _kernel_form(self, alphas: Sequence[Floats], covariance: Floats) -> float:
        """Return αᵀ(C ⊗ K)α, from every pair of blocks once."""
        parts = [
            (i, x[rows], alpha[rows])
            for i, (x, alpha) in enumerate(zip(self.points.inputs, alphas, strict=True))
            for rows in blocks(len(x))
        ]
        total = 0.0
        for a, (i, x, alpha) in enumerate(parts):
            for b, (j, others, beta) in enumerate(parts[: a + 1]):
                form = float(np.sum(alpha * (self.coordinates.kernel(x, others) @ beta)))
                total += (1.0 if a == b else 2.0) * float(covariance[i, j]) * form
        return total


def _root_mean_square(distances: Floats) -> float:
    return math.sqrt(float(np.mean(distances**2)))
