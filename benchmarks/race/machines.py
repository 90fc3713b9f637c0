"""Machines of the second race: behind their controller, with steps counted that leave limits."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from benchmarks.around import tunings
from benchmarks.race.entrants import Engineer
from benchmarks.race.families import RaceFamily
from crosslearning.learner.evaluation import run_episodes
from crosslearning.tasks import Task

Answer = dict[str, Any]
Floats = NDArray[np.float64]


class Log:
    """Counts the steps of machines, those outside of their limits, and their rewards."""

    def __init__(self, family: RaceFamily) -> None:
        self.outside, self.counts = family.outside, np.zeros(3)

    def add(self, seen: Floats, rewards: Any) -> None:
        """Add steps: what the machine showed after them, shape (n, q), and their rewards."""
        assert self.outside is not None
        self.counts += len(rewards), self.outside(seen).sum(), np.sum(rewards)

    def of(self, tasks: Sequence[Task]) -> list[Task]:
        """Return the tasks with their steps counted; as they are if there are no limits."""
        if self.outside is None:
            return list(tasks)
        return [dataclasses.replace(task, make=Counted(task.make, self)) for task in tasks]

    def shares(self) -> Answer:
        """Return the share of steps outside and the mean cost of a step, if there are limits."""
        if self.outside is None:
            return {}
        steps, outside, rewards = self.counts.tolist()
        return {"outside": outside / steps, "cost": -rewards / steps}


@dataclasses.dataclass(frozen=True)
class Counted:
    """Makes environments whose steps are counted."""

    make: Callable[..., Any]
    log: Log

    def __call__(self, render_mode: str | None = None) -> Any:
        """Return a new environment."""
        return Counting(self.make(), self.log)


class Counting(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose steps are counted."""

    def __init__(self, environment: Any, log: Log) -> None:
        super().__init__(environment)
        self.log = log

    def step(self, action: Any) -> Any:
        """Step, and count it."""
        seen, reward, *rest = self.env.step(action)
        self.log.add(np.asarray(seen)[None], [reward])
        return seen, reward, *rest


class Still:
    """Corrects nothing."""

    def __init__(self, size: int) -> None:
        self.size = size

    def predict_rows(self, observations: Floats) -> Floats:
        """Return zeros for each row."""
        return np.zeros((len(observations), self.size))


def around(
    family: RaceFamily, tasks: Sequence[Task], controllers: Sequence[Any] = ()
) -> list[Task]:
    """Return the tasks behind their controllers, by default the nominal one."""
    warnings.filterwarnings("ignore", message="the controller asks for the action")
    running = controllers or [family.controller(family.nominal)] * len(tasks)
    return [task.around(one) for task, one in zip(tasks, running, strict=True)]


def while_learning(learner: Any, family: RaceFamily) -> Answer:
    """Return the share of the real steps outside of limits so far, and their mean cost."""
    log = Log(family)
    if family.outside is None:
        return {}
    for task, data in zip(learner.tasks, learner.method.data, strict=True):
        log.add(data.after[:, : math.prod(task.machine_space.shape)], data.rewards)
    return log.shares()


def at_work(family: RaceFamily, entrant: Engineer, seed: int) -> Answer:
    """Measure the controllers that need no learning, on the starts of all evaluations.

    The best tuning is chosen on the very starts on which it is compared.
    """
    tasks = family.training(seed)
    if entrant.tuned:
        some = [[one] * len(tasks) for one in tunings(family.controller(family.nominal))]
    elif entrant.knows_machine:
        some = [[family.controller(task.context) for task in tasks]]
    else:
        some = [[]]
    marks = [_run(family, around(family, tasks, controllers)) for controllers in some]
    return {"marks": [max(marks, key=lambda mark: sum(mark["training"]["totals"]))]}


def _run(family: RaceFamily, tasks: Sequence[Task]) -> Answer:
    log, totals = Log(family), []
    for task in tasks:
        found = run_episodes(Still(task.action_size), task, family.trials)
        size = math.prod(task.machine_space.shape)
        log.add(found.observations[:, 1:, :size].reshape(-1, size), found.rewards.ravel())
        totals.append(float(found.rewards.sum(axis=1).mean()))
    mark = {"steps": 0, "seconds": [0.0, 0.0], "training": {"totals": totals}}
    return {**mark, "unseen": None, **log.shares()}
