"""Learners whose policies are set by hand, on tasks whose truth is known."""

from __future__ import annotations

import numpy as np
from benchmarks.scalar_quadratic import ScalarQuadratic

from crosslearning import CrossLearner
from crosslearning.rkhs import Linear
from crosslearning.tasks import LinearQuadratic

VARIANCE, DISCOUNT, RADIUS, CENTRE = 0.05, 0.7, 0.4, -0.4
SYSTEM = LinearQuadratic([[0.5]], [[0.5]], [[1.0]], [[0.1]], [0.5], [1.5])
SCALAR = ScalarQuadratic(SYSTEM, VARIANCE, DISCOUNT)
#: The gradient is large, moderate and zero.
GAINS = {"large": 0.0, "moderate": -0.3, "zero": SCALAR.best_gain()}


def scalar_learner(gains: dict[str, float], centre: float = CENTRE, **settings) -> CrossLearner:
    """Return a learner of policies M x, one per gain, around g = centre · x."""
    options = {"epsilon": RADIUS, "discount": DISCOUNT, "action_variance": VARIANCE, **settings}
    tasks = [SYSTEM.task(name) for name in gains]
    learner = CrossLearner(tasks, kernel=Linear(std=[1.0]), **options)
    place(learner, np.ones((1, 1)), np.array([*gains.values(), centre])[None, :, None])
    return learner


def place(learner: CrossLearner, knots: np.ndarray, weights: np.ndarray) -> None:
    """Set the policies of a new learner, h_1 … h_N and g."""
    full = np.zeros((len(knots), learner._core.dictionary.functions, weights.shape[2]))
    full[:, : weights.shape[1]] = weights
    learner._core.dictionary.extend(knots, full)


def true_gap(gain: float, centre: float, radius: float) -> float:
    gradient = SCALAR.gradient(gain)
    return gradient * (centre - gain) + radius * abs(gradient)
