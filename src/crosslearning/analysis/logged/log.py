"""Logged episodes, checks of them, and the spaces that suit them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from crosslearning.errors import InputError

Floats = NDArray[np.float64]

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


def check_log(log: Log) -> None:
    """Refuse tasks without data, and tasks of different shapes."""
    if not log:
        raise InputError("there are no machines in the data")
    first, sizes = "", (0, 0)
    for machine, episodes in log.items():
        if not any(len(one.rewards) for one in episodes):
            raise InputError(
                f"machine {machine!r} has no data; leave it out, and adapt to it later with "
                "learner.adapt(task, steps=50)"
            )
        for number, one in enumerate(episodes):
            size = one.observations.shape[1], one.actions.shape[1]
            first, sizes = (first, sizes) if first else (machine, size)
            if size != sizes:
                raise InputError(
                    f"machine {machine!r}, episode {number} has {size[0]} observations and "
                    f"{size[1]} actions a step, but machine {first!r} has {sizes[0]} and "
                    f"{sizes[1]}; machines that learn together must match"
                )


def _joined(log: Log, part: str) -> dict[str, Floats]:
    """Return a part of the episodes of every task, shape (n, columns)."""
    joined = {}
    for name, episodes in log.items():
        values = np.concatenate([getattr(one, part) for one in episodes])
        joined[name] = values[:, None] if values.ndim == 1 else values
    return joined


def _pooled(log: Log, part: str) -> Floats:
    return np.concatenate(list(_joined(log, part).values()))


def check_logs(log: Log, rewards_known: bool = False) -> None:
    """Refuse data from which nothing can be learned, and warn of suspicious data."""
    steps = sum(len(one.rewards) for own in log.values() for one in own)
    if steps < _FEWEST:
        raise InputError(
            f"there are {steps} steps in all; give at least {_FEWEST}, and better some 50 of each "
            "machine"
        )
    rewards = _pooled(log, "rewards")
    if np.ptp(rewards) == 0.0 and not rewards_known:
        raise InputError(f"all rewards are {rewards[0, 0]:g}: no policy is better than another")
    for j, values in enumerate(_pooled(log, "actions").T):
        if np.ptp(values) == 0.0:
            raise InputError(
                f"action {j} is always {values[0]:g}: what it does cannot be learned; leave it out"
            )
    for j, values in enumerate(_pooled(log, "observations").T):
        if np.ptp(values) == 0.0:
            text = f"observation {j} is always {values[0] + 0.0:g}: it has no information"
            warnings.warn(text, stacklevel=3)
    for part in ("observations", "actions", "rewards"):
        _compare_units(part, _joined(log, part))


def _compare_units(part: str, by_task: Mapping[str, Floats]) -> None:
    """Warn of a task whose typical values are far beyond those of all others."""
    for name, values in by_task.items():
        others = [other for task, other in by_task.items() if task != name]
        if not others:
            return
        rest = np.concatenate(others)
        low, high, size = rest.min(axis=0), rest.max(axis=0), np.abs(rest).max(axis=0)
        usual = np.median(np.abs(values), axis=0)
        wider = np.ptp(values, axis=0) >= _WIDER * np.ptp(rest, axis=0)
        gap = np.maximum(values.min(axis=0) - high, low - values.max(axis=0))
        apart = gap >= _APART * np.maximum(np.ptp(values, axis=0), np.ptp(rest, axis=0))
        # Values that are constant in the others do not show their units.
        odd = ((wider & (usual >= _LARGER * size)) | apart) & (np.ptp(rest, axis=0) > 0.0)
        for j in np.flatnonzero(odd):
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
    datasets = [data] if hasattr(data, "observation_space") else []
    if isinstance(data, Mapping):
        datasets = list(data.values())
    elif isinstance(data, list | tuple):
        datasets = list(data)
    spaces = []
    for part, given in (("observations", observation_space), ("actions", action_space)):
        seen = _pooled(log, part)
        known = [getattr(one, f"{part[:-1]}_space", None) for one in datasets]
        space = given or next((one for one in known if isinstance(one, Box)), None)
        if space is None:
            least, most = seen.min(axis=0), seen.max(axis=0)
            margin = _MARGIN * (most - least) if part == "observations" else 0.0 * least
            spaces.append(Box(least - margin, most + margin, dtype=np.float64))
            continue
        low, high = (np.ravel(end).astype(np.float64) for end in (space.low, space.high))
        _check_within(part, low, high, log)
        spaces.append(Box(low, high, dtype=np.float64))
    return spaces[0], spaces[1]


def _check_within(part: str, low: Floats, high: Floats, log: Log) -> None:
    """Refuse bounds of a space that the data exceed."""
    for name, values in _joined(log, part).items():
        if values.shape[1] != len(low):
            raise InputError(
                f"the {part[:-1]}_space has {len(low)} coordinates, but the {part} of machine "
                f"{name!r} have {values.shape[1]}"
            )
        least, most = values.min(axis=0), values.max(axis=0)
        with np.errstate(invalid="ignore"):
            slack = 1e-5 * np.where(np.isfinite(high - low), high - low, 1.0)
        for j in np.flatnonzero((least < low - slack) | (most > high + slack)):
            kind = part.removesuffix("s")
            raise InputError(
                f"{kind} {j} of machine {name!r} is between {least[j]:.6g} and {most[j]:.6g}, but "
                f"the {kind}_space between {low[j]:.6g} and {high[j]:.6g}"
            )
