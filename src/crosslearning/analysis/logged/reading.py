"""Reading logged data: arrays, Minari datasets and tables, checked one by one."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.analysis.logged.log import Episode, Log, check_shapes
from crosslearning.errors import InputError, unknown_name
from crosslearning.rkhs.checks import Floats

#: Kinds of columns of a table and their default names; of the first three, prefixes of names.
COLUMNS = {
    "observations": "obs",
    "actions": "act",
    "next_observations": "next_obs",
    "machine": "machine",
    "episode": "episode",
    "reward": "reward",
    "terminated": "terminated",
}
_SEVERAL = ("observations", "actions", "next_observations")
_OPTIONAL = ("next_observations", "machine", "episode", "terminated")
_TRUE, _FALSE = ("1", "1.0", "true", "yes"), ("", "0", "0.0", "false", "no")


def read_log(data: Any, columns: Mapping[str, Any] | None = None) -> Log:
    """Return the checked episodes of every task.

    ``data`` and the names of a table's ``columns`` are those of :func:`crosslearning.learn_from`.
    """
    if isinstance(data, str | Path):
        log = read_table(Path(data), columns or {})
    elif columns is not None:
        raise InputError("columns are those of a table; leave them out for episodes as arrays")
    else:
        log = {name: _episodes(name, given) for name, given in _machines(data)}
    check_shapes(log)
    return log


# Arrays and Minari datasets ----------------------------------------------------------------


def _machines(data: Any) -> list[tuple[str, Any]]:
    """Return the names of the tasks and the data of each."""
    if isinstance(data, Mapping) and not _is_episode(data):
        return [(str(name), given) for name, given in data.items()]
    machines = data if isinstance(data, list | tuple) else [data] if _is_dataset(data) else []
    if not machines or all(_is_episode(one) for one in machines):
        raise InputError(
            "data must be a mapping of machines to their episodes, {'machine': episodes}, a list "
            "with the episodes of each machine, Minari datasets or the path of a table, got "
            f"{_short(data)}"
        )
    names = []
    for number, one in enumerate(machines):
        name = getattr(one, "id", None) or getattr(getattr(one, "spec", 0), "dataset_id", None)
        names.append(str(name) if name and _is_dataset(one) else f"machine {number}")
    if len(set(names)) < len(names):
        raise InputError(f"two machines have the same name: {', '.join(names)}; give a mapping")
    return list(zip(names, machines, strict=True))


def _is_dataset(given: Any) -> bool:
    """Return whether it is a dataset of Minari's, or iterates over episodes as one does."""
    if isinstance(given, Mapping | Sequence):
        return False
    return hasattr(given, "iterate_episodes") or isinstance(given, Iterable)


def _is_episode(given: Any) -> bool:
    if isinstance(given, Mapping):
        return "observations" in given
    return hasattr(given, "observations") and hasattr(given, "actions")


def _episodes(machine: str, given: Any) -> list[Episode]:
    if _is_episode(given):
        given = [given]
    elif hasattr(given, "iterate_episodes"):
        given = given.iterate_episodes()
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise InputError(f"machine {machine!r}: give a list of episodes, got {_short(given)}")
    return [_episode(f"machine {machine!r}, episode {k}", one) for k, one in enumerate(given)]


def _episode(where: str, given: Any) -> Episode:
    """Return one episode from a mapping or from an object with the same attributes."""

    def part(name: str) -> Any:
        return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)

    parts = []
    for name in ("observations", "actions", "rewards"):
        if part(name) is None:
            raise InputError(
                f"{where}: there are no {name}; an episode has observations (T+1, q), actions "
                "(T, p), rewards (T,) and, if it may end, terminated"
            )
        values = _numbers(where, name, part(name))
        if name != "rewards" and values.ndim:
            values = values.reshape(len(values), math.prod(values.shape[1:]))
        parts.append(values)
    observations, actions, rewards = parts
    T = len(rewards) if rewards.ndim == 1 else -1
    if actions.shape[:1] != (T,) or observations.shape[:1] != (T + 1,):
        raise InputError(
            f"{where}: observations, actions and rewards have the shapes {observations.shape}, "
            f"{actions.shape} and {rewards.shape}; an episode of T steps has (T+1, q), (T, p) and "
            "(T,): the observation after the last step belongs to it"
        )
    terminated = part("terminations") if part("terminated") is None else part("terminated")
    return Episode(observations, actions, rewards, _ends(where, terminated, T))


def _numbers(where: str, name: str, given: Any) -> Floats:
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(
            f"{where}: {name} are not an array of numbers but {_short(given)}; flatten them, for "
            "instance with gymnasium.spaces.utils.flatten"
        ) from problem
    for row, *_ in np.argwhere(~np.isfinite(values)):
        remedy = "leave the episode out, or split it there in two"
        raise InputError(
            f"{where}: {name} hold a number that is not finite, at step {row}; {remedy}"
        )
    return values


def _ends(where: str, given: Any, T: int) -> NDArray[np.bool_]:
    """Return the terminations: one truth value is for the last step, None for none."""
    values, ends = np.asarray(given), np.zeros(T, dtype=np.bool_)
    if values.shape == ():
        ends[-1:] = bool(values)
    elif values.shape == (T,):
        ends = values.astype(np.bool_)
    else:
        raise InputError(
            f"{where}: terminated has the shape {values.shape}; give one truth value, or one for "
            f"each of the {T} steps"
        )
    for step in np.flatnonzero(ends[:-1]):
        text = f"{where}: it goes on after step {step}, which terminated it"
        raise InputError(f"{text}; split it there in two episodes")
    return ends


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 60 else f"{type(given).__name__} {text[:50]}…"


