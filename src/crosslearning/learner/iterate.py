"""The iterate of Algorithm 2: the policies on their common dictionary, and the counters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from crosslearning.errors import FileFormatError
from crosslearning.learner.settings import LearnerSettings
from crosslearning.rkhs import Dictionary, Family, Kernel
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.program import Expansion


class Iterate:
    """The state of learning: policies, generator and counters.

    The dictionary holds h_1 … h_N, then g, then the ``own`` functions of the method. The pruning
    budget guards the policies and g.
    """

    def __init__(
        self, kernel: Kernel, settings: LearnerSettings, tasks: int, outputs: int, own: int
    ) -> None:
        self.settings = settings
        self.tasks = tasks
        # Algorithm 2, line 1: all functions are zero.
        self.dictionary = Dictionary(kernel, tasks + 1 + own, outputs, guarded=tasks + 1)
        self.generator = np.random.default_rng(settings.seed)
        self.iteration = 0
        self.steps = 0

    @property
    def policies(self) -> Expansion:
        """The functions for rollouts; function i acts in task i."""
        return self.dictionary.expansion

    @property
    def family(self) -> Family:
        """The policies h_1 … h_N and g, as a value."""
        return self.dictionary.family(self.tasks + 1)

    def start_from(self, family: Family) -> None:
        """Set the initial policies and g: one function for all, or N + 1."""
        if len(family.knots):
            shape = (len(family.knots), self.dictionary.functions, self.dictionary.outputs)
            weights = np.zeros(shape)
            weights[:, : self.tasks + 1] = family.weights
            self.dictionary.extend(family.knots, weights)

    def distances(self) -> Floats:
        """Return ‖h_i − g‖, shape (N,), in the dictionary's geometry."""
        return np.sqrt(np.maximum(np.diag(self.dictionary.differences()), 0.0))

    def radii(self) -> Floats:
        """Return how far from g each policy may be while g and the others stay, shape (N,).

        ε; or, if the projection is the relaxed one, what the others leave of Nε².
        """
        N, epsilon = self.tasks, self.settings.epsilon
        if self.settings.projection == "relaxed" and math.isfinite(epsilon):
            squares = self.distances() ** 2
            left = N * epsilon**2 - (squares.sum() - squares)
            return np.asarray(np.sqrt(np.maximum(left, 0.0)))
        return np.full(N, epsilon)

    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Return everything that the next iteration depends on: arrays, and plain data."""
        arrays, numbers = self.dictionary.state()
        return arrays, {
            "dictionary": numbers,
            "iteration": self.iteration,
            "steps": self.steps,
            "generator": self.generator.bit_generator.state,
        }

    def restore(self, arrays: Mapping[str, Floats], numbers: Mapping[str, Any]) -> None:
        """Restore a state, or raise FileFormatError if it does not fit."""
        fresh = self.dictionary
        dictionary = Dictionary.from_state(fresh.kernel, arrays, numbers["dictionary"])
        sizes = [(d.functions, d.outputs, d.guarded) for d in (dictionary, fresh)]
        counts = [numbers["iteration"], numbers["steps"]]
        whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in counts)
        if sizes[0] != sizes[1] or not whole:
            raise FileFormatError("its parts do not fit together")
        generator = numbers["generator"]
        try:
            self.generator.bit_generator.state = generator
        except (ValueError, TypeError, KeyError, OverflowError) as problem:
            raise FileFormatError(f"the state of its generator is damaged: {problem}") from problem
        self.dictionary = dictionary
        self.iteration, self.steps = counts
