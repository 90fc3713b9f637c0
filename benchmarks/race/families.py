"""The families of the race: training tasks, unseen tasks and a threshold of the return."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.around import PARTS
from benchmarks.race import engineers
from benchmarks.race.engineers import Context, Controller
from benchmarks.rival import Reach
from crosslearning.tasks import Task, machines, task_set
from crosslearning.tasks.families import FAMILIES as SHIPPED
from crosslearning.tasks.linear_quadratic import cart
from crosslearning.tasks.navigation.environment import Navigation

Floats = NDArray[np.float64]

#: Members that training never sees.
UNSEEN = 20
#: A seed of the second race draws its machines by this seed and its own: none had a part before.
FIRST_MACHINES = 50


@dataclass(frozen=True)
class RaceFamily:
    """Related tasks, and how they are raced on.

    Attributes
    ----------
    what : str
        In words, for tables.
    training, unseen : callable
        ``training(seed)`` returns the tasks to learn, each with its context.
    ranges : mapping of str to pair of float
        Between what the contexts lie.
    threshold : float
        The total return that every task should reach.
    controller : callable, optional
        From a context to what an engineer would write.
    machine : bool
        Whether that controller depends on the context.
    trials, unseen_trials : int
        Episodes of an evaluation on every training task, and on every unseen one.
    reach : pair of sequences of float, optional
        Bounds of the actions that rivals are given, where those of the tasks do not suit them.
    outside : callable, optional
        Tells which of the machine's observations, shape (n, q), are outside of its limits. Such a
        family is one of the second race: ours, and rivals that are asked to, learn corrections of
        the nominal controller. It has neither unseen tasks nor a threshold.
    epsilon : float
        The radius of these corrections.
    """

    what: str
    training: Callable[[int], Sequence[Task]]
    unseen: Callable[[int], Sequence[Task]]
    ranges: Mapping[str, tuple[float, float]]
    threshold: float
    controller: Callable[[Context], Controller]
    machine: bool = True
    trials: int = 25
    unseen_trials: int = 5
    reach: Reach | None = None
    outside: Callable[[Floats], NDArray[np.bool_]] | None = None
    epsilon: float = 0.0

    def scaled_context(self, task: Task) -> list[float]:
        """Return the context of a task, each number scaled from its range to [−1, 1]."""
        return [
            2.0 * (task.context[name] - low) / (high - low) - 1.0
            for name, (low, high) in self.ranges.items()
        ]

    @property
    def nominal(self) -> dict[str, float]:
        """The machine of the drawing board: the middle of every range."""
        return {name: 0.5 * (low + high) for name, (low, high) in self.ranges.items()}


def _machines(name: str, what: str, outside: Callable[[Floats], NDArray[np.bool_]]) -> RaceFamily:
    part, family = PARTS[name], SHIPPED[name]
    (middle,) = family(1, spread=0.0)
    space = middle.action_space
    return RaceFamily(
        what=f"six machines, drawn by the seed; outside of the limits is {what}",
        training=lambda seed: family(part.members, seed=FIRST_MACHINES + seed),
        unseen=lambda seed: [],
        ranges=family.ranges,
        threshold=np.nan,
        controller=part.controller,
        trials=30,
        reach=(space.low.tolist(), space.high.tolist()),
        outside=outside,
        epsilon=part.epsilon,
    )


def _shipped(name: str, count: int, **more: object) -> RaceFamily:
    # As it ships, for all seeds: on another draw some machine may never come to the threshold.
    return RaceFamily(
        training=lambda seed: task_set(f"{name}:{count}"),
        unseen=lambda seed: task_set(f"{name}:unseen:{UNSEEN}"),
        ranges=SHIPPED[name].ranges,
        **more,  # type: ignore[arg-type]
    )


#: Mass of the mass-spring carts.
_MASSES = {"mass": (0.5, 2.0)}
#: Place and radius of the paper's obstacles, and of others like them.
_OBSTACLES = {"x": (2.0, 8.0), "y": (2.0, 8.0), "radius": (0.5, 2.0)}
_PAPER = ((7.0, 2.0, 0.5), (2.0, 2.0, 1.0), (7.0, 7.0, 2.0))


def _cart(mass: float) -> Task:
    task = cart(mass).task(f"m={mass:.4g}")
    return dataclasses.replace(task, context={"mass": mass})


def _carts_unseen(seed: int) -> list[Task]:
    draw = np.random.default_rng([seed, 1])
    return [_cart(float(mass)) for mass in draw.uniform(*_MASSES["mass"], UNSEEN)]


def _scene(x: float, y: float, radius: float) -> Task:
    task = Navigation(obstacles=((x, y, radius),)).task(f"({x:.3g}, {y:.3g}) r={radius:.3g}")  # type: ignore[arg-type]
    return dataclasses.replace(task, context={"x": x, "y": y, "radius": radius})


def _scenes_unseen(seed: int) -> list[Task]:
    """Return scenes with one circle each, which leaves the goal and some room around it free."""
    draw, result = np.random.default_rng([seed, 1]), []
    while len(result) < UNSEEN:
        x, y, radius = (float(draw.uniform(*ends)) for ends in _OBSTACLES.values())
        if np.hypot(x - 5.0, y - 6.0) >= radius + 1.0:
            result.append(_scene(x, y, radius))
    return result


FAMILIES: dict[str, RaceFamily] = {
    "pendulums": _shipped(
        "pendulums",
        8,
        what="eight pendulums to swing up; gravity, mass and length differ",
        threshold=-200.0,
        controller=engineers.swing_pendulum,
        trials=50,
    ),
    "cart-poles": _shipped(
        "cart-poles",
        6,
        what="six cart-poles to swing up; masses, length and friction differ",
        threshold=-25.0,
        controller=engineers.swing_cart_pole,
        reach=([-10.0], [10.0]),
    ),
    "navigation": RaceFamily(
        what="the paper's three scenes, one round obstacle each",
        training=lambda seed: [_scene(*circle) for circle in _PAPER],
        unseen=_scenes_unseen,
        ranges=_OBSTACLES,
        threshold=200.0,
        controller=engineers.drive_robot,
        machine=False,
        trials=50,
        reach=([0.0, -np.pi], [2.0, np.pi]),
    ),
    "reachers": _shipped(
        "reachers",
        3,
        what="three MuJoCo arms that reach for a target; damping, mass and gear differ",
        threshold=-7.0,
        controller=engineers.reach_place,
        machine=False,
        trials=50,
    ),
    "lunar-landers": _shipped(
        "lunar-landers",
        4,
        what="four lunar landers of Box2D; gravity and wind differ",
        threshold=200.0,
        controller=engineers.land,
        machine=False,
        unseen_trials=2,
    ),
    "linear-quadratic": RaceFamily(
        what="three mass-spring carts, whose optimum is known; the mass differs",
        training=lambda seed: [_cart(mass) for mass in (0.5, 1.0, 2.0)],
        unseen=_carts_unseen,
        ranges=_MASSES,
        threshold=-2.6,
        controller=engineers.hold_cart,
        trials=50,
        reach=([-3.0], [3.0]),
    ),
}

#: Those of the second race. A limit is what an engineer would not like to see at work.
MACHINES: dict[str, RaceFamily] = {
    name: _machines(name, what, outside)
    for name, what, outside in (
        (
            "four-tanks",
            "a lower level more than 4 cm from its set-point, or an upper one above 18 of 20 cm",
            lambda seen: (
                np.any(np.abs(seen[:, :2] - machines.FOUR_LEVELS) > 4.0, axis=1)
                | np.any(seen[:, 2:] > 18.0, axis=1)
            ),
        ),
        (
            "dc-motors",
            "the speed more than 120 rad/s from its set-point, or the current at its limit",
            lambda seen: (
                (np.abs(seen[:, 0] - machines.DC_SPEED) > 120.0) | (abs(seen[:, 1]) > 19.9)
            ),
        ),
        (
            "synchronous-motors",
            "the speed more than 60 rad/s from its set-point, or the current at its limit",
            lambda seen: (
                (np.abs(seen[:, 2] - machines.PM_SPEED) > 60.0)
                | (np.hypot(seen[:, 0], seen[:, 1]) > 9.9)
            ),
        ),
        (
            "patients",
            "glucose below 4 or above 13.9 mmol/L",
            lambda seen: (seen[:, 0] < 4.0) | (seen[:, 0] > 13.9),
        ),
    )
}
FAMILIES |= MACHINES
