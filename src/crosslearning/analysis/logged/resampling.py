"""Signals with clocks of their own, brought to a fixed rate, and what tables are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from crosslearning.analysis.logged.recording import Recording, Signal
from crosslearning.errors import InputError, visible
from crosslearning.rkhs.checks import Floats

#: Shorter gaps of a resampled signal are filled: so many steps, or samples.
_FILLED = 3.0
#: The most rows after resampling.
_MOST_ROWS = 10_000_000
#: Kinds of columns and their default names; of the first three, prefixes of names.
COLUMNS = {
    "observations": "obs",
    "actions": "act",
    "next_observations": "next_obs",
    "machine": "machine",
    "episode": "episode",
    "reward": "reward",
    "terminated": "terminated",
    "time": "time",
    "reset": "reset",
}


class Roles(NamedTuple):
    """Which signals are what; lists of names."""

    observations: list[str]
    actions: list[str]
    next_observations: list[str]
    machine: list[str]
    episode: list[str]
    reward: list[str]
    terminated: list[str]
    time: list[str]
    reset: list[str]
    setpoints: dict[str, float | str]  #: of observations: a number, or the name of a signal

    def used(self) -> dict[str, str]:
        """Return the role of every signal that has one."""
        roles = {name: kind.removesuffix("s") for kind in COLUMNS for name in getattr(self, kind)}
        for name in self.setpoints.values():
            if isinstance(name, str):
                roles[name] = f"{roles[name]}, setpoint" if name in roles else "setpoint"
        return roles


@dataclass
class Findings:
    """What was found in the rows of one machine."""

    rows: int = 0
    restarts: int = 0  #: time jumped back, or a reset was logged
    gaps: int = 0  #: time jumped forward
    longest_gap: float = 0.0  #: in seconds
    missing: int = 0  #: rows with a value missing that the step needs
    repeated: int = 0  #: rows of a time that was there already
    notes: list[str] = field(default_factory=list)


class Table(NamedTuple):
    """Rows of one machine and episode that follow one another."""

    numbers: dict[str, Floats]  #: columns by name, shape (n,)
    time: Floats | None  #: shape (n,)


def count_gaps(found: Findings, lengths: Floats) -> None:
    """Add gaps of these lengths, in seconds."""
    found.gaps += len(lengths)
    found.longest_gap = max(found.longest_gap, *lengths.tolist(), 0.0)


def clock_of(signal: Signal) -> Floats | None:
    """Return times in seconds: numbers as they are, ISO 8601 text from its first; else None."""
    if not signal.is_text:
        return signal.values
    try:
        moments = np.where(signal.values == "", "NaT", signal.values).astype("datetime64[ns]")
    except ValueError:
        return None
    there = ~np.isnat(moments)
    if not there.any():
        return None
    seconds = (moments - moments[there][0]).astype(np.float64) * 1e-9
    return np.where(there, seconds, np.nan)


def numbers_of(recording: Recording, name: str, is_time: bool = False) -> Floats:
    """Return a signal as numbers, infinite ones as missing; refuse text."""
    signal = recording.signals[name]
    values = signal.values
    if signal.is_text:
        if is_time and (clock := clock_of(signal)) is not None:
            return clock
        for row, text in enumerate(values):
            try:
                float(text or "nan")
            except ValueError:
                wanted = "0 or 1" if name == "terminated" else "a finite number"
                raise InputError(
                    f"{recording.place(row)}: {name} is {visible(text, 60)!r}; give {wanted}, or "
                    "leave it empty where it is missing"
                ) from None
    numbers = values.astype(np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


# A fixed rate --------------------------------------------------------------------------------


def by_clock(recording: Recording, roles: Roles) -> dict[str, Signal]:
    """Return the signals in use, each sorted by its clock and without missing samples."""
    result = {}
    for name in roles.used():
        signal = recording.signals[name]
        values, time = numbers_of(recording, name), signal.time
        assert time is not None
        there = np.isfinite(values) & np.isfinite(time)
        order = np.argsort(time[there], kind="stable")
        result[name] = Signal(values[there][order], time[there][order], signal.unit)
        if not len(order):
            raise InputError(f"{recording.path}: {name} has no sample that is a finite number")
    return result


def rate_of(recording: Recording, roles: Roles) -> float:
    """Return the median rate of the first action."""
    time = recording.signals[roles.actions[0]].time
    steps = np.diff(time) if time is not None else np.empty(0)
    steps = steps[steps > 0.0]
    if not len(steps):
        raise InputError(
            f"{recording.path}: {roles.actions[0]} has fewer than two samples, which say no rate; "
            "give one: rate=..., or --rate"
        )
    return float(1.0 / np.median(steps))


def resampled(
    signals: Mapping[str, Signal], roles: Roles, rate: float, found: Findings
) -> list[Table]:
    """Return signals at a fixed rate, split where observations have gaps.

    Observations are interpolated linearly, actions and all else keep the previous value. A reward
    is the mean of those logged in the step, a termination holds if one was.
    """
    linear = [*roles.observations, *roles.next_observations]
    begin, end, gaps = -np.inf, np.inf, list[tuple[float, float]]()
    for name, (values, time, _) in signals.items():
        assert time is not None
        time = time[np.isfinite(values)]
        if not len(time):
            return []
        begin = max(begin, time[0])
        if name in linear:
            end = min(end, time[-1])
            steps = np.diff(time)
            longest = max(_FILLED * float(np.median(steps)) if len(steps) else 0.0, _FILLED / rate)
            gaps += [(time[k], time[k + 1]) for k in np.flatnonzero(steps > longest)]
    edges, stop = [begin], begin
    for left, right in sorted(gaps):
        if right <= begin or left >= end:
            continue
        if left > stop:  # gaps of several signals may overlap
            edges += [left, right]
            count_gaps(found, np.array([right - left]))
        else:
            edges[-1] = max(edges[-1], right)
        stop = max(stop, right)
    edges.append(end)
    if (end - begin) * rate > _MOST_ROWS:
        raise InputError(
            f"{end - begin:.4g} s at {rate:.4g} Hz are more than {_MOST_ROWS} rows; give a lower "
            "rate: rate=..., or --rate"
        )
    tables = []
    for left, right in zip(edges[::2], edges[1::2], strict=True):
        if right <= left:
            continue
        grid = left + np.arange(int(np.floor((right - left) * rate + 1e-6)) + 1) / rate
        tables.append(
            Table({name: _at(grid, name, signals[name], roles) for name in signals}, grid)
        )
    return tables


def _at(grid: Floats, name: str, signal: Signal, roles: Roles) -> Floats:
    """Return a signal at the times of a grid."""
    there = np.isfinite(signal.values)
    assert signal.time is not None
    values, time = signal.values[there], signal.time[there]
    if name in roles.observations or name in roles.next_observations:
        return np.asarray(np.interp(grid, time, values))
    slack = 1e-6 * (grid[1] - grid[0] if len(grid) > 1 else 1.0)
    before = np.clip(np.searchsorted(time, grid + slack, side="right") - 1, 0, None)
    held = values[before]
    if name not in (*roles.reward, *roles.terminated):
        return np.asarray(held)
    ends = np.append(grid[1:], np.inf) - slack
    last = np.searchsorted(time, ends, side="left")
    first = np.searchsorted(time, grid - slack, side="left")
    sums = np.concatenate([[0.0], np.cumsum(values)])
    count = last - first
    mean = (sums[last] - sums[first]) / np.maximum(count, 1)
    if name in roles.terminated:
        return np.asarray(np.where(count > 0, mean > 0.0, 0.0), dtype=np.float64)
    return np.asarray(np.where(count > 0, mean, held))
