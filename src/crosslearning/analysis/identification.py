"""Identification: which trained task a new one is like, and how certain that is.

Tasks differ in the observations and rewards that follow a state and an action. The central policy
explores the new task for a few episodes, and each trained task for several times as many. A model
is fitted to each trained task, and the models compete in predicting the new task.

Steps of an episode are dependent and models err, so no formula gives the certainty. It is
calibrated on the trained tasks: groups of their held-out episodes are identified in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from crosslearning._base.statistics import student_quantile
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner, Policy
from crosslearning.learner.evaluation import run_episodes
from crosslearning.learner.internals import behind_controller
from crosslearning.learner.model_based.data import Transitions
from crosslearning.rkhs.checks import Floats, count
from crosslearning.rkhs.coupled_ridge import CoupledRidge, Statistics
from crosslearning.tasks import Task

#: Groups of episodes of each trained task; each is identified by models of the others.
GROUPS = 6
#: The most steps of a group, and of kernel centres.
_STEPS, _CENTRES = 500, 200
#: Candidates for the kernel width, in standard deviations of the inputs, and for the ridge of the
#: functions and the multiplier of their distance to the central one.
_WIDTHS = (1.0, 2.0, 4.0)
_RIDGES = ((1e-9, 1e-8), (1e-8, 1e-6), (1e-6, 1e-4), (1e-3, 1e-1))
#: The scale of linear features: the ridge prefers them, so that models extrapolate linearly.
_LINEAR = 10.0
#: Degrees of freedom of the error distribution: heavy tails, because a crash is not noise.
_FREEDOM = 4.0
#: A negligible error, in standard deviations of the targets.
_NEGLIGIBLE = 0.01
#: The quantile up to which an error is usual.
_USUAL = 0.99
#: Candidates for the scale of the log-likelihoods.
_SCALES = np.logspace(-4.0, 2.0, 121)


@dataclass(frozen=True)
class Identification:
    """Which trained task a new one is like."""

    task: str  #: the new task's name
    probabilities: Mapping[str, float]  #: of every trained task, if the new one is like one of them
    #: The prediction error of each task's model on the new task, relative to its error on held-out
    #: episodes of its own task: near 1 for a task of that kind.
    errors: Mapping[str, float]
    usual: float  #: the upper limit of such errors on episodes of the trained task itself
    episodes: int  #: of the new task
    steps: int  #: of the new task

    @property
    def nearest(self) -> str:
        """The most probable trained task."""
        return max(self.probabilities, key=self.probabilities.__getitem__)

    @property
    def certainty(self) -> float:
        """The probability of the nearest task."""
        return self.probabilities[self.nearest]

    @property
    def familiar(self) -> bool:
        """Whether the error of the nearest task's model is usual for its own task."""
        return self.errors[self.nearest] <= self.usual

    def __str__(self) -> str:
        name = self.nearest
        ranked = sorted(self.probabilities.items(), key=lambda item: -item[1])
        others = ", ".join(f"{other} {100 * p:.0f} %" for other, p in ranked[1:3] if p >= 0.005)
        text = f"{self.task} is most like {name}, with a certainty of {100 * self.certainty:.0f} %"
        text += f" ({others})" if others else ""
        error = f"it is predicted {self.errors[name]:.2g} times as badly as {name} itself"
        if self.familiar:
            return f"{text}; {error}."
        return f"{text}, but like none of them: {error}; up to {self.usual:.2g} would be usual."


def identify(
    learner: CrossLearner, task: Task, episodes: int = 5, horizon: int | None = None, seed: int = 0
) -> Identification:
    """Identify the trained task that a new one is like, from a few episodes.

    Parameters
    ----------
    learner : CrossLearner
        Its tasks need environments: each is explored for six times as many episodes.
    task : Task
        The new task, with the spaces of the trained tasks.
    episodes : int
        Of the new task.
    horizon : int, optional
        The most steps of an episode; by default that of the new task.
    seed : int
        Of starts and exploration noise.

    Examples
    --------
    >>> from crosslearning import CrossLearner, PolicyGradient, identify
    >>> from crosslearning.tasks.linear_quadratic import cart
    >>> carts = [cart(mass).task(f"m={mass}") for mass in (0.5, 2.0)]
    >>> learner = CrossLearner(carts, PolicyGradient(step_size=0.1)).learn(5)
    >>> identify(learner, cart(1.99).task("new"), episodes=2).nearest
    'm=2.0'
    """
    return identify_all(learner, [task], episodes, horizon, seed)[0]


