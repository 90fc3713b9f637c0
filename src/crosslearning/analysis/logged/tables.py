"""From recordings to episodes: roles of signals, machines, restarts and gaps, and a fixed rate.

Every file becomes tables, whose rows have one clock. A step leads from a row to the next one. It
counts if both observations, the action and the reward are there and time goes on evenly between
them; steps that follow one another are an episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from crosslearning.analysis.logged.log import Episode
from crosslearning.analysis.logged.recording import Recording, Signal
from crosslearning.analysis.logged.resampling import (
    COLUMNS,
    Findings,
    Roles,
    Table,
    by_clock,
    clock_of,
    count_gaps,
    numbers_of,
    rate_of,
    resampled,
)
from crosslearning.errors import InputError, unknown_name, visible
from crosslearning.rkhs.checks import Floats, Integers

_SEVERAL = ("observations", "actions", "next_observations")
_NEEDED = ("observations", "actions")
#: A step this many times longer than the median is a gap.
_GAP = 1.5
#: Steps are uneven if more than this share of them is off by more than a tenth.
_UNEVEN = 0.05


def find_roles(recording: Recording, columns: Mapping[str, Any], reward_known: bool) -> Roles:
    """Return the roles of signals as ``columns`` of :func:`crosslearning.learn_from` name them."""
    for kind in columns:
        if kind not in (*COLUMNS, "setpoints"):
            raise unknown_name("kind of column", kind, (*COLUMNS, "setpoints"))
    names = {kind: _columns(recording, kind, columns) for kind in COLUMNS}
    setpoints = dict(columns.get("setpoints") or {})
    for name, aim in setpoints.items():
        if name not in names["observations"]:
            raise InputError(
                f"a setpoint is given for {name!r}, which is no observation; the observations are "
                f"{', '.join(names['observations'])}"
            )
        if isinstance(aim, str) and aim not in recording.signals:
            raise unknown_name(f"column of {recording.path}", aim, recording.signals)
    if setpoints:
        names["reward"] = []
    elif not names["reward"] and not reward_known:
        raise _no_column(recording, "reward", columns.get("reward", COLUMNS["reward"]))
    before, after = names["observations"], names["next_observations"]
    if after and len(after) != len(before):
        raise InputError(
            f"{recording.path} has {len(before)} columns of observations ({', '.join(before)}) but "
            f"{len(after)} of next ones ({', '.join(after)})"
        )
    return Roles(**names, setpoints=setpoints)


def _columns(recording: Recording, kind: str, columns: Mapping[str, Any]) -> list[str]:
    """Return the names of the columns of a kind; none if an optional kind is missing."""
    given, known = columns.get(kind, COLUMNS[kind]), recording.signals
    if isinstance(given, str):
        many = kind in _SEVERAL
        names = [name for name in known if name == given or (many and name.startswith(given))]
    else:
        names = list(given or ())
    for name in names:
        if name not in known:
            raise unknown_name(f"column of {recording.path}", str(name), known)
    asked = columns.get(kind) is not None
    if kind == "time" and not asked and names and clock_of(known[names[0]]) is None:
        return []  # such as the name of a shift
    if not names and (kind in _NEEDED or asked):
        raise _no_column(recording, kind, given)
    return names


def _no_column(recording: Recording, kind: str, given: Any) -> InputError:
    listed = visible(", ".join(recording.signals), 500)
    other = ", or setpoints" if kind == "reward" else ""
    return InputError(
        f"{recording.path} has no column for the {kind}, {given!r}; its columns are {listed}. Name "
        f"the {kind}{other}: columns={{{kind!r}: ...}}, or --{kind.replace('_', '-')}"
    )


# Tables with one clock ---------------------------------------------------------------------


class MachineRows(NamedTuple):
    """The tables of one machine."""

    name: str
    tables: list[Table]
    step: float  #: seconds between rows, NaN without a clock
    findings: Findings


def tables_of(
    recording: Recording, roles: Roles, rate: float | None, name: str | None = None
) -> list[MachineRows]:
    """Return the tables of the machines of a recording, at a fixed rate if one is given.

    ``name`` is the machine's without a column of machines; by default the file's.
    """
    if not recording.is_table:
        clock = rate_of(recording, roles) if rate is None else rate
        found = Findings()
        found.notes += [f"resampled to {clock:.4g} Hz: the signals have several clocks"]
        signals = by_clock(recording, roles)
        found.rows = max(len(one.values) for one in signals.values())
        tables = resampled(signals, roles, clock, found)
        return [MachineRows(name or recording.path.stem, tables, 1.0 / clock, found)]
    groups = _groups(recording, roles, name)
    numbers = {
        one: numbers_of(recording, one, role == "time")
        for one, role in roles.used().items()
        if role not in ("machine", "episode")
    }
    time = numbers[roles.time[0]] if roles.time else None
    if rate is not None and time is None:
        raise InputError(
            f"{recording.path} cannot be resampled: it has no column of time. Name it: "
            "columns={'time': ...}, or --time"
        )
    result = []
    for machine, episodes in groups.items():
        found, tables, steps = Findings(), [], []
        for rows in episodes:
            found.rows += len(rows)
            parts, step = _split_by_time(numbers, time, rows, roles, found, rate)
            tables += parts
            steps += [step]
        step = float(np.nanmedian(steps)) if np.any(np.isfinite(steps)) else np.nan
        result.append(MachineRows(machine, tables, step if rate is None else 1.0 / rate, found))
    return result


def _groups(recording: Recording, roles: Roles, name: str | None) -> dict[str, list[Integers]]:
    """Return the rows of every episode of every machine, in the order of the file."""
    n = len(next(iter(recording.signals.values())).values)
    keys = []
    for kind, other in ((roles.machine, name or recording.path.stem), (roles.episode, "")):
        if kind:
            values = recording.signals[kind[0]].values
            shown = values if values.dtype.kind == "U" else [f"{value:g}" for value in values]
            keys.append(np.asarray(shown, dtype=np.str_))
        else:
            keys.append(np.full(n, other))
    groups: dict[str, dict[str, list[int]]] = {}
    for row, (machine, episode) in enumerate(zip(*keys, strict=True)):
        groups.setdefault(str(machine), {}).setdefault(str(episode), []).append(row)
    return {
        machine: [np.array(rows) for rows in episodes.values()]
        for machine, episodes in groups.items()
    }


def _split_by_time(
    numbers: Mapping[str, Floats],
    time: Floats | None,
    rows: Integers,
    roles: Roles,
    found: Findings,
    rate: float | None,
) -> tuple[list[Table], float]:
    """Return rows as tables, split at restarts and gaps, and the median step of time."""
    cuts, step = np.zeros(len(rows), dtype=np.bool_), np.nan
    if time is not None:
        there = np.isfinite(time[rows])
        found.missing += int(np.sum(~there))
        rows = rows[there]
        change = np.diff(time[rows], prepend=-np.inf)
        found.repeated += int(np.sum(change == 0.0))
        rows, change = rows[change != 0.0], change[change != 0.0]
        forward = change[1:][change[1:] > 0.0]
        step = float(np.median(forward)) if len(forward) else np.nan
        back = change < 0.0
        back[:1] = False
        found.restarts += int(back.sum())
        cuts = back
        if rate is None and len(forward):
            gap = change > _GAP * step
            gap[:1] = False
            count_gaps(found, change[gap])
            cuts = cuts | gap
            off = np.mean(np.abs(forward[forward <= _GAP * step] - step) > 0.1 * step)
            if off > _UNEVEN:
                found.notes.append(
                    f"{off:.0%} of the steps are uneven by more than a tenth; resample them: "
                    "rate=..., or --rate"
                )
    if roles.reset:
        resets = np.nan_to_num(numbers[roles.reset[0]][rows]) != 0.0
        begins = resets & ~np.concatenate([[False], resets[:-1]])
        begins[:1] = False
        found.restarts += int(np.sum(begins & ~cuts))
        cuts = cuts | begins
    tables = []
    for part in np.split(rows, np.flatnonzero(cuts)):
        if not len(part):
            continue
        own = {name: values[part] for name, values in numbers.items()}
        clock = None if time is None else time[part]
        if rate is None:
            tables.append(Table(own, clock))
        else:
            signals = {name: Signal(values, clock) for name, values in own.items()}
            tables += resampled(signals, roles, rate, found)
    return tables, step


# Episodes ----------------------------------------------------------------------------------


def episodes_of(
    machine: MachineRows, roles: Roles, spreads: Mapping[str, float], reward_known: bool
) -> list[Episode]:
    """Return the episodes of a machine: steps that follow one another with nothing missing.

    ``spreads`` are the standard deviations of observations with setpoints.
    """
    episodes = []
    for table in machine.tables:
        n = len(next(iter(table.numbers.values())))
        seen = _stack(table, roles.observations, n)
        actions = _stack(table, roles.actions, n)
        ended = np.nan_to_num(_stack(table, roles.terminated, n)[:, :1].sum(axis=1)) != 0.0
        following = _stack(table, roles.next_observations, n)
        if roles.next_observations:
            whole = np.isfinite(np.hstack([seen, actions, following])).all(axis=1)
            joined = np.zeros(n, dtype=np.bool_)
            joined[:-1] = np.all(following[:-1] == seen[1:], axis=1) & ~ended[:-1]
        else:
            following = np.vstack([seen[1:], np.full((1, seen.shape[1]), np.nan)])[:n]
            if n > 1:  # a termination in the last row belongs to the step that led there
                ended[-2] |= ended[-1]
            whole = np.isfinite(np.hstack([seen, actions, following])).all(axis=1)
            joined = ~ended
        rewards = _rewards(table, roles, spreads, following, n)
        if reward_known:
            rewards = np.nan_to_num(rewards)
        whole &= np.isfinite(rewards)
        unusable = ~whole
        unusable[-1:] = unusable[-1:] & bool(roles.next_observations)
        machine.findings.missing += int(unusable.sum())
        # A new episode begins at a step that does not continue the one before it.
        goes_on = np.concatenate([[False], whole[:-1] & joined[:-1]])[:n]
        numbers = np.cumsum(whole & ~goes_on)
        for k in np.unique(numbers[whole]):
            rows = np.flatnonzero(whole & (numbers == k))
            path = np.vstack([seen[rows], following[rows[-1:]]])
            episodes.append(Episode(path, actions[rows], rewards[rows], ended[rows]))
    return episodes


def _stack(table: Table, names: Sequence[str], n: int) -> Floats:
    columns = [table.numbers[name] for name in names]
    return np.stack(columns, axis=1) if columns else np.empty((n, 0))


def _rewards(
    table: Table, roles: Roles, spreads: Mapping[str, float], following: Floats, n: int
) -> Floats:
    """Return the logged rewards, or −Σ ((next observation − setpoint)/spread)²."""
    if roles.reward:
        return table.numbers[roles.reward[0]]
    total = np.zeros(n) if roles.setpoints else np.full(n, np.nan)
    for name, aim in roles.setpoints.items():
        value = following[:, roles.observations.index(name)]
        wanted = table.numbers[aim] if isinstance(aim, str) else float(aim)
        total -= ((value - wanted) / spreads[name]) ** 2
    return total
