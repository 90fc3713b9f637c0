"""Adaptation: how fast a policy becomes good at a task, by where it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation import EpisodeOptions, measure_episodes
from crosslearning.learner import CrossLearner
from crosslearning.rkhs import Family
from crosslearning.tasks import Task

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AdaptationCurve:
    """Returns while a policy adapts to one task.

    Attributes
    ----------
    episodes : array, shape (n,)
        Rollouts that were spent before each point, from 0.
    steps : array, shape (n,)
        Environment steps that were spent.
    returns : array, shape (n,)
        Mean discounted return of the policy, on the same starts at every point.
    """

    episodes: Floats
    steps: Floats
    returns: Floats

    @property
    def area(self) -> float:
        """The mean return along the curve: higher is faster, better, or both."""
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
    """Learn one task from a given function, and evaluate on the way.

    Parameters
    ----------
    start : Family, optional
        One function; None starts from zero.
    points : int
        How many evaluations, beside the one before the first iteration.
    trials, horizon : int
        Of an evaluation; see :class:`crosslearning.evaluation.EpisodeOptions`.
    **settings
        Of the learner. Its seed is the evaluations' too, so that curves from different starts
        see the same numbers.
    """
    learner = CrossLearner([task], float("inf"), start=start, **settings)
    options = EpisodeOptions(trials=trials, horizon=horizon, seed=learner.settings.seed)
    rollouts = learner.sampling.batch_size * (1 + learner.sampling.estimator.mirrored)
    rows = []
    for mark in np.unique(np.linspace(0, iterations, points + 1).astype(int)):
        learner.learn(int(mark) - learner.iteration)
        played = measure_episodes(learner.policy(0), task, options, learner.settings.gamma)
        rows.append((learner.iteration * rollouts, learner.steps, np.mean(played.returns)))
    learner.close()
    return AdaptationCurve(*np.array(rows, dtype=np.float64).T)
