"""The critics: what a state is worth to each task, from the λ-returns of recent episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import FileFormatError
from crosslearning.gradients.advantages import lambda_returns
from crosslearning.learner.trust_region.batches import Steps
from crosslearning.learner.trust_region.settings import Settings
from crosslearning.rkhs import Dictionary, Kernel
from crosslearning.rkhs.regression import FamilyRegression

Floats = NDArray[np.float64]

#: How often the returns are computed anew from the values that they led to.
_SWEEPS = 2
#: A state becomes a knot of the critics if theirs leave more than this of its kernel.
_NOVELTY = 0.01


class Critic:
    """Value functions of N tasks on a dictionary of their own: V_i(s) = offset_i + f_i(s)."""

    def __init__(self, kernel: Kernel, tasks: int, settings: Settings) -> None:
        self.settings = settings
        self.dictionary = Dictionary(kernel, tasks, 1)
        self.regression = FamilyRegression(kernel, tasks, settings.reuse)
        self.offsets = np.zeros(tasks)

    def push(self, newest: Sequence[Steps]) -> None:
        """Take in a batch, the steps of every task, and forget the oldest; learn nothing yet."""
        self.regression.push([steps.states for steps in newest])

    def learn(self, batches: Sequence[Sequence[Steps]]) -> None:
        """Learn from the batches that were taken in, newest first."""
        settings, dictionary, regression = self.settings, self.dictionary, self.regression
        N = dictionary.functions
        new = np.concatenate([steps.states for steps in batches[0]])
        chosen = dictionary.novel(new, _NOVELTY, settings.critic_knots)
        if len(chosen):
            dictionary.extend(new[chosen], np.zeros((len(chosen), N, 1)))
        regression.use(dictionary.knots)
        for _ in range(_SWEEPS):
            weights = np.empty((len(dictionary), N, 1))
            for i in range(N):
                returns = [self.returns(b, i, batch[i]) for b, batch in enumerate(batches)]
                mean = float(np.mean(np.concatenate(returns)))
                targets = [own[:, None] - mean for own in returns]
                weights[:, i] = regression.solve(i, targets, settings.critic_ridge)
                self.offsets[i] = mean
            dictionary.replace(weights)
        dictionary.prune(0.0, settings.critic_knots)
        regression.use(dictionary.knots)

    def values(self, task: int, states: Floats) -> Floats:
        """Return V of a task at states (n, q): shape (n,)."""
        which = np.full(len(states), task)
        return np.asarray(self.offsets[task] + self.dictionary.expansion.each(states, which)[:, 0])

    def returns(self, block: int, task: int, steps: Steps) -> Floats:
        """Return the λ-returns of a task's steps in a kept batch, shape (n,)."""
        return self._returns(task, steps, self._kept_values(block, task))

    def advantages(self, block: int, task: int, steps: Steps) -> Floats:
        """Return by how much steps in a kept batch did better than the state was worth."""
        values = self._kept_values(block, task)
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
        last = steps.goes_on * self.values(task, steps.last)
        settings = self.settings
        return lambda_returns(
            steps.rewards, values, steps.lengths, last, settings.gamma, settings.trace
        )

    def _kept_values(self, block: int, task: int) -> Floats:
        weights = self.dictionary.weights[:, task]
        return np.asarray(self.offsets[task] + self.regression.values(block, task, weights)[:, 0])

    # Checkpoints -----------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Return all that the next iteration depends on: arrays, and plain data."""
        arrays, numbers = self.dictionary.state()
        regression = {f"regression.{name}": a for name, a in self.regression.state().items()}
        return {**arrays, **regression, "offsets": self.offsets.copy()}, numbers

    def restore(
        self,
        arrays: Mapping[str, Floats],
        numbers: Mapping[str, Any],
        batches: Sequence[Sequence[Steps]],
    ) -> None:
        """Take a state back, with the batches that it was learned from."""
        dictionary = Dictionary.from_state(self.dictionary.kernel, arrays, numbers)
        offsets = arrays["offsets"]
        same = (dictionary.functions, dictionary.outputs) == (self.dictionary.functions, 1)
        if not same or offsets.shape != self.offsets.shape or not np.all(np.isfinite(offsets)):
            raise FileFormatError("its parts do not fit together: the critic")
        states = [[steps.states for steps in batch] for batch in batches]
        self.regression.restore(
            {n.removeprefix("regression."): a for n, a in arrays.items()}, states
        )
        self.dictionary, self.offsets = dictionary, offsets.copy()
