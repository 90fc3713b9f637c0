"""Critics: value functions that are fitted to the λ-returns of recent steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crosslearning._base.compiled import FastEntry, compiled
from crosslearning.learner.core import Arrays, State, check_shapes
from crosslearning.learner.settings import TrustRegion
from crosslearning.learner.steps import Steps
from crosslearning.learner.values import ValueFunctions
from crosslearning.rkhs import Kernel
from crosslearning.rkhs.checks import Floats, Integers

#: How often the critic's returns are computed from the values that were fitted to them: of the
#: policies that acted, and of others, each time.
_SWEEPS, _CORRECTED_SWEEPS = 2, 5
#: Bounds that bind nothing.
_NO_BOUNDS = np.array([-np.finfo(np.float64).max, np.finfo(np.float64).max])


class Critic(ValueFunctions):
    """Value functions that are fitted to the λ-returns of steps.

    After step t the sum of l rewards and γˡ V of the state after them estimates the return of the
    step, with less bias and more noise the larger l is. The λ-return is their mean with weights
    (1 − λ) λ^(l−1) (Sutton 1988; Schulman et al. 2016), which a sweep from the end of the episode
    computes: G_t = r_t + γ ((1 − λ) V(s_{t+1}) + λ G_{t+1}).

    The actions of earlier policies tell of others as far as these would take them, too: with the
    likelihood ratio ρ_t of an action, λ min(1, ρ_t) stands for λ (Munos et al. 2016), and V(s_t)
    is fitted to V(s_t) + min(1, ρ_t) (G_t − V(s_t)). Such values feed on themselves more often, so
    they are held between those of the least and the greatest reward for ever.
    """

    def __init__(self, kernel: Kernel, tasks: int, settings: TrustRegion) -> None:
        super().__init__(kernel, tasks, settings, settings.task_correlation)
        self.settings: TrustRegion = settings
        #: min(1, ρ) of every step by batch and task; None: values of the policies that acted.
        self.shares: Sequence[Sequence[Floats]] | None = None
        #: The least and the greatest value.
        self.bounds: Floats = _NO_BOUNDS

    def learn_from(
        self,
        batches: Sequence[Sequence[Steps]],
        shares: Sequence[Sequence[Floats]] | None = None,
    ) -> None:
        """Fit the functions to the batches that were pushed, newest first.

        With ``shares``, min(1, ρ) of every step, they are those of other policies than acted.
        """
        new = np.concatenate([steps.states for steps in batches[0]])
        self.shares, self.bounds = shares, _NO_BOUNDS
        if shares is not None:
            rewards = np.concatenate([steps.rewards for batch in batches for steps in batch])
            # Nothing follows the end of an episode, for ever.
            ends = [min(rewards.min(), 0.0), max(rewards.max(), 0.0)]
            self.bounds = np.array(ends) / (1.0 - self.settings.gamma)

        def returns(block: int, task: int) -> Floats:
            values = self.kept_values(block, task)
            found = self._returns(task, batches[block][task], values, block)
            return found if shares is None else values + shares[block][task] * (found - values)

        self.learn(new, returns, _SWEEPS if shares is None else _CORRECTED_SWEEPS)

    def values(self, task: int, states: Floats) -> Floats:
        """Return V of a task at states (n, q): shape (n,)."""
        return np.clip(super().values(task, states), *self.bounds)

    def kept_values(self, block: int, task: int) -> Floats:
        """Return V of a task at its states in a batch."""
        return np.clip(super().kept_values(block, task), *self.bounds)

    def advantages(self, block: int, task: int, steps: Steps) -> Floats:
        """Return λ-return minus value for the steps of a kept batch, shape (n,)."""
        values = self.kept_values(block, task)
        return self._returns(task, steps, values, block) - values

    def explained(self, task: int, steps: Steps) -> float:
        """Return the explained variance of the λ-returns of steps not yet fitted, at most 1."""
        if not self.knows:
            return 0.0
        values = self.values(task, steps.states)
        returns = self._returns(task, steps, values)
        spread = float(np.var(returns))
        return 1.0 - float(np.var(returns - values)) / spread if spread > 0.0 else 0.0

    def state(self) -> State:
        """Return everything that the functions depend on: arrays, and plain data."""
        arrays, numbers = super().state()
        return {**arrays, "bounds": self.bounds.copy()}, numbers

    def restore(
        self, arrays: Arrays, numbers: Mapping[str, Any], states: Sequence[Sequence[Floats]]
    ) -> None:
        """Restore a state, with the states of every batch."""
        # Files of version 0.3 have no bounds.
        bounds = arrays.get("bounds", _NO_BOUNDS)
        check_shapes({"bounds": bounds}, {"bounds": (2,)})
        kept = {name: array for name, array in arrays.items() if name != "bounds"}
        super().restore(kept, numbers, states)
        self.bounds = bounds.copy()

    def _returns(self, task: int, steps: Steps, values: Floats, block: int | None = None) -> Floats:
        """Return the λ-returns of steps: those of a kept batch, or new ones."""
        last = steps.bootstrap_mask * self.values(task, steps.last)
        traces = np.full(len(values), self.settings.trace)
        if block is not None and self.shares is not None:
            traces *= self.shares[block][task]
        return lambda_returns(
            steps.rewards, values, steps.lengths, last, self.settings.gamma, traces
        )


@compiled
def fill_lambda_returns(
    rewards: Floats,
    values: Floats,
    lengths: Integers,
    last: Floats,
    discount: float,
    traces: Floats,
    out: Floats,
) -> None:
    """Fill ``out``, shape (n,), with the λ-returns of episodes laid end to end."""
    end = 0
    for e in range(len(lengths)):
        begin, end = end, end + lengths[e]
        value = last[e]
        after = last[e]
        trace = traces[end - 1]
        for t in range(end - 1, begin - 1, -1):
            after = rewards[t] + discount * ((1.0 - trace) * value + trace * after)
            out[t] = after
            value = values[t]
            trace = traces[t]


_fill = FastEntry(fill_lambda_returns)


def lambda_returns(
    rewards: Floats,
    values: Floats,
    lengths: Integers,
    last: Floats,
    discount: float,
    traces: Floats,
) -> Floats:
    """Return the λ-return of every step, shape (n,), of episodes laid end to end.

    ``values`` are the critic's at the states before the steps, and ``last``, shape (E,), those
    after the episodes: zero where they terminated. ``traces``, shape (n,), are λ at each step: how
    far the return of the step before relies on its return rather than on its value.
    """
    out = np.empty(len(rewards))
    _fill(rewards, values, lengths, last, float(discount), traces, out)
    return out
