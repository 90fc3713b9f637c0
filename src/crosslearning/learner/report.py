"""What an iteration reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

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


class StopDecision(NamedTuple):
    """What a method says after an iteration: whether to stop, and the check that says so.

    ``numbers`` are those that are known only now, as in an Improvement.
    """

    stop: bool = False
    check: GapCheck | None = None
    numbers: Mapping[str, Floats] = MappingProxyType({})


@dataclass(frozen=True)
class IterationReport:
    """The numbers of one iteration of Algorithm 2.

    Attributes
    ----------
    iteration : int
        k, from 1: how many iterations have been made.
    steps, episodes : int
        Environment steps that were taken, and rollouts that were begun, those of a check apart.
    returns : array, shape (N,)
        Estimates of the discounted returns U_i of the policies before the step.
    numbers : mapping of str to array, shape (N,)
        What else the method tells of every task. The policy gradient: ``gradient_norm``, ‖∇̂_i‖,
        and ``gap``, the stationarity gap max ⟨∇̂_i, h − h_i⟩ over feasible h, infinite for ε = ∞.
        The trust region: ``total_return`` and ``length`` of the episodes, ``kl``, how far the
        policy moved, ``entropy`` of its noise, ``explained_variance`` of the critic, and the rates
        of outcomes that the tasks tell, such as ``crashed``; NaN where one is not known.
    distances : array, shape (N,)
        ‖h_i − g‖ after the projection; pruning, which follows, cannot lengthen them.
    projection : Projection
        Multipliers, residual and status.
    pruning : PruningCertificate
        Errors and counts.
    stop : bool
        Whether the method's stopping rule says to stop here.
    check : GapCheck, optional
        If the gaps of the policies after the step were checked.

    Examples
    --------
    >>> from crosslearning import CrossLearner, PolicyGradient
    >>> learner = CrossLearner("paper", PolicyGradient(epsilon=3.0))
    >>> reports = []
    >>> _ = learner.learn(2, callback=reports.append)
    >>> reports[-1].iteration, bool((reports[-1].distances <= 3.0).all())
    (2, True)
    """

    iteration: int
    steps: int
    episodes: int
    returns: Floats
    numbers: Mapping[str, Floats]
    distances: Floats
    projection: Projection
    pruning: PruningCertificate
    stop: bool = False
    check: GapCheck | None = None
