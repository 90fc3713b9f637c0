"""Families of Gymnasium's environments: MuJoCo, Box2D and classic control.

Each needs its extra: ``pip install 'crosslearning[mujoco]'`` or ``'crosslearning[box2d]'``.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from crosslearning.errors import MissingExtraError
from crosslearning.tasks.families.members import TaskFamily

Environment = gymnasium.Env[Any, Any]


def _make(extra: str, identifier: str, **options: Any) -> tuple[Environment, Any]:
    """Return a new environment and its innermost one."""
    try:
        environment: Environment = gymnasium.make(identifier, **options)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as problem:
        raise MissingExtraError(
            f"{identifier} needs the extra {extra!r}: pip install 'crosslearning[{extra}]'"
        ) from problem
    return environment, environment.unwrapped


def inverted_pendulum(gravity: float, mass: float, gear: float, **options: Any) -> Environment:
    """Return ``InvertedPendulum-v5`` with another gravity, and mass and gear times a factor."""
    environment, inner = _make("mujoco", "InvertedPendulum-v5", **options)
    inner.model.opt.gravity[2] = -gravity
    inner.model.body_mass[:] *= mass
    inner.model.body_inertia[:] *= mass
    inner.model.actuator_gear[:, 0] *= gear
    return environment


def reacher(damping: float, mass: float, gear: float, **options: Any) -> Environment:
    """Return ``Reacher-v5`` with the damping, mass and gear of the arm times a factor."""
    environment, inner = _make("mujoco", "Reacher-v5", **options)
    inner.model.dof_damping[:2] *= damping
    inner.model.body_mass[:4] *= mass
    inner.model.body_inertia[:4] *= mass
    inner.model.actuator_gear[:, 0] *= gear
    return environment


def lunar_lander(gravity: float, wind: float, **options: Any) -> Environment:
    """Return ``LunarLander-v3`` with continuous actions, another gravity, and wind."""
    options |= {"continuous": True, "gravity": -gravity}
    options |= {"enable_wind": wind > 0.0, "wind_power": wind}
    return _make("box2d", "LunarLander-v3", **options)[0]


def mountain_car(power: float, goal_velocity: float, **options: Any) -> Environment:
    """Return ``MountainCarContinuous-v0`` with another engine and speed at the goal."""
    environment = gymnasium.make("MountainCarContinuous-v0", goal_velocity=goal_velocity, **options)
    environment.unwrapped.power = power  # type: ignore[attr-defined]
    return environment


_FACTORS = {"mass": (0.7, 1.4), "gear": (0.7, 1.4)}
inverted_pendulums = TaskFamily(
    "inverted-pendulum", {"gravity": (7.0, 13.0), **_FACTORS}, inverted_pendulum, count=4
)
reachers = TaskFamily("reacher", {"damping": (0.7, 1.4), **_FACTORS}, reacher, count=4)
lunar_landers = TaskFamily(
    "lunar-lander", {"gravity": (8.0, 11.5), "wind": (0.0, 15.0)}, lunar_lander, count=4
)
mountain_cars = TaskFamily(
    "mountain-car", {"power": (0.0012, 0.0018), "goal_velocity": (0.0, 0.02)}, mountain_car, count=4
)
