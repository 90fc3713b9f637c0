"""What tasks tell of how they pay and when they end, asked where nothing was seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.learner.model_based.dynamics import Dynamics
from crosslearning.learner.model_based.pseudo_data import EMPTY, PseudoData, ask
from crosslearning.learner.model_based.transitions import Transitions
from crosslearning.rollouts import ActionScale
from crosslearning.tasks import Task

Floats = NDArray[np.float64]

#: Points over all tasks, and the fewest of each, at which formulas are asked.
_POINTS, _FEWEST = 240, 40


class Formulas:
    """The formulas of tasks: of rewards, of ends, of both or of neither.

    Parameters
    ----------
    tasks : sequence of Task
        What one of them tells, all must tell.
    scale : ActionScale
        From the policies' actions to the tasks'.
    bounds : array, shape (2, p)
        The ends of the action space, in the policies' units.
    """

    def __init__(self, tasks: Sequence[Task], scale: ActionScale, bounds: Floats) -> None:
        self.tasks, self.scale, self.bounds = tasks, scale, bounds
        self.reward, self.end = (self._all(kind) for kind in ("reward", "terminated"))

    def _all(self, kind: str) -> bool:
        without = [task.name for task in self.tasks if getattr(task, kind) is None]
        if without and len(without) < len(self.tasks):
            raise InputError(
                f"some tasks tell their {kind} and others do not ({', '.join(without[:3])}); give "
                "all of them a formula, or none"
            )
        return not without

    def __bool__(self) -> bool:
        return self.reward or self.end

    def pseudo_data(
        self, generator: np.random.Generator, motion: Dynamics, data: Sequence[Transitions]
    ) -> PseudoData:
        """Ask them at random points of the box of what was seen, moved on by the models.

        Parameters
        ----------
        generator : Generator
        motion : Dynamics
            Of which the changes of observations are fitted.
        data : sequence of Transitions
            What was seen of the tasks.
        """
        if not self:
            return EMPTY
        q = len(motion.frame.is_angle)
        n = max(_FEWEST, _POINTS // len(self.tasks))
        low, high = motion.frame.limits[:, :q]
        done = np.concatenate([own.actions for own in data])
        ends = np.where(np.isfinite(self.bounds), self.bounds, [done.min(axis=0), done.max(axis=0)])
        points = []
        for i, task in enumerate(self.tasks):
            states = generator.uniform(low, high, (n, q))
            actions = generator.uniform(ends[0], ends[1], (n, len(ends[0])))
            steps = states, self.scale(actions), motion.follow(i, states, actions)
            zeros = np.zeros(n)
            rewards = zeros if task.reward is None else ask(task.name, "reward", task.reward, steps)
            over = zeros
            if task.terminated is not None:
                over = ask(task.name, "terminated", task.terminated, steps) != 0.0
            ended = over.astype(np.float64)
            points.append(Transitions(states, actions, steps[2], rewards, ended, zeros))
        return PseudoData(points, self.reward, self.end)