def identify_all(
    learner: CrossLearner,
    tasks: Sequence[Task],
    episodes: int = 5,
    horizon: int | None = None,
    seed: int = 0,
) -> list[Identification]:
    """Identify several new tasks by the same models; the arguments are those of `identify`."""
    count("episodes", episodes)
    if not tasks or not all(isinstance(task, Task) for task in tasks):
        raise InputError(f"identify takes a Task, such as one of task_set(...), got {tasks!r}")
    tasks = behind_controller(learner, tasks)
    steps = horizon or max(task.horizon for task in tasks)
    # New and trained tasks may have the same name, but never the same episodes.
    seen = [_explore(learner.central, task, episodes, steps, 2 * seed + 1)[0] for task in tasks]
    known = [
        _explore(learner.central, task, GROUPS * episodes, steps, 2 * seed, GROUPS)
        for task in learner.tasks
    ]
    names = [task.name for task in learner.tasks]
    # One thread: how BLAS splits a sum over threads changes its last bits.
    with threadpool_limits(1, user_api="blas"):
        classifier = _Classifier(known, seed)
        results = [classifier(group) for group in seen]
    return [
        Identification(
            task.name,
            dict(zip(names, probabilities.tolist(), strict=True)),
            dict(zip(names, errors.tolist(), strict=True)),
            classifier.usual,
            episodes,
            group.steps,
        )
        for task, group, (probabilities, errors) in zip(tasks, seen, results, strict=True)
    ]


class Group(NamedTuple):
    """Steps of some episodes: (observation, action), (n, d), and (change, reward), (n, q + 1)."""

    inputs: Floats
    targets: Floats
    steps: int


def _explore(
    policy: Policy, task: Task, trials: int, horizon: int, seed: int, groups: int = 1
) -> list[Group]:
    """Run episodes with exploration noise and return their steps, in groups of episodes."""
    run = run_episodes(policy, task, trials, horizon, seed, deterministic=False)
    steps = Transitions.of(run, policy.scale, policy.scale.bounds(task.action_space))
    inputs = np.hstack([steps.states, steps.actions])
    targets = np.column_stack([steps.after - steps.states, steps.rewards])
    episode = np.cumsum(steps.first) - 1
    parts = []
    for episodes in np.array_split(np.arange(trials), groups):
        inside = np.flatnonzero(np.isin(episode, episodes))
        # Thinned evenly: neighbours in time are nearly equal.
        kept = inside[np.unique(np.linspace(0, len(inside) - 1, _STEPS).astype(int))]
        parts.append(Group(inputs[kept], targets[kept], len(inside)))
    return parts


