"""How far learning has departed from the controller in use, and what that is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from crosslearning._base.statistics import Interval, student
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.evaluation import run_episodes
from crosslearning.learner.limits import crossed_share
from crosslearning.rkhs.checks import Floats
from crosslearning.rollouts import Episodes
from crosslearning.tasks import Task


@dataclass(frozen=True)
class ActionChange:
    """The change of one action, in its unit."""

    action: str
    bound: float  #: no state changes it by more; infinite for kernels without a bound
    largest: float  #: in the visited states
    typical: float  #: root mean square there


@dataclass(frozen=True)
class Departure:
    """One machine under its controller and under the policy that corrects it, on the same starts.

    Returns are undiscounted. A limit is crossed in an episode if any of its observations is beyond.
    """

    task: str
    controller: Interval
    learned: Interval
    gain: Interval  #: of the return, paired by starts
    actions: tuple[ActionChange, ...]
    crossed: Interval | None  #: share of episodes that cross a limit, exact (Clopper-Pearson)
    crossed_before: Interval | None  #: the same under the controller
    allowed: float | None  #: the share that the task allows
    steady_errors: dict[str, tuple[float, float]]  #: of set-points: controller, learned


def departures(learner: CrossLearner, trials: int = 100, seed: int = 0) -> list[Departure]:
    """Run every machine with its controller and with the policy that corrects it.

    Parameters
    ----------
    learner : CrossLearner
        Learned ``around`` a controller.
    trials : int
        Episodes of each.
    seed : int
        Of their starts.

    Examples
    --------
    >>> from crosslearning import PID, CrossLearner
    >>> from crosslearning.analysis.departure import departures
    >>> learner = CrossLearner("pendulums:1", around=PID(kp=2.0, measured=1), epsilon=0.2)
    >>> (machine,) = departures(learner.learn(2, progress=False), trials=5)
    >>> machine.actions[0].largest <= machine.actions[0].bound <= 0.4 + 1e-12
    True
    """
    if any(task.controller is None for task in learner.tasks):
        raise InputError("these policies correct no controller; learn them around one")
    return [_departure(learner, number, trials, seed) for number in range(len(learner.tasks))]


def change_bounds(learner: CrossLearner) -> Floats:
    """Return the largest possible change of each action, in its unit, shape (p,).

    |δ(s)| ≤ ‖δ‖ √κ(s, s) ≤ ε₀ √κ(s, s), times half of the action's range.
    """
    half = learner.central.scale.half
    if not learner.kernel.normalised:  # κ(s, s) is not 1
        return np.full(len(half), math.inf)
    return np.asarray(learner.settings.bound * half)


def _departure(learner: CrossLearner, number: int, trials: int, seed: int) -> Departure:
    task, policy = learner.tasks[number], learner.policy(number)
    p = task.action_size
    runs = [
        run_episodes(one, task, trials, seed=seed)
        for one in (lambda observation: np.zeros(p), policy)
    ]
    returns = [episodes.rewards.sum(axis=1) for episodes in runs]
    there = np.arange(runs[1].actions.shape[1]) < runs[1].lengths[:, None]
    # Corrections are clipped as little as the bound of actions allows.
    changes = runs[1].actions[there].reshape(-1, p)
    names = task.loop.action_names if task.loop else task.action_names
    actions = tuple(
        ActionChange(name, float(bound), float(np.abs(c).max()), float(np.sqrt(np.mean(c**2))))
        for name, bound, c in zip(names, change_bounds(learner), changes.T, strict=True)
    )
    before, after = (crossed_share(task, episodes) for episodes in runs)
    limited = bool(task.state_limits)
    return Departure(
        task.name,
        student(returns[0]),
        student(returns[1]),
        student(returns[1] - returns[0]),
        actions,
        after if limited else None,
        before if limited else None,
        1.0 - task.chance if limited else None,
        _steady_errors(task, *runs),
    )


def _steady_errors(task: Task, before: Episodes, after: Episodes) -> dict[str, tuple[float, float]]:
    """Return the mean absolute errors of set-points over the last fifth of an episode."""
    errors: dict[str, tuple[float, float]] = {}
    for i, aim, at in task.loop.setpoints if task.loop else ():
        means = []
        for episodes in (before, after):
            o = episodes.observations
            last = np.arange(o.shape[1]) >= 0.8 * episodes.lengths[:, None]
            wanted = np.full(1, aim) if at is None else o[..., at]
            means.append(float(np.mean(np.abs(o[..., i] - wanted)[last])))
        assert task.loop is not None
        errors[task.loop.observation_names[i]] = means[0], means[1]
    return errors
