"""Value functions of the tasks, by regression on recent returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from crosslearning.learner.core import Arrays, State, check_shapes, misfit, part_of, prefixed
from crosslearning.learner.settings import ModelBased, TrustRegion
from crosslearning.rkhs import Dictionary, Kernel
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.regression import FamilyRegression

#: A state becomes a knot if the knots leave more than this share of its kernel unexplained.
_NOVELTY = 0.01


class ValueFunctions:
    """Functions of N tasks on a common dictionary: V_i(s) = offset_i + f_i(s).

    They are fitted to the last ``settings.reuse`` batches of states.
    """

    def __init__(self, kernel: Kernel, tasks: int, settings: TrustRegion | ModelBased) -> None:
        self.knots, self.ridge = settings.critic_knots, settings.critic_ridge
        self.dictionary = Dictionary(kernel, tasks, 1)
        self.regression = FamilyRegression(kernel, tasks, settings.reuse)
        self.offsets = np.zeros(tasks)
        #: A copy of the dictionary's weights, made once for all tasks.
        self._weights = self.dictionary.weights

    def push(self, states: Sequence[Floats]) -> None:
        """Add a batch, the states of every task, and drop the oldest."""
        self.regression.push(states)

    def learn(self, new: Floats, returns: Callable[[int, int], Floats], sweeps: int = 1) -> None:
        """Fit the functions to all batches; ``new`` states (n, q) may become knots.

        ``returns(batch, task)`` are those of its states, the newest batch being 0. If they depend
        on the functions themselves, fit in several ``sweeps``.
        """
        dictionary, regression = self.dictionary, self.regression
        N = dictionary.functions
        chosen = dictionary.novel(new, _NOVELTY, self.knots)
        if len(chosen):
            dictionary.extend(new[chosen], np.zeros((len(chosen), N, 1)))
        regression.use(dictionary.knots)
        self._weights = dictionary.weights
        for _ in range(sweeps):
            weights = np.empty((len(dictionary), N, 1))
            for i in range(N):
                blocks = [returns(b, i) for b in range(len(regression))]
                mean = float(np.mean(np.concatenate(blocks)))
                targets = [block[:, None] - mean for block in blocks]
                weights[:, i] = regression.solve(i, targets, self.ridge)
                self.offsets[i] = mean
            dictionary.replace(weights)
            self._weights = weights
        dictionary.prune(0.0, self.knots)
        regression.use(dictionary.knots)
        self._weights = dictionary.weights

    def values(self, task: int, states: Floats) -> Floats:
        """Return V of a task at states (n, q): shape (n,)."""
        which = np.full(len(states), task)
        return np.asarray(self.offsets[task] + self.dictionary.expansion.each(states, which)[:, 0])

    def kept_values(self, block: int, task: int) -> Floats:
        """Return V of a task at its states in a batch."""
        values = self.regression.values(block, task, self._weights[:, task])
        return np.asarray(self.offsets[task] + values[:, 0])

    def state(self) -> State:
        """Return everything that the functions depend on: arrays, and plain data."""
        arrays, numbers = self.dictionary.state()
        arrays |= prefixed("regression", self.regression.state())
        return {**arrays, "offsets": self.offsets.copy()}, numbers

    def restore(
        self, arrays: Arrays, numbers: Mapping[str, Any], states: Sequence[Sequence[Floats]]
    ) -> None:
        """Restore a state, with the states of every batch."""
        dictionary = Dictionary.from_state(self.dictionary.kernel, arrays, numbers)
        if (dictionary.functions, dictionary.outputs) != (self.dictionary.functions, 1):
            raise misfit("the critic")
        check_shapes(arrays, {"offsets": self.offsets.shape})
        self.regression.restore(part_of(arrays, "regression"), states)
        self.dictionary, self.offsets = dictionary, arrays["offsets"].copy()
        self._weights = dictionary.weights
