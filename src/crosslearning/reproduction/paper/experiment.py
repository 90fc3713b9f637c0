"""The experiment of the paper's numerical section, as runs that can be resumed.

For every seed, five policies are learned on the paper's three navigation tasks: three agnostic
ones, each on its task alone; the average policy (ε = 0); and the cross-learned one (ε = 3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from crosslearning.rkhs import Family
from crosslearning.runs import RunConfig, RunFolder, make_config
from crosslearning.tasks import Task, task_set
from crosslearning.tasks.numbers import check_names

#: The paper's tasks: circles at (7, 2), (2, 2) and (7, 7) with these radii.
RADII = ("r=0.5", "r=1", "r=2")
AVERAGE, CROSS = "average", "cross"
#: The five policies, in the order of the paper's legend.
POLICIES = (*RADII, AVERAGE, CROSS)
#: Their labels in figures and tables.
LABELS = {
    **{radius: f"agnostic, {radius}" for radius in RADII},
    AVERAGE: "average (ε = 0)",
    CROSS: "cross-learned (ε = 3)",
}


#: The length of the paper's training, in iterations.
ITERATIONS = 29_000
#: Who acts as the cross-learned policy, and where the cost figures are measured.
ACTS, COSTS = ("centre", "own", "mean"), ("circles", "training")


@dataclass(frozen=True)
class Reading:
    """One interpretation of what the paper leaves open, and the changes that it means.

    Parameters
    ----------
    name, says : str
        Its name, also of its folder, and what it changes.
    settings : mapping
        Of the configuration of every run.
    task_options, training_options : mapping
        Options of the tasks, in training and evaluation, and in training alone.
    iterations : int
        The length of a reproduction of full size; a smaller one is as much shorter.
    knots : {"shared", "each"}
        Whether the paper's 400 knots are for all functions of a run, or for each: a run of three
        tasks and their centre has then four times as many.
    relative_epsilon : float, optional
        ε of the cross-learned run, as a multiple of the mean norm of the seed's agnostic policies.
    acts : {"centre", "own", "mean"}
        Who acts as the cross-learned policy: g; on a task of the three radii the task's own h_i,
        and g elsewhere; or the mean of the h_i. It changes no run.
    costs : {"circles", "training"}
        Where costs by radius are measured: circles of the three radii at (2, 2), as in the paper's
        caption, or the training tasks. It changes no run.
    """

    name: str
    says: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    task_options: Mapping[str, Any] = field(default_factory=dict)
    training_options: Mapping[str, Any] = field(default_factory=dict)
    iterations: int = ITERATIONS
    knots: Literal["shared", "each"] = "shared"
    relative_epsilon: float | None = None
    acts: Literal["centre", "own", "mean"] = "centre"
    costs: Literal["circles", "training"] = "circles"

    def __post_init__(self) -> None:
        for name, words in (("knots", ("shared", "each")), ("acts", ACTS), ("costs", COSTS)):
            check_names(f"choice for {name}", [getattr(self, name)], words)

    def training_tasks(self) -> tuple[Task, ...]:
        """Return the three tasks that policies are trained on."""
        return task_set("paper", **self.task_options, **self.training_options)


DEFAULT_READING = Reading("default", "The reading of the errata page.")
REDRAWN_GOALS = Reading(
    "redrawn-goals",
    "In training, each episode has another goal; d_o is measured from the obstacle's centre; the "
    "relaxed projection; 12,000 longer steps; costs are those in the training tasks.",
    settings={"projection": "relaxed", "step_size": 0.5},
    task_options={"obstacle_distance": "centre"},
    training_options={"goals": "grid", "goal_choice": "redrawn"},
    iterations=12_000,
    costs="training",
)


@dataclass(frozen=True)
class Scale:
    """The size of a reproduction, by default the paper's."""

    iterations: int = ITERATIONS
    max_knots: int = 400
    snapshots: int = 29  # the points of a curve
    trials: int = 500  # random starts of an evaluation
    maps: int = 200  # held out and random

    @property
    def converged(self) -> bool:
        """Whether policies learn as long as the paper's."""
        return self.iterations >= ITERATIONS

    @property
    def warning(self) -> str:
        """The warning of verdicts at a smaller size, or empty."""
        if self.converged:
            return ""
        part = f"{self.iterations} iterations of the paper's {ITERATIONS}"
        return f"Not converged: {part}; verdicts change on the way there."

    def describe(self, seeds: int) -> str:
        """Return a description of the size for the head of a table."""
        size = f"{seeds} seeds, {self.iterations} iterations, {self.max_knots} knots"
        warning = "" if self.converged else f"{self.warning}\n\n"
        return f"{size}, {self.trials} evaluation trials.\n\n{warning}"


