"""Task families: environments that differ in a few numbers, with members drawn by seed.

Training members and unseen members are drawn from the same ranges.
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

from crosslearning.errors import InputError
from crosslearning.tasks.environment import CompiledEnvironment
from crosslearning.tasks.numbers import check_names
from crosslearning.tasks.task import Task

#: The bounds of each context variable.
Ranges = Mapping[str, tuple[float, float]]


class TaskFamily:
    """Related tasks that differ in a context.

    Calling it draws members: ``family(count=8, seed=0, unseen=False, spread=1.0, g=9.81)``, where
    a context variable given by name is the same for all of them. ``spread`` scales the ranges
    around their midpoints: with 0 all members are the same, with 0.5 half as different.

    Parameters
    ----------
    kind : str
        The first part of the members' names.
    ranges : mapping of str to pair of float
        Bounds of the context variables.
    make : callable
        ``make(**context)`` returns an environment; a subclass of :class:`CompiledEnvironment`
        gives compiled tasks.
    count : int
        Default number of members.
    horizon : int
        The most steps of an evaluated episode; by default the environment's time limit.
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
        """Return members; each depends only on the seed and its number."""
        contexts = self.contexts(count or self.count, seed, unseen, spread, **fixed)
        members = [self.task(context) for context in contexts]
        # Equal members, such as those of spread 0, are numbered.
        counts = Counter(task.name for task in members)
        for i, task in enumerate(members):
            if counts[task.name] > 1:
                members[i] = dataclasses.replace(task, name=f"{task.name} no. {i + 1}")
        return members

    def contexts(
        self, count: int, seed: int = 0, unseen: bool = False, spread: float = 1.0, **fixed: float
    ) -> list[dict[str, float]]:
        """Return the contexts of members; a larger ``count`` only adds members."""
        for name, value in (("count", count), ("seed", seed)):
            if isinstance(value, bool) or int(value) != value or value < (name == "count"):
                raise InputError(f"{name} is {value!r}; give a whole number")
        check_names(f"context of a {self.kind}", fixed, self.ranges)
        self._check_spread(spread)
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

    def _check_spread(self, spread: float) -> None:
        if isinstance(spread, bool) or not 0.0 <= spread < math.inf:
            raise InputError(f"spread is {spread!r}; give a number of at least 0, 1 for the usual")
        for name, (low, high) in self.ranges.items():
            most = max(1.0, (low + high) / (high - low))  # the least value is 0
            if low >= 0.0 and spread > most:
                raise InputError(
                    f"spread is {spread:g}, with which the {name} of a {self.kind} could be below "
                    f"zero; give at most {most:.3g}"
                )

    def task(self, context: Mapping[str, float]) -> Task:
        """Return the member of a context, named after it."""
        name = " ".join([self.kind, *(f"{name}={value:.3g}" for name, value in context.items())])
        make: Any = functools.partial(self.make, **context)
        if isinstance(self.make, type) and issubclass(self.make, CompiledEnvironment):
            task: Task = make().task(name, self.horizon)
            return dataclasses.replace(task, context=dict(context))
        return Task(name, make, horizon=self.horizon, context=dict(context))
