"""What a sweep is asked for: the radii, the stages, and the tasks held out."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec
import numpy as np

from crosslearning.errors import InputError, unknown_name
from crosslearning.learner import LearnerSettings
from crosslearning.runs import RunConfig
from crosslearning.tasks import Task, random_maps, task_set

#: The radii of a sweep that names none; 3 is the paper's.
DEFAULT_EPSILONS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
#: ``random:50`` are the first 50 random maps of this seed.
MAPS = "random"
MAPS_SEED = 30_000
#: Held out where nothing else is named.
DEFAULT_HELD_OUT = {"paper": "random:50"}
#: Where a stage starts.
Origin = Literal["previous", "common", "zero"]
ORIGINS: tuple[str, ...] = get_args(Origin)
#: Fields of a configuration that a sweep sets itself.
OWN_FIELDS = ("epsilon", "seed", "workers")


@dataclass(frozen=True)
class SweepRequest:
    """What a sweep in a folder is asked for.

    Attributes
    ----------
    config : RunConfig
        The first stage of a path; its ``epsilon`` and ``seed`` are not used.
    epsilons : tuple of float
        In ascending order; the last may be infinite.
    stage_iterations : int
        Iterations of every stage after the first.
    held_out : str, optional
        The name of a task set, or ``random:n`` for n random maps.
    trials, steps : int
        Episodes on each training task in a measurement, and their length.
    origin : {"previous", "common", "zero"}
        Where a stage starts: from the stage before; from one run at the smallest radius that all
        of them share; or from zero, with the iterations of the first stage.
    """

    config: RunConfig
    epsilons: tuple[float, ...]
    stage_iterations: int
    held_out: str | None = None
    trials: int = 200
    steps: int = 50
    origin: Origin = "previous"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilons", read_epsilons(self.epsilons))
        for name in ("stage_iterations", "trials", "steps"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.origin not in ORIGINS:
            raise unknown_name("origin", self.origin, ORIGINS)
        if self.held_out is not None and self.held_out == self.config.tasks:
            raise InputError(
                f"the tasks held out are those trained on, {self.held_out!r}; name others"
            )

    def iterations(self, stage: int) -> int:
        """Return the iterations of a stage."""
        short = self.origin == "common" or (self.origin == "previous" and stage > 0)
        return self.stage_iterations if short else self.config.iterations

    def learned(self, stage: int) -> int:
        """Return how many iterations lie behind a stage's policies, those before it included."""
        if self.origin == "zero":
            return self.config.iterations
        later = stage if self.origin == "previous" else 1
        return self.config.iterations + later * self.stage_iterations

    def start_config(self, seed: int) -> RunConfig:
        """Return the configuration of the run that the stages of a common origin start from."""
        return msgspec.structs.replace(self.config, epsilon=self.epsilons[0], seed=seed)

    def stage_config(self, seed: int, stage: int) -> RunConfig:
        """Return the configuration of the run of one stage."""
        changes = stage_settings(self.config, self.config.iterations, seed, stage, self.origin)
        return msgspec.structs.replace(
            self.config,
            epsilon=self.epsilons[stage],
            iterations=self.iterations(stage),
            **changes,
        )

    def learning(self) -> dict[str, Any]:
        """Return as plain data what decides the runs; it may not change within a folder."""
        values = msgspec.to_builtins(self.config)
        kept = {name: value for name, value in values.items() if name not in OWN_FIELDS}
        asked = {
            "epsilons": [plain_epsilon(epsilon) for epsilon in self.epsilons],
            "stage_iterations": self.stage_iterations,
            "origin": self.origin,
            "config": {name: plain_epsilon(value) for name, value in kept.items()},
        }
        # As a file gives it back, lists in the place of tuples.
        plain: dict[str, Any] = json.loads(json.dumps(asked))
        return plain

    def measuring(self) -> dict[str, Any]:
        """Return as plain data what decides the measurements."""
        return {"held_out": self.held_out, "trials": self.trials, "steps": self.steps}


