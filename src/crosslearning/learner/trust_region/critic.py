"""The critics: what a state is worth to each task, from the λ-returns of recent episodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosslearning.learner.gradients.advantages import lambda_returns
from crosslearning.learner.trust_region.batches import Steps
from crosslearning.learner.trust_region.settings import TrustRegion
from crosslearning.learner.values import ValueFunctions
from crosslearning.rkhs import Kernel

Floats = NDArray[np.float64]

#: How often the returns are computed anew from the values that they led to.
_SWEEPS = 2


class Critic(ValueFunctions):
    """Value functions that are learned from the λ-returns of steps."""

    def __init__(self, kernel: Kernel, tasks: int, settings: TrustRegion) -> None:
        super().__init__(
            kernel, tasks, settings.reuse, settings.critic_knots, settings.critic_ridge
        )
        self.settings = settings

    def learn_from(self, batches: Sequence[Sequence[Steps]]) -> None:
        """Learn from the batches that were taken in, newest first."""
        new = np.concatenate([steps.states for steps in batches[0]])
        self.learn(new, lambda b, i: self.returns(b, i, batches[b][i]), _SWEEPS)

    def returns(self, block: int, task: int, steps: Steps) -> Floats:
        """Return the λ-returns of a task's steps in a kept batch, shape (n,)."""
        return self._returns(task, steps, self.kept_values(block, task))

    def advantages(self, block: int, task: int, steps: Steps) -> Floats:
        """Return by how much steps in a kept batch did better than the state was worth."""
        values = self.kept_values(block, task)
        return self._returns(task, steps, values) - values

    def explained(self, task: int, steps: Steps) -> float:
        """Return the share of the variance of λ-returns that was foreseen, of steps not yet seen.

        At most 1, and negative if the critic is worse than a constant.
        """
        if len(self.dictionary) == 0:
            return 0.0
        values = self.values(task, steps.states)
        returns = self._returns(task, steps, values)
        spread = float(np.var(returns))
        return 1.0 - float(np.var(returns - values)) / spread if spread > 0.0 else 0.0

    def _returns(self, task: int, steps: Steps, values: Floats) -> Floats:
        last = steps.bootstrap_mask * self.values(task, steps.last)
        settings = self.settings
        return lambda_returns(
            steps.rewards, values, steps.lengths, last, settings.gamma, settings.trace
        )
