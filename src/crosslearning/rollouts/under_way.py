"""Rollouts on their way: what each has gathered, and when it is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crosslearning.rollouts.data import Episodes

Floats = NDArray[np.float64]


class Seen(Protocol):
    """What a rollout is shown of the environment after every step."""

    #: Good until the next step.
    observation: NDArray[Any]
    terminated: bool
    truncated: bool

    def outcome(self) -> dict[str, Any]:
        """Return how the episode stands, by name."""


class Rollout(Protocol):
    """One rollout on its way: a place in the plan, and what has been gathered."""

    task: int
    seed: int
    uniforms: Floats

    def begin(self, player: Seen) -> None:
        """See the start."""

    def deviation(self) -> Floats:
        """Return what is added to the mean action of the next step."""

    def take(self, player: Seen, reward: float, action: Floats) -> bool:
        """Take in a step; return False at the end. The action is not yet clipped."""


@dataclass
class SampleRollout:
    """One branch of a gradient sample: t steps, then the sampled action and T more."""

    task: int
    seed: int
    uniforms: Floats
    noise: Floats
    before: int
    after: int
    sign: float
    steps: int = 0
    observation: Floats | None = None  # s_t
    before_rewards: float = 0.0
    first_reward: float = 0.0
    value: float = 0.0

    def begin(self, player: Seen) -> None:
        """See the start."""
        self._arrive(player)

    def deviation(self) -> Floats:
        """Return what is added to the mean action of the next step."""
        noise: Floats = self.noise[self.steps]
        return self.sign * noise if self.steps == self.before else noise

    def take(self, player: Seen, reward: float, action: Floats) -> bool:
        """Take in a step; return False after an end and after t + 1 + T steps."""
        if self.steps < self.before:
            self.before_rewards += reward
        else:
            self.value += reward
            if self.steps == self.before:
                self.first_reward = reward
        self.steps += 1
        self._arrive(player)
        return not player.terminated and self.steps <= self.before + self.after

    def _arrive(self, player: Seen) -> None:
        """Keep s_t: where the sampled action is taken, or would be if the episode had not ended."""
        if self.steps == self.before or (self.observation is None and player.terminated):
            self.observation = np.array(player.observation, dtype=np.float64)


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

    def __post_init__(self) -> None:
        """Make room for what a step gives: one write at the end is cheaper than many."""
        self._rewards: list[float] = []
        self._actions: list[Floats] = []
        self._observations = self.result.observations[self.task, self.number]

    def begin(self, player: Seen) -> None:
        """See the start."""
        self._observations[0] = player.observation

    def deviation(self) -> Floats:
        """Return what is added to the mean action of the next step."""
        noise: Floats = self.noise[self.steps]
        return noise

    def take(self, player: Seen, reward: float, action: Floats) -> bool:
        """Take in a step; return False at the end, the time limit or the horizon."""
        self.steps += 1
        self._rewards.append(reward)
        self._actions.append(action)
        self._observations[self.steps] = player.observation
        if not player.terminated and not player.truncated and self.steps < len(self.noise):
            return True
        place = (self.task, self.number)
        self.result.rewards[place][: self.steps] = self._rewards
        self.result.actions[place][: self.steps] = self._actions
        self._observations[self.steps + 1 :] = player.observation
        self.result.lengths[place] = self.steps
        self.result.terminated[place] = player.terminated
        self.outcome = player.outcome()
        return False
