"""Gradient estimators: from rollouts to functions; and confidence intervals of their means."""

from crosslearning.learner.gradients.estimators import (
    ESTIMATORS,
    Estimator,
    Gradients,
    estimator_of,
    gradient_geometry,
)
from crosslearning.learner.gradients.independent_estimates import (
    GROUPS,
    IndependentEstimates,
    group_products,
)
from crosslearning.learner.gradients.mean import GradientMean

__all__ = [
    "ESTIMATORS",
    "GROUPS",
    "Estimator",
    "GradientMean",
    "Gradients",
    "IndependentEstimates",
    "estimator_of",
    "gradient_geometry",
    "group_products",
]
