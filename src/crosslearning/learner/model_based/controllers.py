"""The controllers that policies correct, as the models use them.

A closed loop is harder to learn than its machine: a controller that switches makes it jump. Where
an action depends on the observation alone, the models learn the machine itself, from observations
and the machine's actions. Imagined steps then need the controller: an affine one is used as it is,
any other one is fitted in compiled form at as many points as it takes, since asking it is free.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crosslearning.learner.model_based.data import Transitions
from crosslearning.learner.model_based.imagination import Controlled, Outputs, uncontrolled
from crosslearning.rkhs import CrossRegression, Family, Gaussian, most_likely
from crosslearning.rkhs.checks import Floats
from crosslearning.rollouts import ActionScale
from crosslearning.tasks import Task
from crosslearning.tasks.controllers import as_controller, is_memoryless
from crosslearning.tasks.signals import find_circles

#: Where controllers are asked: so many points near visited states, this share of the spread away.
_POINTS, _NEAR = 1500, 0.3
#: The most knots of a controller that is fitted.
_KNOTS = 500
#: A residual of this share of the actions is that of an affine function.
_AFFINE = 1e-9


class Controllers:
    """The controllers of N tasks, if they depend on observations alone."""

    def __init__(self, tasks: Sequence[Task], scale: ActionScale) -> None:
        loops = [task.loop for task in tasks]
        self.loops = [loop for loop in loops if loop is not None]
        self.used = len(self.loops) == len(tasks) and all(
            loop.rates is None and is_memoryless(loop.controller) for loop in self.loops
        )
        if not self.used:
            return
        self.asked = [as_controller(loop.controller, loop.rate) for loop in self.loops]
        low, high = self.loops[0].low, self.loops[0].high
        with np.errstate(invalid="ignore"):
            self.middle = np.nan_to_num(0.5 * (low + high), nan=0.0, posinf=0.0, neginf=0.0)
        self.half = scale.half
        self.limits = (np.array([low, high]) - self.middle) / self.half

    def actions(self, task: int, states: Floats) -> Floats:
        """Return the controller's actions, in the policies' units and not clipped, (n, p)."""
        loop, controller = self.loops[task], self.asked[task]
        shape, q = loop.observations.shape, len(loop.observation_names)
        given = [controller.act(one[:q].reshape(shape)) for one in states]
        actions = np.asarray(given, dtype=np.float64).reshape(len(states), -1)
        return np.asarray((actions - self.middle) / self.half)

    def machine_actions(self, task: int, states: Floats, actions: Floats) -> Floats:
        """Return what the models take for actions (n, p): the machine's, if that is known."""
        if not self.used:
            return actions
        asked = np.clip(self.actions(task, states), *self.limits)
        return np.asarray(np.clip(asked + actions, *self.limits))

    def machine_steps(self, data: Sequence[Transitions]) -> list[Transitions]:
        """Return transitions of all tasks with the actions that the models take."""
        return [
            steps._replace(actions=self.machine_actions(i, steps.states, steps.actions))
            for i, steps in enumerate(data)
        ]

    def compiled(
        self, states: Floats, limits: Floats, angles: Sequence[int], generator: np.random.Generator
    ) -> Controlled:
        """Return the controllers as functions of what policies observe, near visited states."""
        if not self.used:
            return uncontrolled()
        N, q, p = len(self.asked), states.shape[1], len(self.half)
        visited = states[generator.integers(len(states), size=_POINTS)]
        away = _NEAR * states.std(axis=0) * generator.standard_normal(visited.shape)
        away[: _POINTS // 3] = 0.0
        points = np.clip(visited + away, *limits[:, :q])
        for pair in find_circles(states):
            points[:, pair] /= np.hypot(*points[:, pair].T)[:, None]
        distinct = list({id(loop.controller): i for i, loop in enumerate(self.loops)}.values())
        values = {id(self.loops[i].controller): self.actions(i, points) for i in distinct}
        which = [list(values).index(id(loop.controller)) for loop in self.loops]
        every = np.array(list(values.values()))  # (D, n, p)
        straight = np.hstack([np.ones((len(points), 1)), points])
        slopes = np.array([np.linalg.lstsq(straight, one, rcond=None)[0].T for one in every])
        rest = every - np.einsum("nr,dpr->dnp", straight, slopes)
        if np.max(np.abs(rest)) <= _AFFINE * (1.0 + np.max(np.abs(every))):
            none = Family(Gaussian(std=np.ones(q)), points[:1], np.zeros((1, N, 1)))
            affine = [slopes[which, j] for j in range(p)]
            return Controlled(Outputs.of([none] * p, affine), self.limits, 1)
        families = []
        for j in range(p):
            wanted = np.clip(every[:, :, j : j + 1], *self.limits[:, j])
            D, inputs = len(wanted), [points] * len(wanted)
            choice = most_likely(inputs, list(wanted), periodic=angles, alike=0.0)
            regression = CrossRegression(
                choice.kernel(angles),
                D,
                1,
                noise=choice.noise,
                ridge=choice.ridge(D),
                max_knots=_KNOTS,
            )
            for d in range(D):
                regression.add(d, points, wanted[d])
            family = regression.at(choice.multiplier(D)).family
            families.append(Family(family.kernel, family.knots, family.weights[:, which]))
        return Controlled(Outputs.of(families), self.limits, 1)
