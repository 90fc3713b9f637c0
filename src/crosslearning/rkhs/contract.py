"""What every kernel must satisfy; run it on a kernel of your own before you trust it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.errors import InputError
from crosslearning.rkhs.checks import finite_array
from crosslearning.rkhs.kernels.base import Kernel


def check_kernel(kernel: Kernel, points: ArrayLike | None = None, seed: int = 0) -> None:
    """Raise an error that names the first property of a kernel that fails.

    The properties: values are finite; the compiled kernel equals its formula; κ(x, y) =
    κ(y, x); Gram matrices are positive semi-definite on the points, on points that nearly
    coincide, and on repeated ones.

    Parameters
    ----------
    points : array_like, shape (n, q), optional
        Where to check it: best, states of your own task. By default 60 normal ones.
    seed : int
        Seeds the default points and the small shifts.

    Examples
    --------
    >>> from crosslearning.rkhs import Gaussian, check_kernel
    >>> check_kernel(Gaussian(std=[1.0, 2.0]))
    """
    generator = np.random.default_rng(seed)
    if points is None:
        points = 2.0 * generator.standard_normal((60, kernel.dimension))
    states = finite_array("points", points, (None, kernel.dimension))
    shifts = 1e-7 * generator.standard_normal(states.shape)
    samples = {
        "the points": states,
        "nearly coincident points": np.concatenate([states, states + shifts]),
        "repeated points": np.concatenate([states, states[:5]]),
    }
    for where, sample in samples.items():
        gram = kernel(sample)
        if not np.all(np.isfinite(gram)):
            raise InputError(f"the kernel is not finite on {where}")
        size = float(np.max(np.abs(gram)))
        if not np.max(np.abs(gram - gram.T)) <= 1e-12 * size:
            raise InputError(f"the kernel is not symmetric: κ(x, y) ≠ κ(y, x) on {where}")
        smallest = float(np.linalg.eigvalsh(gram)[0])
        # What rounding of the entries alone can do to an eigenvalue.
        if smallest < -1e-14 * size * len(sample):
            raise InputError(
                f"the kernel is not positive definite: its Gram matrix on {where} has the "
                f"eigenvalue {smallest:.3g}"
            )
    some = states[:12]
    formula = np.array([[kernel.formula(x, y) for y in some] for x in some])
    difference = float(np.max(np.abs(kernel(some) - formula)))
    if difference > 1e-12 * float(np.max(np.abs(formula))):
        raise InputError(f"the compiled kernel differs from its formula by {difference:.3g}")
