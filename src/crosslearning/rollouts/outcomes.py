"""Outcomes of episodes by name, read from the last ``info`` or the last state.

Booleans always count; numbers count if the task lists their names. A name that is missing in some
episodes is unknown there: many environments report an event only when it has happened.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import TaskError
from crosslearning.rollouts.data import Episodes
from crosslearning.tasks import Task

#: Booleans that some environments report as 0 and 1.
_BOOLEANS = ("is_success", "success", "crashed")


def outcome_of(task: Task, info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outcome of one episode from its last ``info``."""
    outcome: dict[str, Any] = {}
    for name, value in info.items():
        if isinstance(value, bool | np.bool_):
            outcome[name] = bool(value)
        elif name in _BOOLEANS and np.size(value) == 1 and np.ravel(value)[0] in (0, 1):
            outcome[name] = bool(np.ravel(value)[0])
    for name in task.listed_outcomes:
        if name not in outcome and info.get(name) is not None:
            try:
                outcome[name] = float(np.asarray(info[name], dtype=np.float64).reshape(()))
            except (TypeError, ValueError):
                raise TaskError(
                    f"task {task.name!r} lists the outcome {name!r}, but info[{name!r}] is "
                    f"{info[name]!r}; expected a number or a truth value"
                ) from None
    return outcome


def collect_outcomes(tasks: Sequence[Task], episodes: Episodes) -> Episodes:
    """Return episodes with outcomes as arrays by task and name.

    Before, the outcomes of each task are a list with one mapping per episode; those of compiled
    tasks are read from the last states.
    """
    if episodes.states is None:
        outcomes = map(_stacked, tasks, episodes.outcomes)
        return episodes._replace(outcomes=list(outcomes))
    read = [
        task.outcomes(states[:, : task.state_size].copy()) if callable(task.outcomes) else {}
        for task, states in zip(tasks, episodes.states[:, :, -1], strict=True)
    ]
    return episodes._replace(outcomes=read)


def _stacked(task: Task, episodes: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return the outcomes of n episodes of a task as arrays of length n, by name."""
    names = dict.fromkeys(name for episode in episodes for name in episode)
    never = [name for name in task.listed_outcomes if name not in names]
    if never:
        warnings.warn(
            f"no episode of task {task.name!r} reported {', '.join(never)} in its last info, which "
            f"the task lists as outcomes; reported: {', '.join(names) or 'nothing'}",
            stacklevel=2,
        )
    outcomes: dict[str, NDArray[Any]] = {}
    for name in (*names, *never):
        unknown = np.array([name not in episode for episode in episodes])
        known = [episode[name] for episode in episodes if name in episode]
        if not unknown.any():
            outcomes[name] = np.array(known)
        elif known and all(isinstance(value, bool) for value in known):
            truths = [episode.get(name, False) for episode in episodes]
            outcomes[name] = np.ma.array(truths, mask=unknown, dtype=np.bool_)
        else:
            values = [episode.get(name, np.nan) for episode in episodes]
            outcomes[name] = np.array(values, dtype=np.float64)
    return outcomes
