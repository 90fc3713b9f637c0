"""A learned policy as the controller of a machine: it takes and gives what the machine does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.learner.policy import Policy
from crosslearning.tasks.loop import Loop, LoopSpec


class LearnedController:
    """A policy and the loop of its task: the controller that it corrects, lags, limits and rates.

    It is used like a PID: ``reset()`` before an episode, then ``act(observation)`` at every step,
    with the machine's observations and actions. ``predict`` is the same for ``evaluate``, and it
    may be the controller that further learning starts ``around``.

    Examples
    --------
    >>> from crosslearning import PID, CrossLearner
    >>> learner = CrossLearner("pendulums:2", around=PID(kp=2.0, measured=1), epsilon=0.2)
    >>> controller = learner.learn(2, progress=False).controller(0)
    >>> controller.reset()
    >>> controller.act([1.0, 0.1, 0.0]).shape
    (1,)
    """

    def __init__(self, policy: Policy, spec: LoopSpec) -> None:
        self.policy, self.name, self.discount = policy, policy.name, policy.discount
        self.loop = Loop(spec)
        self.reset()

    def reset(self) -> None:
        """Begin an episode."""
        self._begun = False

    @property
    def memory(self) -> NDArray[np.float64]:
        """What the next action depends on beside the observation, for learning around it."""
        loop = self.loop
        if not self._begun:
            loop.reset(np.zeros(len(loop.spec.observation_names)))
        return loop.memory

    def act(self, observation: ArrayLike) -> NDArray[Any]:
        """Return the machine's action for its observation, in the shape of its space."""
        loop, space = self.loop, self.loop.spec.actions
        seen = loop.observe(observation) if self._begun else loop.reset(observation)
        self._begun = True
        correction, _ = self.policy.predict(seen)
        return loop.act(correction).reshape(space.shape).astype(space.dtype)

    def predict(
        self, observation: ArrayLike, deterministic: bool = True
    ) -> tuple[NDArray[Any], None]:
        """Return :meth:`act` and None, as Stable-Baselines3 does."""
        return self.act(observation), None
