"""Cross-learned regression: functions of related tasks, fitted to data, near a central one.

Given data (x_n, y_n) of N tasks, f_1 … f_N and f_c solve

    minimise   Σ_i [ Σ_n |y_n − f_i(x_n)|²/σ² + ρ ‖f_i‖² ]   subject to   ‖f_i − f_c‖ ≤ ε,

the paper's problem with a ridge regression instead of every return. ε = 0 pools the data, ε = ∞
separates the tasks. With a multiplier μ_i for every constraint it is quadratic
(:mod:`crosslearning.rkhs.coupled_ridge`); :mod:`crosslearning.rkhs.multipliers` computes these.

Cross-validation chooses ε: unlike the evidence (:mod:`crosslearning.rkhs.evidence`), the held-out
error does not assume that the model holds. Whole segments of time are held out, because neighbours
in time are nearly equal.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.errors import InputError
from crosslearning.rkhs.checks import Floats, Integers, count, finite_array, radius
from crosslearning.rkhs.coupled_ridge import CoupledRidge, Statistics
from crosslearning.rkhs.cross_fit import CrossFit
from crosslearning.rkhs.kernel import Kernel
from crosslearning.rkhs.knot_coordinates import KnotCoordinates, blocks
from crosslearning.rkhs.multipliers import FitStatus, SearchResult, search
from crosslearning.rkhs.projection import projection_of

#: Targets whose spreads differ by a larger ratio are probably in different units.
_UNLIKELY_RATIO = 30.0
#: The number of points that determine a task's spread.
_ENOUGH_POINTS = 10
#: The default radii, relative to the largest distance of the separate fits.
_SHARES = np.geomspace(0.02, 1.0, 12)


class CrossRegression:
    """Data of N tasks, to be fitted with any radius; a task may have no points.

    Parameters
    ----------
    kernel : Kernel
    tasks, outputs : int
        N, and the dimension of the values.
    noise : float, or one for each output
        Standard deviation σ of the targets' noise.
    ridge : float
        ρ: one over the variance of the functions' values, where κ(x, x) = 1.
    max_knots : int
        The cap on the knots, which are chosen from the data by pivoted Cholesky factorisation.
        :meth:`CrossFit.gap` measures its cost.
    tolerance : float
        The relative residual of the kernel at which no further knots are chosen.

    Examples
    --------
    >>> from crosslearning.rkhs import CrossRegression, Gaussian
    >>> regression = CrossRegression(Gaussian(std=[1.0]), tasks=2, outputs=1)
    >>> regression.add(0, [[0.0], [1.0]], [[0.0], [0.8]])
    >>> regression.add(1, [[0.5]], [[0.6]])
    >>> regression.fit(epsilon=0.0).distances.round(6)
    array([0., 0.])
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
        if not isinstance(kernel, Kernel):
            raise InputError(f"kernel must be a Kernel, got {type(kernel).__name__}")
        self.kernel = kernel
        self.tasks = count("tasks", tasks)
        self.outputs = count("outputs", outputs)
        self.max_knots = count("max_knots", max_knots)
        self.tolerance = radius("tolerance", tolerance)
        if np.ndim(noise) == 0:
            noise = np.full(self.outputs, noise)
        self.noise = finite_array("noise", noise, (self.outputs,))
        if not np.all(self.noise > 0.0):
            raise InputError(f"noise must be positive, got {self.noise.tolist()}")
        self.ridge = float(ridge)
        if not (math.isfinite(self.ridge) and self.ridge > 0.0):
            raise InputError(f"ridge must be positive, got {ridge!r}")
        self.inputs = [np.empty((0, kernel.dimension)) for _ in range(self.tasks)]
        self.targets = [np.empty((0, self.outputs)) for _ in range(self.tasks)]
        self.weights = [np.empty(0) for _ in range(self.tasks)]
        self.forget_knots()

    def forget_knots(self) -> None:
        """Choose the knots anew at the next fit; otherwise further points only add knots."""
        self._coordinates = KnotCoordinates(self.kernel)
        self._statistics: list[Statistics] = []
        self._taken = [0] * self.tasks
        self._problem: CoupledRidge | None = None

    @property
    def coordinates(self) -> KnotCoordinates:
        """The knots, and coordinates of functions on them, for the points so far."""
        self._update()
        return self._coordinates

    @property
    def knots(self) -> Floats:
        """The knots, shape (m, q)."""
        return self.coordinates.knots

    @property
    def problem(self) -> CoupledRidge:
        """The quadratic problem of the points so far."""
        self._update()
        if self._problem is None:
            self._problem = CoupledRidge(self._statistics, self.noise**2, self.ridge)
        return self._problem

    def add(
        self, task: int, inputs: ArrayLike, targets: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        """Add points of a task: inputs (n, q), targets (n, outputs).

        Targets must have the same units in all tasks, and should have zero mean. A point of weight
        w, by default 1, has the noise σ/√w.
        """
        if not 0 <= task < self.tasks:
            raise InputError(f"no task {task}; there are {self.tasks}, from 0")
        x = finite_array("inputs", inputs, (None, self.kernel.dimension))
        y = finite_array("targets", targets, (len(x), self.outputs))
        w = finite_array("weights", np.ones(len(x)) if weights is None else weights, (len(x),))
        if not np.all(w > 0.0):
            raise InputError(f"weights must be positive, got {float(np.min(w)):.3g}")
        self.inputs[task] = np.concatenate([self.inputs[task], x])
        self.weights[task] = np.concatenate([self.weights[task], w])
        self.targets[task] = np.concatenate([self.targets[task], y])

    def weigh(self, weights: Sequence[Floats]) -> None:
        """Give the points of every task other weights; the knots stay."""
        coordinates = self.coordinates
        self.weights = [
            finite_array(f"weights of task {i}", given, (len(x),))
            for i, (given, x) in enumerate(zip(weights, self.inputs, strict=True))
        ]
        none = Statistics.none(len(coordinates), self.outputs)
        points = zip(self.inputs, self.targets, self.weights, strict=True)
        self._statistics = [none.plus(coordinates, x, y, w) for x, y, w in points]
        self._problem = None

    def fit(self, epsilon: float, method: Literal["exact", "relaxed"] = "exact") -> CrossFit:
        """Return the functions within the radius ε of a central one.

        0 pools the data, infinity separates the tasks. The ``exact`` method bounds every distance
        by ε, the ``relaxed`` one their root mean square.
        """
        projection_of(method)  # raises for an unknown method
        epsilon = radius("epsilon", epsilon)
        return self._fitted(search(self.problem, epsilon, method), epsilon, method)

    def at(self, multiplier: float) -> CrossFit:
        """Return the relaxed fit for one multiplier, the same for all tasks; infinity pools."""
        multiplier = radius("multiplier", multiplier)
        solution = self.problem.solve(np.full(self.tasks, multiplier))
        reached = float(np.sqrt(np.mean(solution.distances**2)))
        result = SearchResult(solution, FitStatus.PENALISED, 0.0, 1)
        return self._fitted(result, math.inf if multiplier == 0.0 else reached, "relaxed")

    def _fitted(self, result: SearchResult, epsilon: float, method: str) -> CrossFit:
        """Return the fit of a search, with functions that rounding left beyond ε pulled inside."""
        solution, status, residual, steps = result
        distances, exact = solution.distances, method == "exact"
        reached = float(np.max(distances)) if exact else math.sqrt(float(np.mean(distances**2)))
        if reached > epsilon > 0.0:
            # A little less than ε, so that the computed norm is at most ε.
            limit = epsilon * (1.0 - 4.0 * np.finfo(np.float64).eps)
            farthest = distances if exact else np.full_like(distances, reached)
            shorter = limit / np.maximum(farthest, limit)
            solution = solution._replace(differences=solution.differences * shorter[:, None, None])
        problem = self._coordinates, self.problem, solution
        points = tuple(self.inputs), tuple(self.targets), tuple(self.weights)
        return CrossFit(epsilon, method, status, residual, steps, *problem, *points)

    def _update(self) -> None:
        """Update knots and statistics with the points that were added."""
        fresh = [x[n:] for x, n in zip(self.inputs, self._taken, strict=True)]
        if not any(len(x) for x in fresh):
            if not self._statistics:
                raise InputError("there are no points to fit; add some first")
            return
        self._warn_of_units()
        self._problem = None
        most = self.max_knots - len(self._coordinates)
        grown = self._coordinates.grown(np.concatenate(fresh), self.tolerance, most)
        if len(grown) == 0:
            raise InputError(f"the {self.kernel.name} kernel is zero at every point; take another")
        if grown is not self._coordinates:
            # New knots change every product.
            self._coordinates = grown
            self._taken = [0] * self.tasks
            self._statistics = [Statistics.none(len(grown), self.outputs)] * self.tasks
        for i, n in enumerate(self._taken):
            x, y, w = self.inputs[i][n:], self.targets[i][n:], self.weights[i][n:]
            self._statistics[i] = self._statistics[i].plus(grown, x, y, w)
            self._taken[i] += len(x)

    def _warn_of_units(self) -> None:
        """Warn if the targets of one task are spread far wider than those of another."""
        spreads = [np.std(y, axis=0) for y in self.targets if len(y) >= _ENOUGH_POINTS]
        if len(spreads) < 2:
            return
        # Spreads below the noise are not compared.
        ratios = np.max(spreads, axis=0) / np.maximum(np.min(spreads, axis=0), self.noise)
        o = int(np.argmax(ratios))
        if ratios[o] > _UNLIKELY_RATIO:
            warnings.warn(
                f"the targets of output {o} are spread {ratios[o]:.0f} times wider in one task "
                "than in another; are they in the same unit?",
                stacklevel=5,
            )


class RadiusCurve(NamedTuple):
    """The held-out error of each radius.

    ``error`` is the mean of |y − f|²/σ² over the held-out points and outputs, about 1 if only noise
    is left, and ``standard_error`` its standard error over segments; ``log_evidence`` is that of
    all points, at the multipliers of each radius. All have shape (E,).

    Examples
    --------
    >>> import numpy as np
    >>> from crosslearning.rkhs import RadiusCurve
    >>> RadiusCurve(np.array([0.0, 0.5]), np.array([2.1, 1.2]), np.zeros(2), np.zeros(2)).best
    0.5
    """

    epsilon: Floats
    error: Floats
    standard_error: Floats
    log_evidence: Floats

    @property
    def best(self) -> float:
        """The radius of the least error."""
        return float(self.epsilon[np.argmin(self.error)])


def radius_curve(
    regression: CrossRegression,
    epsilons: Sequence[float] | None = None,
    *,
    segments: int = 5,
    method: Literal["exact", "relaxed"] = "exact",
    stretches: int | None = None,
) -> RadiusCurve:
    """Return the held-out error for several radii.

    Every task's points, in the order in which they were added, are cut into segments. In each
    fold every task is fitted without one of them, a different one from task to task. The knots
    stay those of all points; they do not depend on targets.

    Parameters
    ----------
    regression : CrossRegression
    epsilons : sequence of float, optional
        The radii. By default 0, infinity, and twelve between.
    segments : int
        The number of segments of each task, at least 2; ``stretches`` is its deprecated name.
    method : {"exact", "relaxed"}
        As for :meth:`CrossRegression.fit`.

    Examples
    --------
    >>> from crosslearning.rkhs import CrossRegression, Gaussian, radius_curve
    >>> regression = CrossRegression(Gaussian(std=[1.0]), tasks=1, outputs=1)
    >>> regression.add(0, [[0.0], [0.5], [1.0]], [[0.0], [0.4], [0.8]])
    >>> radius_curve(regression, [0.0, 0.05], segments=2).error.shape
    (2,)
    """
    if stretches is not None:
        warnings.warn("stretches is now segments", DeprecationWarning, stacklevel=2)
        segments = stretches
    projection_of(method)
    segments = count("segments", segments, 2)
    if max(map(len, regression.inputs)) < 2:
        raise InputError("leaving points out needs a task with at least two of them; add some")
    if epsilons is None:
        apart = float(regression.fit(math.inf).distances.max())
        epsilons = [0.0, *(apart * _SHARES if apart > 0.0 else []), math.inf]
    tried = [radius("an epsilon", epsilon) for epsilon in epsilons]
    if not tried:
        raise InputError("no epsilons were given; give some, or none at all for a choice of ours")
    rows = [np.array_split(np.arange(len(x)), segments) for x in regression.inputs]
    coordinates = regression.coordinates
    none = Statistics.none(len(coordinates), regression.outputs)
    parts = [
        [none.plus(coordinates, x[segment], y[segment], w[segment]) for segment in task]
        for x, y, w, task in zip(
            regression.inputs, regression.targets, regression.weights, rows, strict=True
        )
    ]
    means, sizes = [], []
    for first in range(segments):
        left_out = [(first + i) % segments for i in range(regression.tasks)]
        kept = [
            Statistics.together([part for j, part in enumerate(task) if j != k])
            for task, k in zip(parts, left_out, strict=True)
        ]
        problem = CoupledRidge(kept, regression.noise**2, regression.ridge)
        # (E, N, m, p)
        functions = np.array([search(problem, e, method).solution.functions for e in tried])
        for i, k in enumerate(left_out):
            if len(rows[i][k]):
                means.append(_mean_error(regression, i, rows[i][k], functions[:, i]))
                sizes.append(len(rows[i][k]))
    share = np.array(sizes) / sum(sizes)
    values = np.array(means)
    error = share @ values
    spread = np.sqrt(share**2 @ (values - error) ** 2 * len(share) / max(len(share) - 1, 1))
    evidence = [regression.fit(epsilon, method).log_evidence() for epsilon in tried]
    return RadiusCurve(np.array(tried), error, spread, np.array(evidence))


def _mean_error(
    regression: CrossRegression, task: int, rows: Integers, functions: Floats
) -> Floats:
    """Return the mean error of functions (E, m, p) at some points of a task, shape (E,)."""
    x, y = regression.inputs[task][rows], regression.targets[task][rows]
    error = np.zeros(len(functions))
    for part in blocks(len(x)):
        phi = regression.coordinates.features(x[part])
        wrong = (y[part] - phi.T @ functions) / regression.noise
        squares = wrong**2 * regression.weights[task][rows][part, None]
        error += np.sum(squares, axis=(1, 2)) / (len(x) * regression.outputs)
    return error
