"""Gradient estimators: from rollouts to functions."""

from crosslearning.gradients.estimators import ESTIMATORS, Estimator, Gradients, estimator_of

__all__ = ["ESTIMATORS", "Estimator", "Gradients", "estimator_of"]
