"""Where a policy to export comes from: a run, a learner's file, or a file of its own."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosslearning._base.ordinary_files import read_bytes
from crosslearning.errors import InputError
from crosslearning.learner import Policy
from crosslearning.learner.box_spec import BoxSpec

if TYPE_CHECKING:
    from crosslearning.learner import CrossLearner


@dataclass(frozen=True, eq=False)
class Source:
    """A policy, and what is known of how it was made."""

    policy: Policy
    #: Of the learner: its tasks, its iterations, its steps, and the digest of its file.
    run: dict[str, Any] | None


def open_policy(
    path: str | Path,
    which: str | None = None,
    tasks: str | None = None,
    best: bool = False,
) -> Source:
    """Return a policy.

    Parameters
    ----------
    path : str or Path
        The folder of a run, the file of a learner (``.safetensors``) or that of a policy.
    which : str, optional
        ``"central"``, which is the default, ``"average"``, or a task by its name or number; not
        with a policy's own file.
    tasks : str, optional
        Of a run or a learner, in the place of those that it names.
    best : bool
        Whether to take the best policies of a run with evaluations on the way.
    """
    place = Path(path)
    if not place.exists():
        raise InputError(f"there is no {place}; give the folder of a run, or the file of a policy")
    if place.is_dir():
        from crosslearning.runs import RunFolder

        folder = RunFolder.open(place)
        learner = folder.load(best=best, tasks=tasks)
        checkpoints = [file for _, file in folder.checkpoints()]
        file = folder.best if best else folder.model if folder.model.exists() else checkpoints[-1]
    elif place.suffix == ".safetensors":
        from crosslearning.learner import CrossLearner

        if best:
            raise InputError(f"{place} is a learner's file; the best policies are those of a run")
        learner, file = CrossLearner.load(place, tasks), place
    else:
        given = {"--policy": which, "--tasks": tasks, "--best": best or None}
        for flag in (flag for flag, value in given.items() if value is not None):
            raise InputError(f"{place} holds one policy: leave out {flag}, which is for runs")
        return Source(Policy.load(place), None)
    run = {
        "tasks": [task.name for task in learner.tasks],
        "iteration": learner.iteration,
        "steps": learner.steps,
        "sha256": hashlib.sha256(read_bytes(file)).hexdigest(),
    }
    return Source(find_policy(learner, which or "central"), run)


def find_policy(learner: CrossLearner, which: str) -> Policy:
    """Return the policy of a word; a number counts if no task has it for a name."""
    named = which in [task.name for task in learner.tasks]
    return learner.policy(int(which) if which.isdecimal() and not named else which)


def rename(
    policy: Policy,
    observations: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
    rate: float | None = None,
) -> None:
    """Give the numbers of a policy names, with units in brackets, and say how often it acts."""
    if observations is not None:
        policy.observations = _renamed(policy.observations, "observation", observations)
    if actions is not None:
        policy.actions = _renamed(policy.actions, "action", actions)
    if rate is not None:
        if not 0.0 < rate < math.inf:
            raise InputError(f"the rate is {rate}; give actions a second, more than 0")
        policy.rate = rate


def _renamed(signals: BoxSpec, what: str, names: Sequence[str]) -> BoxSpec:
    return replace(signals, names=BoxSpec.named(names, what, signals.size))
