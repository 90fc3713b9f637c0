"""Functions in a reproducing kernel Hilbert space: kernels, families, projections, pruning."""

from crosslearning.rkhs.composed import PairKernel, Product, Sum, kernel_from_dict
from crosslearning.rkhs.cross_classification import CrossClassifier, cross_classify
from crosslearning.rkhs.cross_fit import CrossFit, Gap, Optimality
from crosslearning.rkhs.cross_regression import CrossRegression, RadiusCurve, radius_curve
from crosslearning.rkhs.dictionary import Dictionary, prune
from crosslearning.rkhs.evidence import Hyperparameters, most_likely
from crosslearning.rkhs.family import Family
from crosslearning.rkhs.kernel import Kernel, check_kernel
from crosslearning.rkhs.kernels import (
    Gaussian,
    Laplacian,
    Linear,
    Matern32,
    Matern52,
    Polynomial,
)
from crosslearning.rkhs.multipliers import FitStatus
from crosslearning.rkhs.projection import (
    Projection,
    Status,
    bounded_projection,
    exact_projection,
    free_projection,
    project,
    relaxed_projection,
)
from crosslearning.rkhs.pruning import PruningCertificate

__all__ = [
    "CrossClassifier",
    "CrossFit",
    "CrossRegression",
    "Dictionary",
    "Family",
    "FitStatus",
    "Gap",
    "Gaussian",
    "Hyperparameters",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern32",
    "Matern52",
    "Optimality",
    "PairKernel",
    "Polynomial",
    "Product",
    "Projection",
    "PruningCertificate",
    "RadiusCurve",
    "Status",
    "Sum",
    "bounded_projection",
    "check_kernel",
    "cross_classify",
    "exact_projection",
    "free_projection",
    "kernel_from_dict",
    "most_likely",
    "project",
    "prune",
    "radius_curve",
    "relaxed_projection",
]
