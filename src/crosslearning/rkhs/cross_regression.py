"""Cross-learned regression: functions of related tasks, fitted to data, kept near a central one.

Given data (x_n, y_n) of N tasks, f_1 … f_N and f_c solve

    minimise   Σ_i [ Σ_n |y_n − f_i(x_n)|²/σ² + ρ ‖f_i‖² ]   subject to   ‖f_i − f_c‖ ≤ ε,

the paper's problem with a ridge regression in the place of every return. ε = 0 is one function for
the pooled data, ε = ∞ one for each task alone. With a multiplier μ_i for every constraint it is
quadratic, so that only the N multipliers have to be searched for.

All functions live on common knots. There, in coordinates in which the knots' Gram matrix is the
identity, a task's data enter as one matrix Φᵀ Φ whose eigenvectors serve every multiplier:
f_i = (ΦᵀΦ/σ² + ρ + μ_i)⁻¹ (Φᵀy/σ² + μ_i f_c), and f_c solves a system of the size of the knots.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from crosslearning.errors import InputError, NumericalError
from crosslearning.rkhs.checks import count, finite_array, radius
from crosslearning.rkhs.dictionary import Dictionary
from crosslearning.rkhs.family import Family
from crosslearning.rkhs.kernels.base import Kernel
from crosslearning.rkhs.projection import projection_of

Floats = NDArray[np.float64]

#: Points that are looked at together, so that no array grows with the data.
_BLOCK = 4096
#: Newton's steps on the multipliers, and how far from ε a distance may be left.
_MOST_STEPS = 60
_TOLERANCE = 1e-10
#: Multipliers beyond this share of what the data weigh are as good as infinite.
_STIFF = 1e12
#: What is added to the diagonal of the Gram matrix of knots that are all new to one another.
_JITTER = 1e-12


class CrossRegression:
    """Data of N tasks, ready to be fitted with any radius.

    Parameters
    ----------
    kernel : Kernel
    tasks, outputs : int
        N, and the dimension of the values.
    noise : float, or one for each output
        Standard deviation σ of what the functions are not to explain.
    ridge : float
        ρ: one over the variance of the functions' values, where κ(x, x) = 1.
    max_knots : int
        The budget of knots. They are chosen from the data, those first that the others explain
        least.
    tolerance : float
        No further knots once this share of the kernel is left unexplained at every point.
    """

    def __init__(
        self,
        kernel: Kernel,
        tasks: int,
        outputs: int,
        *,
        noise: ArrayLike = 0.1,
        ridge: float = 1.0,
        max_knots: int = 400,
        tolerance: float = 1e-8,
    ) -> None:
        self.kernel = kernel
        self.tasks = count("tasks", tasks)
        self.outputs = count("outputs", outputs)
        self.max_knots = count("max_knots", max_knots)
        self.tolerance = tolerance
        self.noise = np.broadcast_to(np.asarray(noise, dtype=np.float64), (outputs,)).copy()
        if not np.all((self.noise > 0.0) & np.isfinite(self.noise)):
            raise InputError(f"noise must be positive, got {noise!r}")
        if not (math.isfinite(ridge) and ridge > 0.0):
            raise InputError(f"ridge must be positive, got {ridge!r}")
        self.ridge = float(ridge)
        self.inputs = [np.empty((0, kernel.dimension)) for _ in range(tasks)]
        self.targets = [np.empty((0, outputs)) for _ in range(tasks)]
        self._dictionary = Dictionary(kernel, 1, 1)
        self._factor: Floats = np.empty((0, 0))
        #: Of every task, in the knots' coordinates: ΦᵀΦ (m, m) and Φᵀy (m, outputs).
        self._products: list[Floats] = []
        self._right: list[Floats] = []
        self._taken = [0] * tasks

    @property
    def knots(self) -> Floats:
        """The knots, shape (m, q)."""
        self._take_in()
        return self._dictionary.knots

    def add(self, task: int, inputs: ArrayLike, targets: ArrayLike) -> None:
        """Add points of a task: inputs (n, q), targets (n, outputs)."""
        if not 0 <= task < self.tasks:
            raise InputError(f"no task {task}; there are {self.tasks}, from 0")
        x = finite_array("inputs", inputs, (None, self.kernel.dimension))
        y = finite_array("targets", targets, (len(x), self.outputs))
        self.inputs[task] = np.concatenate([self.inputs[task], x])
        self.targets[task] = np.concatenate([self.targets[task], y])

    def fit(self, epsilon: float, method: Literal["exact", "relaxed"] = "exact") -> CrossFit:
        """Return the functions within a radius of a central one.

        Parameters
        ----------
        epsilon : float
            ε; 0 pools the data, infinity separates the tasks.
        method : {"exact", "relaxed"}
            Whether every distance is bounded by ε, or the root of their mean square.
        """
        projection_of(method)  # an unknown method is told here
        epsilon = radius("epsilon", epsilon)
        problem = _Problem(self)
        if epsilon == 0.0:
            return problem.at(np.full(self.tasks, math.inf), epsilon, method)
        alone = problem.at(np.zeros(self.tasks), epsilon, method)
        if math.isinf(epsilon) or np.all(alone.distances <= epsilon):
            return alone
        if method == "relaxed":
            return problem.relaxed(epsilon)
        return problem.exact(epsilon)

    def at(self, multiplier: float) -> CrossFit:
        """Return the functions for one multiplier, the same for all tasks; infinity pools."""
        if math.isnan(multiplier) or multiplier < 0.0:
            raise InputError(f"multiplier must be at least 0, got {multiplier!r}")
        problem = _Problem(self)
        fit = problem.at(np.full(self.tasks, multiplier), math.nan, "relaxed")
        reached = float(np.sqrt(np.mean(fit.distances**2)))
        return fit._replace(epsilon=math.inf if multiplier == 0.0 else reached)

    # Data ------------------------------------------------------------------------------

    def features(self, points: Floats) -> Floats:
        """Return points (n, q) in the knots' coordinates, shape (m, n)."""
        if len(points) == 0:
            return np.empty((len(self._dictionary), 0))
        between = self.kernel(self._dictionary.knots, points)
        return np.asarray(solve_triangular(self._factor, between, lower=True, overwrite_b=True))

    def _take_in(self) -> None:
        """Bring knots and products up to date with the points that were added."""
        fresh = [x[n:] for x, n in zip(self.inputs, self._taken, strict=True)]
        if not any(len(x) for x in fresh) and self._products:
            return
        if not any(len(x) for x in self.inputs):
            raise InputError("there are no points to fit; add some first")
        room = self.max_knots - len(self._dictionary)
        new = np.concatenate(fresh)
        chosen = new[self._dictionary.novel(new, self.tolerance, room)] if room else new[:0]
        if len(chosen):
            self._dictionary.extend(chosen, np.zeros((len(chosen), 1, 1)))
            gram = self._dictionary.gram.copy()
            gram.flat[:: len(gram) + 1] += _JITTER * np.diagonal(gram)
            self._factor = np.asarray(np.linalg.cholesky(gram), dtype=np.float64)
            self._taken = [0] * self.tasks
        m = len(self._dictionary)
        if len(chosen) or not self._products:
            # Knots that are new change every product: all points are gone through again.
            self._products = [np.zeros((m, m)) for _ in range(self.tasks)]
            self._right = [np.zeros((m, self.outputs)) for _ in range(self.tasks)]
        for i in range(self.tasks):
            for first in range(self._taken[i], len(self.inputs[i]), _BLOCK):
                part = slice(first, first + _BLOCK)
                phi = self.features(self.inputs[i][part])
                self._products[i] += phi @ phi.T
                self._right[i] += phi @ self.targets[i][part]
            self._taken[i] = len(self.inputs[i])

    def weights(self, functions: Floats) -> Floats:
        """Return the weights (m, F, p) of functions (F, m, p) in the knots' coordinates."""
        F, m, p = functions.shape
        flat = functions.transpose(1, 0, 2).reshape(m, F * p)
        solved = solve_triangular(self._factor, flat, lower=True, trans=1)
        return np.asarray(solved).reshape(m, F, p)

    def statistics(self) -> tuple[list[Floats], list[Floats]]:
        """Return ΦᵀΦ and Φᵀy of every task, in the knots' coordinates."""
        self._take_in()
        return self._products, self._right


