"""Exploration noise: what a policy adds to its mean action while it learns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Noise(NamedTuple):
    """Independent normal numbers of mean zero, one for each action.

    Attributes
    ----------
    variance : array, shape (p,)
        The diagonal of Σ.
    """

    variance: Floats

    @property
    def std(self) -> Floats:
        """Standard deviations, shape (p,)."""
        return np.sqrt(self.variance)
