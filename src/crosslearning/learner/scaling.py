"""Defaults from the tasks: units of the actions, and kernel widths from random episodes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from gymnasium.spaces import Box

from crosslearning.errors import InputError
from crosslearning.learner.settings import LearnerSettings
from crosslearning.rkhs import Family, Gaussian, Linear
from crosslearning.rkhs.checks import Floats
from crosslearning.rollouts import ActionScale, Episodes, Executor, plan_episodes
from crosslearning.tasks import Task

#: Standard deviation of the random actions: they fill most of [−1, 1].
_RESTLESS = 0.7
#: In so many dimensions a Gaussian as wide as the data is wide enough; in more, distances grow.
_FEW = 3
#: A little less than the standard deviation of the cosine of a uniform angle.
_ROUND = 0.6
#: Bounds beyond this count as unbounded.
_SENSIBLE = 1e4
#: Joined with the run's seed for the random numbers of the initial exploration.
_STREAM = 0x100C


def scale_of(tasks: Sequence[Task], settings: LearnerSettings) -> ActionScale | None:
    """Return the map from policies' actions to the tasks'; None for the tasks' own units.

    Tasks that state their kernel keep their own units.
    """
    space, units = tasks[0].action_space, settings.action_units
    bounded = bool(np.all(np.abs([space.low, space.high]) <= _SENSIBLE))
    if units == "box" and not bounded:
        raise InputError(
            f"action_units is 'box', but the actions of task {tasks[0].name!r} have no bounds: "
            f"{space}; take 'own', or gymnasium.wrappers.ClipAction"
        )
    stated = settings.as_stated and tasks[0].kernel_covariance is not None
    if units == "own" or not bounded or (units == "auto" and stated):
        return None
    return ActionScale.of_box(space.low, space.high)


def observed_kernel(
    executor: Executor, scaled: bool, settings: LearnerSettings
) -> tuple[Gaussian, Episodes]:
    """Return a Gaussian kernel with widths from episodes with random actions, and the episodes.

    ``scaled`` says whether actions are of order one; else random ones are as wide as their box.
    """
    tasks = executor.tasks
    q, p = tasks[0].observation_size, tasks[0].action_size
    std = np.full(p, _RESTLESS)
    if not scaled:
        low, high = tasks[0].action_space.low, tasks[0].action_space.high
        bounded = np.maximum(np.abs(low), np.abs(high)) <= _SENSIBLE
        half = 0.5 * np.subtract(high, low, out=np.full(low.shape, 2.0), where=bounded)
        std = _RESTLESS * half.ravel()
    still = Family(Linear(std=[1.0] * q), np.zeros((1, q)), np.zeros((1, len(tasks), p)))
    exploration = settings.initial_exploration
    generator = np.random.default_rng([settings.seed, _STREAM])
    horizon = min(exploration.steps, max(task.horizon for task in tasks))
    plan = plan_episodes(generator, tasks, exploration.episodes, horizon, std)
    episodes = executor.episodes(still.expansion, plan)
    there = np.arange(horizon + 1) <= episodes.lengths[:, :, None]
    return kernel_for(episodes.observations[there], tasks[0].observation_space), episodes


def kernel_for(seen: Floats, space: Box) -> Gaussian:
    """Return a Gaussian kernel with widths from observations (n, q) of all tasks.

    Widths are standard deviations, wider in many dimensions. Coordinates whose bounds are a full
    turn apart are angles: periodic in the kernel, with the deviation of their point on the circle.
    """
    angles, q = angles_of(space), seen.shape[1]
    spread = seen.std(axis=0)
    spread[angles] = np.sqrt(1.0 - np.abs(np.exp(1j * seen[:, angles]).mean(axis=0)) ** 2)
    # An angle that hardly moves at first may later turn all the way round.
    circular = [*angles, *points_on_circles(seen)]
    spread[circular] = np.maximum(spread[circular], _ROUND)
    widths = np.sqrt(max(q, _FEW) / _FEW) * np.where(spread > 0.0, spread, 1.0)
    return Gaussian(std=widths, periodic=angles)


def points_on_circles(seen: Floats) -> list[int]:
    """Return the coordinates of observations (n, q) that are cosines and sines of an angle.

    They come in pairs whose squares add up to 1.
    """
    squares = seen**2
    varied = np.flatnonzero(seen.std(axis=0) > 0.0)
    pairs: list[int] = []
    for i, j in itertools.combinations(varied.tolist(), 2):
        if i not in pairs and j not in pairs and np.allclose(squares[:, i] + squares[:, j], 1.0):
            pairs += [i, j]
    return pairs


def angles_of(space: Box) -> list[int]:
    """Return the coordinates that are angles: with bounds −π and π, or 0 and 2π."""
    low, high = (np.ravel(end).astype(np.float64) for end in (space.low, space.high))
    turn = np.isclose(high - low, 2.0 * np.pi, rtol=1e-6)
    return np.flatnonzero(turn & (np.isclose(low, -np.pi) | (low == 0.0))).tolist()
