"""What a sweep in a folder is asked for: a run, a path of radii, and the tasks held out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crosslearning.errors import InputError
from crosslearning.runs import RunConfig
from crosslearning.sweep.stages import EpsilonPath, Stage, plain_epsilon
from crosslearning.tasks import Task, tasks_from

#: Held out where nothing else is named.
DEFAULT_HELD_OUT = {"paper": "random:unseen:50"}
#: Fields of a configuration that a sweep sets itself.
OWN_FIELDS = ("epsilon", "seed", "workers")


@dataclass(frozen=True)
class SweepRequest:
    """What a sweep in a folder is asked for.

    Attributes
    ----------
    config : RunConfig
        Of all stages; its ``epsilon``, ``seed`` and ``iterations`` are not used.
    path : EpsilonPath
    held_out : str, optional
        The name of a task set, such as ``random:unseen:50``.
    trials : int
        Episodes on each training task in a measurement.
    horizon : int, optional
        Their length; by default the tasks' own.
    """

    config: RunConfig
    path: EpsilonPath
    held_out: str | None = None
    trials: int = 200
    horizon: int | None = None

    def __post_init__(self) -> None:
        for name in ("trials", "horizon"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.held_out is not None and self.held_out == self.config.tasks:
            raise InputError(
                f"the tasks held out are those trained on, {self.held_out!r}; name others"
            )

    def stages(self, seed: int) -> list[tuple[Stage, RunConfig]]:
        """Return the stages of a seed's path, each with the configuration of its run."""

        def config(stage: Stage) -> RunConfig:
            own = {"epsilon": stage.epsilon, "iterations": stage.iterations, **stage.changes}
            return self.config.replace(**own)

        return [(stage, config(stage)) for stage in self.path.stages(self.config.settings, seed)]

    def learning(self) -> dict[str, Any]:
        """Return as plain data what decides the runs; it may not change within a folder."""
        values = self.config.to_plain()
        values["iterations"] = self.path.iterations
        kept = {name: value for name, value in values.items() if name not in OWN_FIELDS}
        asked = {
            "epsilons": [plain_epsilon(epsilon) for epsilon in self.path.epsilons],
            "stage_iterations": self.path.stage_iterations,
            "origin": self.path.origin,
            "config": {name: plain_epsilon(value) for name, value in kept.items()},
        }
        # As a file gives it back, lists in the place of tuples.
        plain: dict[str, Any] = json.loads(json.dumps(asked))
        return plain

    def measuring(self) -> dict[str, Any]:
        """Return as plain data what decides the measurements."""
        return {"held_out": self.held_out, "trials": self.trials, "horizon": self.horizon}


def held_out_tasks(name: str | None, config: RunConfig) -> tuple[Task, ...]:
    """Return the tasks of a set that are held out, with the options of the training tasks."""
    if name is None:
        return ()
    # What draws the training maps is not for those held out.
    options = {k: v for k, v in config.task_options.items() if k not in ("seed", "count")}
    return tasks_from(name, **options)


def check_held_out(training: Sequence[Task], held_out: Sequence[Task]) -> None:
    """Refuse held-out tasks that were trained on, or that the policies cannot act in."""
    first = training[0]
    for task in held_out:
        for kind in ("observation_space", "action_space"):
            given, expected = getattr(task, kind).shape, getattr(first, kind).shape
            if given != expected:
                raise InputError(
                    f"the {kind} of the held-out task {task.name!r} has shape {given}, but the "
                    f"policies are learned with {expected}; hold out tasks of the same kind"
                )
        if any(_same(task, one) for one in training):
            raise InputError(
                f"the held-out task {task.name!r} is one of those trained on; hold out others, "
                "such as random:unseen:50"
            )


def _same(one: Task, other: Task) -> bool:
    """Tell whether two tasks are one, as far as compiled dynamics tell."""
    if one.name != other.name or one.dynamics is None or other.dynamics is None:
        return False
    return np.array_equal(one.dynamics.parameters, other.dynamics.parameters)
