"""Sources of policies to export: runs, files of learners and files of policies."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosslearning._base.files import read_document
from crosslearning._base.ordinary_files import read_bytes
from crosslearning.errors import InputError
from crosslearning.learner import Policy
from crosslearning.learner.policy import FILE_KIND, FILE_VERSION, BoxSpec

if TYPE_CHECKING:
    from crosslearning.learner import CrossLearner
    from crosslearning.learner.deployment import LearnedController


@dataclass(frozen=True, eq=False)
class Source:
    """A policy and its origin."""

    policy: Policy
    run: dict[str, Any] | None  #: the learner's tasks, iterations, steps and file digest
    #: The policy in the loop of its task: with the controller that it corrects, lags and limits.
    controller: LearnedController | None = None


def open_policy(
    path: str | Path,
    which: str | None = None,
    tasks: str | None = None,
    best: bool = False,
    correction_only: bool = False,
    around: str | None = None,
) -> Source:
    """Return a policy of a run, a learner or a file.

    Parameters
    ----------
    path : str or Path
        The folder of a run, the file of a learner (``.safetensors``) or that of a policy.
    which : str, optional
        ``"central"``, the default, ``"average"``, or a task by its name or number; not for the
        file of a policy.
    tasks : str, optional
        Replaces the tasks of a run or a learner.
    best : bool
        Whether to take the best policies of a run with evaluations.
    correction_only : bool
        Whether to leave out the loop of its task.
    around : str, optional
        The controller of a run or a learner, if that is code.
    """
    place = Path(path)
    if not place.exists():
        raise InputError(f"there is no {place}; give the folder of a run, or the file of a policy")
    if place.is_dir():
        from crosslearning.runs import RunFolder

        folder = RunFolder.open(place, tasks, around)
        learner = folder.load(best=best)
        checkpoints = [file for _, file in folder.checkpoints()]
        file = folder.best if best else folder.model if folder.model.exists() else checkpoints[-1]
    elif place.suffix == ".safetensors":
        from crosslearning.learner import CrossLearner

        if best:
            raise InputError(f"{place} is a learner's file; the best policies are those of a run")
        learner, file = CrossLearner.load(place, tasks, around=around), place
    else:
        given = {"--policy": which, "--tasks": tasks, "--best-evaluated": best or None}
        given |= {"--around": around}
        for flag in (flag for flag, value in given.items() if value is not None):
            raise InputError(f"{place} holds one policy: leave out {flag}, which is for runs")
        policy, data = Policy.load(place), read_document(place, FILE_KIND, FILE_VERSION)
        if "loop" not in data or correction_only:
            return Source(policy, None)
        from crosslearning.learner.deployment import LearnedController, MissingController

        code = MissingController("its controller is code, which files never carry")
        controller = LearnedController.load(place, code)
        return Source(controller.policy, None, controller)
    run = {
        "tasks": [task.name for task in learner.tasks],
        "iteration": learner.iteration,
        "steps": learner.steps,
        "sha256": hashlib.sha256(read_bytes(file)).hexdigest(),
    }
    policy = find_policy(learner, which or "central")
    return Source(policy, run, None if correction_only else _controller(learner, policy))


def _controller(learner: CrossLearner, policy: Policy) -> LearnedController | None:
    """Return a policy in the loop of its task, if there is one; others need one loop for all."""
    from crosslearning.learner.deployment import LearnedController

    loops = {task.name: task.loop for task in learner.tasks}
    if policy.name in loops:
        loops = {policy.name: loops[policy.name]}
    first, *others = loops.values()
    plain = None if first is None else first.to_dict()
    for other in others:
        same = (None if other is None else other.to_dict()) == plain
        if same and plain is not None and other is not None and plain["controller"] == "code":
            same = first is not None and first.controller is other.controller
        if not same:
            raise InputError(
                f"tasks differ in their controllers or limits, so the {policy.name} policy is the "
                f"correction of several: give --policy one of {', '.join(loops)}, or "
                "--correction-only"
            )
    return None if first is None else LearnedController(policy, first)


def find_policy(learner: CrossLearner, which: str) -> Policy:
    """Return a policy by its name, or by its number if no task has that name."""
    named = which in [task.name for task in learner.tasks]
    return learner.policy(int(which) if which.isdecimal() and not named else which)


def rename(
    policy: Policy,
    observations: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
    rate: float | None = None,
) -> None:
    """Name a policy's observations and actions, with units in brackets, and set its rate."""
    if observations is not None:
        names = BoxSpec.named(observations, "observation", policy.observations.size)
        policy.observations = replace(policy.observations, names=names)
    if actions is not None:
        names = BoxSpec.named(actions, "action", policy.actions.size)
        policy.actions = replace(policy.actions, names=names)
    if rate is not None:
        if not 0.0 < rate < math.inf:
            raise InputError(f"the rate is {rate}; give actions a second, more than 0")
        policy.rate = rate


def renamed(
    controller: LearnedController,
    observations: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
    rate: float | None = None,
) -> LearnedController:
    """Return a controller with other names of the machine's observations and actions.

    The rate is what the contract says; integrals and derivatives count in that of the task.
    """
    from crosslearning.learner.deployment import LearnedController

    spec, policy = controller.loop.spec, controller.policy
    if observations is not None:
        names = BoxSpec.named(observations, "observation", len(spec.observation_names))
        spec = replace(spec, observation_names=names)
    if actions is not None:
        names = BoxSpec.named(actions, "action", len(spec.action_names))
        spec = replace(spec, action_names=names)
    seen, acting = spec.names
    # What a controller that is code remembers may not be known here.
    rename(policy, (*seen, *policy.observations.names[len(seen) :]), acting, rate)
    return LearnedController(policy, spec)
