"""What is wrong with logged data, and the spaces that suit them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from crosslearning.analysis.logged.log import Log
from crosslearning.errors import InputError

Floats = NDArray[np.float64]

#: The space of observations is what was seen, and this share of its range on both sides.
_MARGIN = 0.1
#: Fewer steps than this in all tell nothing of how anything moves.
_FEWEST = 10
#: Numbers of a machine look like other units if their range is so much wider than that of all
#: others, and the usual ones larger than all of those: degrees and radians differ by 57.
_WIDER, _LARGER = 10.0, 3.0
#: Or if they are so many ranges away from them, as kelvins from degrees Celsius.
_APART = 10.0


def _joined(log: Log, part: str) -> dict[str, Floats]:
    """Return a part of the episodes of every machine, shape (n, columns)."""
    found = {}
    for name, episodes in log.items():
        parts = np.concatenate([getattr(one, part) for one in episodes])
        found[name] = parts[:, None] if parts.ndim == 1 else parts
    return found


def check_logs(log: Log, rewards_known: bool = False) -> None:
    """Refuse data from which nothing can be learned, and warn of those that look wrong."""
    steps = sum(len(one.rewards) for own in log.values() for one in own)
    if steps < _FEWEST:
        raise InputError(
            f"there are {steps} steps in all; give at least {_FEWEST}, and better some 50 of each "
            "machine"
        )
    rewards = np.concatenate(list(_joined(log, "rewards").values()))
    if np.ptp(rewards) == 0.0 and not rewards_known:
        raise InputError(f"all rewards are {rewards[0, 0]:g}: no policy is better than another")
    for j, values in enumerate(np.concatenate(list(_joined(log, "actions").values())).T):
        if np.ptp(values) == 0.0:
            raise InputError(
                f"action {j} is always {values[0]:g}: what it does cannot be learned; leave it out"
            )
    for j, values in enumerate(np.concatenate(list(_joined(log, "observations").values())).T):
        if np.ptp(values) == 0.0:
            warnings.warn(
                f"observation {j} is always {values[0] + 0.0:g}: it tells nothing", stacklevel=3
            )
    for part in ("observations", "actions", "rewards"):
        _compare_units(part, _joined(log, part))


def _compare_units(part: str, found: Mapping[str, Floats]) -> None:
    """Warn of a machine whose usual numbers are far beyond all that others know."""
    for name, values in found.items():
        others = [other for machine, other in found.items() if machine != name]
        if not others:
            return
        rest = np.concatenate(others)
        low, high, size = rest.min(axis=0), rest.max(axis=0), np.abs(rest).max(axis=0)
        usual = np.median(np.abs(values), axis=0)
        wider = np.ptp(values, axis=0) >= _WIDER * np.ptp(rest, axis=0)
        gap = np.maximum(values.min(axis=0) - high, low - values.max(axis=0))
        apart = gap >= _APART * np.maximum(np.ptp(values, axis=0), np.ptp(rest, axis=0))
        # What never moves in the others tells nothing of their units.
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
    """Return the spaces that were given, those of datasets, or those that suit the data."""
    datasets = [data] if hasattr(data, "observation_space") else []
    if isinstance(data, Mapping):
        datasets = list(data.values())
    elif isinstance(data, list | tuple):
        datasets = list(data)
    spaces = []
    for part, given in (("observations", observation_space), ("actions", action_space)):
        seen = np.concatenate(list(_joined(log, part).values()))
        known = [getattr(one, f"{part[:-1]}_space", None) for one in datasets]
        space = given or next((one for one in known if isinstance(one, Box)), None)
        if space is None:
            least, most = seen.min(axis=0), seen.max(axis=0)
            margin = _MARGIN * (most - least) if part == "observations" else 0.0 * least
            spaces.append(Box(least - margin, most + margin, dtype=np.float64))
            continue
        _check_within(part, space, log)
        low, high = (np.ravel(end).astype(np.float64) for end in (space.low, space.high))
        spaces.append(Box(low, high, dtype=np.float64))
    return spaces[0], spaces[1]


def _check_within(part: str, space: Box, log: Log) -> None:
    """Refuse a space that does not hold the data."""
    low, high = (np.ravel(end).astype(np.float64) for end in (space.low, space.high))
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
