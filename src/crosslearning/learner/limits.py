"""Limits of observations, which hold for whole episodes with a probability that the user gives.

Each limit of each task has a multiplier λ ≥ 0 of the constraint P(an episode crosses it) ≤ 1 − p
(primal–dual): it grows while crossings, imagined or measured, are more frequent than that, and
shrinks otherwise. The policies maximise the return less λ times a smooth penalty near and beyond
the limit. With z the distance beyond the limit in units of its width, the penalty is 0 up to
z = −1, then ½ (1 + z)², and from z = 0 on ½ + z.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.compiled import compiled
from crosslearning._base.statistics import Interval, clopper_pearson
from crosslearning.errors import InputError
from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rollouts import Episodes
from crosslearning.tasks import Task

#: The width of a penalty, relative to the standard deviation of the observation.
_WIDTH = 0.25
#: The share of the allowed crossings that is aimed at: models err.
_AIM = 0.5
#: Growth of a multiplier for a limit that is always crossed, in standard deviations of rewards.
_GROWTH = 2.0


class Penalties(NamedTuple):
    """The penalties of L ends of ranges for N tasks, for compiled code."""

    coordinate: Integers  #: the observation, shape (L,)
    sign: Floats  #: 1 for an upper end, −1 for a lower one, shape (L,)
    end: Floats  #: shape (N, L); infinite where a task has no such limit
    width: Floats  #: shape (L,)
    weight: Floats  #: λ, shape (N, L)


NO_PENALTIES = Penalties(
    np.empty(0, dtype=np.int64), np.empty(0), np.empty((0, 0)), np.empty(0), np.empty((0, 0))
)


def with_range(
    penalties: Penalties, tasks: int, coordinates: Integers, observations: Floats, weight: float
) -> Penalties:
    """Return penalties joined by those of leaving the range of ``observations`` (n, q)."""
    sign = np.repeat([-1.0, 1.0], len(coordinates))
    at, seen = np.tile(coordinates, 2), observations[:, coordinates]
    end = np.concatenate([seen.min(axis=0), seen.max(axis=0)])
    spread = np.tile(np.where(seen.std(axis=0) > 0.0, seen.std(axis=0), 1.0), 2)
    shape = (tasks, len(at))
    return Penalties(
        np.concatenate([penalties.coordinate, at]),
        np.concatenate([penalties.sign, sign]),
        np.concatenate([penalties.end, np.broadcast_to(end, shape)], axis=1),
        np.concatenate([penalties.width, _WIDTH * spread]),
        np.concatenate([penalties.weight, np.full(shape, weight)], axis=1),
    )


@compiled
def penalty(penalties: Penalties, task: int, state: Floats) -> float:
    """Return the weighted penalty of a state."""
    total = 0.0
    for k in range(penalties.coordinate.shape[0]):
        beyond = penalties.sign[k] * (state[penalties.coordinate[k]] - penalties.end[task, k])
        z = beyond / penalties.width[k]
        if z > 0.0:
            total += penalties.weight[task, k] * (0.5 + z)
        elif z > -1.0:
            total += penalties.weight[task, k] * 0.5 * (1.0 + z) ** 2
    return total


@compiled
def penalty_slope(penalties: Penalties, task: int, state: Floats, slope: Floats) -> None:
    """Add the gradient of the penalty at a state to ``slope``."""
    for k in range(penalties.coordinate.shape[0]):
        d = penalties.coordinate[k]
        z = penalties.sign[k] * (state[d] - penalties.end[task, k]) / penalties.width[k]
        if z > -1.0:
            rise = min(1.0 + z, 1.0) * penalties.sign[k] / penalties.width[k]
            slope[d] += penalties.weight[task, k] * rise


@compiled
def _penalise(penalties: Penalties, task: int, states: Floats, out: Floats) -> None:
    for n in range(states.shape[0]):
        out[n] = penalty(penalties, task, states[n])


class Limits:
    """The limits of all tasks, and their multipliers."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        sides = {
            (d, sign)
            for task in tasks
            for d, ends in task.state_limits.items()
            for sign, end in zip((-1.0, 1.0), ends, strict=True)
            if end is not None
        }
        self.sides = sorted(sides)
        ends = np.full((len(tasks), len(self.sides)), np.inf)
        for i, task in enumerate(tasks):
            for k, (d, sign) in enumerate(self.sides):
                end = task.state_limits.get(d, (None, None))[0 if sign < 0.0 else 1]
                ends[i, k] = sign * np.inf if end is None else end
        self.allowed = np.array([1.0 - task.chance for task in tasks])
        #: Real episodes of every task that crossed a limit, and all of them, shape (2, N).
        self.seen = np.zeros((2, len(tasks)))
        self.penalties = Penalties(
            np.array([d for d, _ in self.sides], dtype=np.int64),
            np.array([sign for _, sign in self.sides]),
            ends,
            np.ones(len(self.sides)),
            np.zeros(ends.shape),
        )

    def __len__(self) -> int:
        return len(self.sides)

    @property
    def multipliers(self) -> Floats:
        """λ of every task and limit, shape (N, L)."""
        return self.penalties.weight

    def measure(self, observations: Floats) -> None:
        """Set the widths of the penalties from observations (n, q) of all tasks."""
        spread = observations.std(axis=0)[self.penalties.coordinate]
        self.penalties = self.penalties._replace(width=_WIDTH * np.where(spread > 0, spread, 1.0))

    def crossed(self, task: int, states: Floats) -> NDArray[np.bool_]:
        """Return which limits a task's states (…, q) cross, shape (…, L)."""
        at, sign, end, _, _ = self.penalties
        return np.asarray(sign * (states[..., at] - end[task]) > 0.0)

    def episodes_crossed(self, episodes: Episodes) -> Floats:
        """Return the share of each task's episodes in which each limit is crossed, shape (N, L)."""
        shares = np.zeros(self.penalties.end.shape)
        for i in range(len(shares)):
            after = np.arange(episodes.observations.shape[2]) <= episodes.lengths[i][:, None]
            crossed = self.crossed(i, episodes.observations[i]) & after[:, :, None]
            shares[i] = crossed.any(axis=1).mean(axis=0)
        return shares

    def saw(self, episodes: Episodes) -> Floats:
        """Count real episodes; return what :meth:`episodes_crossed` does of them."""
        crossed = [_any_crossed(self, i, episodes.of_task(i)) for i in range(len(self.allowed))]
        new = [[one.sum() for one in crossed], [len(one) for one in crossed]]
        self.seen = self.seen + np.array(new, dtype=np.float64)
        return self.episodes_crossed(episodes)

    def numbers(self, newest: Floats) -> dict[str, Floats]:
        """Return the statistics of every task, with the shares of the ``newest`` episodes.

        ``limit_crossed_so_far`` is the share of all real episodes, with its exact 95 % interval.
        """
        if not len(self):
            return {}
        known = [(int(k), int(n)) for k, n in self.seen.T]
        shares = [astuple(clopper_pearson(k, n)) if n else (np.nan,) * 3 for k, n in known]
        names = [f"limit_crossed_so_far{end}" for end in ("", "_low", "_high")]
        return {
            "limit_crossed": newest.max(axis=1),
            **dict(zip(names, np.array(shares).T, strict=True)),
            "limit_multiplier": self.multipliers.max(axis=1),
        }

    def penalised(self, episodes: Episodes) -> Episodes:
        """Return episodes whose rewards are less the penalties."""
        rewards = episodes.rewards.copy()
        for i, e in np.ndindex(episodes.lengths.shape):
            n = episodes.lengths[i, e]
            rewards[i, e, :n] -= self.charge(i, episodes.observations[i, e, 1 : n + 1])
        return episodes._replace(rewards=rewards)

    def charge(self, task: int, states: Floats) -> Floats:
        """Return the penalties of a task's states (…, q), shape (…)."""
        flat = np.ascontiguousarray(states.reshape(-1, states.shape[-1]))
        out = np.empty(len(flat))
        _penalise(self.penalties, task, flat, out)
        return out.reshape(states.shape[:-1])

    def update(self, shares: Floats, unit: float) -> None:
        """Take a step of the dual: λ follows the ``shares`` of crossings, shape (N, L).

        ``unit`` is the standard deviation of rewards, which λ is measured in.
        """
        rise = _GROWTH * unit * (shares - _AIM * self.allowed[:, None])
        weight = np.maximum(self.penalties.weight + rise, 0.0)
        weight[np.isinf(self.penalties.end)] = 0.0
        self.penalties = self.penalties._replace(weight=weight)

    def state(self) -> dict[str, Floats]:
        """Return the multipliers and the counts, for a file."""
        return {"limits": self.multipliers.copy(), "limits_seen": self.seen.copy()}

    def restore(self, arrays: Mapping[str, Floats]) -> None:
        """Set the multipliers and the counts of a file; early files have no counts."""
        multipliers, seen = arrays["limits"], arrays.get("limits_seen", np.zeros(self.seen.shape))
        if seen.shape != self.seen.shape or not np.all((seen[0] >= 0.0) & (seen[0] <= seen[1])):
            raise ValueError("the counts of crossed limits")
        if multipliers.shape != self.penalties.end.shape or not np.all(multipliers >= 0.0):
            raise ValueError("the multipliers of the limits")
        self.penalties = self.penalties._replace(weight=multipliers.copy())
        self.seen = seen.copy()


def _any_crossed(limits: Limits, task: int, episodes: Episodes) -> NDArray[np.bool_]:
    """Return which episodes of one task, shape (n,), cross any limit."""
    there = np.arange(episodes.observations.shape[1]) <= episodes.lengths[:, None]
    crossed = limits.crossed(task, episodes.observations).any(axis=2) & there
    return np.asarray(crossed.any(axis=1))


def crossed_share(task: Task, episodes: Episodes) -> Interval:
    """Return the share of a task's episodes that cross a limit, with an exact interval."""
    crossed = _any_crossed(Limits([task]), 0, episodes)
    return clopper_pearson(int(crossed.sum()), len(crossed))


def refuse_limits(tasks: Sequence[Task], method: str) -> None:
    """Refuse tasks with limits of observations for a method that does not hold them."""
    limited = [task.name for task in tasks if task.state_limits]
    if limited:
        raise InputError(
            f"the method {method} holds no limits of observations, which {limited[0]!r} has; take "
            "models or trust-region, or leave the limits out"
        )
