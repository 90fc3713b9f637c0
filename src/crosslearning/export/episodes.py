"""The check of an exported controller: whole episodes, beside the same controller in Python.

Before every step both have the memory of the same actions: Python is told what the export gave.
How far a small difference would grow over an episode is a property of the policy, which may
depend on past actions as steeply as it likes, and no fault of an export. What is left to
accumulate are integrals, which exports keep in double precision, where a sum of fifty terms errs
by some 10⁻¹⁴ of it. So a step may differ by as much as a policy without memory may.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.export.program import Floats
from crosslearning.export.signals import remembered_by_code, unknown_controller
from crosslearning.learner.deployment import LearnedController

#: An export is checked at so many steps of so many episodes.
EPISODES, STEPS = 200, 50


class Recorded:
    """Stands in for a controller that is code: it gives what it is told to."""

    def __init__(self, action: Floats, memory: Floats) -> None:
        self.action, self.memory = action, memory

    def reset(self) -> None:
        """Forget nothing."""

    def act(self, observation: Floats) -> Floats:
        """Return the action that was set."""
        return self.action


def arguments_of(controller: LearnedController) -> list[int]:
    """Return the lengths of what an export takes at a step: the observation, and what code gave."""
    spec = controller.loop.spec
    sizes = [len(spec.observation_names)]
    if unknown_controller(controller):
        sizes += [len(spec.low), *filter(None, [remembered_by_code(controller)])]
    return sizes


def without_code(controller: LearnedController) -> LearnedController:
    """Return a copy whose controller, if it is code, is :class:`Recorded`."""
    spec = controller.loop.spec
    if unknown_controller(controller):
        memory = np.zeros(remembered_by_code(controller))
        spec = replace(spec, controller=Recorded(np.zeros(len(spec.low)), memory))
    return LearnedController(controller.policy, spec)


def random_episodes(
    controller: LearnedController,
    ends: tuple[Floats, Floats],
    episodes: int | None = None,
    steps: int = STEPS,
    seed: int = 0,
) -> Floats:
    """Return rows of arguments after a number that is 1 at the start of an episode, else 0.

    Observations walk within ``ends``, those of all that the policy observes, in small steps or
    large ones, and go on at one end when they leave by the other, as angles do; cosines and
    sines stay on their circle. Half of the episodes begin at a knot.
    """
    episodes = EPISODES if episodes is None else episodes
    generator, sizes = np.random.default_rng(seed), arguments_of(controller)
    q, p, spec = sizes[0], len(controller.loop.spec.low), controller.loop.spec
    low, high = (end[:q] for end in ends)
    width = np.where(high > low, high - low, 1.0)
    pace = 10.0 ** -generator.uniform(0.0, 3.0, (episodes, 1, 1))
    walk = pace * generator.standard_normal((episodes, steps, q))
    walk[:, 0] = generator.random((episodes, q))
    knots = controller.policy.plain.knots[:, :q]
    if len(knots):
        chosen = knots[generator.integers(len(knots), size=(episodes + 1) // 2)]
        walk[::2, 0] = (chosen - low) / width
    observations = low + width * (np.cumsum(walk, axis=1) % 1.0)
    for pair in map(list, spec.circles):
        observations[..., pair] /= np.linalg.norm(observations[..., pair], axis=-1, keepdims=True)
    parts = [np.zeros((episodes, steps, 1)), observations]
    parts[0][:, 0] = 1.0
    if len(sizes) > 1:  # now and then beyond the bounds
        least = np.where(np.isfinite(spec.low), spec.low, -10.0)
        most = np.where(np.isfinite(spec.high), spec.high, 10.0)
        spread = 1.2 * generator.uniform(-0.5, 0.5, (episodes, steps, p))
        parts.append(0.5 * (least + most) + (most - least) * spread)
    if len(sizes) > 2:
        least, most = (end[-sizes[2] :] for end in ends)
        parts.append(generator.uniform(least, most, (episodes, steps, sizes[2])))
    return np.concatenate(parts, axis=2).reshape(episodes * steps, -1)


def run_episodes(
    controller: LearnedController,
    rows: NDArray[np.floating],
    gave: NDArray[np.floating] | None = None,
) -> Floats:
    """Return the actions (n, p) of a controller, in double precision, before they are cast.

    With ``gave`` it remembers those actions in place of its own.
    """
    controller, sizes = without_code(controller), arguments_of(controller)
    loop, actions, ends = controller.loop, [], np.cumsum(sizes)[:-1]
    inside: Any = loop.controller
    with warnings.catch_warnings():  # code's actions beyond the bounds are meant to be clipped
        warnings.simplefilter("ignore")
        for number, row in enumerate(rows.astype(np.float64)):
            if row[0]:
                controller.reset()
            observation, *code = np.split(row[1:], ends)
            if code:
                inside.action = code[0]
            if len(code) > 1:
                inside.memory = code[1]
            controller.act(observation)
            actions.append(np.array(loop.action))
            if gave is not None:
                loop.gave(gave[number])
    return np.array(actions)
