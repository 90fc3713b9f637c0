"""Kernels from the plain data that files hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crosslearning.errors import FileFormatError, MissingFormulaError, unknown_name
from crosslearning.rkhs.kernels.base import Kernel
from crosslearning.rkhs.kernels.composed import Linear, PairKernel, Polynomial, Product
from crosslearning.rkhs.kernels.stationary import Gaussian, Laplacian, Matern32, Matern52


def kernel_from_dict(data: Mapping[str, Any]) -> Kernel:
    """Return the kernel that ``Kernel.to_dict`` wrote.

    A kernel with a formula of the user's is not in the file and raises an error that says so.
    """
    builders: dict[str, Callable[[dict[str, Any]], Kernel]] = {
        **{
            kernel.name: lambda d, kernel=kernel: kernel(  # type: ignore[misc]
                std=d.get("std"),
                covariance=d.get("covariance"),
                periodic={int(k): float(v) for k, v in d.get("periodic", ())},
            )
            for kernel in (Gaussian, Matern32, Matern52)
        },
        "laplacian": lambda d: Laplacian(d["std"]),
        "polynomial": lambda d: Polynomial(d["std"], d["degree"], d["bias"]),
        "linear": lambda d: Linear(d["std"], bias=d["bias"]),
        "product": lambda d: Product(*((kernel_from_dict(k), dims) for k, dims in d["parts"])),
    }
    name = data.get("kernel") if isinstance(data, Mapping) else None
    if name == PairKernel.name:
        raise MissingFormulaError(
            f"the kernel {data.get('label')!r} is a formula of its author's and is not in the "
            "file; pass it when loading: Family.load(path, kernel=...)"
        )
    if not isinstance(name, str):
        raise FileFormatError(f"the kernel's description is not readable: {data!r}")
    if name not in builders:
        raise unknown_name("kernel", name, builders)
    try:
        return builders[name](dict(data))
    except MissingFormulaError:
        raise
    except (KeyError, TypeError, ValueError) as problem:
        raise FileFormatError(f"the description of the {name} kernel is damaged: {problem}") from (
            problem
        )
