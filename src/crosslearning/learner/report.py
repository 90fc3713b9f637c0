"""What an iteration reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosslearning.rkhs import Projection, PruningCertificate

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class IterationReport:
    """The numbers of one iteration of Algorithm 2.

    Attributes
    ----------
    iteration : int
        k, from 1: how many iterations have been made.
    returns : array, shape (N,)
        Unbiased estimates of the discounted returns U_i of the policies before the step.
    gradient_norms : array, shape (N,)
        ‖∇̂_i‖.
    gaps : array, shape (N,)
        Stationarity gaps max over feasible h of ⟨∇̂_i, h − h_i⟩; infinite for ε = ∞.
    distances : array, shape (N,)
        ‖h_i − g‖ after the projection; pruning, which follows, cannot lengthen them.
    projection : Projection
        Multipliers, residual and status.
    pruning : PruningCertificate
        Errors and counts.
    steps : int
        Environment steps that were taken.
    """

    iteration: int
    returns: Floats
    gradient_norms: Floats
    gaps: Floats
    distances: Floats
    projection: Projection
    pruning: PruningCertificate
    steps: int

    @property
    def gap(self) -> float:
        """The largest stationarity gap of any task."""
        return float(np.max(self.gaps))