class _Solution(NamedTuple):
    """Functions in the knots' coordinates: f_c (m, p) and d_i = f_i − f_c (N, m, p)."""

    centre: Floats
    differences: Floats
    #: For every output: what f_c's system factors into.
    factors: list[tuple[Floats, bool]]


class _Problem:
    """One set of data with the eigenvectors of every task's product."""

    def __init__(self, regression: CrossRegression) -> None:
        products, right = regression.statistics()
        self.regression = regression
        decomposed = [np.linalg.eigh(product) for product in products]
        self.values = np.array([np.maximum(values, 0.0) for values, _ in decomposed])
        self.vectors = np.array([vectors for _, vectors in decomposed])
        #: Qᵀ Φᵀ y, shape (N, m, p).
        self.right = np.array([q.T @ b for q, b in zip(self.vectors, right, strict=True)])
        self.variance = regression.noise**2
        self.tasks = len(products)

    def solve(self, multipliers: Floats) -> _Solution:
        """Return the functions for given multipliers."""
        N, m, p = self.right.shape
        rho, pooled = self.regression.ridge, bool(np.isinf(multipliers[0]))
        centre, differences, factors = np.zeros((m, p)), np.zeros((N, m, p)), []
        alone = not np.any(multipliers)
        for o in range(p):
            own = self.values / self.variance[o] + rho
            right = self.right[:, :, o] / self.variance[o]
            mu = multipliers[:, None]
            if alone:
                each = np.einsum("imk,ik->im", self.vectors, right / own)
                centre[:, o] = each.mean(axis=0)
                differences[:, :, o] = each - centre[:, o]
                continue
            # μ − μ²/(own + μ), without the difference of large numbers.
            pull = own if pooled else mu * own / (own + mu)
            share = np.ones_like(own) if pooled else mu / (own + mu)
            weighted = self.vectors * np.sqrt(pull)[:, None, :]
            flat = weighted.transpose(1, 0, 2).reshape(m, -1)
            system = flat @ flat.T
            factor = self._factor(system)
            factors.append(factor)
            centre[:, o] = cho_solve(factor, np.einsum("imk,ik->m", self.vectors, share * right))
            if not pooled:
                seen = np.einsum("imk,m->ik", self.vectors, centre[:, o])
                moved = (right - own * seen) / (own + mu)
                differences[:, :, o] = np.einsum("imk,ik->im", self.vectors, moved)
        return _Solution(centre, differences, factors)

    def _factor(self, system: Floats) -> tuple[Floats, bool]:
        try:
            factor, lower = cho_factor(system, lower=True)
        except np.linalg.LinAlgError as problem:
            raise NumericalError(
                f"a cross-learned regression on {len(system)} knots broke down: {problem}; is the "
                "noise far below the last digits of the targets?"
            ) from problem
        return factor, lower

    def at(self, multipliers: Floats, epsilon: float, method: str) -> CrossFit:
        return CrossFit.of(self, multipliers, self.solve(multipliers), epsilon, method)

    def relaxed(self, epsilon: float) -> CrossFit:
        """Search for the one multiplier whose mean squared distance is ε²."""

        def excess(mu: float) -> tuple[float, _Solution]:
            solution = self.solve(np.full(self.tasks, mu))
            return 1.0 / math.sqrt(_mean_square(solution)) - 1.0 / epsilon, solution

        # 1/distance is nearly linear in μ: the secant through two points is nearly the answer.
        low, value_low = 0.0, excess(0.0)[0]
        high = self.regression.ridge
        value, solution = excess(high)
        while value < 0.0 and high < _STIFF:
            low, value_low, high = high, value, 8.0 * high
            value, solution = excess(high)
        value_high = value
        mu = high
        for _ in range(_MOST_STEPS):
            if abs(value) * epsilon <= _TOLERANCE:
                break
            mu = low - value_low * (high - low) / (value_high - value_low)
            if not low < mu < high:
                mu = 0.5 * (low + high)
            value, solution = excess(mu)
            if value < 0.0:
                low, value_low, value_high = mu, value, 0.5 * value_high
            else:
                high, value_high, value_low = mu, value, 0.5 * value_low
        multipliers = np.full(self.tasks, mu)
        return CrossFit.of(self, multipliers, solution, epsilon, "relaxed")

    def exact(self, epsilon: float) -> CrossFit:
        """Search for multipliers with μ_i ≥ 0, ‖d_i‖ ≤ ε, and one of the two an equality.

        Newton's method on 1/‖d_i‖ − 1/ε, which is nearly linear in the multipliers; those that
        it would make negative are held at zero while their constraints hold.
        """
        mu = self.relaxed(epsilon).multipliers
        solution = self.solve(mu)
        for _ in range(_MOST_STEPS):
            distances = _norms(solution)
            residual = epsilon / np.maximum(distances, 1e-300) - 1.0
            active = (mu > 0.0) | (residual < 0.0)
            # What holds with room to spare and has no multiplier is met.
            if np.all(np.abs(residual[active]) <= _TOLERANCE):
                break
            slopes = self._slopes(mu, solution)  # ∂‖d_i‖²/∂μ_j
            jacobian = -0.5 * epsilon * slopes / np.maximum(distances, 1e-300)[:, None] ** 3
            step = np.zeros(self.tasks)
            inner = np.ix_(active, active)
            step[active] = np.linalg.lstsq(jacobian[inner], -residual[active], rcond=None)[0]
            mu, solution = self._searched(mu, step, residual, epsilon)
        return CrossFit.of(self, mu, solution, epsilon, "exact")

    def _searched(
        self, mu: Floats, step: Floats, residual: Floats, epsilon: float
    ) -> tuple[Floats, _Solution]:
        """Go along a step as far as it helps."""

        def misfit(residual: Floats, mu: Floats) -> float:
            return float(np.max(np.abs(np.where(mu > 0.0, residual, np.minimum(residual, 0.0)))))

        before, length = misfit(residual, mu), 1.0
        while True:
            tried = np.maximum(mu + length * step, 0.0)
            if not np.any(tried):
                tried = 0.1 * mu
            solution = self.solve(tried)
            found = epsilon / np.maximum(_norms(solution), 1e-300) - 1.0
            if misfit(found, tried) < before or length < 1e-3:
                return tried, solution
            length *= 0.5

    def _slopes(self, mu: Floats, solution: _Solution) -> Floats:
        """Return ∂‖d_i‖²/∂μ_j: −2 ⟨d_i, the change of f_i − f_c that a pull d_j brings⟩."""
        slopes = np.zeros((self.tasks, self.tasks))
        for o, factor in enumerate(solution.factors):
            own = self.values / self.variance[o] + self.regression.ridge
            share = mu[:, None] / (own + mu[:, None])
            d = np.einsum("imk,im->ik", self.vectors, solution.differences[:, :, o])
            # f_c's answer to d_j: (I − μ_j R_j) d_j, and R_j d_j of f_j itself.
            pulled = np.einsum("imk,ik->mi", self.vectors, (1.0 - share) * d)
            centre = -cho_solve(factor, pulled)
            back = np.einsum("imk,mj->ijk", self.vectors, centre)
            change = -(1.0 - share)[:, None, :] * back
            N = self.tasks
            change[np.arange(N), np.arange(N)] += d / (own + mu[:, None])
            slopes -= 2.0 * np.einsum("ik,ijk->ij", d, change)
        return slopes


