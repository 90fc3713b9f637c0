"""What is measured of one family on the path: returns, rates, distances, multipliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation import EpisodeOptions, measure_episodes
from crosslearning.learner import CrossLearner, Policy
from crosslearning.runs import RunFolder
from crosslearning.runs.metrics import late_multipliers
from crosslearning.sweep.request import SweepRequest, held_out_tasks
from crosslearning.tasks import Task

Floats = NDArray[np.float64]

#: Raised when the same question gets another answer, so that stored answers are made anew.
VERSION = 1
#: Random starts of the measurements, apart from those of training by their own seed.
MEASURE_SEED = 40_000
#: Fewest episodes on a held-out task.
FEWEST = 10


def measure_run(path: Path, request: SweepRequest) -> dict[str, Any]:
    """Return the measurements of a stage in its folder."""
    run = RunFolder(path)
    learner = run.load()
    multipliers = late_multipliers(run.read_metrics(), [task.name for task in learner.tasks])
    held_out = held_out_tasks(request.held_out, request.config)
    return measure_family(learner, multipliers, held_out, request.trials, request.horizon)


def measure_family(
    learner: CrossLearner,
    multipliers: Floats | None,
    held_out: Sequence[Task],
    trials: int,
    horizon: int | None = None,
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
    trials, horizon : int
        Episodes on each training task, and their length; by default the tasks' own.

    Returns
    -------
    dict
        ``own[task]``, ``central[task]`` and ``held_out[task]``, each with ``return`` and the
        rates of the task's outcomes; ``distance[task]``, ``multiplier[task]``, ``knots``.
    """
    names = [task.name for task in learner.tasks]
    centre = learner.central
    each = max(FEWEST, trials * len(names) // max(1, len(held_out)))

    def measured(policy: Policy, task: Task, trials: int) -> Mapping[str, float]:
        options = EpisodeOptions(trials=trials, horizon=horizon, seed=MEASURE_SEED)
        columns = measure_episodes(policy, task, options, learner.settings.discount)
        rates = {name: float(np.mean(values)) for name, values in columns.shares.items()}
        return {"return": float(np.mean(columns.returns)), **rates}

    bounded = multipliers is not None and bool(np.all(np.isfinite(multipliers)))
    return {
        "own": {t.name: measured(learner.policy(t.name), t, trials) for t in learner.tasks},
        "central": {t.name: measured(centre, t, trials) for t in learner.tasks},
        "held_out": {t.name: measured(centre, t, each) for t in held_out},
        "distance": dict(zip(names, map(float, learner.family.distances()), strict=True)),
        "multiplier": {
            name: float(multipliers[i]) if multipliers is not None and bounded else None
            for i, name in enumerate(names)
        },
        "knots": len(learner.family.knots),
        "steps": learner.steps,
    }
