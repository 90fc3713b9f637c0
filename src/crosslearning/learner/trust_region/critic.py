"""The critics of the tasks, fitted to the λ-returns of recent episodes.

After step t the sum of l rewards and γˡ V of the state after them estimates the return of the
step, with less bias and more noise the larger l is. The λ-return is their mean with weights
(1 − λ) λ^(l−1) (Sutton 1988; Schulman et al. 2016), which a sweep from the end of the episode
computes: G_t = r_t + γ ((1 − λ) V(s_{t+1}) + λ G_{t+1}).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crosslearning._base.compiled import FastEntry, compiled
from crosslearning.learner.trust_region.batches import Steps
from crosslearning.learner.trust_region.settings import TrustRegion
from crosslearning.learner.values import ValueFunctions
from crosslearning.rkhs import Kernel
from crosslearning.rkhs.checks import Floats, Integers

#: How often the returns are computed from the values that were fitted to them.
_SWEEPS = 2


class Critic(ValueFunctions):
    """Value functions that are fitted to the λ-returns of steps."""

    def __init__(self, kernel: Kernel, tasks: int, settings: TrustRegion) -> None:
        super().__init__(
            kernel, tasks, settings.reuse, settings.critic_knots, settings.critic_ridge
        )
        self.settings = settings

    def learn_from(self, batches: Sequence[Sequence[Steps]]) -> None:
        """Fit the functions to the batches that were pushed, newest first."""
        new = np.concatenate([steps.states for steps in batches[0]])

        def returns(block: int, task: int) -> Floats:
            return self._returns(task, batches[block][task], self.kept_values(block, task))

        self.learn(new, returns, _SWEEPS)

    def advantages(self, block: int, task: int, steps: Steps) -> Floats:
        """Return λ-return minus value for the steps of a kept batch, shape (n,)."""
        values = self.kept_values(block, task)
        return self._returns(task, steps, values) - values

    def explained(self, task: int, steps: Steps) -> float:
        """Return the explained variance of the λ-returns of steps not yet fitted.

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


@compiled
def fill_lambda_returns(
    rewards: Floats,
    values: Floats,
    lengths: Integers,
    last: Floats,
    discount: float,
    trace: float,
    out: Floats,
) -> None:
    """Fill ``out``, shape (n,), with the λ-returns of episodes laid end to end."""
    end = 0
    for e in range(len(lengths)):
        begin, end = end, end + lengths[e]
        value = last[e]
        after = last[e]
        for t in range(end - 1, begin - 1, -1):
            after = rewards[t] + discount * ((1.0 - trace) * value + trace * after)
            out[t] = after
            value = values[t]


_fill = FastEntry(fill_lambda_returns)


def lambda_returns(
    rewards: Floats,
    values: Floats,
    lengths: Integers,
    last: Floats,
    discount: float,
    trace: float,
) -> Floats:
    """Return the λ-return of every step, shape (n,), of episodes laid end to end.

    Parameters
    ----------
    rewards, values : arrays, shape (n,)
        Rewards of the steps, and the critic's values of the states before them.
    lengths : array of int, shape (E,)
        Steps of each episode.
    last : array, shape (E,)
        The bootstrap: the critic's value after the last step, zero where the episode terminated.
    discount, trace : float
        γ, and λ in [0, 1].
    """
    out = np.empty(len(rewards))
    _fill(rewards, values, lengths, last, float(discount), float(trace), out)
    return out
