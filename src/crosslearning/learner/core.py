"""Algorithm 2, one iteration at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crosslearning.learner.iterate import Iterate
from crosslearning.learner.method import Improvement, Method, part_of, prefixed
from crosslearning.learner.report import IterationReport
from crosslearning.rkhs import PruningCertificate
from crosslearning.rkhs.checks import Floats


class Core:
    """Applies the method's steps to the policies, and keeps them on the constraint."""

    def __init__(self, iterate: Iterate, method: Method) -> None:
        self.iterate = iterate
        self.method = method

    def step(self) -> IterationReport:
        """Make one iteration of Algorithm 2 (lines 3 to 8)."""
        iterate, settings = self.iterate, self.iterate.settings
        dictionary = iterate.dictionary
        # Lines 3 to 5: the method proposes a step for every task.
        improvement = self._improve()
        # Line 6: take the step, then project.
        folded = self._move(improvement)
        projection = dictionary.project(settings.epsilon, settings.projection)
        # Line 7: CDKOMP.
        pruning = dictionary.prune(settings.budget, settings.max_knots, folded)
        iterate.iteration += 1
        iterate.steps += improvement.steps
        # Line 8: whether to stop.
        decision = self.method.stop_decision(iterate, improvement)
        if decision.check is not None:
            iterate.steps += decision.check.steps
        return IterationReport(
            iteration=iterate.iteration,
            steps=improvement.steps,
            episodes=improvement.episodes,
            returns=improvement.returns,
            numbers={**improvement.numbers, **decision.numbers},
            distances=projection.distances,
            projection=projection,
            pruning=pruning,
            stop=decision.stop,
            check=decision.check,
        )

    def _improve(self) -> Improvement:
        """Call the method; if it fails, reset the generator, so that a retry is the same."""
        generator = self.iterate.generator.bit_generator
        before = generator.state
        try:
            return self.method.improve(self.iterate)
        except BaseException:
            generator.state = before
            raise

    def _move(self, improvement: Improvement) -> PruningCertificate | None:
        """Add each task's step to its policy: h̄_i = h_i + η_i ∇̂_i, or along its momentum.

        If there are many new knots, most are pruned at once; then the certificate is returned.
        """
        dictionary, momentum = self.iterate.dictionary, improvement.momentum
        settings, weights = self.iterate.settings, self._weights(improvement)
        if momentum is not None:
            dictionary.scale(self._own, momentum.keep)
        if not dictionary.crowded_by(len(weights), settings.max_knots):
            dictionary.extend(improvement.knots, weights)
            if momentum is not None:
                dictionary.add_multiples(self._own, momentum.lengths)
            return None
        if momentum is not None:
            dictionary.add_multiples(self._own, momentum.lengths)
            weights[:, : self.iterate.tasks] += momentum.lengths[:, None] * momentum.weights
        limits = settings.budget, settings.max_knots
        return dictionary.extend_within(improvement.knots, weights, *limits)

    @property
    def _own(self) -> int:
        """The index of the method's first function."""
        return self.iterate.tasks + 1

    def _weights(self, improvement: Improvement) -> Floats:
        """Return the weights on the new knots of all functions that the dictionary holds."""
        dictionary = self.iterate.dictionary
        weights = np.zeros((len(improvement.knots), dictionary.functions, dictionary.outputs))
        weights[:, : self.iterate.tasks] = improvement.weights
        if improvement.momentum is not None:
            weights[:, self._own :] = improvement.momentum.weights
        return weights

    # Files -----------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Return everything needed to continue bit for bit: arrays, and plain data."""
        arrays, numbers = self.iterate.state()
        own, plain = self.method.state()
        name = self.iterate.settings.method
        method = {"name": name, "functions": self.method.functions, **plain}
        return arrays | prefixed("method", own), {**numbers, "method": method}

    def restore(self, arrays: Mapping[str, Floats], numbers: Mapping[str, Any]) -> None:
        """Restore a state, or raise FileFormatError if it does not fit."""
        self.method.restore(part_of(arrays, "method"), numbers["method"])
        shared = {name: a for name, a in arrays.items() if not name.startswith("method.")}
        self.iterate.restore(shared, numbers)
