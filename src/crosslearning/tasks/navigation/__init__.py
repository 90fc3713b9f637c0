"""Navigation: a robot drives to a goal around obstacles, the task of the paper."""

from crosslearning.tasks.navigation.description import Navigation
from crosslearning.tasks.navigation.environment import (
    ENVIRONMENT_ID,
    HORIZON,
    NavigationEnvironment,
)
from crosslearning.tasks.navigation.obstacles import Circle, Ellipse, Obstacle

__all__ = [
    "ENVIRONMENT_ID",
    "HORIZON",
    "Circle",
    "Ellipse",
    "Navigation",
    "NavigationEnvironment",
    "Obstacle",
]
