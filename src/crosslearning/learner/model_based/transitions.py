"""Transitions: what was seen of a task, one step after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.rollouts.data import ActionScale, Episodes

Floats = NDArray[np.float64]


class Transitions(NamedTuple):
    """Steps of one task, its episodes laid end to end.

    Attributes
    ----------
    states, after : arrays, shape (n, q)
        Observations before and after.
    actions : array, shape (n, p)
        As they took effect: clipped, in the policies' units.
    rewards : array, shape (n,)
    terminated : array, shape (n,)
        1 where the step ended its episode.
    first : array, shape (n,)
        1 where the step began one.
    """

    states: Floats
    actions: Floats
    after: Floats
    rewards: Floats
    terminated: Floats
    first: Floats

    @classmethod
    def none(cls, q: int, p: int) -> Transitions:
        """Return no transitions at all."""
        return cls(
            np.empty((0, q)), np.empty((0, p)), np.empty((0, q)), *(np.empty(0) for _ in range(3))
        )

    @classmethod
    def of(cls, episodes: Episodes, scale: ActionScale, bounds: Floats) -> Transitions:
        """Lay the episodes of one task end to end.

        Parameters
        ----------
        scale : ActionScale
            From the policies' actions to the task's, in which the episodes' are told.
        bounds : array, shape (2, p)
            The ends of the action space, in the policies' units.
        """
        E, horizon = episodes.rewards.shape
        step = np.arange(horizon)
        there = step < episodes.lengths[:, None]
        last = there & (step == episodes.lengths[:, None] - 1)
        return cls(
            states=episodes.observations[:, :-1][there],
            actions=np.clip(scale.inverse(episodes.actions), *bounds)[there],
            after=episodes.observations[:, 1:][there],
            rewards=episodes.rewards[there],
            terminated=(last & episodes.terminated[:, None])[there].astype(np.float64),
            first=np.broadcast_to(step == 0, (E, horizon))[there].astype(np.float64),
        )

    @classmethod
    def joined(cls, parts: Sequence[Transitions]) -> Transitions:
        """Return the transitions of several, in their order."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
