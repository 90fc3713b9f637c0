"""Task families: environments that differ in a few numbers, with members drawn by seed.

Training members and unseen members are drawn from the same ranges. Families of MuJoCo and Box2D
need their extra: ``pip install 'crosslearning[mujoco]'`` or ``'crosslearning[box2d]'``.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from crosslearning.errors import InputError, MissingExtraError, describe_exception
from crosslearning.tasks import cart_pole, machines, pendulum
from crosslearning.tasks.environment import CompiledEnvironment
from crosslearning.tasks.numbers import check_names
from crosslearning.tasks.task import Task

Environment = gymnasium.Env[Any, Any]


@dataclass(frozen=True)
class TaskFamily:
    """Related tasks that differ in a context.

    Calling it draws members: ``family(count=8, seed=0, unseen=False, spread=1.0, g=9.81)``, where
    a context variable given by name is the same for all of them. ``spread`` scales the ranges
    around their midpoints: with 0 all members are the same, with 0.5 half as different.
    """

    kind: str  #: the first part of the members' names
    ranges: Mapping[str, tuple[float, float]]  #: the bounds of each context variable
    #: ``make(**context)`` returns an environment; a CompiledEnvironment gives compiled tasks.
    make: Callable[..., Environment]
    count: int  #: the default number of members
    horizon: int = 0  #: the most steps of an episode; by default the environment's time limit

    def __call__(self, count: int = 0, **options: Any) -> list[Task]:
        """Return members; the options are those of :meth:`contexts`."""
        members = [self.task(context) for context in self.contexts(count or self.count, **options)]
        # Equal members, such as those of spread 0, are numbered.
        counts = Counter(task.name for task in members)
        for i, task in enumerate(members):
            if counts[task.name] > 1:
                members[i] = dataclasses.replace(task, name=f"{task.name} no. {i + 1}")
        return members

    def contexts(
        self, count: int, seed: int = 0, unseen: bool = False, spread: float = 1.0, **fixed: float
    ) -> list[dict[str, float]]:
        """Return the contexts of members; each depends only on the seed and its number."""
        for name, value in (("count", count), ("seed", seed)):
            if isinstance(value, bool) or int(value) != value or value < (name == "count"):
                raise InputError(f"{name} is {value!r}; give a whole number")
        check_names(f"context of a {self.kind}", fixed, self.ranges)
        if isinstance(spread, bool) or not 0.0 <= spread < math.inf:
            raise InputError(f"spread is {spread!r}; give a number of at least 0, 1 for the usual")
        for name, (low, high) in self.ranges.items():
            most = max(1.0, (low + high) / (high - low))  # the least value is 0
            if low >= 0.0 and spread > most:
                raise InputError(f"{name} could be below 0; give a spread of at most {most:.3g}")
        drawn = []
        for number in range(int(count)):
            generator = np.random.default_rng([int(seed), int(unseen), number])
            context = {}
            for name, (low, high) in self.ranges.items():
                usual = float(generator.uniform(low, high))
                # Exactly the drawn number if the spread is 1.
                context[name] = usual + (spread - 1.0) * (usual - 0.5 * (low + high))
            drawn.append(context | {name: float(value) for name, value in fixed.items()})
        return drawn

    def task(self, context: Mapping[str, float]) -> Task:
        """Return the member of a context, named after it."""
        name = " ".join([self.kind, *(f"{name}={value:.3g}" for name, value in context.items())])
        make: Any = functools.partial(self.make, **context)
        if isinstance(self.make, type) and issubclass(self.make, CompiledEnvironment):
            task: Task = make().task(name, self.horizon)
            return dataclasses.replace(task, context=dict(context))
        return Task(name, make, horizon=self.horizon, context=dict(context))


# Members of Gymnasium's environments ------------------------------------------------------


def _make(identifier: str, extra: str = "", **options: Any) -> tuple[Environment, Any]:
    """Return a new environment and its innermost one."""
    try:
        environment: Environment = gymnasium.make(identifier, **options)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as problem:
        raise MissingExtraError(
            f"{identifier} needs the extra {extra!r}: pip install 'crosslearning[{extra}]' "
            f"({describe_exception(problem)})"
        ) from problem
    return environment, environment.unwrapped


def gymnasium_pendulum(render_mode: str | None = None, **context: float) -> Environment:
    """Return ``Pendulum-v1`` with another gravity ``g``, mass ``m`` and length ``l``."""
    environment, inner = _make("Pendulum-v1", g=context.get("g", 10.0), render_mode=render_mode)
    inner.m, inner.l = context.get("m", 1.0), context.get("l", 1.0)
    return environment


def inverted_pendulum(gravity: float, mass: float, gear: float, **options: Any) -> Environment:
    """Return ``InvertedPendulum-v5`` with another gravity, and mass and gear times a factor."""
    environment, inner = _make("InvertedPendulum-v5", "mujoco", **options)
    inner.model.opt.gravity[2] = -gravity
    inner.model.body_mass[:] *= mass
    inner.model.body_inertia[:] *= mass
    inner.model.actuator_gear[:, 0] *= gear
    return environment


def reacher(damping: float, mass: float, gear: float, **options: Any) -> Environment:
    """Return ``Reacher-v5`` with the damping, mass and gear of the arm times a factor."""
    environment, inner = _make("Reacher-v5", "mujoco", **options)
    inner.model.dof_damping[:2] *= damping
    inner.model.body_mass[:4] *= mass
    inner.model.body_inertia[:4] *= mass
    inner.model.actuator_gear[:, 0] *= gear
    return environment


def lunar_lander(gravity: float, wind: float, **options: Any) -> Environment:
    """Return ``LunarLander-v3`` with continuous actions, another gravity, and wind."""
    options |= {"continuous": True, "gravity": -gravity}
    options |= {"enable_wind": wind > 0.0, "wind_power": wind}
    return _make("LunarLander-v3", "box2d", **options)[0]


def mountain_car(power: float, goal_velocity: float, **options: Any) -> Environment:
    """Return ``MountainCarContinuous-v0`` with another engine and speed at the goal."""
    environment, inner = _make("MountainCarContinuous-v0", goal_velocity=goal_velocity, **options)
    inner.power = power
    return environment


_FACTORS = {"mass": (0.7, 1.4), "gear": (0.7, 1.4)}

#: The families that ship, by the names of their task sets.
FAMILIES = {
    "pendulums": TaskFamily(
        "pendulum", pendulum.RANGES, pendulum.Pendulum, count=8, horizon=pendulum.HORIZON
    ),
    "gymnasium-pendulums": TaskFamily("pendulum", pendulum.RANGES, gymnasium_pendulum, count=8),
    "cart-poles": TaskFamily(
        "cart-pole", cart_pole.RANGES, cart_pole.CartPole, count=6, horizon=cart_pole.HORIZON
    ),
    "standing-cart-poles": TaskFamily(
        "cart-pole",
        cart_pole.RANGES,
        cart_pole.StandingCartPole,
        count=6,
        horizon=cart_pole.HORIZON,
    ),
    "hovering-masses": TaskFamily(
        "hovering-mass", machines.HOVERING_RANGES, machines.HoveringMass, count=6, horizon=50
    ),
    "two-tanks": TaskFamily("tanks", machines.TANK_RANGES, machines.TwoTanks, count=6, horizon=60),
    "quadrotors": TaskFamily(
        "quadrotor", machines.QUADROTOR_RANGES, machines.Quadrotor, count=6, horizon=100
    ),
    "reactors": TaskFamily(
        "reactor", machines.REACTOR_RANGES, machines.Reactor, count=6, horizon=60
    ),
    "four-tanks": TaskFamily(
        "four-tanks", machines.FOUR_TANK_RANGES, machines.FourTankProcess, count=6, horizon=60
    ),
    "dc-motors": TaskFamily("dc-motor", machines.DC_RANGES, machines.DCMotor, count=6, horizon=50),
    "synchronous-motors": TaskFamily(
        "synchronous-motor",
        machines.SYNCHRONOUS_RANGES,
        machines.SynchronousMotor,
        count=6,
        horizon=50,
    ),
    "two-rooms": TaskFamily(
        "two-rooms", machines.ROOM_RANGES, machines.TwoRooms, count=6, horizon=96
    ),
    "patients": TaskFamily(
        "patient", machines.PATIENT_RANGES, machines.Patient, count=6, horizon=60
    ),
    **{
        f"{kind}s": TaskFamily(kind, ranges, make, count=6, horizon=machines.ARM_HORIZON)
        for kind, ranges, make in (
            ("double-pendulum", machines.ARM_RANGES, machines.DoublePendulum),
            ("acrobot", machines.ARM_RANGES, machines.Acrobot),
            ("standing-acrobot", machines.STANDING_RANGES, machines.StandingAcrobot),
        )
    },
    "inverted-pendulums": TaskFamily(
        "inverted-pendulum", {"gravity": (7.0, 13.0), **_FACTORS}, inverted_pendulum, count=4
    ),
    "reachers": TaskFamily("reacher", {"damping": (0.7, 1.4), **_FACTORS}, reacher, count=4),
    "lunar-landers": TaskFamily(
        "lunar-lander", {"gravity": (8.0, 11.5), "wind": (0.0, 15.0)}, lunar_lander, count=4
    ),
    "mountain-cars": TaskFamily(
        "mountain-car",
        {"power": (0.0012, 0.0018), "goal_velocity": (0.0, 0.02)},
        mountain_car,
        count=4,
    ),
}
