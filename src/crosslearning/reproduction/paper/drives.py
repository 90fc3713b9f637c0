"""Where the five policies drive, from one fixed start and heading."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosslearning.reproduction.paper.experiment import CROSS, POLICIES, Experiment
from crosslearning.reproduction.paper.scenes import play
from crosslearning.rkhs import Family
from crosslearning.tasks import Navigation, navigation_set

#: The start heading of every drive: from (0.5, 1.5) straight towards the goal (5, 6), and so
#: towards the middle of the obstacle between them.
HEADING = math.pi / 4
#: Scenes that are driven through, and the task sets that they are the only map of.
SCENES = {"circle": "paper-circle", "ellipse": "paper-ellipse", "mission": "mission"}


@dataclass(frozen=True, eq=False)
class Drive:
    """One path of a policy, shape (points, 2), to the last goal, the crash or the last step."""

    path: NDArray[np.float64]
    crashed: bool
    arrived: bool
    goals: int

    @property
    def ending(self) -> str:
        """How the path ends, to be added to the number of goals."""
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
    found = {}
    for scene, name in SCENES.items():
        options = {**experiment.reading.task_options, "heading": HEADING}
        (navigation,) = navigation_set(name, **options).values()
        drives = {p: drive(function, navigation, scene) for p, function in functions.items()}
        bundle = tuple(drive(function, navigation, scene) for function in others)
        found[scene] = SceneDrives(navigation, drives, bundle)
    return found


def drive(function: Family, navigation: Navigation, scene: str) -> Drive:
    """Run a policy's mean action once; the scene's name decides how long an episode is."""
    episodes = play(function, navigation.task(scene), 1)
    states, outcomes = episodes.states, episodes.outcomes
    assert states is not None
    crashed, arrived = bool(outcomes["crashed"][0]), bool(outcomes["arrived"][0])
    last = int(outcomes["arrival_time"][0]) if arrived else states.shape[1] - 1
    path = states[0, : last + 1, :2]
    return Drive(path, crashed and not arrived, arrived, int(outcomes["goals_reached"][0]))
