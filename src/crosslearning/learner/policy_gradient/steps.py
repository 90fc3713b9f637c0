"""Step rules: how far the policies move along their gradients.

Coordinates have no meaning in an RKHS, so the second moment is one number per function: the
running mean of its gradient's squared norm. Momentum is one more function per task.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosslearning.learner.policy_gradient.settings import PolicyGradient

Floats = NDArray[np.float64]


@dataclass
class StepRule:
    """The state of a step rule: what a checkpoint must hold of it."""

    settings: PolicyGradient
    #: Running mean of the squared gradient norms, without bias correction, shape (N,).
    mean_square: Floats

    @property
    def momentum(self) -> float:
        """Share of the old direction that is kept; zero for rules without momentum."""
        return self.settings.momentum if self.settings.step_rule == "adam" else 0.0

    def step(self, iteration: int, squared_norms: Floats) -> tuple[Floats, Floats]:
        """Take in an iteration's gradients; return how far to go along each, and how shortened.

        Parameters
        ----------
        iteration : int
            k, from 0.
        squared_norms : array, shape (N,)
            ‖∇̂_i‖² of this iteration; enters the running mean.

        Returns
        -------
        lengths : array, shape (N,)
            By what to multiply each task's direction.
        clips : array, shape (N,)
            By what to shorten each task's gradient before that; at most 1.
        """
        if self.settings.step_rule == "constant":
            return self.lengths(iteration), np.ones(len(squared_norms))
        keep = self.settings.second_moment
        self.mean_square = keep * self.mean_square + (1.0 - keep) * squared_norms
        norms, clips = np.sqrt(squared_norms), np.ones(len(squared_norms))
        if math.isfinite(self.settings.step_clip):
            allowed = self.settings.step_clip * self._root_mean_square(iteration)
            np.divide(allowed, norms, out=clips, where=norms > allowed)
        return self.lengths(iteration), clips

    def lengths(self, iteration: int) -> Floats:
        """Return the lengths of an iteration whose gradients are in the running mean already."""
        settings = self.settings
        if settings.step_rule == "constant":
            return np.full(len(self.mean_square), settings.step_size)
        size = settings.step_size
        assert size is not None
        if settings.step_rule == "decaying":
            size /= math.sqrt(1.0 + iteration / settings.step_decay)
        if self.momentum:
            size /= 1.0 - self.momentum ** (iteration + 1)
        # A task whose gradient has always been zero has no direction to move in.
        root = self._root_mean_square(iteration)
        return np.divide(size, root, out=np.zeros_like(root), where=root > 0.0)

    def _root_mean_square(self, iteration: int) -> Floats:
        """Return the running root mean square with its bias towards zero taken off."""
        keep = self.settings.second_moment
        return np.sqrt(self.mean_square / (1.0 - keep ** (iteration + 1)))
