"""Ridge regressions of N tasks that are coupled to a centre by multipliers.

For multipliers μ_i ≥ 0, in the coordinates of :class:`KnotCoordinates`, f_1 … f_N and f_c minimise

    Σ_i [ |y_i − Φ_i f_i|²/σ² + ρ |f_i|² + μ_i |f_i − f_c|² ].

With A_i = Φ_iᵀΦ_i/σ² + ρ and b_i = Φ_iᵀy_i/σ², and with d_i = f_i − f_c,

    (A_i + μ_i) d_i = b_i − A_i f_c,        S f_c = Σ_i μ_i (A_i + μ_i)⁻¹ b_i,
    S = Σ_i μ_i A_i (A_i + μ_i)⁻¹.

The eigenvectors of Φ_iᵀΦ_i serve every multiplier. A task with fewer points than knots needs only
as many as it has points: on the orthogonal complement A_i is ρ. μ = ∞ pools the tasks, as the
limit of these formulas; μ = 0 separates them, and the centre is their mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from crosslearning.errors import NumericalError
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.knot_coordinates import KnotCoordinates, blocks


class Statistics(NamedTuple):
    """Sufficient statistics of a task's points, in the knots' coordinates.

    A point of weight w has the noise σ²/w; the rows of Φ and y are multiplied by √w.
    """

    product: Floats  # ΦᵀΦ, shape (m, m)
    right: Floats  # Φᵀy, shape (m, p)
    squares: Floats  # Σ y², shape (p,)
    points: int
    unexplained: float  # Σ w (κ(x, x) − |φ(x)|²)
    log_weights: float = 0.0  # Σ ln w

    @classmethod
    def none(cls, knots: int, outputs: int) -> Statistics:
        """Return the statistics of no points."""
        return cls(np.zeros((knots, knots)), np.zeros((knots, outputs)), np.zeros(outputs), 0, 0.0)

    def plus(
        self, coordinates: KnotCoordinates, inputs: Floats, targets: Floats, weights: Floats
    ) -> Statistics:
        """Return the statistics with further points: inputs (n, q), targets (n, p), weights."""
        total = self
        for part in blocks(len(inputs)):
            w, phi = weights[part], coordinates.features(inputs[part])
            unexplained = w * coordinates.unexplained(inputs[part], phi)
            phi, y = np.sqrt(w) * phi, np.sqrt(w)[:, None] * targets[part]
            total = Statistics(
                total.product + phi @ phi.T,
                total.right + phi @ y,
                total.squares + np.sum(y**2, axis=0),
                total.points + len(y),
                total.unexplained + float(np.sum(unexplained)),
                total.log_weights + float(np.sum(np.log(w))),
            )
        return total

    @classmethod
    def together(cls, parts: Sequence[Statistics]) -> Statistics:
        """Return the statistics of the points of all parts."""
        products, rights, squares, points, *sums = zip(*parts, strict=True)
        product, right, square = (np.sum(parts, axis=0) for parts in (products, rights, squares))
        return cls(product, right, square, sum(points), *map(sum, sums))


class Solution(NamedTuple):
    """Functions in the knots' coordinates, for given multipliers."""

    multipliers: Floats
    centre: Floats  # f_c, shape (m, p)
    differences: Floats  # d_i = f_i − f_c, shape (N, m, p)
    factors: list[Floats]  # Cholesky factors of S by output; none for separate tasks
    explained: float  # Σ_i b_iᵀ f_i, the reduction of Σ y²/σ²

    @property
    def functions(self) -> Floats:
        """The functions f_1 … f_N, shape (N, m, p)."""
        return np.asarray(self.centre + self.differences)

    @property
    def distances(self) -> Floats:
        """The distances ‖f_i − f_c‖, shape (N,)."""
        return np.asarray(np.sqrt(np.sum(self.differences**2, axis=(1, 2))))


