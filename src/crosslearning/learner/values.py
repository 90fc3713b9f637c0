"""Value functions: what a state is worth to each task, by regression on recent returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import FileFormatError
from crosslearning.rkhs import Dictionary, Kernel
from crosslearning.rkhs.regression import FamilyRegression

Floats = NDArray[np.float64]

#: A state becomes a knot if those so far leave more than this of its kernel.
_NOVELTY = 0.01


class ValueFunctions:
    """Functions of N tasks on a dictionary of their own: V_i(s) = offset_i + f_i(s).

    Parameters
    ----------
    kernel : Kernel
    tasks : int
    blocks : int
        How many batches of states are learned from; a further one takes the place of the oldest.
    knots : int
        Cap on the knots.
    ridge : float
        ρ of the regression.
    """

    def __init__(self, kernel: Kernel, tasks: int, blocks: int, knots: int, ridge: float) -> None:
        self.knots, self.ridge = knots, ridge
        self.dictionary = Dictionary(kernel, tasks, 1)
        self.regression = FamilyRegression(kernel, tasks, blocks)
        self.offsets = np.zeros(tasks)
        #: The dictionary's weights: a copy, of which there need not be one for every task.
        self._weights = self.dictionary.weights

    def push(self, states: Sequence[Floats]) -> None:
        """Take in a batch, the states of every task, and forget the oldest; learn nothing yet."""
        self.regression.push(states)

    def learn(self, new: Floats, returns: Callable[[int, int], Floats], sweeps: int = 1) -> None:
        """Learn from the batches that were taken in.

        Parameters
        ----------
        new : array, shape (n, q)
            States that may become knots.
        returns : callable
            From a batch, 0 being the newest, and a task to what its states were worth.
        sweeps : int
            How often to learn: returns may depend on the functions themselves.
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
                found = [returns(b, i) for b in range(len(regression))]
                mean = float(np.mean(np.concatenate(found)))
                targets = [own[:, None] - mean for own in found]
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
        """Return V of a task at its states in a batch that was taken in."""
        found = self.regression.values(block, task, self._weights[:, task])
        return np.asarray(self.offsets[task] + found[:, 0])

    # Checkpoints -----------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Return all that the functions depend on: arrays, and plain data."""
        arrays, numbers = self.dictionary.state()
        regression = {f"regression.{name}": a for name, a in self.regression.state().items()}
        return {**arrays, **regression, "offsets": self.offsets.copy()}, numbers

    def restore(
        self,
        arrays: Mapping[str, Floats],
        numbers: Mapping[str, Any],
        states: Sequence[Sequence[Floats]],
    ) -> None:
        """Take a state back, with the states of every batch."""
        dictionary = Dictionary.from_state(self.dictionary.kernel, arrays, numbers)
        offsets = arrays["offsets"]
        same = (dictionary.functions, dictionary.outputs) == (self.dictionary.functions, 1)
        if not same or offsets.shape != self.offsets.shape or not np.all(np.isfinite(offsets)):
            raise FileFormatError("its parts do not fit together: the critic")
        self.regression.restore(
            {n.removeprefix("regression."): a for n, a in arrays.items()}, states
        )
        self.dictionary, self.offsets = dictionary, offsets.copy()
        self._weights = dictionary.weights
