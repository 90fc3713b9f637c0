"""Logged data that is given as arrays or as Minari datasets, checked one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.analysis.logged.log import Episode, Log, check_shapes
from crosslearning.errors import InputError
from crosslearning.rkhs.checks import Floats


def read_log(data: Any) -> Log:
    """Return the checked episodes of every task; ``data`` as for :func:`crosslearning.learn_from`.

    Files are read by :func:`crosslearning.analysis.logged.describe_log`.
    """
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
            "with the episodes of each machine, Minari datasets or paths of files, got "
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
