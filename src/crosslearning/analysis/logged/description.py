"""What was understood of log files: machines, episodes, rate, gaps and signals."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crosslearning._base.plain_data import to_plain
from crosslearning.analysis.logged.formats import read_recording
from crosslearning.analysis.logged.log import Log, check_shapes
from crosslearning.analysis.logged.reading import read_log
from crosslearning.analysis.logged.recording import Recording, split_unit
from crosslearning.analysis.logged.resampling import Roles
from crosslearning.analysis.logged.tables import (
    MachineRows,
    episodes_of,
    find_roles,
    tables_of,
)
from crosslearning.errors import InputError, visible

#: Machines whose rates differ by a larger share have different dynamics of a step.
_SAME_RATE = 0.02
#: With more steps in all, learning takes long.
_MANY_STEPS = 10_000


@dataclass(frozen=True)
class LoggedSignal:
    """One signal of the files."""

    name: str
    unit: str
    role: str  #: ``"observation"``, ``"action"`` and so on; empty if it is not used
    low: float  #: NaN for text
    high: float
    missing: float  #: share of the samples
    samples: int


@dataclass(frozen=True)
class LoggedMachine:
    """The episodes of one machine, and what was found in its rows."""

    name: str
    rows: int
    steps: tuple[int, ...]  #: of every episode
    rate: float | None  #: rows per second; None without a clock
    restarts: int  #: where time jumped back, or a reset was logged
    gaps: int  #: where time jumped forward
    longest_gap: float  #: in seconds
    missing: int  #: steps that were left out because a value is missing
    repeated: int  #: rows that were left out because their time was there already


@dataclass(frozen=True)
class LogDescription:
    r"""What was understood of log files.

    Examples
    --------
    >>> from pathlib import Path
    >>> from crosslearning.analysis.logged import describe_log
    >>> rows = [f"{0.1 * k:.1f},{k % 7},{k % 3},{-k % 5}" for k in range(30)]
    >>> _ = Path("pump.csv").write_text("\n".join(["time [s],level [m],valve,reward", *rows]))
    >>> found = describe_log("pump.csv", {"observations": ["level"], "actions": ["valve"]})
    >>> [(one.name, one.steps, one.rate) for one in found.machines]
    [('pump', (29,), 10.0)]
    """

    files: tuple[str, ...]
    signals: tuple[LoggedSignal, ...]
    machines: tuple[LoggedMachine, ...]
    notes: tuple[str, ...]
    problem: str  #: why nothing can be learned yet; empty if it can
    log: Log
    roles: Roles | None = None

    @property
    def rate(self) -> float | None:
        """Steps per second, None without a clock."""
        rates = [one.rate for one in self.machines if one.rate is not None]
        return rates[0] if rates else None

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the names of ``"observations"`` or ``"actions"``, with units."""
        units = {one.name: one.unit for one in self.signals}
        names = [] if self.roles is None else getattr(self.roles, kind)
        return tuple(f"{name} [{units[name]}]" if units[name] else name for name in names)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the episodes as plain data."""
        names = ("files", "signals", "machines", "notes", "problem")
        return {name: to_plain(getattr(self, name)) for name in names}


def describe_log(
    paths: str | Path | Sequence[str | Path],
    columns: Mapping[str, Any] | None = None,
    rate: float | None = None,
    rewards_known: bool = False,
) -> LogDescription:
    """Return what is understood of log files, before anything is learned.

    Parameters
    ----------
    paths : path, or a sequence of paths
        CSV, Parquet (``.parquet``) or MDF files (``.mf4``, ``.mdf``), or bags of ROS; several
        files are of one machine each, unless a column names the machine.
    columns : mapping, optional
        As for :func:`crosslearning.learn_from`.
    rate : float, optional
        Rows per second to which the signals are resampled: observations linearly, actions and
        all else by the previous value, rewards by their mean over a step. By default a table's
        rows are the steps, and signals with several clocks get the rate of the first action.
    rewards_known : bool
        Whether the reward is given otherwise, so that none is looked for.
    """
    files = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if rate is not None and not 0.0 < rate < np.inf:
        raise InputError(f"rate is {rate}; give rows per second, a positive number")
    if not files:
        raise InputError("there is no file; name at least one")
    recordings = [read_recording(file) for file in files]
    notes = [note for one in recordings for note in one.notes]
    names = _machine_names(recordings)
    roles, problem, log, machines = None, "", Log(), list[LoggedMachine]()
    try:
        roles = _common_roles(recordings, columns or {}, rewards_known)
        rows = [
            machine
            for recording, name in zip(recordings, names, strict=True)
            for machine in tables_of(recording, roles, rate, name)
        ]
        log, machines, more = _episodes(rows, roles, rewards_known)
        notes += more
        check_shapes(log)
        _check_rates(machines)
    except InputError as reason:
        problem = str(reason)
    signals = _signals(recordings, roles)
    shown = tuple(str(file) for file in files)
    return LogDescription(shown, signals, tuple(machines), tuple(notes), problem, log, roles)


def read_files(
    paths: str | Path | Sequence[str | Path],
    columns: Mapping[str, Any] | None,
    rate: float | None,
    rewards_known: bool,
) -> LogDescription:
    """Return the description of files from which can be learned; warn of what was left out."""
    found = describe_log(paths, columns, rate, rewards_known)
    if found.problem:
        raise InputError(found.problem)
    kinds = {"missing": "missing values", "repeated": "repeated times", "gaps": "gaps in time"}
    for kind, what in kinds.items():
        counts = {one.name: getattr(one, kind) for one in found.machines if getattr(one, kind)}
        if counts:
            listed = ", ".join(f"{name!r} ({count})" for name, count in counts.items())
            warnings.warn(
                f"there are {what} in the logs of machines {visible(listed, 300)}; episodes are "
                "split there. See what was understood: crosslearning logs",
                stacklevel=3,
            )
    for note in found.notes:
        warnings.warn(note, stacklevel=3)
    return found


def _machine_names(recordings: Sequence[Recording]) -> list[str]:
    """Return the names of files without their suffixes, or whole where two are the same."""
    stems = [one.path.stem for one in recordings]
    return [
        stem if stems.count(stem) == 1 else str(one.path)
        for stem, one in zip(stems, recordings, strict=True)
    ]


def _common_roles(
    recordings: Sequence[Recording], columns: Mapping[str, Any], rewards_known: bool
) -> Roles:
    """Return the roles of the signals, which must be the same in all files."""
    bare = {kind: _without_units(names) for kind, names in columns.items()}
    first, *others = [find_roles(one, bare, rewards_known) for one in recordings]
    for recording, roles in zip(recordings[1:], others, strict=True):
        if roles != first:
            raise InputError(
                f"{recordings[0].path} and {recording.path} have different signals: "
                f"{sorted(first.used())} and {sorted(roles.used())}; name those that both have"
            )
    for recording in recordings[1:]:
        for name in first.used():
            units = recordings[0].signals[name].unit, recording.signals[name].unit
            if units[0] != units[1]:
                raise InputError(
                    f"{name} has the unit {units[0]!r} in {recordings[0].path} and {units[1]!r} "
                    f"in {recording.path}; convert one of them"
                )
    return first


def _without_units(names: Any) -> Any:
    """Return names of columns as signals are named: without units."""
    if isinstance(names, str):
        return split_unit(names)[0]
    if isinstance(names, Mapping):
        return {_without_units(key): _without_units(value) for key, value in names.items()}
    return [_without_units(one) for one in names] if isinstance(names, list | tuple) else names


def _episodes(
    rows: Sequence[MachineRows], roles: Roles, rewards_known: bool
) -> tuple[Log, list[LoggedMachine], list[str]]:
    """Return the episodes of all machines, what was found in each, and notes."""
    spreads = {}
    for name in roles.setpoints:
        every = [table.numbers[name] for one in rows for table in one.tables]
        spread = float(np.nanstd(np.concatenate(every))) if every else 0.0
        spreads[name] = spread if spread > 0.0 else 1.0
    for name, aim in roles.setpoints.items():
        if isinstance(aim, str) and aim not in roles.observations:
            values = np.concatenate([t.numbers[aim] for one in rows for t in one.tables])
            if np.nanmin(values) != np.nanmax(values):
                raise InputError(
                    f"the setpoint {aim!r} of {name!r} changes, but it is no observation: policies "
                    "would not know it. Add it to the observations"
                )
    log, machines, notes = Log(), [], []
    for one in rows:
        episodes = episodes_of(one, roles, spreads, rewards_known)
        found = one.findings
        if one.name in log:
            log[one.name] += episodes  # of another file
        else:
            log[one.name] = episodes
        machines.append(
            LoggedMachine(
                one.name,
                found.rows,
                tuple(len(episode.rewards) for episode in episodes),
                float(f"{1.0 / one.step:.6g}") if np.isfinite(one.step) else None,
                found.restarts,
                found.gaps,
                found.longest_gap,
                found.missing,
                found.repeated,
            )
        )
        notes += [f"{one.name}: {note}" for note in dict.fromkeys(found.notes)]
    total = sum(sum(one.steps) for one in machines)
    if total > _MANY_STEPS:
        notes.append(
            f"there are {total} steps in all, and learning from more than {_MANY_STEPS} takes "
            "long; a lower rate or fewer files may serve as well"
        )
    return log, machines, notes


def _check_rates(machines: Sequence[LoggedMachine]) -> None:
    """Refuse machines whose steps take different times."""
    known = [(one.name, one.rate) for one in machines if one.rate is not None]
    for name, rate in known[1:]:
        if abs(rate / known[0][1] - 1.0) > _SAME_RATE:
            raise InputError(
                f"machine {known[0][0]!r} has {known[0][1]:g} rows per second and {name!r} "
                f"{rate:g}; resample them to one rate: rate=..., or --rate"
            )


def _signals(recordings: Sequence[Recording], roles: Roles | None) -> tuple[LoggedSignal, ...]:
    """Return every signal, over all files."""
    used = {} if roles is None else roles.used()
    result = []
    for name in dict.fromkeys(name for one in recordings for name in one.signals):
        signals = [one.signals[name] for one in recordings if name in one.signals]
        parts = [one.values for one in signals]
        low = high = np.nan
        missing = [np.mean(one == "" if one.dtype.kind == "U" else np.isnan(one)) for one in parts]
        numbers = [one[np.isfinite(one)] for one in parts if one.dtype.kind == "f"]
        if any(map(len, numbers)):
            every = np.concatenate(numbers)
            low, high = float(every.min()), float(every.max())
        samples = sum(map(len, parts))
        share = float(np.average(missing, weights=[max(len(one), 1) for one in parts]))
        unit = next((one.unit for one in signals if one.unit), "")
        result.append(LoggedSignal(name, unit, used.get(name, ""), low, high, share, samples))
    order = ["observation", "action", "reward", "next_observation", "setpoint", "time"]
    order += ["machine", "episode", "reset", "terminated"]
    rank = {role: k for k, role in enumerate(order)}
    return tuple(sorted(result, key=lambda one: rank.get(one.role.split(",")[0], len(rank))))


def read_data(
    data: Any,
    columns: Mapping[str, Any] | None = None,
    rate: float | None = None,
    rewards_known: bool = False,
) -> tuple[Log, dict[str, Any]]:
    """Return the episodes of every machine, and what a file says of tasks: names and the rate."""
    found: LogDescription | None = data if isinstance(data, LogDescription) else None
    listed = isinstance(data, list | tuple) and data
    if found is None and (
        isinstance(data, str | Path)
        or (listed and all(isinstance(one, str | Path) for one in data))
    ):
        found = read_files(data, columns, rate, rewards_known)
    if found is None:
        for name, given in (("columns", columns), ("rate", rate)):
            if given is not None:
                raise InputError(f"{name} are those of a table; leave them out for arrays")
        return read_log(data), {}
    fields = {"observation_names": found.names("observations")}
    fields |= {"action_names": found.names("actions")}
    return found.log, {**fields, **({"rate": found.rate} if found.rate else {})}
