"""Which radius predicts best what was left out: ε from the data, without belief in a prior.

The evidence chooses how alike tasks are (:mod:`crosslearning.rkhs.evidence`) if the model holds.
This asks the data instead. What is left out are stretches of time, because neighbours in time are
near copies of one another: with single points left out, each would be predicted from its copies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from crosslearning.errors import InputError
from crosslearning.rkhs.checks import Floats, count, radius
from crosslearning.rkhs.coupled_ridge import CoupledRidge, Statistics
from crosslearning.rkhs.cross_regression import CrossRegression
from crosslearning.rkhs.knot_coordinates import blocks
from crosslearning.rkhs.multipliers import search
from crosslearning.rkhs.projection import projection_of

#: The radii that are tried if none are given, as shares of the largest that matters.
_SHARES = np.geomspace(0.02, 1.0, 12)


class RadiusCurve(NamedTuple):
    """How well each radius predicts what was left out.

    Attributes
    ----------
    epsilon : array, shape (E,)
        The radii.
    error : array, shape (E,)
        Mean of |y − f|²/σ² over the points that were left out, and over outputs: about 1 if
        nothing but the noise is left.
    standard_error : array, shape (E,)
        Of the error, from how it differs between stretches.
    log_evidence : array, shape (E,)
        Of all points, at the multipliers that each radius has.

    Examples
    --------
    >>> import numpy as np
    >>> from crosslearning.rkhs import CrossRegression, Gaussian, radius_curve
    >>> x = np.linspace(-1.0, 1.0, 9)[:, None]
    >>> regression = CrossRegression(Gaussian(std=[1.0]), tasks=2, outputs=1)
    >>> regression.add(0, x, np.sin(x))
    >>> regression.add(1, x, np.sin(x) + 0.2 * x)
    >>> radius_curve(regression, [0.0, 0.05, np.inf]).best in (0.0, 0.05, np.inf)
    True
    """

    epsilon: Floats
    error: Floats
    standard_error: Floats
    log_evidence: Floats

    @property
    def best(self) -> float:
        """The radius of the least error."""
        return float(self.epsilon[np.argmin(self.error)])


class _Stretch(NamedTuple):
    """Some points of a task that follow one another."""

    x: Floats
    y: Floats
    statistics: Statistics


def radius_curve(
    regression: CrossRegression,
    epsilons: Sequence[float] | None = None,
    *,
    stretches: int = 5,
    method: Literal["exact", "relaxed"] = "exact",
) -> RadiusCurve:
    """Return the error of predictions at points that were left out, for several radii.

    Every task's points, in the order in which they were added, are cut into ``stretches``. In each
    of as many rounds every task is fitted without one of them, and predicts it. Which one differs
    between tasks, so that what one task lacks another may have seen. The knots stay those of all
    points; they know no targets.

    Parameters
    ----------
    regression : CrossRegression
        With its points.
    epsilons : sequence of float, optional
        The radii. By default 0, infinity, and twelve between.
    stretches : int
        Into how many parts each task is cut, at least 2.
    method : {"exact", "relaxed"}
        As for :meth:`CrossRegression.fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from crosslearning.rkhs import CrossRegression, Gaussian, radius_curve
    >>> x = np.linspace(-1.0, 1.0, 9)[:, None]
    >>> regression = CrossRegression(Gaussian(std=[1.0]), tasks=2, outputs=1)
    >>> regression.add(0, x, np.sin(x))
    >>> regression.add(1, x, np.sin(x) + 0.2 * x)
    >>> radius_curve(regression, [0.0, 0.05, np.inf]).error.shape
    (3,)
    """
    projection_of(method)
    stretches = count("stretches", stretches, 2)
    if max(map(len, regression.inputs)) < 2:
        raise InputError("leaving points out needs a task with at least two of them; add some")
    tried = (
        _default_radii(regression)
        if epsilons is None
        else [radius("an epsilon", epsilon) for epsilon in epsilons]
    )
    if not tried:
        raise InputError("no epsilons were given; give some, or none at all for a choice of ours")
    parts = [_cut(regression, i, stretches) for i in range(regression.tasks)]
    means, sizes = [], []
    for first in range(stretches):
        left_out = [(first + i) % stretches for i in range(regression.tasks)]
        errors = _held_out(regression, parts, left_out, tried, method)
        for own, k, error in zip(parts, left_out, errors, strict=True):
            if len(own[k].x):
                means.append(error)
                sizes.append(len(own[k].x))
    share = np.array(sizes) / sum(sizes)
    values = np.array(means)
    error = share @ values
    spread = np.sqrt(share**2 @ (values - error) ** 2 * len(share) / max(len(share) - 1, 1))
    evidence = [regression.fit(epsilon, method).log_evidence() for epsilon in tried]
    return RadiusCurve(np.array(tried), error, spread, np.array(evidence))


def _default_radii(regression: CrossRegression) -> list[float]:
    apart = float(regression.fit(math.inf).distances.max())
    between = (apart * _SHARES).tolist() if apart > 0.0 else []
    return [0.0, *between, math.inf]


def _cut(regression: CrossRegression, task: int, stretches: int) -> list[_Stretch]:
    """Return the stretches of a task with their statistics."""
    coordinates, found = regression.coordinates, []
    for rows in np.array_split(np.arange(len(regression.inputs[task])), stretches):
        x, y = regression.inputs[task][rows], regression.targets[task][rows]
        statistics = Statistics.none(len(coordinates), regression.outputs)
        for part in blocks(len(x)):
            phi = coordinates.features(x[part])
            statistics = statistics.plus(phi, y[part], coordinates.unexplained(x[part], phi))
        found.append(_Stretch(x, y, statistics))
    return found


def _held_out(
    regression: CrossRegression,
    parts: list[list[_Stretch]],
    left_out: list[int],
    epsilons: list[float],
    method: str,
) -> Floats:
    """Return every task's error on its stretch that is left out, for every ε, shape (N, E)."""
    kept = [
        Statistics.together([stretch.statistics for j, stretch in enumerate(own) if j != k])
        for own, k in zip(parts, left_out, strict=True)
    ]
    problem = CoupledRidge(kept, regression.noise**2, regression.ridge)
    # (E, N, m, p)
    functions = np.array([search(problem, e, method).solution.functions for e in epsilons])
    errors = np.zeros((len(parts), len(epsilons)))
    for i, (own, k) in enumerate(zip(parts, left_out, strict=True)):
        for part in blocks(len(own[k].x)):
            phi = regression.coordinates.features(own[k].x[part])
            wrong = (own[k].y[part] - phi.T @ functions[:, i]) / regression.noise
            errors[i] += np.sum(wrong**2, axis=(1, 2)) / (len(own[k].x) * regression.outputs)
    return errors
