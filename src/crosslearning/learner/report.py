"""The report of an iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from crosslearning.rkhs import Projection, PruningCertificate
from crosslearning.rkhs.checks import Floats


@dataclass(frozen=True)
class GapCheck:
    """A check of the stationarity gaps on a separate batch, after an iteration's step.

    Attributes
    ----------
    number : int
        j, from 1.
    bounds : array, shape (N,)
        Upper confidence bounds of the true gaps.
    level : float
        The confidence of each bound: 1 − δ/(j(j+1)N), so that with probability 1 − δ no bound of
        any check and task is too low.
    samples, steps : int
        Samples of each task, and environment steps over all tasks.
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
    """Whether to stop after an iteration, the check, and numbers that are known only then."""

    stop: bool = False
    check: GapCheck | None = None
    numbers: Mapping[str, Floats] = MappingProxyType({})


@dataclass(frozen=True)
class IterationReport:
    """The numbers of one iteration of Algorithm 2.

    Attributes
    ----------
    iteration : int
        k, from 1.
    steps, episodes : int
        Environment steps and rollouts, without those of a check.
    returns : array, shape (N,)
        Estimates of the discounted returns U_i of the policies before the step.
    numbers : mapping of str to array, shape (N,)
        Statistics of the method. Policy gradient: ``gradient_norm``, ‖∇̂_i‖, and ``gap``, the
        stationarity gap max ⟨∇̂_i, h − h_i⟩ over feasible h, infinite for ε = ∞. Trust region:
        ``total_return`` and ``length`` of the episodes, ``kl`` of the step, ``entropy`` of the
        noise, ``explained_variance`` of the critic, and the rates of the tasks' outcomes, such as
        ``crashed``; NaN where unknown.
    distances : array, shape (N,)
        ‖h_i − g‖ after the projection; pruning, which follows, cannot lengthen them.
    projection : Projection
    pruning : PruningCertificate
    stop : bool
        Whether the method's stopping rule applies.
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
