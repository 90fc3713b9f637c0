"""What is measured of one family on the path: returns, rates, distances, multipliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner, Policy
from crosslearning.learner.evaluation import EpisodeOptions, measure_episodes
from crosslearning.runs import RunConfig
from crosslearning.tasks import Task, tasks_from

#: Raised when the same question gets another answer, so that stored answers are made anew.
VERSION = 1
#: Random starts of the measurements, apart from those of training by their own seed.
MEASURE_SEED = 40_000
#: Fewest episodes on a held-out task.
FEWEST = 10


def measure_family(
    learner: CrossLearner,
    multipliers: NDArray[np.float64] | None,
    held_out: Sequence[Task],
    trials: int,
    horizon: int | None = None,
) -> dict[str, Any]:
    """Return the measurements of a trained family as plain data.

    All policies of all seeds and radii see the same starts. The held-out tasks share about as
    many episodes as the training tasks have together, at least ten each. ``multipliers`` are the
    means of the last part of learning, shape (N,).

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
        columns = measure_episodes(policy, task, options, learner.settings.gamma)
        rates = {name: float(np.mean(values)) for name, values in columns.shares.items()}
        return {"return": float(np.mean(columns.returns)), **rates}

    bounded = multipliers is not None and np.all(np.isfinite(multipliers))
    means = np.asarray(multipliers).tolist() if bounded else [None] * len(names)
    return {
        "own": {t.name: measured(learner.policy(t.name), t, trials) for t in learner.tasks},
        "central": {t.name: measured(centre, t, trials) for t in learner.tasks},
        "held_out": {t.name: measured(centre, t, each) for t in held_out},
        "distance": dict(zip(names, learner.family.distances().tolist(), strict=True)),
        "multiplier": dict(zip(names, means, strict=True)),
        "knots": len(learner.family.knots),
        "steps": learner.steps,
    }


def held_out_tasks(name: str | None, config: RunConfig) -> tuple[Task, ...]:
    """Return the tasks of a set that are held out, with the options of the training tasks."""
    if name is None:
        return ()
    # What draws the training maps is not for those held out.
    options = {k: v for k, v in config.task_options.items() if k not in ("seed", "count")}
    return tasks_from(name, **options)


def check_held_out(training: Sequence[Task], held_out: Sequence[Task]) -> None:
    """Refuse held-out tasks that were trained on, or that the policies cannot act in."""
    for task in held_out:
        for kind in ("observation_space", "action_space"):
            given, expected = getattr(task, kind).shape, getattr(training[0], kind).shape
            if given != expected:
                raise InputError(
                    f"the {kind} of the held-out task {task.name!r} has shape {given}, but the "
                    f"policies are learned with {expected}; hold out tasks of the same kind"
                )
        if any(_same(task, one) for one in training):
            raise InputError(
                f"the held-out task {task.name!r} is one of those trained on; hold out others, "
                "such as random:unseen:50"
            )


def _same(one: Task, other: Task) -> bool:
    """Tell whether two tasks are one, as far as compiled dynamics tell."""
    if one.name != other.name or one.dynamics is None or other.dynamics is None:
        return False
    return np.array_equal(one.dynamics.parameters, other.dynamics.parameters)
