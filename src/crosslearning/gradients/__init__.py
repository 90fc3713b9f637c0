"""Gradient estimators: from rollouts to functions, and what is known of them and how surely."""

from crosslearning.gradients.estimators import ESTIMATORS, Estimator, Gradients, estimator_of
from crosslearning.gradients.geometry import gradient_geometry
from crosslearning.gradients.mean import GradientMean
from crosslearning.gradients.units import GROUPS, Units, group_products

__all__ = [
    "ESTIMATORS",
    "GROUPS",
    "Estimator",
    "GradientMean",
    "Gradients",
    "Units",
    "estimator_of",
    "gradient_geometry",
    "group_products",
]