def read_epsilons(given: str | Iterable[Any]) -> tuple[float, ...]:
    """Return the radii of a path, or say what is wrong with them.

    Parameters
    ----------
    given : str or iterable of numbers
        Such as ``"0,0.5,1,inf"``: at least 0, in ascending order, none twice.
    """
    parts = given.split(",") if isinstance(given, str) else list(given)
    try:
        epsilons = tuple(float(part) for part in parts)
    except (TypeError, ValueError) as problem:
        raise InputError(
            f"epsilons are {given!r}; give numbers with commas, such as 0,0.5,1,inf"
        ) from problem
    if not epsilons:
        raise InputError("no epsilons were given; give at least one, such as 0,0.5,1,inf")
    for epsilon in epsilons:
        if math.isnan(epsilon) or epsilon < 0.0:
            raise InputError(f"epsilons must be at least 0 (inf allowed), got {epsilon:g}")
    for before, after in itertools.pairwise(epsilons):
        if before == after:
            raise InputError(f"epsilon {after:g} is given twice; give each once")
        if before > after:
            raise InputError(
                f"epsilons must ascend, because every stage starts from the one before; got "
                f"{after:g} after {before:g}"
            )
    # A negative zero would have a name of its own.
    return tuple(epsilon + 0.0 for epsilon in epsilons)


def stage_settings(
    settings: LearnerSettings,
    first_iterations: int,
    seed: int,
    stage: int,
    origin: Origin = "previous",
) -> dict[str, Any]:
    """Return the settings in which a stage differs: its seed and its step size.

    A stage that does not start from zero goes on with the decay of the step where the first K
    iterations ended: with η_K = η/√(1 + K/d) and d_K = d + K its step η_K/√(1 + k/d_K) is the
    η/√(1 + (K + k)/d) of a run that never stopped. All such stages
    begin at the same K, so that they end with the same step, and with it the same noise in
    their policies.

    Parameters
    ----------
    settings : LearnerSettings
    first_iterations : int
        K.
    seed, stage : int
        The seed of the path, and the number of the stage from 0. Every stage draws numbers of
        its own; those of the first are what the seed gives to a run on its own.
    origin : {"previous", "common", "zero"}
        From zero all stages are like the first. From a common origin all draw the same numbers,
        so that they differ in their radius alone.
    """
    if origin == "zero" or (origin == "previous" and stage == 0):
        return {"seed": seed}
    draw = stage if origin == "previous" else 1
    own = int(np.random.SeedSequence([seed, draw]).generate_state(1)[0])
    if settings.step_rule != "decaying":
        return {"seed": own}
    d, K = settings.step_decay, first_iterations
    return {
        "seed": own,
        "step_size": settings.step_size / math.sqrt(1.0 + K / d),
        "step_decay": d + K,
    }


def held_out_tasks(name: str | None, config: RunConfig) -> tuple[Task, ...]:
    """Return the tasks held out, with the options of the training tasks.

    Parameters
    ----------
    name : str, optional
        The name of a task set, or ``random:n``; None holds nothing out.
    config : RunConfig
    """
    if name is None:
        return ()
    kind, _, count = name.partition(":")
    # What draws the training maps is not for those held out.
    options = {k: v for k, v in config.task_options.items() if k not in ("seed", "count")}
    if kind != MAPS:
        return task_set(name, **options)
    if not count.isascii() or not count.isdigit() or int(count) < 1:
        raise InputError(f"held-out maps are {name!r}; give how many, such as random:50")
    maps = random_maps(MAPS_SEED, int(count), **options)
    return tuple(navigation.task(label) for label, navigation in maps.items())


def check_held_out(training: Sequence[Task], held_out: Sequence[Task]) -> None:
    """Refuse held-out tasks that policies of the training tasks cannot act in."""
    first = training[0]
    for task in held_out:
        for kind in ("observation_space", "action_space"):
            given, expected = getattr(task, kind).shape, getattr(first, kind).shape
            if given != expected:
                raise InputError(
                    f"the {kind} of the held-out task {task.name!r} has shape {given}, but the "
                    f"policies are learned with {expected}; hold out tasks of the same kind"
                )


def plain_epsilon(value: Any) -> Any:
    """Return a number as JSON can hold it: infinity as a word."""
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def epsilon_name(epsilon: float) -> str:
    """Return a radius as short text that reads back to the same number."""
    short = f"{epsilon:g}"
    return short if float(short) == epsilon else repr(epsilon)
