"""Tasks: the protocol that every task follows, and the navigation tasks of the paper.

Importing this package registers ``crosslearning/Navigation-v0`` with Gymnasium.
"""

from __future__ import annotations

from crosslearning.tasks.navigation import Navigation
from crosslearning.tasks.navigation_environment import (
    ENVIRONMENT_ID,
    HORIZON,
    NavigationEnvironment,
)
from crosslearning.tasks.obstacles import Circle, Ellipse, Obstacle
from crosslearning.tasks.simulator import Simulator
from crosslearning.tasks.task import Dynamics, Task
from crosslearning.tasks.task_sets import (
    navigation_set,
    random_maps,
    task_set,
    task_set_names,
)

__all__ = [
    "ENVIRONMENT_ID",
    "HORIZON",
    "Circle",
    "Dynamics",
    "Ellipse",
    "Navigation",
    "NavigationEnvironment",
    "Obstacle",
    "Simulator",
    "Task",
    "navigation_set",
    "random_maps",
    "task_set",
    "task_set_names",
]
