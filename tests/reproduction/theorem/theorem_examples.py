"""Small optimisation problems on which the theorem's statements can be checked without chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crosslearning.reproduction.theorem import Constants
from crosslearning.rkhs.projection import PROJECTIONS


def projected(functions: np.ndarray, epsilon: float, projection: str = "exact") -> np.ndarray:
    """Project vectors h_1 … h_N, g, shape (N+1, d), with the library's own projection."""
    away = functions[:-1] - functions[-1]
    return PROJECTIONS[projection](away @ away.T, epsilon).mixing @ functions


@dataclass(frozen=True)
class Problem:
    """Quadratic returns U_i(h) = ⟨a_i, h − h_i⟩ + c_i L/2 ‖h − h_i‖² around the iterate.

    So a_i is the true gradient there. The error of the gradients takes ``len(shares)`` values, so
    that expectations are sums.
    """

    iterate: np.ndarray  # (N+1, d), the centre last
    gradients: np.ndarray  # (N, d)
    bends: np.ndarray  # (N,): c_i in [−1, 1]
    errors: np.ndarray  # (values, N, d), mean zero
    shares: np.ndarray  # (values,)
    lipschitz: float
    epsilon: float
    step: float
    projection: str = "exact"

    @property
    def tasks(self) -> int:
        return len(self.gradients)

    def slopes(self, moved: np.ndarray) -> np.ndarray:
        """Return the true gradients at policies that have moved by this, shape (N, d)."""
        return self.gradients + self.lipschitz * self.bends[:, None] * moved

    def rise(self, moved: np.ndarray) -> float:
        """Return F at policies that have moved by this, less F at the iterate."""
        bent = self.bends[:, None] * moved**2
        return float(np.sum(self.gradients * moved) + 0.5 * self.lipschitz * np.sum(bent))

    def steps(self) -> list[np.ndarray]:
        """Return the iterate after a step, for each value of the error."""
        after = []
        for error in self.errors:
            functions = self.iterate.copy()
            functions[:-1] += self.step * (self.gradients + error)
            after.append(projected(functions, self.epsilon, self.projection))
        return after

    def expected_rise(self) -> float:
        rises = [self.rise((z - self.iterate)[:-1]) for z in self.steps()]
        return float(self.shares @ rises)

    def gaps(self) -> np.ndarray:
        away = self.iterate[-1] - self.iterate[:-1]
        radius = np.full(self.tasks, self.epsilon)
        if self.projection == "relaxed":
            squares = np.sum(away**2, axis=1)
            radius = np.sqrt(self.tasks * self.epsilon**2 - (squares.sum() - squares))
        return np.sum(self.gradients * away, axis=1) + radius * np.linalg.norm(
            self.gradients, axis=1
        )

    def constants(self, gradient_norm: np.ndarray | None = None, budget: float = 0.0) -> Constants:
        variance = np.einsum("v,vnd->n", self.shares, self.errors**2)
        return Constants(
            deviation=np.sqrt(variance),
            gradient_norm=np.zeros(self.tasks) if gradient_norm is None else gradient_norm,
            second_moment=np.zeros(self.tasks),
            lipschitz=np.full(self.tasks, self.lipschitz),
            batch_size=1,
            epsilon=self.epsilon,
            step_size=self.step,
            budget=budget,
            projection=self.projection,
        )


def random_problem(seed: int, projection: str = "exact") -> Problem:
    """Return a problem from a wide range of scales, corners included."""
    generator = np.random.default_rng(seed)
    N, d = int(generator.integers(1, 5)), int(generator.integers(1, 4))
    epsilon = 10.0 ** generator.uniform(-1.0, 1.0)
    lipschitz = 10.0 ** generator.uniform(-2.0, 1.0)
    step = generator.uniform(0.001, 1.99) / lipschitz
    centre = generator.standard_normal(d)
    away = generator.standard_normal((N, d))
    away *= generator.choice([0.0, 0.5, 1.0, 1.0], (N, 1)) / np.linalg.norm(away, axis=1)[:, None]
    if projection == "relaxed":
        # One policy may take more than its share, and the centre is the mean.
        away *= generator.uniform(0.2, 3.0, (N, 1))
        away -= away.mean(axis=0)
        away /= max(1.0, np.sqrt(np.sum(away**2) / N))
    iterate = np.vstack([centre + 0.999999 * epsilon * away, centre])
    if projection == "relaxed":
        iterate[-1] = iterate[:-1].mean(axis=0)
    size = epsilon * lipschitz * 10.0 ** generator.uniform(-2.0, 2.0)
    gradients = size * generator.standard_normal((N, d)) * generator.choice([0.0, 1.0, 1.0], (N, 1))
    share = generator.uniform(0.02, 0.98)
    noise = size * 10.0 ** generator.uniform(-2.0, 1.0) * generator.standard_normal((N, d))
    return Problem(
        iterate=iterate,
        gradients=gradients,
        bends=generator.choice([-1.0, -1.0, 1.0, 0.0], N),
        errors=np.array([noise, -noise * share / (1.0 - share)]),
        shares=np.array([share, 1.0 - share]),
        lipschitz=lipschitz,
        epsilon=epsilon,
        step=step,
        projection=projection,
    )
