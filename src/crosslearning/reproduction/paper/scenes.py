"""The scenes of the paper's evaluation: outcomes and paths of policies from snapshots."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosslearning.learner import Policy
from crosslearning.learner.evaluation import EpisodeOptions, measure_episodes, run_episodes
from crosslearning.reproduction.paper.experiment import CROSS, POLICIES, Experiment, Reading
from crosslearning.rkhs import Family
from crosslearning.rollouts import Episodes
from crosslearning.tasks import Navigation, Task, navigation_set, random_maps, task_set

#: Σ = diag(0.05, 0.05).
NOISE_STD = np.sqrt([0.05, 0.05])
DISCOUNT = 0.9
MISSION_HORIZON = 120
#: The seed of the evaluation's starts, different from those of training.
EVALUATION_SEED = 20_000
#: The start heading of every drive: from (0.5, 1.5) to the goal (5, 6), with the obstacle between.
HEADING = math.pi / 4
#: Scenes of the drives, and their task sets of one map.
SCENES = {"circle": "paper-circle", "ellipse": "paper-ellipse", "mission": "mission"}


def scenes(reading: Reading, maps: int) -> dict[str, tuple[Task, ...]]:
    """Return the scenes of the numerical section by name."""
    options = reading.task_options
    held_out = random_maps(EVALUATION_SEED, maps, **options)
    return {
        # For the cost figures: circles of the three radii, all at (2, 2).
        "radii": task_set("paper-radii", **options),
        "training": reading.training_tasks(),
        # One obstacle each, from a fixed start with any heading; then many, and three goals.
        "circle": task_set("paper-circle", **options),
        "ellipse": task_set("paper-ellipse", **options),
        "mission": task_set("mission", **options),
        # No policy was trained on them.
        "maps": tuple(navigation.task(name) for name, navigation in held_out.items()),
    }


def play(function: Family, task: Task, trials: int) -> Episodes:
    """Run a policy's mean action from the evaluation's random starts."""
    return run_episodes(_policy(function, task), task, trials, horizon_of(task), EVALUATION_SEED)


def outcome(function: Family, task: Task, trials: int) -> dict[str, float]:
    """Return the outcome of a policy on a task: means over episodes, and the costs' deviation.

    ``cost`` is −Σ γ^t r_t. ``time`` is the number of steps to the last goal, or all steps of an
    episode that does not arrive.
    """
    horizon = horizon_of(task)
    options = EpisodeOptions(trials=trials, horizon=horizon, seed=EVALUATION_SEED)
    played = measure_episodes(_policy(function, task), task, options, DISCOUNT)
    arrived = played.shares["arrived"]
    return {
        "cost": float(np.mean(-played.returns)),
        "deviation": float(np.std(-played.returns)),
        "crashed": float(np.mean(played.shares["crashed"])),
        "arrived": float(np.mean(arrived)),
        "time": float(np.mean(np.where(arrived, played.others["arrival_time"], horizon))),
        "path_length": float(np.mean(played.others["path_length"])),
        "goals": float(np.mean(played.others["goals_reached"])),
    }


def _policy(function: Family, task: Task) -> Policy:
    return Policy("paper", function, NOISE_STD, task.action_space)


def horizon_of(task: Task) -> int:
    """Return the longest episode of a task: the mission has three goals and takes longer."""
    return MISSION_HORIZON if task.name == "mission" else task.horizon


@dataclass(frozen=True, eq=False)
class Drive:
    """One path of a policy, shape (points, 2), to the last goal, a crash or the last step."""

    path: NDArray[np.float64]
    crashed: bool
    arrived: bool
    goals: int

    @property
    def ending(self) -> str:
        """The end of the path, for a legend."""
        if self.arrived:
            return f" in {len(self.path) - 1} steps"
        return ", crash" if self.crashed else ", out of time"


@dataclass(frozen=True, eq=False)
class SceneDrives:
    """The drives of a seed through a scene, by policy; others are other seeds' cross-learned."""

    navigation: Navigation
    drives: Mapping[str, Drive]
    others: tuple[Drive, ...] = ()


def scene_drives(experiment: Experiment) -> dict[str, SceneDrives]:
    """Return the drives of the first seed's policies through every scene."""
    first, *rest = experiment.seeds
    functions = {policy: experiment.function(first, policy) for policy in POLICIES}
    others = [experiment.function(seed, CROSS) for seed in rest]
    by_scene = {}
    for scene, name in SCENES.items():
        options = {**experiment.reading.task_options, "heading": HEADING}
        (navigation,) = navigation_set(name, **options).values()
        drives = {p: drive(function, navigation, scene) for p, function in functions.items()}
        bundle = tuple(drive(function, navigation, scene) for function in others)
        by_scene[scene] = SceneDrives(navigation, drives, bundle)
    return by_scene


def drive(function: Family, navigation: Navigation, scene: str) -> Drive:
    """Run a policy's mean action once; the scene's name decides how long an episode is."""
    episodes = play(function, navigation.task(scene), 1)
    states, outcomes = episodes.states, episodes.outcomes
    assert states is not None
    crashed, arrived = bool(outcomes["crashed"][0]), bool(outcomes["arrived"][0])
    last = int(outcomes["arrival_time"][0]) if arrived else states.shape[1] - 1
    path = states[0, : last + 1, :2]
    return Drive(path, crashed and not arrived, arrived, int(outcomes["goals_reached"][0]))
