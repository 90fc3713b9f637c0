"""Episodes from a table: a CSV file with a row for every step."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crosslearning.analysis.logged.log import Episode, Log
from crosslearning.errors import InputError, unknown_name

#: The default names of columns; of observations and actions, the prefixes of names.
DEFAULTS: dict[str, Any] = {
    "observations": "obs",
    "actions": "act",
    "next_observations": "next_obs",
    "machine": "machine",
    "episode": "episode",
    "reward": "reward",
    "terminated": "terminated",
}
_OPTIONAL = ("next_observations", "machine", "episode", "terminated")
_SEVERAL = ("observations", "actions", "next_observations")
_TRUE, _FALSE = ("1", "1.0", "true", "yes"), ("", "0", "0.0", "false", "no")


class _Row(NamedTuple):
    """A row of the table, with its line number."""

    line: int
    cells: dict[str, str]


def read_table(path: str | Path, columns: Mapping[str, Any]) -> Log:
    """Return the episodes of every task from a CSV file.

    A row has an observation, the action taken and its reward. The next observation is that of the
    episode's next row, so the last row of an episode has only an observation. With columns of next
    observations every row is used. ``columns`` are those of :func:`crosslearning.learn_from`.
    """
    for name in columns:
        if name not in DEFAULTS:
            raise unknown_name("kind of column", name, DEFAULTS)
    header, rows = _read(Path(path))
    names = {kind: _columns(path, header, kind, columns) for kind in DEFAULTS}
    after = names["next_observations"]
    if after and len(after) != len(names["observations"]):
        raise InputError(
            f"{path} has {len(names['observations'])} columns of observations ("
            f"{', '.join(names['observations'])}) but {len(after)} of next ones "
            f"({', '.join(after)})"
        )
    groups: dict[str, dict[str, list[_Row]]] = {}
    for row in rows:
        machine = row.cells[names["machine"][0]] if names["machine"] else Path(path).stem
        episode = row.cells[names["episode"][0]] if names["episode"] else ""
        groups.setdefault(machine, {}).setdefault(episode, []).append(row)
    return {
        machine: [
            one
            for rows in episodes.values()
            for one in _episodes(path, names, rows)
            if len(one.rewards)
        ]
        for machine, episodes in groups.items()
    }


def _read(path: Path) -> tuple[list[str], list[_Row]]:
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
        if not cells:
            continue
        if len(cells) != len(header):
            raise InputError(
                f"{path}, line {number} has {len(cells)} cells, but there are {len(header)} columns"
            )
        rows.append(_Row(number, dict(zip(header, map(str.strip, cells), strict=True))))
    return header, rows


def _columns(
    path: str | Path, header: list[str], kind: str, columns: Mapping[str, Any]
) -> list[str]:
    """Return the names of the columns of a kind; none if an optional kind is missing."""
    given = columns.get(kind, DEFAULTS[kind])
    if isinstance(given, Sequence) and not isinstance(given, str):
        for name in given:
            if name not in header:
                raise unknown_name(f"column of {path}", str(name), header)
        return list(given)
    if given is None:
        names = []
    elif kind in _SEVERAL:
        names = [name for name in header if name.startswith(str(given))]
    else:
        names = [name for name in header if name == given]
    if not names and (kind in columns or kind not in _OPTIONAL) and given is not None:
        begins = "no column of {} begins with {!r}" if kind in _SEVERAL else "{} has no column {!r}"
        raise InputError(
            f"{begins.format(path, given)}; its columns are {', '.join(header)}. Say what the "
            f"{kind} are called: columns={{{kind!r}: ...}}"
        )
    if not names and kind not in _OPTIONAL:
        raise InputError(f"columns must name the {kind}, got None")
    return names


def _episodes(
    path: str | Path, names: Mapping[str, list[str]], rows: Sequence[_Row]
) -> list[Episode]:
    """Return the steps of one episode, split where the next observation is not the next row's."""
    observed = _numbers(path, rows, names["observations"])
    ends = [_truth(path, row, names["terminated"]) for row in rows]
    after = names["next_observations"]
    used = rows if after else rows[:-1]
    actions = _numbers(path, used, names["actions"])
    rewards = _numbers(path, used, names["reward"])[:, 0]
    if not after:
        # A termination in the last row belongs to the step that led there.
        ended = np.array(ends[:-1], dtype=np.bool_)
        ended[-1:] |= ends[-1]
        return [Episode(observed, actions, rewards, ended)]
    following = _numbers(path, rows, after)
    cuts = [t + 1 for t in range(len(rows) - 1) if np.any(following[t] != observed[t + 1])]
    episodes = []
    for first, last in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        seen = np.concatenate([observed[first:last], following[last - 1 : last]])
        part = slice(first, last)
        episodes.append(Episode(seen, actions[part], rewards[part], np.array(ends[part])))
    return episodes


def _numbers(path: str | Path, rows: Sequence[_Row], names: list[str]) -> np.ndarray[Any, Any]:
    numbers = np.empty((len(rows), len(names)))
    for i, row in enumerate(rows):
        for j, name in enumerate(names):
            cell = row.cells[name]
            try:
                numbers[i, j] = float(cell)
            except ValueError as problem:
                raise InputError(
                    f"{path}, line {row.line}: {name} is {cell!r}; give a number"
                ) from problem
            if not np.isfinite(numbers[i, j]):
                raise InputError(
                    f"{path}, line {row.line}: {name} is {cell!r}; leave the row out, and give "
                    "what comes after it another number in the column of episodes"
                )
    return numbers


def _truth(path: str | Path, row: _Row, names: list[str]) -> bool:
    if not names:
        return False
    cell = row.cells[names[0]]
    if cell.lower() not in (*_TRUE, *_FALSE):
        raise InputError(f"{path}, line {row.line}: {names[0]} is {cell!r}; give 0 or 1")
    return cell.lower() in _TRUE
