"""Trained policies and their tasks as plain data for the page."""

from __future__ import annotations

import math
from contextlib import closing
from typing import Any

import numpy as np

from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.rkhs.composed import PairKernel
from crosslearning.tasks import Navigation, Task
from crosslearning.tasks.navigation.obstacles import Circle, clearances
from crosslearning.tasks.pendulum import RANGES, Pendula, Pendulum

#: The parameters of a navigation task that the page uses unchanged.
_RULES = [
    "start_area",
    "time_step",
    "speed_bounds",
    "turn_bounds",
    "arrival_radius",
    "arrival",
    "crash",
    "swept",
    "obstacle_distance",
]
#: The most maps of a run that are offered as scenes.
_SCENES = 12


def family_of(learner: CrossLearner, title: str) -> dict[str, Any]:
    """Return a learner's policies and tasks, navigation or pendulums, under a title."""
    if _has_formula(learner.kernel):
        raise InputError(
            f"the policies of {title} have a user-defined kernel, which a page cannot evaluate; "
            "play policies with kernels of the library"
        )
    environments = [_unwrapped(task) for task in learner.tasks]
    shared = {"title": title, "policies": _policies(learner)}
    names = [task.name for task in learner.tasks]
    maps = [getattr(environment, "navigation", None) for environment in environments]
    scenes = [
        {"name": name, "scene": scene_of(one)}
        for name, one in zip(names, maps, strict=True)
        if isinstance(one, Navigation)
    ]
    if len(scenes) == len(names):
        return {"kind": "navigation", **shared, "scenes": scenes[:_SCENES]}
    machines = [_machine(environment) for environment in environments]
    if all(machines):
        return {"kind": "pendulums", **shared, "machines": machines, "ranges": RANGES}
    # Tasks of one learner are of one kind.
    other = learner.tasks[0]
    raise InputError(
        f"the playground drives robots and swings pendulums; the task {other.name!r} of {title} is "
        "neither. Film it with 'crosslearning render'"
    )


def scene_of(navigation: Navigation) -> dict[str, Any]:
    """Return a map for the page: rules, obstacles, goals, and a start."""
    obstacles = [
        {
            "x": one.centre[0],
            "y": one.centre[1],
            "a": one.semi_axes[0],
            "b": one.semi_axes[1],
            "angle": one.angle,
            "round": isinstance(one, Circle),
        }
        for one in navigation.obstacles
    ]
    # The page visits goals in order; of those that are redrawn it shows the first.
    goals = navigation.goals[: 1 if navigation.goal_choice == "redrawn" else None]
    start, goal = navigation.start or _far_place(navigation), goals[0]
    heading = navigation.heading
    if heading is None:
        heading = math.atan2(goal[1] - start[1], goal[0] - start[0])
    return {
        "rules": {name: getattr(navigation, name) for name in _RULES},
        "obstacles": obstacles,
        "goals": [{"x": x, "y": y} for x, y in goals],
        "start": {"x": start[0], "y": start[1], "heading": round(heading, 3)},
    }


def _far_place(navigation: Navigation) -> tuple[float, float]:
    """Return the free place of a coarse grid that is farthest from the goal."""
    places = navigation.grid(11)
    away = np.hypot(*(places - navigation.goals[0]).T)
    away[clearances(places, navigation.obstacles) <= 0.3] = -1.0
    x, y = places[int(np.argmax(away))]
    return float(x), float(y)


def _policies(learner: CrossLearner) -> list[dict[str, Any]]:
    """Return the central policy, and the name and weights of every task's policy."""
    own = [learner.policy(i).to_dict() for i in range(len(learner.tasks))]
    return [learner.central.to_dict(), *({k: one[k] for k in ("name", "weights")} for one in own)]


def _unwrapped(task: Task) -> Any:
    try:
        with closing(task.make()) as environment:
            return environment.unwrapped
    except ImportError:
        # The environment of a missing extra is not one of the page's.
        return None


def _machine(environment: Any) -> dict[str, float] | None:
    """Return a pendulum's gravity, mass and length; None for anything else."""
    if isinstance(environment, Pendulum):
        return {one.name.lower(): float(environment.parameters[one]) for one in Pendula}
    if getattr(environment.spec, "id", "") == "Pendulum-v1" if environment else False:
        return {name: float(getattr(environment, name)) for name in ("g", "m", "l")}
    return None


def _has_formula(kernel: Any) -> bool:
    parts = getattr(kernel, "parts", ())
    return isinstance(kernel, PairKernel) or any(_has_formula(part) for part, _ in parts)