# Tables ------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """A row of the table: its place in the file, and its cells by column."""

    place: str
    cells: dict[str, str]


def read_table(path: Path, columns: Mapping[str, Any]) -> Log:
    """Return the episodes of every task from a CSV file with a row for every step.

    A row has an observation, the action taken and its reward. The next observation is that of the
    episode's next row, so the last row of an episode has only an observation. With columns of next
    observations every row is used. ``columns`` are those of :func:`crosslearning.learn_from`.
    """
    for kind in columns:
        if kind not in COLUMNS:
            raise unknown_name("kind of column", kind, COLUMNS)
    header, rows = _rows(path)
    names = {kind: _columns(path, header, kind, columns) for kind in COLUMNS}
    before, after = names["observations"], names["next_observations"]
    if after and len(after) != len(before):
        raise InputError(
            f"{path} has {len(before)} columns of observations ({', '.join(before)}) but "
            f"{len(after)} of next ones ({', '.join(after)})"
        )
    log: dict[str, dict[str, list[_Row]]] = {}
    for row in rows:
        machine = row.cells[names["machine"][0]] if names["machine"] else path.stem
        episode = row.cells[names["episode"][0]] if names["episode"] else ""
        log.setdefault(machine, {}).setdefault(episode, []).append(row)
    return {
        machine: [one for rows in episodes.values() for one in _split(names, rows)]
        for machine, episodes in log.items()
    }


def _rows(path: Path) -> tuple[list[str], list[_Row]]:
    """Return the names of the columns, and the rows."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            lines = list(csv.reader(stream))
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem.strerror}") from problem
    except (UnicodeDecodeError, csv.Error) as problem:
        raise InputError(f"{path} is not a table of comma-separated text: {problem}") from problem
    if len(lines) < 2:
        raise InputError(f"{path} has no rows; it needs a row of names and one for every step")
    header = [name.strip() for name in lines[0]]
    if len(set(header)) < len(header):
        raise InputError(f"{path} has two columns of the same name: {', '.join(header)}")
    rows = []
    for number, cells in enumerate(lines[1:], start=2):
        if cells and len(cells) != len(header):
            raise InputError(
                f"{path}, line {number} has {len(cells)} cells, but there are {len(header)} columns"
            )
        if cells:
            named = dict(zip(header, map(str.strip, cells), strict=True))
            rows.append(_Row(f"{path}, line {number}", named))
    return header, rows


def column_names(data: Any, columns: Mapping[str, Any] | None) -> dict[str, tuple[str, ...]]:
    """Return the names of a table's observations and actions, as fields of a task."""
    if not isinstance(data, str | Path):
        return {}
    path = Path(data)
    header, _ = _rows(path)
    return {
        f"{kind}_names": tuple(_columns(path, header, f"{kind}s", columns or {}))
        for kind in ("observation", "action")
    }


def _columns(path: Path, header: list[str], kind: str, columns: Mapping[str, Any]) -> list[str]:
    """Return the names of the columns of a kind; none if an optional kind is missing."""
    given = columns.get(kind, COLUMNS[kind])
    if isinstance(given, str):
        many = kind in _SEVERAL
        names = [name for name in header if name == given or (many and name.startswith(given))]
    else:
        names = list(given or ())
    for name in names:
        if name not in header:
            raise unknown_name(f"column of {path}", str(name), header)
    if not names and (kind not in _OPTIONAL or columns.get(kind) is not None):
        raise InputError(
            f"{path} has no column for the {kind}, {given!r}; its columns are "
            f"{', '.join(header)}. Name the {kind}: columns={{{kind!r}: ...}}"
        )
    return names


def _split(names: Mapping[str, list[str]], rows: Sequence[_Row]) -> list[Episode]:
    """Return the steps of one episode, split where the next observation is not the next row's."""
    observed = _cells(rows, names["observations"])
    ends = np.array([_truth(row, names["terminated"]) for row in rows], dtype=np.bool_)
    used = rows if names["next_observations"] else rows[:-1]
    actions, rewards = _cells(used, names["actions"]), _cells(used, names["reward"])[:, 0]
    if not names["next_observations"]:
        # A termination in the last row belongs to the step that led there.
        ends[-2:-1] |= ends[-1]
        return [Episode(observed, actions, rewards, ends[:-1])] if len(used) else []
    following = _cells(rows, names["next_observations"])
    cuts = 1 + np.flatnonzero(np.any(following[:-1] != observed[1:], axis=1))
    episodes = []
    for part in np.split(np.arange(len(rows)), cuts):
        seen = np.concatenate([observed[part], following[part[-1:]]])
        episodes.append(Episode(seen, actions[part], rewards[part], ends[part]))
    return episodes


def _cells(rows: Sequence[_Row], names: list[str]) -> Floats:
    """Return cells as numbers, shape (rows, names)."""
    numbers = np.empty((len(rows), len(names)))
    for i, row in enumerate(rows):
        for j, name in enumerate(names):
            try:
                numbers[i, j] = float(row.cells[name])
            except ValueError:
                numbers[i, j] = math.nan
            if not math.isfinite(numbers[i, j]):
                raise InputError(
                    f"{row.place}: {name} is {row.cells[name]!r}; give a finite number, or leave "
                    "the row out and give the following rows another number of an episode"
                )
    return numbers


def _truth(row: _Row, names: list[str]) -> bool:
    cell = row.cells[names[0]].lower() if names else ""
    if cell not in (*_TRUE, *_FALSE):
        raise InputError(f"{row.place}: {names[0]} is {row.cells[names[0]]!r}; give 0 or 1")
    return cell in _TRUE
