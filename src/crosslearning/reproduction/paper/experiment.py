"""The experiment of the paper's numerical section, as runs that can be resumed.

For every seed, five policies are learned on the paper's three navigation tasks: three agnostic
ones, each on its task alone; the average policy (ε = 0); and the cross-learned one (ε = 3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crosslearning.rkhs import Family
from crosslearning.runs import RunConfig, RunFolder, make_config
from crosslearning.tasks import Task, task_set

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


@dataclass(frozen=True)
class Reading:
    """One interpretation of what the paper leaves open, and the changes that it means."""

    name: str
    says: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the configuration
    task_options: Mapping[str, Any] = field(default_factory=dict)  # in training and evaluation
    training_options: Mapping[str, Any] = field(default_factory=dict)  # in training alone

    def training_tasks(self) -> tuple[Task, ...]:
        """Return the three tasks that policies are trained on."""
        return task_set("paper", **self.task_options, **self.training_options)


DEFAULT_READING = Reading("default", "The reading of the errata page.")


@dataclass(frozen=True)
class Scale:
    """The size of a reproduction, by default the paper's."""

    iterations: int = 29_000
    max_knots: int = 400
    snapshots: int = 29  # the points of a curve
    trials: int = 500  # random starts of an evaluation
    maps: int = 200  # held out and random

    @property
    def converged(self) -> bool:
        """Whether policies learn as long as the paper's."""
        return self.iterations >= Scale.iterations

    @property
    def warning(self) -> str:
        """The warning of verdicts at a smaller size, or empty."""
        if self.converged:
            return ""
        part = f"{self.iterations} iterations of the paper's {Scale.iterations}"
        return f"Not converged: {part}; verdicts change on the way there."

    def describe(self, seeds: int) -> str:
        """Return a description of the size for the head of a table."""
        size = f"{seeds} seeds, {self.iterations} iterations, {self.max_knots} knots"
        warning = "" if self.converged else f"{self.warning}\n\n"
        return f"{size}, {self.trials} evaluation trials.\n\n{warning}"


class Experiment:
    """The folder of a reproduction: one folder per seed, one run per policy in it."""

    def __init__(
        self, path: Path, seeds: int, scale: Scale, reading: Reading = DEFAULT_READING
    ) -> None:
        self.path = Path(path)
        self.seeds = tuple(range(seeds))
        self.scale = scale
        self.reading = reading

    def request(self, version: int) -> dict[str, Any]:
        """Return the request of a measurement: the size, the reading, the version."""
        return {**asdict(self.scale), "reading": self.reading.name, "version": version}

    def configs(self, seed: int) -> dict[str, RunConfig]:
        """Return the configuration of every policy's run for one seed."""
        scale, reading = self.scale, self.reading
        common: dict[str, Any] = {
            "iterations": scale.iterations,
            "max_knots": scale.max_knots,
            "batch_size": 4,
            "discount": 0.9,
            "action_variance": [0.05],
            # The paper's fixed η = 0.1, read as the RKHS norm of a step: see the errata page.
            "step_rule": "normalised",
            "step_size": 0.1,
            "seed": seed,
            "snapshot_every": max(1, scale.iterations // scale.snapshots),
            "checkpoint_every": max(1, scale.iterations // 10),
            "log_every": max(1, scale.iterations // 500),
            "task_options": {**reading.task_options, **reading.training_options},
            **reading.settings,
        }
        policies = {radius: {"tasks": f"paper:{radius}", "epsilon": math.inf} for radius in RADII}
        policies[AVERAGE] = {"tasks": "paper", "epsilon": 0.0}
        policies[CROSS] = {"tasks": "paper", "epsilon": 3.0}
        return {policy: make_config(common | options) for policy, options in policies.items()}

    def folder(self, seed: int, policy: str) -> RunFolder:
        """Return the run folder of one policy."""
        return RunFolder(self.path / f"seed-{seed}" / policy.replace("=", "-"))

    def function(self, seed: int, policy: str, iteration: int | None = None) -> Family:
        """Return an agnostic policy's or a central function, at its end or after an iteration."""
        snapshots = dict(self.folder(seed, policy).snapshots())
        family = Family.load(snapshots[max(snapshots) if iteration is None else iteration])
        return family.select(0 if policy in RADII else family.functions - 1)
