"""Where the five policies drive, from one fixed start and heading."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.paper.experiment import CROSS, POLICIES, Experiment
from crosslearning.paper.scenes import play
from crosslearning.rkhs import Family
from crosslearning.tasks import Navigation, navigation_set

Floats = NDArray[np.float64]

#: The start heading of every drive: from (0.5, 1.5) straight towards the goal (5, 6), and so
#: towards the middle of the obstacle between them.
HEADING = math.pi / 4
#: Scenes that are driven through, and the task sets that they are the only map of.
SCENES = {"circle": "paper-circle", "ellipse": "paper-ellipse", "mission": "mission"}


@dataclass(frozen=True, eq=False)
class Drive:
    """One path of a policy, shape (points, 2), and how many goals it reached.

    It ends at the last goal or the crash, or else with the episode.
    """

    path: Floats
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
    """The drives through one scene's map.

    ``drives`` are one seed's, by policy; ``others`` the cross-learned policy's of other seeds.
    """

    navigation: Navigation
    drives: Mapping[str, Drive]
    others: tuple[Drive, ...] = ()


def scene_drives(experiment: Experiment, seed: int | None = None) -> dict[str, SceneDrives]:
    """Return the drives of one seed's policies, by default the first, through every scene."""
    chosen = experiment.seeds[0] if seed is None else seed
    if chosen not in experiment.seeds:
        raise InputError(f"seed {seed} is not of this experiment; it has {experiment.seeds}")
    functions = {policy: experiment.function(chosen, policy) for policy in POLICIES}
    others = [experiment.function(other, CROSS) for other in experiment.seeds if other != chosen]
    found = {}
    for scene, name in SCENES.items():
        navigation = scene_with_heading(name, experiment)
        found[scene] = SceneDrives(
            navigation,
            {policy: drive(function, navigation, scene) for policy, function in functions.items()},
            tuple(drive(function, navigation, scene) for function in others),
        )
    return found


def scene_with_heading(name: str, experiment: Experiment) -> Navigation:
    """Return the only map of a navigation set in the experiment's reading, heading fixed."""
    options = {**experiment.reading.task_options, "heading": HEADING}
    (navigation,) = navigation_set(name, **options).values()
    return navigation


def drive(function: Family, navigation: Navigation, scene: str) -> Drive:
    """Run a policy's mean action once from a map's fixed start.

    The scene's name decides how long an episode is.
    """
    if navigation.start is None or navigation.heading is None:
        raise InputError(f"the map of {scene!r} has no fixed start and heading to drive from")
    task = navigation.task(scene)
    episodes = play(function, task, 1)
    states, outcomes = episodes.states, episodes.outcomes
    assert states is not None
    crashed, arrived = bool(outcomes["crashed"][0]), bool(outcomes["arrived"][0])
    last = int(outcomes["arrival_time"][0]) if arrived else states.shape[1] - 1
    path = states[0, : last + 1, :2]
    return Drive(path, crashed and not arrived, arrived, int(outcomes["goals_reached"][0]))