class CoupledRidge:
    """The quadratic problem of N tasks, with σ² of every output, shape (p,), and ρ."""

    def __init__(self, tasks: Sequence[Statistics], variance: Floats, ridge: float) -> None:
        self.tasks = list(tasks)
        self.variance = variance
        self.ridge = ridge
        m = len(tasks[0].product)
        rank = min(m, max(1, *(task.points for task in tasks)))
        decomposed = [np.linalg.eigh(task.product) for task in tasks]
        #: Qᵢ, shape (N, m, r), with Φ_iᵀΦ_i = Qᵢ diag Qᵢᵀ.
        self.vectors = np.array([vectors[:, m - rank :] for _, vectors in decomposed])
        values = np.array([np.maximum(values[m - rank :], 0.0) for values, _ in decomposed])
        #: The eigenvalues of A_i without ρ, shape (N, r, p).
        self.weights = values[:, :, None] / variance
        #: Qᵢᵀ b_i, shape (N, r, p).
        self.right = self._seen(np.array([task.right for task in tasks])) / variance
        #: Σ y²/σ², of all tasks.
        self.total = float(sum(np.sum(task.squares / variance) for task in tasks))

    @property
    def size(self) -> int:
        """The number of tasks."""
        return len(self.tasks)

    def _seen(self, functions: Floats) -> Floats:
        """Return Qᵢᵀ f_i, shape (N, r, p), of functions (N, m, p) or (m, p)."""
        return np.asarray(self.vectors.transpose(0, 2, 1) @ functions)

    def solve(self, multipliers: Floats) -> Solution:
        """Return the functions for multipliers (N,): all infinite, or all finite."""
        if not np.any(multipliers):
            return self.alone
        A = self.weights + self.ridge
        mu, share, plain_share = self._shares(multipliers)
        factors = self._factors(share, plain_share)
        p = len(self.variance)
        pulled = np.einsum("imk,iko->mo", self.vectors, share * self.right, optimize=True)
        centre = np.column_stack([_solve(factors[o], pulled[:, o]) for o in range(p)])
        seen = self._seen(centre)
        # (A + μ)⁻¹ (b − A f_c): on the eigenvectors, and −ρ/(ρ + μ) f_c off them.
        moved = (self.right - A * seen) / (A + mu)
        left = self.ridge / (self.ridge + mu)
        differences = self.vectors @ (moved + left * seen) - left * centre
        explained = float(np.sum(self.right * (seen + moved)))
        return Solution(multipliers, centre, differences, factors, explained)

    @cached_property
    def alone(self) -> Solution:
        """The separate solutions, around their mean."""
        functions = self.vectors @ (self.right / (self.weights + self.ridge))
        centre = functions.mean(axis=0)
        explained = float(np.sum(self.right**2 / (self.weights + self.ridge)))
        return Solution(np.zeros(self.size), centre, functions - centre, [], explained)

    def _shares(self, multipliers: Floats) -> tuple[Floats, Floats, Floats]:
        """Return μ (N, 1, 1), and μ/(A + μ) on the eigenvectors (N, r, p) and off (N, 1, 1)."""
        mu = multipliers[:, None, None]
        if np.isinf(multipliers[0]):
            return mu, np.ones_like(self.weights), np.ones_like(mu)
        return mu, mu / (self.weights + self.ridge + mu), mu / (self.ridge + mu)

    def _factors(self, share: Floats, plain_share: Floats) -> list[Floats]:
        """Return the Cholesky factor of S for every output; outputs of the same noise share it."""
        m = self.vectors.shape[1]
        factors: dict[float, Floats] = {}
        for o, variance in enumerate(self.variance.tolist()):
            if variance in factors:
                continue
            # μA/(A + μ) less its value ρμ/(ρ + μ) off the eigenvectors, without cancellation.
            beyond = np.sqrt(self.weights[:, :, o] * share[:, :, o] * plain_share[:, :, 0])
            system = np.zeros((m, m))
            for vectors, root in zip(self.vectors, beyond, strict=True):
                weighted = vectors * root
                system += weighted @ weighted.T
            system.flat[:: m + 1] += self.ridge * float(plain_share.sum())
            try:
                factors[variance] = np.asarray(np.linalg.cholesky(system), dtype=np.float64)
            except np.linalg.LinAlgError as problem:
                message = f"a cross-learned regression on {m} knots broke down: {problem}; is the"
                message += " noise far below the last digits of the targets?"
                raise NumericalError(message) from problem
        return [factors[variance] for variance in self.variance.tolist()]

    def dual(self, solution: Solution, epsilon: float) -> float:
        """Return the Lagrange dual of the constraints |f_i − f_c| ≤ ε."""
        pull = float(np.sum(solution.multipliers)) * epsilon**2 if epsilon > 0.0 else 0.0
        return self.total - solution.explained - pull

    def curvature(self, solution: Solution) -> Floats:
        """Return −½ ∂|d_i|²/∂μ_j, half of the dual's negative Hessian, shape (N, N).

        It is w_iᵀ S⁻¹ w_j + δ_ij d_iᵀ (A_i + μ_i)⁻¹ d_i with w_i = A_i (A_i + μ_i)⁻¹ d_i.
        """
        mu = solution.multipliers[:, None, None]
        seen = self._seen(solution.differences)
        A = self.weights + self.ridge
        # On the eigenvectors and off them; |off|² is the small difference of two squares.
        off = solution.differences - self.vectors @ seen
        inverse = np.sum(seen**2 / (A + mu), axis=(1, 2))
        inverse += np.sum(off**2, axis=(1, 2)) / (self.ridge + mu[:, 0, 0])
        w = self.vectors @ (A / (A + mu) * seen) + self.ridge / (self.ridge + mu) * off
        curvature = np.diag(inverse)
        for o, factor in enumerate(solution.factors):
            v = solve_triangular(factor, w[:, :, o].T, lower=True)
            curvature += v.T @ v
        return np.asarray(curvature)

    def covariance(self, multipliers: Floats) -> Floats:
        """Return C (N, N), where C_ij κ is the prior covariance; C⁻¹ = ρ + diag(μ) − μμᵀ/Σμ."""
        covariance = np.diag(1.0 / (self.ridge + multipliers))
        if np.any(multipliers):
            share = self._shares(multipliers)[2].ravel()
            covariance += np.outer(share, share) / (self.ridge * share.sum())
        return covariance

    def log_evidence(self, solution: Solution) -> float:
        """Return the log density of all targets."""
        mu, _, plain_share = self._shares(solution.multipliers)
        m, p = solution.centre.shape
        points = sum(task.points for task in self.tasks)
        logarithm = p * points * math.log(2.0 * math.pi)
        logarithm += points * float(np.sum(np.log(self.variance)))
        logarithm -= p * sum(task.log_weights for task in self.tasks)
        # The determinant lemma, with the centre as one more block of the precision matrix.
        logarithm += float(np.sum(np.log1p(self.weights / (self.ridge + mu))))
        for factor in solution.factors:
            logarithm += 2.0 * float(np.sum(np.log(np.diagonal(factor))))
            logarithm -= m * math.log(self.ridge * float(plain_share.sum()))
        return -0.5 * float(logarithm + self.total - solution.explained)

    def variance_at(self, solution: Solution, task: int, phi: Floats) -> Floats:
        """Return the posterior variance of f_task at φ (m, n), shape (n, p)."""
        mu, share, plain_share = self._shares(solution.multipliers)
        seen = self.vectors[task].T @ phi
        off = phi - self.vectors[task] @ seen
        A = self.weights[task] + self.ridge + mu[task]
        variance: Floats = np.einsum("kn,ko->no", seen**2, 1.0 / A)
        variance += (np.sum(off**2, axis=0) / (self.ridge + mu[task]))[0][:, None]
        for o, factor in enumerate(solution.factors):
            w = self.vectors[task] @ (share[task][:, o, None] * seen) + plain_share[task] * off
            variance[:, o] += np.sum(solve_triangular(factor, w, lower=True) ** 2, axis=0)
        return variance

    def drawn(self, solution: Solution, normal: Floats) -> Floats:
        """Return posterior samples less their mean (S, N, m, p), from normals (S, N + 1, m, p)."""
        mu, share, plain_share = self._shares(solution.multipliers)
        N, plain = self.size, 1.0 / np.sqrt(self.ridge + mu)
        beyond = 1.0 / np.sqrt(self.weights + self.ridge + mu) - plain
        added = plain * normal[:, :N]
        added += self.vectors @ (beyond * self._seen(normal[:, :N]))
        if solution.factors:
            outputs = [
                solve_triangular(factor, normal[:, N, :, o].T, lower=True, trans=1).T
                for o, factor in enumerate(solution.factors)
            ]
            centre = np.stack(outputs, axis=-1)[:, None]
            added += plain_share * centre
            added += self.vectors @ ((share - plain_share) * self._seen(centre))
        return added


def _solve(factor: Floats, right: Floats) -> Floats:
    """Return (L Lᵀ)⁻¹ b."""
    half = solve_triangular(factor, right, lower=True)
    return np.asarray(solve_triangular(factor, half, lower=True, trans=1))
