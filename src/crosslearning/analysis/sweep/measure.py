"""The ε-path in one process, and the measurements of its families."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.analysis.sweep.stages import EpsilonPath, Origin, read_epsilons
from crosslearning.analysis.sweep.summary import Sweep, summarise
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner, IterationReport, Policy
from crosslearning.learner.evaluation import EpisodeOptions, measure_episodes
from crosslearning.rkhs import Family
from crosslearning.runs import RunConfig
from crosslearning.runs.metrics import LATE
from crosslearning.tasks import Task, tasks_from

#: Raised when the same request gets another result: stored results are then made again.
VERSION = 1
#: The seed of the measurements' starts, different from those of training.
MEASURE_SEED = 40_000
#: The fewest episodes on a held-out task.
FEWEST = 10


def epsilon_path(
    tasks: str | Sequence[Task],
    epsilons: str | Iterable[float],
    iterations: int,
    *,
    held_out: Sequence[Task] = (),
    stage_iterations: int | None = None,
    origin: Origin = "previous",
    seeds: int | Sequence[int] = 3,
    trials: int = 200,
    horizon: int | None = None,
    **settings: Any,
) -> Sweep:
    """Learn families along a path of radii, by default each from the previous one.

    Nothing is written. :func:`crosslearning.analysis.sweep.run_sweep` gives the same numbers for
    named task sets, with many processes and files to resume from.

    Parameters
    ----------
    tasks : str or sequence of Task
        As for :class:`crosslearning.CrossLearner`.
    epsilons : str or iterable of float
        In ascending order, such as ``[0, 0.5, 1]`` or ``"0,0.5,1,inf"``.
    iterations, stage_iterations : int
        Of the first stage and of every later one, by default half as many.
    held_out : sequence of Task
        Tasks on which the central policy is measured, and by which a radius is recommended.
    origin : {"previous", "common", "zero"}
        Where a stage starts, as in :class:`EpsilonPath`.
    seeds : int or sequence of int
        How many paths, or their seeds.
    trials, horizon : int
        Episodes on each training task in a measurement, and their length; None: the tasks' own.
    **settings
        Of the learner.
    """
    for name in ("epsilon", "seed", "start"):
        if name in settings:
            raise InputError(f"a path sets {name} itself; leave it out")
    later = max(1, iterations // 2) if stage_iterations is None else stage_iterations
    path = EpsilonPath(read_epsilons(epsilons), iterations, later, origin)
    numbers = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not numbers or trials < 1:
        raise InputError(f"give at least 1 seed and trial, got {len(numbers)} and {trials}")
    first = CrossLearner(tasks, path.epsilons[0], **settings)
    first.close()
    check_held_out(first.tasks, held_out)
    records: dict[tuple[int, float], dict[str, Any]] = {}
    families: dict[tuple[int, float], Family] = {}
    for seed in numbers:
        learned: dict[str | None, Family | None] = {None: None}
        for stage in path.stages(first.settings, seed):
            own = {**settings, **stage.changes, "start": learned[stage.start]}
            learner = CrossLearner(first.tasks, stage.epsilon, **own)
            reports: list[IterationReport] = []
            learner.learn(stage.iterations, reports.append, progress=False)
            learner.close()
            learned[stage.name] = learner.family
            if stage.measured:
                late = reports[int((1.0 - LATE) * len(reports)) :]
                means = np.mean([report.projection.multipliers for report in late], axis=0)
                at = seed, stage.epsilon
                records[at] = measure_family(learner, means, held_out, trials, horizon)
                families[at] = learner.family
    return summarise(path.epsilons, numbers, records, families)


def measure_family(
    learner: CrossLearner,
    multipliers: NDArray[np.float64] | None,
    held_out: Sequence[Task],
    trials: int,
    horizon: int | None = None,
) -> dict[str, Any]:
    """Return the measurements of a trained family as plain data.

    All policies have the same starts. The held-out tasks share about as many episodes as the
    training tasks have together, at least ten each. ``multipliers``, shape (N,), are the means of
    the last part of learning.

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
    """Return held-out tasks of a named set, with the options of the training tasks."""
    if name is None:
        return ()
    # Seed and count draw the training maps.
    options = {k: v for k, v in config.task_options.items() if k not in ("seed", "count")}
    return tasks_from(name, **options)


def check_held_out(training: Sequence[Task], held_out: Sequence[Task]) -> None:
    """Refuse held-out tasks that were trained on, or that have other spaces."""
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
    """Return whether two compiled tasks have the same name and parameters."""
    if one.name != other.name or one.dynamics is None or other.dynamics is None:
        return False
    return np.array_equal(one.dynamics.parameters, other.dynamics.parameters)
