"""What an iteration reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosslearning.rkhs import Projection, PruningCertificate

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GapCheck:
    """A check of the stationarity gaps on a batch of its own, after an iteration's step.

    Attributes
    ----------
    number : int
        j, from 1.
    bounds : array, shape (N,)
        Upper confidence bounds of the true gaps.
    level : float
        The confidence of each bound: 1 − δ/(j(j+1)N), so that over all checks and tasks the
        chance that any bound is too low is at most δ.
    samples : int
        Per task.
    steps : int
        Environment steps that it took, over all tasks.
    """

    number: int
    bounds: Floats
    level: float
    samples: int
    steps: int

    @property
    def bound(self) -> float:
        """The largest upper bound of any task."""
        return float(np.max(self.bounds))


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
        Environment steps that were taken, those of a check apart.
    check : GapCheck, optional
        If the gaps of the policies after the step were checked.
    stop : bool
        Whether the stopping rule says to stop here.
    """

    iteration: int
    returns: Floats
    gradient_norms: Floats
    gaps: Floats
    distances: Floats
    projection: Projection
    pruning: PruningCertificate
    steps: int
    check: GapCheck | None = None
    stop: bool = False

    @property
    def gap(self) -> float:
        """The largest stationarity gap of any task."""
        return float(np.max(self.gaps))
