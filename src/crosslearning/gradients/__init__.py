"""Gradient estimators: from rollouts to functions, and what is known of them and how surely."""

from crosslearning.gradients.estimators import ESTIMATORS, Estimator, Gradients, estimator_of
from crosslearning.gradients.sampling import Sampling, Units
from crosslearning.gradients.statistics import GradientMean

__all__ = [
    "ESTIMATORS",
    "Estimator",
    "GradientMean",
    "Gradients",
    "Sampling",
    "Units",
    "estimator_of",
]
