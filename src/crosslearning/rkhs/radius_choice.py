"""The choice of ε by cross-validation.

The evidence (:mod:`crosslearning.rkhs.evidence`) is right if the model holds; the held-out error
needs no such assumption. Whole segments of time are held out, because neighbours in time are
nearly equal.
"""

from __future__ import annotations

import math
import warnings
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

#: The default radii, relative to the largest distance of the separate fits.
_SHARES = np.geomspace(0.02, 1.0, 12)


class RadiusCurve(NamedTuple):
    """The held-out error of each radius.

    Attributes
    ----------
    epsilon : array, shape (E,)
        The radii.
    error : array, shape (E,)
        Mean of |y − f|²/σ² over the held-out points and outputs: about 1 if only noise is left.
    standard_error : array, shape (E,)
        Of the error, over segments.
    log_evidence : array, shape (E,)
        Of all points, at the multipliers of each radius.

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


class _Segment(NamedTuple):
    """Consecutive points of a task."""

    x: Floats
    y: Floats
    statistics: Statistics


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
        With its points.
    epsilons : sequence of float, optional
        The radii. By default 0, infinity, and twelve between.
    segments : int
        The number of segments of each task, at least 2.
    method : {"exact", "relaxed"}
        As for :meth:`CrossRegression.fit`.
    stretches : int, optional
        Deprecated name of ``segments``.

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
    if stretches is not None:
        warnings.warn("stretches is now segments", DeprecationWarning, stacklevel=2)
        segments = stretches
    projection_of(method)
    segments = count("segments", segments, 2)
    if max(map(len, regression.inputs)) < 2:
        raise InputError("leaving points out needs a task with at least two of them; add some")
    tried = (
        _default_radii(regression)
        if epsilons is None
        else [radius("an epsilon", epsilon) for epsilon in epsilons]
    )
    if not tried:
        raise InputError("no epsilons were given; give some, or none at all for a choice of ours")
    tasks = [_cut(regression, i, segments) for i in range(regression.tasks)]
    means, sizes = [], []
    for first in range(segments):
        left_out = [(first + i) % segments for i in range(regression.tasks)]
        errors = _held_out_errors(regression, tasks, left_out, tried, method)
        for parts, k, error in zip(tasks, left_out, errors, strict=True):
            if len(parts[k].x):
                means.append(error)
                sizes.append(len(parts[k].x))
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


def _cut(regression: CrossRegression, task: int, segments: int) -> list[_Segment]:
    """Return the segments of a task with their statistics."""
    coordinates, cut = regression.coordinates, []
    none = Statistics.none(len(coordinates), regression.outputs)
    for rows in np.array_split(np.arange(len(regression.inputs[task])), segments):
        x, y = regression.inputs[task][rows], regression.targets[task][rows]
        cut.append(_Segment(x, y, none.plus(coordinates, x, y)))
    return cut


def _held_out_errors(
    regression: CrossRegression,
    tasks: list[list[_Segment]],
    left_out: list[int],
    epsilons: list[float],
    method: str,
) -> Floats:
    """Return every task's error on its held-out segment, for every ε, shape (N, E)."""
    kept = [
        Statistics.together([segment.statistics for j, segment in enumerate(parts) if j != k])
        for parts, k in zip(tasks, left_out, strict=True)
    ]
    problem = CoupledRidge(kept, regression.noise**2, regression.ridge)
    # (E, N, m, p)
    functions = np.array([search(problem, e, method).solution.functions for e in epsilons])
    errors = np.zeros((len(tasks), len(epsilons)))
    for i, (parts, k) in enumerate(zip(tasks, left_out, strict=True)):
        x, y, _ = parts[k]
        for part in blocks(len(x)):
            phi = regression.coordinates.features(x[part])
            wrong = (y[part] - phi.T @ functions[:, i]) / regression.noise
            errors[i] += np.sum(wrong**2, axis=(1, 2)) / (len(x) * regression.outputs)
    return errors
