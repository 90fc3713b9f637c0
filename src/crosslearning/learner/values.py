"""Value functions of the tasks, by regression on recent returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from crosslearning.learner.core import Arrays, State, check_shapes, misfit, part_of, prefixed
from crosslearning.learner.reliability import correlation_of
from crosslearning.learner.settings import ModelBased, TrustRegion
from crosslearning.rkhs import Dictionary, Family, Kernel
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.regression import FamilyRegression

#: A state becomes a knot if the knots leave more than this share of its kernel unexplained.
_NOVELTY = 0.01


class ValueFunctions:
    """Functions of N tasks on a common dictionary: V_i(s) = offset_i + f_0(s) + f_i(s).

    They are fitted to the last ``settings.reuse`` batches of states. f_0 is the mean of related
    tasks' functions, if there are such, else 0. The tasks are regressed together with a
    ``correlation``, of which None stands for that of their separate functions.
    """

    def __init__(
        self,
        kernel: Kernel,
        tasks: int,
        settings: TrustRegion | ModelBased,
        correlation: float | None = 0.0,
    ) -> None:
        self.knots, self.ridge = settings.critic_knots, settings.critic_ridge
        self._given = correlation
        #: The correlation with which the functions were fitted.
        self.correlation = correlation or 0.0
        #: f_0.
        self.prior: Family | None = None
        self.dictionary = Dictionary(kernel, tasks, 1)
        self.regression = FamilyRegression(kernel, tasks, settings.reuse)
        self.offsets = np.zeros(tasks)
        #: A copy of the dictionary's weights, made once for all tasks.
        self._weights = self.dictionary.weights

    @property
    def knows(self) -> bool:
        """Whether the functions were fitted to anything, here or by related tasks."""
        return len(self.dictionary) > 0 or self.prior is not None

    def start_from(self, others: ValueFunctions) -> None:
        """Take the mean of related tasks' functions for f_0."""
        knots, weights = others.dictionary.knots, others.dictionary.weights.mean(1, keepdims=True)
        if others.prior is not None:
            knots = np.concatenate([knots, others.prior.knots])
            weights = np.concatenate([weights, others.prior.weights])
        if len(knots):
            self.prior = Family(self.dictionary.kernel, knots, weights)
            self.offsets[:] = others.offsets.mean()

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
        prior = [
            [self._prior(regression.states(b, i)) for b in range(len(regression))] for i in range(N)
        ]
        for sweep in range(sweeps):
            targets = []
            for i in range(N):
                blocks = [returns(b, i) - prior[i][b] for b in range(len(regression))]
                self.offsets[i] = float(np.mean(np.concatenate(blocks)))
                targets.append([block[:, None] - self.offsets[i] for block in blocks])
            if sweep == 0 and self._given is None and regression.couples:
                alone = regression.solve_all(targets, self.ridge, 0.0)[:, :, 0]
                products = regression.inner_products(alone)
                own = float(np.trace(products))
                self.correlation = correlation_of((np.sum(products) - own) / (N - 1), own)
            weights = regression.solve_all(targets, self.ridge, self.correlation)
            dictionary.replace(weights)
            self._weights = weights
        dictionary.prune(0.0, self.knots)
        regression.use(dictionary.knots)
        self._weights = dictionary.weights

    def values(self, task: int, states: Floats) -> Floats:
        """Return V of a task at states (n, q): shape (n,)."""
        which = np.full(len(states), task)
        values = self.dictionary.expansion.each(states, which)[:, 0]
        return np.asarray(self.offsets[task] + values + self._prior(states))

    def kept_values(self, block: int, task: int) -> Floats:
        """Return V of a task at its states in a batch."""
        values = self.regression.values(block, task, self._weights[:, task])
        states = self.regression.states(block, task)
        return np.asarray(self.offsets[task] + values[:, 0] + self._prior(states))

    def _prior(self, states: Floats) -> Floats | float:
        """Return f_0 at states (n, q): shape (n,), or 0."""
        if self.prior is None:
            return 0.0
        return self.prior.expansion.each(states, np.zeros(len(states), dtype=np.int64))[:, 0]

    def state(self) -> State:
        """Return everything that the functions depend on: arrays, and plain data."""
        arrays, numbers = self.dictionary.state()
        arrays |= prefixed("regression", self.regression.state())
        if self.prior is not None:
            family = {"knots": self.prior.knots.copy(), "weights": self.prior.weights.copy()}
            arrays |= prefixed("prior", family)
        return {**arrays, "offsets": self.offsets.copy()}, numbers

    def restore(
        self, arrays: Arrays, numbers: Mapping[str, Any], states: Sequence[Sequence[Floats]]
    ) -> None:
        """Restore a state, with the states of every batch."""
        dictionary = Dictionary.from_state(self.dictionary.kernel, arrays, numbers)
        if (dictionary.functions, dictionary.outputs) != (self.dictionary.functions, 1):
            raise misfit("the critic")
        check_shapes(arrays, {"offsets": self.offsets.shape})
        prior = part_of(arrays, "prior")
        if prior:
            n, q = len(prior["knots"]), dictionary.kernel.dimension
            check_shapes(prior, {"knots": (n, q), "weights": (n, 1, 1)})
            self.prior = Family(dictionary.kernel, prior["knots"], prior["weights"])
        self.regression.restore(part_of(arrays, "regression"), states)
        self.dictionary, self.offsets = dictionary, arrays["offsets"].copy()
        self._weights = dictionary.weights
