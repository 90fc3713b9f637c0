"""Logged episodes, checks of them, and the spaces that suit them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.rkhs.checks import Floats
from crosslearning.tasks.signals import ends_of

#: The margin of the observation space around the data, as a share of their range.
_MARGIN = 0.1
#: The fewest steps in all from which a model can be learned.
_FEWEST = 10
#: The units of a task look different if its range is this many times wider than that of all others
#: and its typical values are larger than all of theirs: degrees and radians differ by 57.
_WIDER, _LARGER = 10.0, 3.0
#: Or if its values are this many ranges away, as kelvins from degrees Celsius.
_APART = 10.0


class Episode(NamedTuple):
    """One episode of T steps."""

    observations: Floats  # (T + 1, q)
    actions: Floats  # (T, p), in the environment's units
    rewards: Floats  # (T,)
    terminated: NDArray[np.bool_]  # (T,); all false if the episode was truncated


#: The episodes of every task, by its name.
Log = dict[str, list[Episode]]


def check_shapes(log: Log) -> None:
    """Refuse tasks without data, and tasks of different shapes."""
    if not log:
        raise InputError("there are no machines in the data")
    first, expected = "", (0, 0)
    for machine, episodes in log.items():
        if not any(len(one.rewards) for one in episodes):
            remedy = "leave it out, and adapt to it later with learner.adapt(task, steps=50)"
            raise InputError(f"machine {machine!r} has no data; {remedy}")
        for number, one in enumerate(episodes):
            size = one.observations.shape[1], one.actions.shape[1]
            first, expected = (first, expected) if first else (machine, size)
            if size != expected:
                raise InputError(
                    f"machine {machine!r}, episode {number} has (observations, actions) = {size} "
                    f"a step, but machine {first!r} has {expected}; they must match"
                )


def _by_task(log: Log, part: str) -> dict[str, Floats]:
    """Return a part of the episodes of every task, shape (n, columns)."""
    joined = {
        name: np.concatenate([getattr(e, part) for e in episodes]) for name, episodes in log.items()
    }
    return {name: values.reshape(len(values), -1) for name, values in joined.items()}


def _pooled(log: Log, part: str) -> Floats:
    return np.concatenate(list(_by_task(log, part).values()))


def check_content(log: Log, rewards_known: bool) -> None:
    """Refuse data from which nothing can be learned, and warn of suspicious data."""
    rewards = _pooled(log, "rewards")
    if len(rewards) < _FEWEST:
        better = f"give at least {_FEWEST}, and better some 50 of each machine"
        raise InputError(f"there are {len(rewards)} steps in all; {better}")
    if np.ptp(rewards) == 0.0 and not rewards_known:
        raise InputError(f"all rewards are {rewards[0, 0]:g}: no policy is better than another")
    for j, values in enumerate(_pooled(log, "actions").T):
        if np.ptp(values) == 0.0:
            text = f"action {j} is always {values[0]:g}: its effect cannot be learned"
            raise InputError(f"{text}; leave it out")
    for j, values in enumerate(_pooled(log, "observations").T):
        if np.ptp(values) == 0.0:
            constant = f"observation {j} is always {values[0] + 0.0:g}"
            warnings.warn(f"{constant}: it has no information", stacklevel=3)
    for part in ("observations", "actions", "rewards"):
        by_task = _by_task(log, part)
        for name, values in by_task.items() if len(by_task) > 1 else ():
            rest = np.concatenate([other for task, other in by_task.items() if task != name])
            _compare_units(part, name, values, rest)


def _compare_units(part: str, name: str, values: Floats, rest: Floats) -> None:
    """Warn if a task's typical values are far beyond those of the rest, both (n, columns)."""
    low, high, largest = rest.min(axis=0), rest.max(axis=0), np.abs(rest).max(axis=0)
    wide, spread = np.ptp(values, axis=0), np.ptp(rest, axis=0)
    wider = (wide >= _WIDER * spread) & (np.median(np.abs(values), axis=0) >= _LARGER * largest)
    gap = np.maximum(values.min(axis=0) - high, low - values.max(axis=0))
    apart = gap >= _APART * np.maximum(wide, spread)
    # Values that are constant in the others do not show their units.
    for j in np.flatnonzero((wider | apart) & (spread > 0.0)):
        column = part.removesuffix("s") + ("" if part == "rewards" else f" {j}")
        warnings.warn(
            f"the {column} of machine {name!r} is between {values[:, j].min():.3g} and "
            f"{values[:, j].max():.3g}, that of the others between {low[j]:.3g} and "
            f"{high[j]:.3g}; are the units the same?",
            stacklevel=4,
        )


def spaces_of(
    data: Any, log: Log, observation_space: Box | None, action_space: Box | None
) -> tuple[Box, Box]:
    """Return the given spaces, those of datasets, or those that suit the data."""
    datasets = [data]
    if isinstance(data, Mapping | list | tuple):
        datasets = list(data.values() if isinstance(data, Mapping) else data)
    spaces = []
    for kind, given in (("observation", observation_space), ("action", action_space)):
        known = [getattr(one, f"{kind}_space", None) for one in datasets]
        space = given or next((one for one in known if isinstance(one, Box)), None)
        if space is None:
            seen = _pooled(log, f"{kind}s")
            low, high = seen.min(axis=0), seen.max(axis=0)
            margin = _MARGIN * (high - low) if kind == "observation" else 0.0
            low, high = low - margin, high + margin
        else:
            low, high = ends_of(space)
            _check_within(kind, low, high, log)
        spaces.append(Box(low, high, dtype=np.float64))
    return spaces[0], spaces[1]


def _check_within(kind: str, low: Floats, high: Floats, log: Log) -> None:
    """Refuse bounds of a space that the data exceed."""
    for name, values in _by_task(log, f"{kind}s").items():
        if values.shape[1] != len(low):
            raise InputError(
                f"the {kind}_space has {len(low)} coordinates, but the {kind}s of machine "
                f"{name!r} have {values.shape[1]}"
            )
        least, most = values.min(axis=0), values.max(axis=0)
        with np.errstate(invalid="ignore"):
            slack = 1e-5 * np.where(np.isfinite(high - low), high - low, 1.0)
        for j in np.flatnonzero((least < low - slack) | (most > high + slack)):
            raise InputError(
                f"{kind} {j} of machine {name!r} is between {least[j]:.6g} and {most[j]:.6g}, but "
                f"the {kind}_space between {low[j]:.6g} and {high[j]:.6g}"
            )
