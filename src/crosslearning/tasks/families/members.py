"""Families: environments that differ in a few numbers, and members drawn by seed.

Members for training and members that training never sees are drawn from the same ranges.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from crosslearning.errors import InputError, unknown_name
from crosslearning.tasks.environment import CompiledEnvironment
from crosslearning.tasks.task import Task

#: The least and the greatest value of each context, by its name.
Ranges = Mapping[str, tuple[float, float]]


class TaskFamily:
    """Related tasks: what varies among them, and how one of them is made.

    Calling it draws members: ``family(count=8, seed=0, unseen=False, spread=1.0, g=9.81)``, where
    a number given by name is the same for all of them. ``spread`` widens the ranges around their
    middles, or narrows them: with 0 all members are the same, with 0.5 half as different.

    Parameters
    ----------
    kind : str
        What a member is called.
    ranges : mapping of str to pair of float
    make : callable
        ``make(**context)`` returns an environment; a subclass of :class:`CompiledEnvironment`
        gives compiled tasks.
    count : int
        How many members by default.
    horizon : int
        The most steps of an evaluated episode; by default the environment's own time limit.
    """

    def __init__(
        self,
        kind: str,
        ranges: Ranges,
        make: Callable[..., gymnasium.Env[Any, Any]],
        count: int,
        horizon: int = 0,
    ) -> None:
        self.kind, self.ranges, self.make = kind, dict(ranges), make
        self.count, self.horizon = count, horizon

    def __call__(
        self,
        count: int = 0,
        seed: int = 0,
        unseen: bool = False,
        spread: float = 1.0,
        **fixed: float,
    ) -> list[Task]:
        """Return members, each a pure function of the seed and of its own number."""
        contexts = self.contexts(count or self.count, seed, unseen, spread, **fixed)
        members = [self.task(context) for context in contexts]
        # Members that are alike, such as those of no spread, are told apart by their numbers.
        shared = Counter(task.name for task in members)
        return [
            dataclasses.replace(task, name=f"{task.name} no. {number}")
            if shared[task.name] > 1
            else task
            for number, task in enumerate(members, start=1)
        ]

    def contexts(
        self,
        count: int,
        seed: int = 0,
        unseen: bool = False,
        spread: float = 1.0,
        **fixed: float,
    ) -> list[dict[str, float]]:
        """Return the contexts of members; the first of a seed are the same whatever ``count``."""
        for name, value in (("count", count), ("seed", seed)):
            if isinstance(value, bool) or int(value) != value or value < (name == "count"):
                raise InputError(f"{name} is {value!r}; give a whole number")
        for name in fixed:
            if name not in self.ranges:
                raise unknown_name(f"context of a {self.kind}", name, self.ranges)
        self._check_spread(spread)
        drawn = []
        for number in range(int(count)):
            generator = np.random.default_rng([int(seed), int(unseen), number])
            context = {}
            for name, (low, high) in self.ranges.items():
                usual = float(generator.uniform(low, high))
                # To the last bit what was drawn where the spread is 1.
                context[name] = usual + (spread - 1.0) * (usual - 0.5 * (low + high))
            drawn.append(context | {name: float(value) for name, value in fixed.items()})
        return drawn

    def _check_spread(self, spread: float) -> None:
        """Refuse a spread that is none, or that would make positive numbers negative."""
        if isinstance(spread, bool) or not 0.0 <= spread < math.inf:
            raise InputError(f"spread is {spread!r}; give a number of at least 0, 1 for the usual")
        for name, (low, high) in self.ranges.items():
            # Beyond this the least value would no longer be above zero, or at it.
            most = (low + high) / (high - low)
            if low >= 0.0 and spread > max(1.0, most):
                raise InputError(
                    f"spread is {spread:g}, with which the {name} of a {self.kind} could be below "
                    f"zero; give at most {max(1.0, most):.3g}"
                )

    def task(self, context: Mapping[str, float]) -> Task:
        """Return the member of a context, named after it."""
        told = " ".join(f"{name}={value:.3g}" for name, value in context.items())
        name = f"{self.kind} {told}"
        make: Any = functools.partial(self.make, **context)
        if isinstance(self.make, type) and issubclass(self.make, CompiledEnvironment):
            task: Task = make().task(name, self.horizon)
            return dataclasses.replace(task, context=dict(context))
        return Task(name, make, horizon=self.horizon, context=dict(context))
