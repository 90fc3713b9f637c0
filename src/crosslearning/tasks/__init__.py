"""Tasks: the protocol that every task follows, the paper's navigation, and linear systems.

Importing this package registers ``crosslearning/Navigation-v0`` and
``crosslearning/LinearQuadratic-v0`` with Gymnasium.
"""

from __future__ import annotations

from crosslearning.tasks.linear_quadratic import LinearQuadratic
from crosslearning.tasks.linear_quadratic_environment import (
    LINEAR_QUADRATIC_ID,
    LinearQuadraticEnvironment,
)
from crosslearning.tasks.navigation.description import Navigation
from crosslearning.tasks.navigation.environment import (
    ENVIRONMENT_ID,
    HORIZON,
    NavigationEnvironment,
)
from crosslearning.tasks.navigation.obstacles import Circle, Ellipse, Obstacle
from crosslearning.tasks.simulator import Simulator
from crosslearning.tasks.task import Dynamics, Task
from crosslearning.tasks.task_sets import (
    linear_quadratic_set,
    navigation_set,
    random_maps,
    task_set,
    task_set_names,
)

__all__ = [
    "ENVIRONMENT_ID",
    "HORIZON",
    "LINEAR_QUADRATIC_ID",
    "Circle",
    "Dynamics",
    "Ellipse",
    "LinearQuadratic",
    "LinearQuadraticEnvironment",
    "Navigation",
    "NavigationEnvironment",
    "Obstacle",
    "Simulator",
    "Task",
    "linear_quadratic_set",
    "navigation_set",
    "random_maps",
    "task_set",
    "task_set_names",
]
