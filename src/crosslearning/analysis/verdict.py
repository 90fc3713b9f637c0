"""The verdict on a learner: are its policies better than what they began with, and if not, why.

Every policy runs on its own task, on the same starts as what it is compared with: the controller
that it corrects, or no action and random actions, and the policies that learning started from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from crosslearning._base.plain_data import to_plain
from crosslearning._base.statistics import Floats, Interval, mean_with_unknown, readable
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner
from crosslearning.learner.internals import first_policies
from crosslearning.learner.model_based.data import Transitions, end_absorbed
from crosslearning.learner.model_based.method import ModelBasedMethod
from crosslearning.rkhs import Family
from crosslearning.rollouts import Episodes, plan_episodes
from crosslearning.runs.metrics import AT_BOUND

#: Joined with the seed, so that these starts are not those of the run.
_STREAM = 0x7E4D
#: Models whose one-step errors exceed this share of the spread of the changes are poor.
_POOR = 0.3
#: Episodes of so few steps on average teach nothing.
_AT_ONCE = 3.0
ZERO, RANDOM, CONTROLLER, START = "no action", "random actions", "controller", "start"
#: Of discrete actions: equal scores choose the first option of every decision.
FIRST = "the first option"


@dataclass(frozen=True)
class TaskVerdict:
    """The total returns on one task.

    Examples
    --------
    >>> from crosslearning import CrossLearner, verdict
    >>> found = verdict(CrossLearner("linear-quadratic", max_knots=20).learn(5), trials=2)
    >>> [sorted(one.references) for one in found.tasks][0]
    ['no action', 'random actions']
    """

    task: str
    policy: Interval
    references: Mapping[str, Interval]  #: what it is compared with, by name
    best: str  #: the best of these
    gain: Interval  #: of the policy over it, on the same starts

    @property
    def judgement(self) -> str:
        """``"better"``, ``"worse"`` or ``"undecided"``, by the interval of the gain."""
        if self.gain.low > 0.0:
            return "better"
        return "worse" if self.gain.high < 0.0 else "undecided"


@dataclass(frozen=True)
class Verdict:
    """Whether a learner has learned; :func:`verdict` makes it.

    Examples
    --------
    >>> from crosslearning import CrossLearner, verdict
    >>> learner = CrossLearner("linear-quadratic", 0.0, max_knots=20).learn(5)
    >>> verdict(learner, trials=2).facts
    'ε binds on 3 of 3 tasks; 20 knots, which is all that max_knots allows.'
    """

    trials: int  #: episodes of each policy
    tasks: tuple[TaskVerdict, ...]
    binding: int  #: tasks whose policies are at the distance ε from the centre
    knots: int
    max_knots: int
    model_error: float | None  #: of the models one step ahead, relative to the spread of changes
    learned: bool  #: whether a task is better and none is worse
    sentence: str  #: for people: learned, or not, probably why, and what to try

    @property
    def facts(self) -> str:
        """What limits learning, in a line."""
        parts = [f"ε binds on {self.binding} of {len(self.tasks)} tasks"]
        full = ", which is all that max_knots allows" if self.knots >= self.max_knots else ""
        parts.append(f"{self.knots} knots{full}")
        if self.model_error is not None:
            parts.append(f"models err by {self.model_error:.0%} of a step's change")
        return f"{'; '.join(parts)}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        plain: dict[str, Any] = to_plain(self)
        return plain


def verdict(learner: CrossLearner, trials: int = 10, seed: int = 0) -> Verdict:
    """Run every policy on its own task, and what it began with, and judge.

    The episodes are not counted as steps of the learner, which is not changed.

    Parameters
    ----------
    learner : CrossLearner
    trials : int
        Episodes of each policy, and of everything that it is compared with; at least 2.
    seed : int
        Of the starts and the random actions.

    Examples
    --------
    >>> from crosslearning import CrossLearner, verdict
    >>> learner = CrossLearner("linear-quadratic", method="trust-region", max_knots=30)
    >>> found = verdict(learner.learn(steps=9000))
    >>> found.learned, [one.judgement for one in found.tasks]
    (True, ['better', 'better', 'better'])
    """
    if trials < 2:
        raise InputError(f"trials must be at least 2, so that there is an interval, got {trials}")
    with threadpool_limits(1, user_api="blas"):
        episodes = _episodes(learner, trials, seed)
    totals = {name: one.rewards.sum(axis=2) for name, one in episodes.items()}
    own = totals.pop("policy")
    tasks = []
    for i, task in enumerate(learner.tasks):
        means = {name: float(one[i].mean()) for name, one in totals.items()}
        best = max(means, key=means.__getitem__)
        tasks.append(
            TaskVerdict(
                task=task.name,
                policy=mean_with_unknown(own[i]),
                references={name: mean_with_unknown(one[i]) for name, one in totals.items()},
                best=best,
                gain=mean_with_unknown(own[i] - totals[best][i]),
            )
        )
    family, settings = learner.family, learner.settings
    binding = 0
    if math.isfinite(settings.epsilon) and len(family.knots):
        binding = int(np.sum(family.distances() >= (1.0 - AT_BOUND) * settings.epsilon))
    error = _model_error(learner, episodes["policy"])
    better = sum(one.judgement == "better" for one in tasks)
    learned = better > 0 and all(one.judgement != "worse" for one in tasks)
    facts = trials, tuple(tasks), binding, len(family.knots), settings.max_knots, error
    why = "" if better == len(tasks) else _reason(facts, list(episodes.values()))
    return Verdict(*facts, learned, f"{_outcome(tasks)}{why}")


def _episodes(learner: CrossLearner, trials: int, seed: int) -> dict[str, Episodes]:
    """Run the policies, under ``"policy"``, and what they are compared with, on the same starts."""
    tasks, executor = learner.tasks, learner.method.executor
    N, p = len(tasks), tasks[0].action_size
    generator = np.random.default_rng([seed, _STREAM])
    plan = plan_episodes(generator, tasks, trials, max(task.horizon for task in tasks))
    shape, bounds = plan.noise.shape, executor.scale.bounds(tasks[0].action_space)
    still = Family.zeros(learner.kernel, N + 1, p).expansion
    if any(task.controller is not None for task in tasks):
        arms = {CONTROLLER: (still, plan.noise)}
    else:
        none = np.clip(executor.scale.inverse(np.zeros(p)), *bounds)
        drawn: Floats = generator.standard_normal(shape)  # as scores all options are as likely
        if np.all(np.isfinite(bounds)):
            drawn = generator.uniform(bounds[0], bounds[1], size=shape)
        elif tasks[0].choices is None:
            drawn *= learner.method.noise.std
        nothing = ZERO if tasks[0].choices is None else FIRST
        arms = {nothing: (still, np.broadcast_to(none, shape).copy()), RANDOM: (still, drawn)}
    if (first := first_policies(learner)) is not None:
        arms[START] = first.expansion, plan.noise
    arms["policy"] = learner.family.expansion, plan.noise
    return {
        name: executor.episodes(policies, plan._replace(noise=noise))
        for name, (policies, noise) in arms.items()
    }


def _model_error(learner: CrossLearner, episodes: Episodes) -> float | None:
    """Return the root mean square error of the models one step ahead, in units of their data."""
    method = learner.method
    if not isinstance(method, ModelBasedMethod) or method.frame is None:
        return None
    frame, squares, scale = method.frame, [], method.executor.scale
    every = [
        Transitions.of(episodes.of_task(i), scale, method.bounds) for i in range(len(learner.tasks))
    ]
    data = end_absorbed(method.controllers.machine_steps(every), method.settings.gamma)
    for i, steps in enumerate(data):
        squares.append(np.mean(method.dynamics.mean_squares(i, steps) / frame.unit**2))
    return float(np.sqrt(np.mean(squares)))


def _outcome(tasks: Sequence[TaskVerdict]) -> str:
    """Return the first sentence."""
    better = [one for one in tasks if one.judgement == "better"]
    worse = [one for one in tasks if one.judgement == "worse"]
    articles = {CONTROLLER: f"the {CONTROLLER}", START: f"the {START}"}
    names = " or ".join(dict.fromkeys(articles.get(one.best, one.best) for one in tasks))
    what = "the task" if len(tasks) == 1 else f"{len(better)} of {len(tasks)} tasks"
    if worse:
        least = min(worse, key=lambda one: one.gain.value)
        gain = f"{least.gain.value:{readable(least.gain.value)}}"
        return (
            f"Not learned: {len(worse)} of {len(tasks)} tasks return less than with {names}, "
            f"{least.task!r} the least ({gain})."
        )
    if len(better) == len(tasks):
        what = "the task returns" if len(tasks) == 1 else f"all {len(tasks)} tasks return"
        return f"Learned: {what} more than with {names}."
    if better:
        return f"Learned on {what}; the others are not told apart from {names}."
    return f"Not learned: no task returns more than with {names}."


def _reason(facts: tuple[Any, ...], episodes: Sequence[Episodes]) -> str:
    """Return the probable reason, and what to try."""
    _, tasks, binding, knots, max_knots, error = facts
    lengths = float(np.mean([one.lengths.mean() for one in episodes]))
    rewards = np.concatenate(
        [one.rewards[np.arange(one.rewards.shape[2]) < one.lengths[..., None]] for one in episodes]
    )
    ended = any(one.terminated.any() for one in episodes)  # later or earlier, which may count
    if np.ptp(rewards) == 0.0 and not ended:
        return f" The reward is {rewards[0]:g} in every step: check it."
    if lengths <= _AT_ONCE:
        return f" Episodes end after {lengths:.1f} steps: check when the environment terminates."
    if all(one.best in (ZERO, FIRST) and one.judgement != "better" for one in tasks):
        return (
            " Nothing that was tried is better than doing nothing: perhaps no goal was ever "
            "reached. Reward the way to it, start nearer to it, or learn around a controller "
            "(--around)."
        )
    tries = []
    if error is not None and error > _POOR:
        tries.append("The models are poor: take more steps, or lags if the state is hidden.")
    if 2 * binding > len(tasks):
        tries.append("ε holds the policies back: try a larger one.")
    if knots >= max_knots:
        tries.append("The knots are at their cap: try a larger max_knots.")
    return " " + (" ".join(tries) or "Take more steps.")