def _norms(solution: _Solution) -> Floats:
    return np.asarray(np.sqrt(np.sum(solution.differences**2, axis=(1, 2))))


def _mean_square(solution: _Solution) -> float:
    return max(float(np.mean(np.sum(solution.differences**2, axis=(1, 2)))), 1e-300)


class CrossFit(NamedTuple):
    """Fitted functions.

    Attributes
    ----------
    family : Family
        f_1 … f_N and f_c.
    epsilon : float
        The radius that was asked for, or that a multiplier leads to.
    method : str
        ``"exact"`` or ``"relaxed"``.
    multipliers : array, shape (N,)
        μ_i: what a little more of ε² would take off the objective, a task.
    distances : array, shape (N,)
        ‖f_i − f_c‖.
    """

    family: Family
    epsilon: float
    method: str
    multipliers: Floats
    distances: Floats
    problem: _Problem
    solution: _Solution

    @classmethod
    def of(
        cls,
        problem: _Problem,
        multipliers: Floats,
        solution: _Solution,
        epsilon: float,
        method: str,
    ) -> CrossFit:
        """Return the fit of a solution in the knots' coordinates."""
        functions = np.concatenate([solution.centre + solution.differences, solution.centre[None]])
        weights = problem.regression.weights(functions)
        family = Family(problem.regression.kernel, problem.regression.knots, weights)
        return cls(family, epsilon, method, multipliers, _norms(solution), problem, solution)

    def functions(self) -> Floats:
        """Return f_1 … f_N in the knots' coordinates, shape (N, m, p)."""
        return np.asarray(self.solution.centre + self.solution.differences)

    def weights(self, functions: Floats) -> Floats:
        """Return the weights (m, F, p) of functions (F, m, p) in the knots' coordinates."""
        return self.problem.regression.weights(functions)

    def samples(self, normal: Floats) -> Floats:
        """Return functions drawn from the posterior, in the knots' coordinates.

        Parameters
        ----------
        normal : array, shape (S, N + 1, m, p)
            Standard normal numbers.

        Returns
        -------
        array, shape (S · N, m, p)
            The tasks of a sample together; they share its centre.
        """
        problem, mu = self.problem, self.multipliers[:, None]
        S, N, m, p = len(normal), problem.tasks, *normal.shape[2:]
        drawn = np.empty((S, N, m, p))
        pooled, alone = bool(np.isinf(mu[0, 0])), not np.any(mu)
        for o in range(p):
            own = problem.values / problem.variance[o] + problem.regression.ridge
            moved = np.zeros((S, N, m))
            if not pooled:
                moved = normal[:, :N, :, o] / np.sqrt(own + mu)
            if not alone:
                factor, _ = self.solution.factors[o]
                centre = solve_triangular(factor, normal[:, N, :, o].T, lower=True, trans=1)
                seen = np.einsum("imk,ms->sik", problem.vectors, centre)
                moved = moved + (seen if pooled else mu / (own + mu) * seen)
            drawn[..., o] = np.einsum("imk,sik->sim", problem.vectors, moved)
        return np.asarray((self.functions() + drawn).reshape(S * N, m, p))
