"""Transitions: the observed steps of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crosslearning.learner.method import misfit
from crosslearning.rkhs.checks import Floats
from crosslearning.rollouts.data import ActionScale, Episodes


class Transitions(NamedTuple):
    """Steps of one task, its episodes laid end to end.

    Attributes
    ----------
    states, after : arrays, shape (n, q)
        Observations before and after.
    actions : array, shape (n, p)
        As applied: clipped, in the policies' units.
    rewards : array, shape (n,)
    terminated, first : arrays, shape (n,)
        1 where the step terminated its episode, and where it began one.
    """

    states: Floats
    actions: Floats
    after: Floats
    rewards: Floats
    terminated: Floats
    first: Floats

    @classmethod
    def none(cls, q: int, p: int) -> Transitions:
        """Return no transitions."""
        return cls(
            np.empty((0, q)), np.empty((0, p)), np.empty((0, q)), *(np.empty(0) for _ in range(3))
        )

    @classmethod
    def of(cls, episodes: Episodes, scale: ActionScale, bounds: Floats) -> Transitions:
        """Lay the episodes of one task end to end.

        ``scale`` maps the policies' actions to the task's, which the episodes hold; ``bounds``,
        shape (2, p), are those of the action space in the policies' units.
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
        """Concatenate transitions."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def pack(data: Sequence[Transitions]) -> dict[str, Floats]:
    """Return the transitions of all tasks as arrays for a file."""
    counts = np.array([len(own.rewards) for own in data], dtype=np.float64)
    return {**Transitions.joined(data)._asdict(), "counts": counts}


def unpack(arrays: Mapping[str, Floats], tasks: int, q: int, p: int) -> list[Transitions]:
    """Return what :func:`pack` packed, or raise FileFormatError if it does not fit."""
    counts = arrays["counts"]
    if counts.shape != (tasks,) or np.any(counts < 0) or np.any(counts % 1):
        raise misfit("transitions")
    n = int(counts.sum())
    for name, empty in Transitions.none(q, p)._asdict().items():
        if arrays[name].shape != (n, *empty.shape[1:]) or not np.all(np.isfinite(arrays[name])):
            raise misfit(f"{name} of transitions")
    ends = np.cumsum(counts.astype(np.int64))
    return [
        Transitions(*(arrays[name][end - int(count) : end].copy() for name in Transitions._fields))
        for count, end in zip(counts, ends, strict=True)
    ]