class Experiment:
    """The folder of a reproduction: one folder per seed, one run per policy in it.

    The agnostic policies may be those of another experiment, whose reading differs only in what
    changes no run of a single task.
    """

    def __init__(
        self,
        path: Path,
        seeds: int,
        scale: Scale,
        reading: Reading = DEFAULT_READING,
        first_seed: int = 0,
        agnostic: Experiment | None = None,
    ) -> None:
        self.path = Path(path)
        self.agnostic = agnostic
        self.seeds = tuple(range(first_seed, first_seed + seeds))
        self.scale = scale
        self.reading = reading
        length = scale.iterations * reading.iterations / ITERATIONS
        #: Iterations between snapshots, the last of which is at the end.
        self.snapshot_every = max(1, round(length / scale.snapshots))
        self.iterations = self.snapshot_every * scale.snapshots

    def describe(self) -> str:
        """Return a description of the size for the head of a table."""
        text = self.scale.describe(len(self.seeds))
        if self.reading.iterations == ITERATIONS:
            return text
        shorter = f"{self.iterations} iterations in the place of {self.scale.iterations}"
        return f"{text}The reading {self.reading.name} has {shorter}.\n\n"

    def request(self, version: int) -> dict[str, Any]:
        """Return the request of a measurement: the size, the reading, the version."""
        return {**asdict(self.scale), "reading": self.reading.name, "version": version}

    def configs(self, seed: int) -> dict[str, RunConfig]:
        """Return the configuration of every policy's run for one seed.

        With a relative ε, that of the cross-learned run is to be multiplied by the mean norm of
        the policies of :meth:`scaled_by`.
        """
        scale, reading = self.scale, self.reading
        common: dict[str, Any] = {
            "iterations": self.iterations,
            "max_knots": scale.max_knots,
            "batch_size": 4,
            "discount": 0.9,
            "action_variance": [0.05],
            # The paper's fixed η = 0.1, read as the RKHS norm of a step: see the errata page.
            "step_rule": "normalised",
            "step_size": 0.1,
            "seed": seed,
            "snapshot_every": self.snapshot_every,
            "checkpoint_every": max(1, self.iterations // 10),
            "log_every": max(1, self.iterations // 500),
            "task_options": {**reading.task_options, **reading.training_options},
            **reading.settings,
        }
        policies = {radius: {"tasks": f"paper:{radius}", "epsilon": math.inf} for radius in RADII}
        joint: dict[str, Any] = {"tasks": "paper"}
        if reading.knots == "each":
            joint["max_knots"] = scale.max_knots * (len(RADII) + 1)
        relative = reading.relative_epsilon
        policies[AVERAGE] = {**joint, "epsilon": 0.0}
        policies[CROSS] = {**joint, "epsilon": 3.0 if relative is None else relative}
        configs = {policy: make_config(common | options) for policy, options in policies.items()}
        if self.agnostic is not None:
            theirs = self.agnostic.configs(seed)
            configs.update({radius: theirs[radius] for radius in RADII})
        return configs

    def learned_by(self, policy: str) -> Experiment:
        """Return the experiment that a policy's runs belong to."""
        return self.agnostic or self if policy in RADII else self

    def folder(self, seed: int, policy: str) -> RunFolder:
        """Return the run folder of one policy."""
        if (other := self.learned_by(policy)) is not self:
            return other.folder(seed, policy)
        return RunFolder(self.path / f"seed-{seed}" / policy.replace("=", "-"))

    def scaled_by(self, seed: int, policy: str) -> tuple[Path, ...]:
        """Return the runs of which ε of a policy's run is a multiple; none if it is absolute."""
        if policy != CROSS or self.reading.relative_epsilon is None:
            return ()
        return tuple(self.folder(seed, radius).path for radius in RADII)

    def function(
        self, seed: int, policy: str, iteration: int | None = None, task: str = ""
    ) -> Family:
        """Return the function that acts on a task, at the run's end or after an iteration."""
        snapshots = dict(self.folder(seed, policy).snapshots())
        family = Family.load(snapshots[max(snapshots) if iteration is None else iteration])
        if policy in RADII:
            return family.select(0)
        if policy == CROSS and self.reading.acts == "own" and task in RADII:
            return family.select(RADII.index(task))
        if policy == CROSS and self.reading.acts == "mean":
            return family.mix(np.r_[np.full(len(RADII), 1.0 / len(RADII)), 0.0][None, :])
        return family.select(family.functions - 1)
