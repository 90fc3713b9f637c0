"""Rollouts on their way: what each has gathered, and when it is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crosslearning.rollouts.data import Episodes

Floats = NDArray[np.float64]


class Segment(NamedTuple):
    """Steps that a rollout has taken since it was shown the last ones.

    Attributes
    ----------
    observations : array, shape (steps + 1, q)
        Where they began, and what each of them led to.
    rewards : array, shape (steps,)
    actions : array, shape (steps, p)
        Not yet clipped.
    terminated, truncated : bool
        What the last of them said.
    outcome : callable
        Tells how the episode stands, by name.
    """

    observations: Floats
    rewards: Floats
    actions: Floats
    terminated: bool
    truncated: bool
    outcome: Callable[[], dict[str, Any]]


class Rollout(Protocol):
    """One rollout on its way: a place in the plan, and what has been gathered."""

    task: int
    seed: int
    uniforms: Floats
    #: What is added to the mean actions, one row a step.
    noise: Floats
    #: How many have been taken.
    steps: int

    @property
    def length(self) -> int:
        """How many steps it takes if the environment does not end it."""

    @property
    def limited(self) -> bool:
        """Whether a time limit ends it."""

    def take(self, stretch: Segment) -> bool:
        """Take in steps; return False at the end."""


@dataclass
class SampleRollout:
    """One branch of a gradient sample: t steps, then the sampled action and T more."""

    task: int
    seed: int
    uniforms: Floats
    noise: Floats
    before: int
    after: int
    steps: int = 0
    observation: Floats | None = None  # s_t
    rewards: list[float] = field(default_factory=list)
    limited = False

    @property
    def length(self) -> int:
        """Steps to the state, the sampled action, and what follows: t + 1 + T."""
        return self.before + 1 + self.after

    def take(self, stretch: Segment) -> bool:
        """Take in steps; return False after an end and after t + 1 + T of them."""
        taken = len(stretch.rewards)
        # s_t is where the sampled action is taken, or would be if the episode had not ended.
        ahead = self.before - self.steps
        if self.observation is None and (ahead <= taken or stretch.terminated):
            self.observation = stretch.observations[min(ahead, taken)].copy()
        self.rewards += stretch.rewards.tolist()
        self.steps += taken
        return not stretch.terminated and self.steps < self.length


@dataclass
class EpisodeRollout:
    """One whole episode, written where the result has room for it."""

    task: int
    seed: int
    uniforms: Floats
    noise: Floats
    result: Episodes
    number: int
    steps: int = 0
    outcome: dict[str, Any] = field(default_factory=dict)
    limited = True

    @property
    def length(self) -> int:
        """The horizon."""
        return len(self.noise)

    def take(self, stretch: Segment) -> bool:
        """Take in steps; return False at the end, the time limit or the horizon."""
        place, first = (self.task, self.number), self.steps
        self.steps = last = first + len(stretch.rewards)
        observations = self.result.observations[place]
        observations[first : last + 1] = stretch.observations
        self.result.rewards[place][first:last] = stretch.rewards
        self.result.actions[place][first:last] = stretch.actions
        if not stretch.terminated and not stretch.truncated and last < self.length:
            return True
        observations[last + 1 :] = observations[last]
        self.result.lengths[place] = last
        self.result.terminated[place] = stretch.terminated
        self.outcome = stretch.outcome()
        return False
