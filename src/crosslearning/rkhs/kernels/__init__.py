"""Kernels. To use one of your own, give its formula to :class:`PairKernel`."""

from crosslearning.rkhs.kernels.base import Kernel
from crosslearning.rkhs.kernels.composed import Linear, PairKernel, Polynomial, Product
from crosslearning.rkhs.kernels.description import kernel_from_dict
from crosslearning.rkhs.kernels.stationary import Gaussian, Laplacian, Matern32, Matern52

__all__ = [
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern32",
    "Matern52",
    "PairKernel",
    "Polynomial",
    "Product",
    "kernel_from_dict",
]
