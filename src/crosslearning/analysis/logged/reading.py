"""Reading logged data: arrays, Minari datasets and tables, checked one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.analysis.logged.log import Episode, Log, check_log
from crosslearning.analysis.logged.tables import read_table
from crosslearning.errors import InputError

Floats = NDArray[np.float64]

#: The parts of an episode, and the two names of the last.
_PARTS = ("observations", "actions", "rewards")
_ENDS = ("terminated", "terminations")


def read_log(data: Any, columns: Mapping[str, Any] | None = None) -> Log:
    """Return the checked episodes of every task.

    ``data`` and the names of a table's ``columns`` are those of :func:`crosslearning.learn_from`.
    """
    if isinstance(data, str | Path):
        log = read_table(data, columns or {})
    elif columns is not None:
        raise InputError("columns are those of a table; leave them out for episodes as arrays")
    else:
        log = {name: _episodes(name, given) for name, given in _machines(data)}
    check_log(log)
    return log


def _machines(data: Any) -> list[tuple[str, Any]]:
    """Return the names of the tasks and the data of each."""
    if isinstance(data, Mapping) and not _is_episode(data):
        return [(str(name), given) for name, given in data.items()]
    if _is_dataset(data):
        return [(_named(data, 0), data)]
    if _is_episode(data) or not isinstance(data, Sequence) or not len(data):
        raise InputError(
            "data must be a mapping of machines to their episodes, a list of machines, Minari "
            f"datasets or the path of a table, got {_short(data)}"
        )
    if all(_is_episode(one) for one in data):
        raise InputError(
            "data is a list of episodes; say whose they are: {'machine': episodes}, or a list of "
            "such lists, one for each machine"
        )
    names = [_named(one, i) for i, one in enumerate(data)]
    if len(set(names)) < len(names):
        raise InputError(f"two machines have the same name: {', '.join(names)}; give a mapping")
    return list(zip(names, data, strict=True))


def _named(given: Any, number: int) -> str:
    """Return the name of a Minari dataset, or a number in a list."""
    spec = getattr(given, "spec", None)
    name = getattr(given, "id", None) or getattr(spec, "dataset_id", None)
    return str(name) if name and _is_dataset(given) else f"machine {number}"


def _is_dataset(given: Any) -> bool:
    return not isinstance(given, Mapping | Sequence | str) and (
        hasattr(given, "iterate_episodes") or hasattr(given, "__iter__")
    )


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
    return [_episode(machine, k, one) for k, one in enumerate(given)]


def _episode(machine: str, number: int, given: Any) -> Episode:
    """Return one episode from a mapping or from an object with the same attributes."""
    where = f"machine {machine!r}, episode {number}"

    def part(*names: str) -> Any:
        for name in names:
            if isinstance(given, Mapping) and name in given:
                return given[name]
            if not isinstance(given, Mapping) and hasattr(given, name):
                return getattr(given, name)
        if names == _ENDS:
            return None
        raise InputError(
            f"{where}: there are no {names[0]}; an episode has observations (T+1, q), actions "
            "(T, p), rewards (T,) and, if it may end, terminated"
        )

    observations, actions, rewards = (_numbers(where, name, part(name)) for name in _PARTS)
    T = len(rewards) if rewards.ndim else -1
    observations, actions = _table(observations), _table(actions)
    tables = observations.ndim == actions.ndim == 2 and rewards.ndim == 1
    if not tables or len(actions) != T or len(observations) != T + 1:
        raise InputError(
            f"{where}: observations, actions and rewards have the shapes {observations.shape}, "
            f"{actions.shape} and {rewards.shape}; an episode of T steps has (T+1, q), (T, p) and "
            "(T,): the observation after the last step belongs to it"
        )
    return Episode(observations, actions, rewards, _ends(where, part(*_ENDS), T))


def _numbers(where: str, name: str, given: Any) -> Floats:
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(
            f"{where}: {name} are not an array of numbers but {_short(given)}; flatten them, for "
            "instance with gymnasium.spaces.utils.flatten"
        ) from problem
    if not np.all(np.isfinite(values)):
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise InputError(
            f"{where}: {name} hold a number that is not finite, at step {row}; leave the episode "
            "out, or split it there in two"
        )
    return values


def _table(values: Floats) -> Floats:
    """Return values with one axis of steps and one of coordinates."""
    return values.reshape(len(values), math.prod(values.shape[1:])) if values.ndim else values


def _ends(where: str, given: Any, T: int) -> NDArray[np.bool_]:
    """Return the terminations: one truth value is for the last step, None for none."""
    ends = np.zeros(T, dtype=np.bool_)
    if given is None:
        return ends
    values = np.asarray(given)
    if values.shape == ():
        ends[-1:] = bool(values)
    elif values.shape == (T,):
        ends = values.astype(np.bool_)
    else:
        raise InputError(
            f"{where}: terminated has the shape {values.shape}; give one truth value, or one for "
            f"each of the {T} steps"
        )
    if np.any(ends[:-1]):
        raise InputError(
            f"{where}: it goes on after step {int(np.argmax(ends))}, which terminated it; split "
            "it there in two episodes"
        )
    return ends


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 60 else f"{type(given).__name__} {text[:50]}…"
