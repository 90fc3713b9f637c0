"""What is measured of one family on the path: returns, rates, distances, multipliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation import run_episodes
from crosslearning.learner import CrossLearner, Policy
from crosslearning.tasks import Task

Floats = NDArray[np.float64]

#: Random starts of the measurements, apart from those of training by their own seed.
MEASURE_SEED = 40_000
#: Fewest episodes on a held-out task.
FEWEST = 10


def measure_family(
    learner: CrossLearner,
    multipliers: Floats | None,
    held_out: Sequence[Task],
    trials: int,
    steps: int,
) -> dict[str, Any]:
    """Return the measurements of a trained family as plain data.

    All policies of all seeds and radii see the same starts. The held-out tasks share about as
    many episodes as the training tasks have together, at least ten each.

    Parameters
    ----------
    learner : CrossLearner
    multipliers : array, shape (N,), optional
        Mean multipliers of the last part of learning.
    held_out : sequence of Task
    trials, steps : int
        Episodes on each training task, and their length.

    Returns
    -------
    dict
        ``own[task]``, ``central[task]`` and ``held_out[task]``, each with ``return`` and the
        rates of the task's outcomes; ``distance[task]``, ``multiplier[task]``, ``knots``.
    """
    names = [task.name for task in learner.tasks]
    discount = learner.settings.discount
    centre = learner.central
    each = max(FEWEST, trials * len(names) // max(1, len(held_out)))
    distances = learner.family.distances()
    bounded = multipliers is not None and bool(np.all(np.isfinite(multipliers)))
    return {
        "own": {
            task.name: _play(learner.policy(task.name), task, trials, steps, discount)
            for task in learner.tasks
        },
        "central": {
            task.name: _play(centre, task, trials, steps, discount) for task in learner.tasks
        },
        "held_out": {task.name: _play(centre, task, each, steps, discount) for task in held_out},
        "distance": dict(zip(names, map(float, distances), strict=True)),
        "multiplier": {
            name: None if multipliers is None or not bounded else float(multipliers[i])
            for i, name in enumerate(names)
        },
        "knots": len(learner.family.knots),
        "steps": learner.steps,
    }


def _play(
    policy: Policy, task: Task, trials: int, steps: int, discount: float
) -> Mapping[str, float]:
    """Return the mean discounted return and the rates of the task's outcomes."""
    episodes = run_episodes(policy, task, trials, steps, MEASURE_SEED)
    numbers = {"return": float(np.mean(episodes.rewards @ discount ** np.arange(steps)))}
    if task.outcomes is not None and episodes.states is not None:
        final = np.ascontiguousarray(episodes.states[:, -1])
        for name, values in task.outcomes(final).items():
            if values.ndim == 1 and values.dtype == np.bool_:
                numbers[name] = float(np.mean(values))
    return numbers
