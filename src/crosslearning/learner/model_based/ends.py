"""The classifier of ends: where episodes terminate, from the few ends that were seen.

The log odds of an end are a cross-learned classification
(:mod:`crosslearning.rkhs.cross_classification`). Its hyperparameters are those of greatest
evidence, Laplace's, among widths that come from a regression of the labels and functions of single
coordinates: many ends lie beyond a threshold of one, which a few ends show better to such a
function than to one of all coordinates.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.cross_classification import CrossClassifier, cross_classify
from crosslearning.rkhs.evidence import Hyperparameters, most_likely

#: The largest share of the kernel that the knots may leave unexplained.
ROUGHEST = 1e-3
#: For the choice: a few points of all tasks and the most, and knots.
_FEW, _MOST, _KNOTS = 320, 2000, 100
#: Variances of the log odds of all coordinates, and of those of one.
_SIGNALS, _THRESHOLD_SIGNALS = (1.0, 4.0, 16.0, 64.0), (64.0, 1024.0, 8192.0)
#: Of functions of one coordinate: widths in units of its spread, and the similarity of tasks. The
#: width of other coordinates is so large that they do not matter.
_SHARES, _ALIKE, _WIDE = (0.3, 1.0), 0.99, 60.0
#: A smaller spread of the labels is rounding.
_CONSTANT = 1e-12


def choose_classifier(
    inputs: Sequence[Floats],
    labels: Sequence[Floats],
    periodic: Sequence[int],
    odds: float,
    start: Hyperparameters | None = None,
    alike: float | None = None,
) -> Hyperparameters:
    """Return the hyperparameters of greatest evidence for the log odds of an end.

    For the regression of the labels, ends are as frequent as other steps. The best of each kind on
    a few points are compared on all, with those of the ``start``, of fewer data. To functions of
    one coordinate others are added while the evidence grows.

    Parameters
    ----------
    inputs, labels : sequences of N arrays, shapes (n_i, q) and (n_i, 1)
    periodic : sequence of int
        Coordinates that are angles.
    odds : float
        The log odds where nothing is known.
    start : Hyperparameters, optional
        Further ones to be compared.
    alike : float, optional
        The similarity of the tasks, if it is known.
    """
    N = len(inputs)
    x, y = _balanced(inputs, labels, _FEW // N)
    every = np.concatenate(y)
    centre, unit = every.mean(), max(float(every.std()), _CONSTANT)
    targets = [(one - centre) / unit for one in y]
    found = most_likely(x, targets, periodic=periodic, alike=alike)._replace(noise=np.ones(1))
    flat = found._replace(
        widths=_WIDE * found.units, linear=0.0, alike=_ALIKE if alike is None else alike
    )
    kinds = [[found._replace(signal=signal) for signal in _SIGNALS]]
    kinds += [
        [
            _with_width(flat, d, share)._replace(signal=signal)
            for share, signal in itertools.product(_SHARES, _THRESHOLD_SIGNALS)
        ]
        for d in range(len(found.widths))
    ]
    best = [_most_evident(trials, x, y, periodic, odds) for trials in kinds]
    points = _balanced(inputs, labels, _MOST // N)
    chosen = _most_evident(best if start is None else [*best, start], *points, periodic, odds)
    while True:
        wide = np.flatnonzero(chosen.widths >= _WIDE * chosen.units).tolist()
        more = [_with_width(chosen, d, 1.0) for d in wide]
        after = _most_evident([chosen, *more], *points, periodic, odds)
        if after.evidence <= chosen.evidence:
            return chosen
        chosen = after


def classifier(
    inputs: Sequence[Floats],
    labels: Sequence[Floats],
    choice: Hyperparameters,
    periodic: Sequence[int],
    odds: float,
    max_knots: int,
    epsilon: float | None = None,
) -> CrossClassifier:
    """Fit the log odds; ``epsilon`` None takes the radius from the hyperparameters."""
    N = len(inputs)
    return cross_classify(
        choice.kernel(periodic),
        inputs,
        [label[:, 0] for label in labels],
        epsilon=epsilon,
        multiplier=choice.multiplier(N) if epsilon is None else None,
        ridge=choice.ridge(N),
        offset=odds,
        max_knots=max_knots,
        tolerance=ROUGHEST,
    )


def _with_width(choice: Hyperparameters, coordinate: int, share: float) -> Hyperparameters:
    """Return hyperparameters with the width of a coordinate a share of its spread."""
    widths = choice.widths.copy()
    widths[coordinate] = share * choice.units[coordinate]
    return choice._replace(widths=widths)


def _most_evident(
    trials: Sequence[Hyperparameters],
    inputs: Sequence[Floats],
    labels: Sequence[Floats],
    periodic: Sequence[int],
    odds: float,
) -> Hyperparameters:
    """Return the trial of greatest evidence for the classification, with that evidence."""
    known = []
    for trial in trials:
        fitted = classifier(inputs, labels, trial, periodic, odds, _KNOTS)
        known.append(trial._replace(evidence=fitted.log_evidence()))
    return max(known, key=lambda one: one.evidence)


def _balanced(
    inputs: Sequence[Floats], labels: Sequence[Floats], most: int
) -> tuple[list[Floats], list[Floats]]:
    """Return at most so many points of each task: ends, at most half of them, and others."""
    rows = []
    for label in labels:
        ends, others = np.flatnonzero(label[:, 0] == 1.0), np.flatnonzero(label[:, 0] == 0.0)
        few = min(len(ends), most // 2)
        sizes = (ends, few), (others, min(most - few, len(others)))
        spread = [
            part[np.linspace(0, len(part) - 1, size).round().astype(int)] for part, size in sizes
        ]
        rows.append(np.sort(np.concatenate(spread)))
    x, y = ([a[r] for a, r in zip(part, rows, strict=True)] for part in (inputs, labels))
    return x, y
