"""Tasks: the protocol that every task follows, the paper's navigation, and linear systems.

Importing this package registers ``crosslearning/Navigation-v0`` and
``crosslearning/LinearQuadratic-v0`` with Gymnasium.
"""

from __future__ import annotations

import gymnasium

import crosslearning._base.gymnasium_version  # noqa: F401  (before what needs it)
from crosslearning._base.compiled import compiled
from crosslearning.tasks.contract import check_task
from crosslearning.tasks.environment import CompiledEnvironment, Parameters, Physics, clipped
from crosslearning.tasks.linear_quadratic import (
    LINEAR_QUADRATIC_ID,
    LinearQuadratic,
    LinearQuadraticEnvironment,
    linear_quadratic_set,
)
from crosslearning.tasks.navigation.environment import (
    ENVIRONMENT_ID,
    Navigation,
    NavigationEnvironment,
)
from crosslearning.tasks.navigation.maps import navigation_set, random_maps
from crosslearning.tasks.navigation.obstacles import Circle, Ellipse, Obstacle
from crosslearning.tasks.sources import tasks_from
from crosslearning.tasks.task import HORIZON, Dynamics, Task
from crosslearning.tasks.task_sets import register_task_set, task_set, task_set_names

__all__ = [
    "ENVIRONMENT_ID",
    "HORIZON",
    "LINEAR_QUADRATIC_ID",
    "Circle",
    "CompiledEnvironment",
    "Dynamics",
    "Ellipse",
    "LinearQuadratic",
    "LinearQuadraticEnvironment",
    "Navigation",
    "NavigationEnvironment",
    "Obstacle",
    "Parameters",
    "Physics",
    "Task",
    "check_task",
    "clipped",
    "compiled",
    "linear_quadratic_set",
    "navigation_set",
    "random_maps",
    "register_task_set",
    "task_set",
    "task_set_names",
    "tasks_from",
]

for _id, _entry_point in (
    (ENVIRONMENT_ID, "crosslearning.tasks.navigation.environment:NavigationEnvironment"),
    (LINEAR_QUADRATIC_ID, "crosslearning.tasks.linear_quadratic:LinearQuadraticEnvironment"),
):
    if _id not in gymnasium.registry:
        gymnasium.register(_id, _entry_point, max_episode_steps=HORIZON)
