"""Kernels. To use one of your own, give its formula to :class:`PairKernel`."""
