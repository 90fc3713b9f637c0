"""Adaptation of a trained policy to other tasks, and curves of its speed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner, IterationReport
from crosslearning.learner.evaluation import EpisodeOptions, measure_episodes
from crosslearning.learner.internals import (
    explaining_observations,
    starting_policy,
    transfer_settings,
)
from crosslearning.rkhs import Family
from crosslearning.rkhs.checks import Floats
from crosslearning.runs import Outcome, RunFolder, make_config, train
from crosslearning.runs.config import RUN_FIELDS, one_length
from crosslearning.tasks import Task


@dataclass(frozen=True)
class AdaptationCurve:
    """Returns while a policy adapts to one task, arrays of shape (n,)."""

    episodes: Floats  #: rollouts before each point, from 0
    steps: Floats  #: environment steps before each point
    returns: Floats  #: mean discounted return, on the same starts at every point

    @property
    def area(self) -> float:
        """The mean return along the curve."""
        return float(np.trapezoid(self.returns, self.episodes) / np.ptp(self.episodes))


def adaptation_curve(
    task: Task,
    start: Family | None,
    iterations: int,
    points: int = 10,
    trials: int = 100,
    horizon: int | None = None,
    **settings: Any,
) -> AdaptationCurve:
    """Learn one task from a function, or from zero, with evaluations in between.

    There are ``points`` evaluations after the first one, which is before any iteration; ``trials``
    and ``horizon`` are those of :class:`crosslearning.learner.evaluation.EpisodeOptions`, and
    ``settings`` the learner's. Its seed is also that of the evaluations, so that curves from
    different starts are comparable.
    """
    learner = CrossLearner([task], float("inf"), start=start, **settings)
    options = EpisodeOptions(trials=trials, horizon=horizon, seed=learner.settings.seed)
    rows, episodes = [], 0

    def count(report: IterationReport) -> None:
        nonlocal episodes
        episodes += report.episodes

    for mark in np.unique(np.linspace(0, iterations, points + 1).astype(int)):
        learner.learn(int(mark) - learner.iteration, count, progress=False)
        played = measure_episodes(learner.policy(0), task, options, learner.settings.gamma)
        rows.append((episodes, learner.steps, np.mean(played.returns)))
    learner.close()
    return AdaptationCurve(*np.array(rows, dtype=np.float64).T)


def adapt_run(
    run: str | Path,
    out: str | Path,
    tasks: str,
    start: str = "central",
    console: Console | None = None,
    **fields: Any,
) -> Outcome:
    """Learn other tasks from a policy of a run, in a new run folder.

    Without an ``epsilon`` each task learns alone; with one they learn together. The new run stores
    its start, so that it can be resumed, evaluated and certified like any other. With the method
    ``models`` it also stores the trained run's data, and fits its models jointly with them.

    Parameters
    ----------
    run, out : str or Path
        The folders of the trained run and of the new one, which must not hold one yet.
    tasks : str
        A named set, ``package.module:function`` or a file of TOML.
    start : str
        ``"central"``, or the name of the task whose policy to start from.
    console : Console, optional
        Shows progress.
    **fields
        Of the configuration; the others are those of the trained run.
    """
    folder = RunFolder.open(run)
    RunFolder(out).require_free()
    inherited = {k: v for k, v in folder.config().to_plain().items() if k in RUN_FIELDS}
    if inherited["around"] and not fields.get("around") and not folder.is_own():
        raise InputError(
            f"{folder.path} is around the controller {inherited['around']}, and is not a run of "
            "yours in its place. Nothing was imported. If you trust that code, name it: --around"
        )
    learner = folder.load()
    policy = starting_policy(learner, start)
    inherited |= {"tasks": tasks, "task_options": {}}
    config = make_config({**inherited, **transfer_settings(learner, **one_length(fields))})
    with explaining_observations(str(folder.path), lambda: learner.tasks):
        return train(out, config, console, policy.function, related=learner)
