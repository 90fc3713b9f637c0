"""How episodes ended, by name, as the last ``info`` of an environment tells it.

Truth values count always; numbers do if the task lists their names. An episode that does not tell
a name leaves it unknown, since many environments speak of a thing only when it has happened.
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

#: Truth values that some environments give as the numbers 0 and 1.
_TRUTHS = ("is_success", "success", "crashed")


def outcome_of(task: Task, info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the last ``info`` of one episode tells."""
    found: dict[str, Any] = {}
    for name, value in info.items():
        if isinstance(value, bool | np.bool_):
            found[name] = bool(value)
        elif name in _TRUTHS and np.size(value) == 1 and np.ravel(value)[0] in (0, 1):
            found[name] = bool(np.ravel(value)[0])
    for name in task.listed_outcomes:
        if name not in found and info.get(name) is not None:
            found[name] = _number(task, name, info[name])
    return found


def _number(task: Task, name: str, value: Any) -> float:
    try:
        return float(np.asarray(value, dtype=np.float64).reshape(()))
    except (TypeError, ValueError):
        raise TaskError(
            f"task {task.name!r} lists the outcome {name!r}, but info[{name!r}] is {value!r}; "
            "expected a number or a truth value"
        ) from None


def collect_outcomes(tasks: Sequence[Task], episodes: Episodes) -> Episodes:
    """Return episodes with their outcomes by task and name.

    Before, their outcomes are for each task a list with a mapping for each episode, as its last
    ``info`` told; those of compiled tasks are read from the last states.
    """
    if episodes.states is None:
        gathered = [
            gather_outcomes(task, own) for task, own in zip(tasks, episodes.outcomes, strict=True)
        ]
        return episodes._replace(outcomes=gathered)
    read = [
        task.outcomes(own[:, : task.state_size].copy()) if callable(task.outcomes) else {}
        for task, own in zip(tasks, episodes.states[:, :, -1], strict=True)
    ]
    return episodes._replace(outcomes=read)


def gather_outcomes(task: Task, ends: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return the outcomes of n episodes of a task as arrays of length n, by name.

    Numbers that are unknown are NaN; truth values that are unknown are masked.
    """
    names = dict.fromkeys(name for end in ends for name in end)
    never = [name for name in task.listed_outcomes if name not in names]
    if never:
        warnings.warn(
            f"no episode of task {task.name!r} told {', '.join(never)} in its last info, which "
            f"the task lists as outcomes; it told: {', '.join(names) or 'nothing'}",
            stacklevel=2,
        )
    outcomes: dict[str, NDArray[Any]] = {}
    for name in (*names, *never):
        unknown = np.array([name not in end for end in ends])
        known = [end[name] for end in ends if name in end]
        if not unknown.any():
            outcomes[name] = np.array(known)
        elif known and all(isinstance(value, bool) for value in known):
            truths = [end.get(name, False) for end in ends]
            outcomes[name] = np.ma.array(truths, mask=unknown, dtype=np.bool_)
        else:
            outcomes[name] = np.array([end.get(name, np.nan) for end in ends], dtype=np.float64)
    return outcomes
