"""Families of Gymnasium's own environments, in Python: MuJoCo, Box2D and classic control.

Each needs its extra: ``pip install 'crosslearning[mujoco]'`` or ``'crosslearning[box2d]'``.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from crosslearning.errors import MissingExtraError
from crosslearning.tasks.families.members import TaskFamily


def _made(extra: str, identifier: str, **options: Any) -> gymnasium.Env[Any, Any]:
    try:
        return gymnasium.make(identifier, **options)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as problem:
        raise MissingExtraError(
            f"{identifier} needs the extra {extra!r}: pip install 'crosslearning[{extra}]'"
        ) from problem


def inverted_pendulum(
    gravity: float, mass: float, gear: float, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """Return ``InvertedPendulum-v5`` with other gravity, and mass and gear times a factor."""
    environment = _made("mujoco", "InvertedPendulum-v5", render_mode=render_mode)
    model: Any = environment.unwrapped.model  # type: ignore[attr-defined]
    model.opt.gravity[2] = -gravity
    model.body_mass[:] *= mass
    model.body_inertia[:] *= mass
    model.actuator_gear[:, 0] *= gear
    return environment


def reacher(
    damping: float, mass: float, gear: float, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """Return ``Reacher-v5`` with the arm's damping, mass and gear times a factor."""
    environment = _made("mujoco", "Reacher-v5", render_mode=render_mode)
    model: Any = environment.unwrapped.model  # type: ignore[attr-defined]
    model.dof_damping[:2] *= damping
    model.body_mass[:4] *= mass
    model.body_inertia[:4] *= mass
    model.actuator_gear[:, 0] *= gear
    return environment


def lunar_lander(
    gravity: float, wind: float, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """Return ``LunarLander-v3`` with continuous actions, other gravity, and wind."""
    return _made(
        "box2d",
        "LunarLander-v3",
        continuous=True,
        gravity=-gravity,
        enable_wind=wind > 0.0,
        wind_power=wind,
        render_mode=render_mode,
    )


def mountain_car(
    power: float, goal_velocity: float, render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """Return ``MountainCarContinuous-v0`` with another engine and speed at the goal."""
    identifier = "MountainCarContinuous-v0"
    options: dict[str, Any] = {"goal_velocity": goal_velocity, "render_mode": render_mode}
    environment = gymnasium.make(identifier, **options)
    environment.unwrapped.power = power  # type: ignore[attr-defined]
    return environment


inverted_pendulums = TaskFamily(
    "inverted-pendulum",
    {"gravity": (7.0, 13.0), "mass": (0.7, 1.4), "gear": (0.7, 1.4)},
    inverted_pendulum,
    count=4,
)
reachers = TaskFamily(
    "reacher",
    {"damping": (0.7, 1.4), "mass": (0.7, 1.4), "gear": (0.7, 1.4)},
    reacher,
    count=4,
)
lunar_landers = TaskFamily(
    "lunar-lander", {"gravity": (8.0, 11.5), "wind": (0.0, 15.0)}, lunar_lander, count=4
)
mountain_cars = TaskFamily(
    "mountain-car", {"power": (0.0012, 0.0018), "goal_velocity": (0.0, 0.02)}, mountain_car, count=4
)
