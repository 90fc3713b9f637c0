"""Adaptation: how fast a policy becomes good at a task, by where it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation import run_episodes
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
    horizon: int = 50,
    seed: int = 0,
    **settings: Any,
) -> AdaptationCurve:
    """Learn one task from a given function, and evaluate on the way.

    Parameters
    ----------
    task : Task
    start : Family, optional
        One function; None starts from zero.
    iterations : int
        How many to learn.
    points : int
        How many evaluations, beside the one before the first iteration.
    trials, horizon : int
        Episodes of an evaluation, and their length.
    seed : int
        Seeds both the learning and the evaluation, so that curves from different starts see
        the same numbers.
    **settings
        Of the learner.
    """
    learner = CrossLearner([task], float("inf"), start=start, seed=seed, **settings)
    rollouts = learner.settings.batch_size * (1 + (learner.settings.estimator == "antithetic"))
    marks = np.unique(np.linspace(0, iterations, points + 1).astype(int))
    episodes, steps, returns = [], [], []
    weights = learner.settings.discount ** np.arange(horizon)
    for mark in marks:
        learner.learn(int(mark) - learner.iteration)
        played = run_episodes(learner.policy(0), task, trials, horizon, seed)
        episodes.append(float(mark * rollouts))
        steps.append(float(learner.steps))
        returns.append(float(np.mean(played.rewards @ weights)))
    learner.close()
    return AdaptationCurve(np.array(episodes), np.array(steps), np.array(returns))
