"""Rollouts in progress: the data that each has collected, and when it is finished."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from crosslearning.rollouts.data import Episodes, Floats


class Segment(NamedTuple):
    """Consecutive steps of one rollout."""

    observations: Floats  # shape (steps + 1, q)
    rewards: Floats  # shape (steps,)
    actions: Floats  # shape (steps, p), before clipping
    terminated: bool  # by the last step
    truncated: bool
    outcome: Callable[[], dict[str, Any]]  # of the episode so far


@dataclass
class Rollout(ABC):
    """One rollout in progress; ``noise`` has one row per step."""

    task: int
    seed: int
    uniforms: Floats
    noise: Floats
    steps: int = field(default=0, init=False)
    #: Whether a time limit ends it.
    limited: ClassVar[bool]

    @property
    @abstractmethod
    def length(self) -> int:
        """The number of steps if the environment does not terminate."""

    @abstractmethod
    def extend(self, segment: Segment) -> bool:
        """Append steps; return False at the end."""


@dataclass
class SampleRollout(Rollout):
    """One branch of a gradient sample: t steps, the sampled action, and T more steps."""

    before: int
    after: int
    observation: Floats | None = None  # s_t
    rewards: list[float] = field(default_factory=list)
    limited = False

    @property
    def length(self) -> int:
        """T + 1 + T."""
        return self.before + 1 + self.after

    def extend(self, segment: Segment) -> bool:
        """Append steps; return False after termination or t + 1 + T steps."""
        count = len(segment.rewards)
        # s_t is where the sampled action is taken, or would be if the episode had not ended.
        ahead = self.before - self.steps
        if self.observation is None and (ahead <= count or segment.terminated):
            self.observation = segment.observations[min(ahead, count)].copy()
        self.rewards += segment.rewards.tolist()
        self.steps += count
        return not segment.terminated and self.steps < self.length


@dataclass
class EpisodeRollout(Rollout):
    """One episode, written to row (task, number) of the result."""

    result: Episodes
    number: int
    outcome: dict[str, Any] = field(default_factory=dict)
    limited = True

    @property
    def length(self) -> int:
        """The horizon."""
        return len(self.noise)

    def extend(self, segment: Segment) -> bool:
        """Append steps; return False after termination, truncation or the horizon."""
        place, first = (self.task, self.number), self.steps
        self.steps = last = first + len(segment.rewards)
        observations = self.result.observations[place]
        observations[first : last + 1] = segment.observations
        self.result.rewards[place][first:last] = segment.rewards
        self.result.actions[place][first:last] = segment.actions
        if not segment.terminated and not segment.truncated and last < self.length:
            return True
        observations[last + 1 :] = observations[last]
        self.result.lengths[place] = last
        self.result.terminated[place] = segment.terminated
        self.outcome = segment.outcome()
        return False
