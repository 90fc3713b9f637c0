"""What suits tasks that say nothing of themselves: units for actions, and widths from data."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.learner.settings import InitialExploration, LearnerSettings
from crosslearning.rkhs import Family, Gaussian, Linear
from crosslearning.rollouts import ActionScale, Episodes, Executor, plan_episodes
from crosslearning.tasks import Task

Floats = NDArray[np.float64]

#: Standard deviation of the random actions there: they fill most of [−1, 1].
_RESTLESS = 0.7
#: In so many dimensions a Gaussian as wide as the data is wide enough; in more, distances grow.
_FEW = 3
#: A little less than the standard deviation of the cosine of an angle that may be anywhere.
_ROUND = 0.6
#: Bounds beyond this stand for none.
_SENSIBLE = 1e4
#: What the random numbers of this look are drawn from, beside the run's seed.
_LOOK = 0x100C


def scale_of(tasks: Sequence[Task], settings: LearnerSettings) -> ActionScale | None:
    """Return how policies' actions become those of the tasks; None for the tasks' own units.

    Tasks that state what kernel suits them are taken at their word: their units are their own.
    """
    space, asked = tasks[0].action_space, settings.action_units
    bounded = bool(np.all(np.abs([space.low, space.high]) <= _SENSIBLE))
    if asked == "box" and not bounded:
        raise InputError(
            f"action_units is 'box', but the actions of task {tasks[0].name!r} have no bounds: "
            f"{space}; take 'own', or gymnasium.wrappers.ClipAction"
        )
    stated = settings.as_stated and tasks[0].kernel_covariance is not None
    if asked == "own" or not bounded or (asked == "auto" and stated):
        return None
    return ActionScale.of_box(space.low, space.high)


def observed_kernel(
    executor: Executor, scaled: bool, seed: int, exploration: InitialExploration
) -> tuple[Gaussian, Episodes]:
    """Return a Gaussian kernel of the widths that what random actions let be seen suggests.

    Coordinates whose bounds are a full turn apart are angles, and periodic in the kernel.

    Parameters
    ----------
    executor : Executor
    scaled : bool
        Whether it takes actions of the order of one; else random ones are as wide as their box.
    seed : int
        The run's.
    exploration : InitialExploration
        How much may be seen.

    Returns
    -------
    kernel : Gaussian
        As wide as the standard deviations of the observations over all tasks, and wider in many
        dimensions; that of an angle is of its point on the unit circle.
    episodes : Episodes
        What was seen.
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
    generator = np.random.default_rng([seed, _LOOK])
    horizon = min(exploration.steps, max(task.horizon for task in tasks))
    plan = plan_episodes(generator, tasks, exploration.episodes, horizon, std)
    episodes = executor.episodes(still.expansion, plan)
    there = np.arange(horizon + 1) <= episodes.lengths[:, :, None]
    return kernel_for(episodes.observations[there], tasks[0].observation_space), episodes


def kernel_for(seen: Floats, space: Box) -> Gaussian:
    """Return a Gaussian kernel whose widths suit observations (n, q) of all tasks together."""
    angles, q = angles_of(space), seen.shape[1]
    spread = seen.std(axis=0)
    spread[angles] = np.sqrt(1.0 - np.abs(np.exp(1j * seen[:, angles]).mean(axis=0)) ** 2)
    # What hangs still at first may come to turn all the way round.
    circular = [*angles, *points_on_circles(seen)]
    spread[circular] = np.maximum(spread[circular], _ROUND)
    widths = np.sqrt(max(q, _FEW) / _FEW) * np.where(spread > 0.0, spread, 1.0)
    return Gaussian(std=widths, periodic=angles)


def points_on_circles(seen: Floats) -> list[int]:
    """Return which coordinates of observations (n, q) are cosines and sines of an angle.

    They come in pairs whose squares add up to 1, whatever is seen.
    """
    squares = seen**2
    varied = np.flatnonzero(seen.std(axis=0) > 0.0)
    found: list[int] = []
    for i, j in itertools.combinations(varied.tolist(), 2):
        if i not in found and j not in found and np.allclose(squares[:, i] + squares[:, j], 1.0):
            found += [i, j]
    return found


def angles_of(space: Box) -> list[int]:
    """Return which coordinates are angles: those whose bounds are −π and π, or 0 and 2π."""
    low, high = (np.ravel(end).astype(np.float64) for end in (space.low, space.high))
    turn = np.isclose(high - low, 2.0 * np.pi, rtol=1e-6)
    return np.flatnonzero(turn & (np.isclose(low, -np.pi) | (low == 0.0))).tolist()