class _Features:
    """Features of the models: a constant, the inputs, and Gaussians around some of them."""

    def __init__(self, trained: list[list[Group]], width: float, seed: int) -> None:
        inputs = np.concatenate([group.inputs for task in trained for group in task])
        targets = np.concatenate([group.targets for task in trained for group in task])
        (self._middle, self._width), (self._mean, self._spread) = map(_scale, (inputs, targets))
        count = min(_CENTRES, len(inputs) // 2)
        chosen = np.random.default_rng([seed, _CENTRES]).choice(len(inputs), count, replace=False)
        self._centres = (inputs[chosen] - self._middle) / self._width
        self._factor = 0.5 / (width**2 * max(1.0, inputs.shape[1] / 3.0))

    def __call__(self, group: Group) -> tuple[Floats, Floats]:
        """Return the features of a group's steps (n, features), and the scaled targets."""
        scaled = (group.inputs - self._middle) / self._width
        bumps = np.exp(-self._factor * cdist(scaled, self._centres, "sqeuclidean"))
        phi = np.hstack([np.full((len(scaled), 1), _LINEAR), _LINEAR * scaled, bumps])
        return phi, (group.targets - self._mean) / self._spread


def _fit(trained: list[list[Group]], seed: int) -> tuple[_Features, list[Floats]]:
    """Return the features and models that predict held-out groups of their tasks best.

    ``models[g]``, shape (features, N, outputs), is fitted without group g of any task.
    """
    least: float = np.inf
    for width in _WIDTHS:
        features = _Features(trained, width, seed)
        data = [[features(group) for group in task] for task in trained]
        parts = [
            [Statistics(x.T @ x, x.T @ y, np.sum(y**2, axis=0), len(y), 0.0) for x, y in task]
            for task in data
        ]
        problems = []
        for g in range(GROUPS):
            rest = [Statistics.together([*task[:g], *task[g + 1 :]]) for task in parts]
            problems.append(CoupledRidge(rest, np.ones(len(parts[0][0].squares)), 1.0))
        for ridge, multiplier in _RIDGES:
            models = [_solved(problem, ridge, multiplier) for problem in problems]
            errors = [
                np.mean(np.abs(y - x @ models[g][:, i]))
                for i, task in enumerate(data)
                for g, (x, y) in enumerate(task)
            ]
            if np.mean(errors) < least:
                least, best = float(np.mean(errors)), (features, models)
    return best


def _solved(problem: CoupledRidge, ridge: float, multiplier: float) -> Floats:
    """Return the models of all tasks, shape (features, N, outputs).

    Ridge and multiplier are in units of the first task's mean squared feature.
    """
    unit = float(np.trace(problem.tasks[0].product)) / len(problem.tasks[0].product)
    problem.ridge = ridge * unit
    functions = problem.solve(np.full(problem.size, multiplier * unit)).functions
    return functions.transpose(1, 0, 2)


class _Classifier:
    """Cross-learned models of the trained tasks, and the calibration of their likelihoods."""

    def __init__(self, trained: list[list[Group]], seed: int) -> None:
        self._features, self._models = _fit(trained, seed)
        # Errors on held-out groups: (N, GROUPS) arrays of shape (n, N, outputs).
        held_out = [[self._errors(group, g) for g, group in enumerate(task)] for task in trained]
        diagonal = [[part[:, i] for part in parts] for i, parts in enumerate(held_out)]
        every = np.concatenate([part for parts in diagonal for part in parts])
        self._spread = np.median(np.abs(every), axis=0) + _NEGLIGIBLE
        self._sizes = np.array([_size(np.concatenate(parts)) for parts in diagonal])
        scores = np.array([[self._score(part) for part in parts] for parts in held_out])
        self._scale = _calibrated_scale(scores)
        # This many trials, even if all were right, support no more certainty.
        self._doubt = 1.0 / (scores.shape[0] * scores.shape[1] + 2)
        pairs = zip(diagonal, self._sizes, strict=True)
        relative = [np.mean(_size(part) / size) for parts, size in pairs for part in parts]
        self.usual = _usual(np.array(relative))

    def _errors(self, group: Group, g: int) -> Floats:
        """Return the errors of every task's model on a group, shape (n, N, outputs)."""
        model = self._models[g]
        features, targets = self._features(group)
        flat = features @ model.reshape(len(model), -1)
        return targets[:, None] - flat.reshape(-1, *model.shape[1:])

    def _score(self, errors: Floats) -> Floats:
        """Return the log-likelihoods of a group's errors, shape (N,), up to a constant."""
        squares = (errors / self._spread) ** 2
        return np.asarray(-0.5 * (_FREEDOM + 1) * np.log1p(squares / _FREEDOM).sum(axis=(0, 2)))

    def __call__(self, group: Group) -> tuple[Floats, Floats]:
        """Return the probabilities of the tasks for a new group, and their relative errors."""
        errors = [self._errors(group, g) for g in range(GROUPS)]
        probabilities = softmax(self._scale * np.mean([self._score(e) for e in errors], axis=0))
        probabilities = (1.0 - self._doubt) * probabilities + self._doubt / len(probabilities)
        sizes = np.mean([_size(one) for one in errors], axis=0)
        return probabilities, np.mean(sizes / self._sizes, axis=1)


def _calibrated_scale(scores: Floats) -> float:
    """Return the scale of the scores, shape (N, groups, N), that suits the trained tasks.

    It maximises the likelihood of the right tasks: every misclassified group punishes a scale
    that is too large.
    """
    right = np.arange(len(scores))
    likely = [
        np.log(softmax(scale * scores, axis=-1)[right, :, right] + 1e-300).sum()
        for scale in _SCALES
    ]
    # Where all are right, larger scales add nothing: the smallest that does as well.
    best = max(likely)
    return float(_SCALES[int(np.argmax(np.array(likely) >= best - 0.1))])


def _usual(errors: Floats) -> float:
    """Return the upper limit of one more such error: the largest, or Student's bound."""
    logarithms, n = np.log(errors), len(errors)
    margin = student_quantile(_USUAL, n - 1) * np.sqrt(1.0 + 1.0 / n)
    bound = logarithms.mean() + margin * logarithms.std(ddof=1)
    return float(np.exp(max(bound, logarithms.max())))


def _size(errors: Floats) -> Floats:
    """Return the mean absolute error over steps, from shape (n, …, outputs)."""
    return np.asarray(np.abs(errors).mean(axis=0) + _NEGLIGIBLE)


def _scale(values: Floats) -> tuple[Floats, Floats]:
    """Return means and standard deviations, 1 where nothing varies."""
    spread = values.std(axis=0)
    return values.mean(axis=0), np.where(spread > 0.0, spread, 1.0)
