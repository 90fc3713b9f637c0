"""The controllers that policies correct, as the models use them.

A closed loop is harder to learn than its machine: a controller that switches makes it jump. Where
an action depends on what policies observe alone, the models learn the machine itself, from
observations and the machine's actions. Imagined steps then need the controller: an affine one is
used as it is, any other one is fitted in compiled form at as many points as it takes, since asking
it is free. A PI is affine in the observation and its integrals, which policies observe; how these
go on is known, anti-windup included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crosslearning.learner.model_based.data import Transitions
from crosslearning.learner.model_based.imagination import Controlled, Outputs, uncontrolled
from crosslearning.rkhs import CrossRegression, Family, Gaussian, most_likely
from crosslearning.rkhs.checks import Floats
from crosslearning.rollouts import ActionScale
from crosslearning.tasks import Task
from crosslearning.tasks.controllers import PID, as_controller, is_memoryless
from crosslearning.tasks.loop_spec import KnownChange, LoopSpec
from crosslearning.tasks.signals import find_circles

#: Where controllers are asked: so many points near visited states, this share of the spread away.
_POINTS, _NEAR = 1500, 0.3
#: The most knots of a controller that is fitted.
_KNOTS = 500
#: A residual of this share of the actions is that of an affine function.
_AFFINE = 1e-9


class Controllers:
    """The controllers of N tasks, if they depend on what policies observe alone."""

    def __init__(self, tasks: Sequence[Task], scale: ActionScale) -> None:
        loops = [task.loop for task in tasks]
        self.loops = [loop for loop in loops if loop is not None]
        self.integrates = len(self.loops) == len(tasks) and _alike(self.loops)
        self.used = len(self.loops) == len(tasks) and all(
            loop.rates is None and (self.integrates or is_memoryless(loop.controller))
            for loop in self.loops
        )
        if not self.used:
            return
        self.asked = [_unbounded(loop) for loop in self.loops]
        low, high = self.loops[0].low, self.loops[0].high
        with np.errstate(invalid="ignore"):
            self.middle = np.nan_to_num(0.5 * (low + high), nan=0.0, posinf=0.0, neginf=0.0)
        self.half = scale.half
        self.limits = (np.array([low, high]) - self.middle) / self.half

    def actions(self, task: int, states: Floats) -> Floats:
        """Return the controller's actions, in the policies' units and not clipped, (n, p)."""
        loop, controller = self.loops[task], self.asked[task]
        shape, q = loop.observations.shape, len(loop.observation_names)
        given = []
        for one in states:
            if self.integrates:
                controller.reset()
                controller.integral[_integrals(controller)] = one[self.memory(states.shape[1])]
            seen = one[:q]
            given.append(controller.act(seen if self.integrates else seen.reshape(shape)))
        actions = np.asarray(given, dtype=np.float64).reshape(len(states), -1)
        return np.asarray((actions - self.middle) / self.half)

    def memory(self, size: int) -> list[int]:
        """Return which of ``size`` numbers that policies observe are integrals: the last ones.

        The machines do not depend on them.
        """
        if not (self.used and self.integrates):
            return []
        return list(range(size - len(_integrals(self.asked[0])), size))

    def known_changes(self, size: int) -> list[KnownChange]:
        """Return how integrals go on, but for anti-windup."""
        changes: list[KnownChange] = []
        memory, controller = self.memory(size), self.asked[0]
        for j, m in zip(memory, _integrals(controller) if memory else [], strict=True):
            slope = np.zeros(1 + size + len(self.half))
            step = 1.0 / (controller.rate or 1.0)
            slope[0] = step * controller.setpoint[m]
            slope[1 + controller.measured[m]] = -step
            changes.append(KnownChange(j, -1, 0.0, slope))
        return changes

    def _windup(self, size: int) -> Floats:
        """Return signs of the integral gains where integrals stand still at bounds, (p, size)."""
        signs, memory = np.zeros((len(self.half), size)), self.memory(size)
        if not memory:
            return signs[:, :0]
        if np.all(np.isfinite(self.limits)):
            signs[:, memory] = np.sign(self.asked[0].ki[:, _integrals(self.asked[0])])
        return signs

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
            return Controlled(Outputs.of([none] * p, affine), self.limits, 1, self._windup(q))
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
        return Controlled(Outputs.of(families), self.limits, 1, self._windup(q))


def _integrals(controller: Any) -> list[int]:
    """Return the measurements of a PID whose integrals are used, and which its memory shows."""
    return np.flatnonzero(np.any(controller.ki != 0.0, axis=0)).tolist()


def _unbounded(loop: LoopSpec) -> Any:
    """Return a loop's controller; a PID that does not clip its action."""
    controller = as_controller(loop.controller, loop.rate)
    return replace(controller, low=None, high=None) if isinstance(controller, PID) else controller


def _alike(loops: Sequence[LoopSpec]) -> bool:
    """Return whether all controllers are PIs whose integrals go on alike.

    They have no derivative, of which the first step of an episode knows nothing, no other bounds
    than the machine, and differ in biases and sizes of gains at most.
    """
    kinds = []
    for loop in loops:
        controller = loop.controller
        if type(controller) is not PID or np.any(controller.kd):
            return False
        bounds = (loop.low, loop.high)
        for own, bound in zip((controller.low, controller.high), bounds, strict=True):
            if own is not None and not np.array_equal(own, bound):
                return False
        # Without bounds a PID does not clip, and has no anti-windup.
        finite = [bool(np.all(np.isfinite(bound))) for bound in bounds]
        if finite[0] != finite[1]:
            return False
        kinds.append(
            (
                controller.rate or loop.rate,
                controller.setpoint.tolist(),
                controller.measured.tolist(),
                np.sign(controller.ki).tolist(),
            )
        )
    return all(kind == kinds[0] for kind in kinds)
