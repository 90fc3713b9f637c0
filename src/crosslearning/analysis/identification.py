"""Identification: which of the trained tasks a new one is like, and how sure that is.

What tells tasks apart is how they answer: which observation and which reward follow a state and an
action. So the central policy explores the new task for a few episodes, and each trained task for
several times as many. From these a model of each trained task is learned, and the models compete
in predicting the new task's answers.

How sure that is, no formula knows: steps of an episode depend on one another, and models err. The
trained tasks do: groups of their episodes that the models have not seen are identified in the
same way, and the certainty is scaled so that it was right for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from crosslearning._base.statistics import student_quantile
from crosslearning.errors import InputError
from crosslearning.learner import CrossLearner, Policy
from crosslearning.learner.evaluation import run_episodes
from crosslearning.rollouts import Episodes
from crosslearning.tasks import Task

Floats = NDArray[np.float64]

#: Groups of episodes of each trained task; each is identified by models of the others.
GROUPS = 6
#: Steps of a group that are looked at, at most; and centres of the models' kernels.
_STEPS, _CENTRES = 500, 200
#: Candidates for the width of the kernels, in standard deviations of the inputs, and for ridges:
#: of what the tasks share, and of what is a task's own.
_WIDTHS = (1.0, 2.0, 4.0)
_RIDGES = ((1e-9, 1e-8), (1e-8, 1e-6), (1e-6, 1e-4), (1e-3, 1e-1))
#: How much cheaper a ridge finds what is linear: it goes on where no step was seen.
_STRAIGHT = 10.0
#: Degrees of freedom of the errors' distribution: with heavy tails, as a crash is no noise.
_FREEDOM = 4.0
#: An error that is as good as none, in standard deviations of what is predicted.
_NOTHING = 0.01
#: The level up to which an error is usual.
_USUAL = 0.99
#: Candidates for the scale of the certainty.
_SCALES = np.logspace(-4.0, 2.0, 121)


@dataclass(frozen=True)
class Identification:
    """Which trained task a new one is like.

    Attributes
    ----------
    task : str
        The new task's name.
    probabilities : mapping of str to float
        Of every trained task, if the new one is like one of them.
    errors : mapping of str to float
        How badly each task's model predicts the new one, in units of how badly it predicts
        unseen episodes of its own task: near 1 for a task of that kind.
    usual : float
        What such an error is seldom above for episodes of a trained task itself.
    episodes, steps : int
        What was seen of the new task.
    """

    task: str
    probabilities: Mapping[str, float]
    errors: Mapping[str, float]
    usual: float
    episodes: int
    steps: int

    @property
    def nearest(self) -> str:
        """The trained task that it is most probably like."""
        return max(self.probabilities, key=self.probabilities.__getitem__)

    @property
    def certainty(self) -> float:
        """The probability of the nearest."""
        return self.probabilities[self.nearest]

    @property
    def familiar(self) -> bool:
        """Whether the nearest task's model errs no more than is usual on its own task."""
        return self.errors[self.nearest] <= self.usual

    def __str__(self) -> str:
        name = self.nearest
        ranked = sorted(self.probabilities.items(), key=lambda item: -item[1])
        others = ", ".join(f"{other} {100 * p:.0f} %" for other, p in ranked[1:3] if p >= 0.005)
        found = f"{self.task} is most like {name}, with a certainty of {100 * self.certainty:.0f} %"
        found += f" ({others})" if others else ""
        error = f"it is predicted {self.errors[name]:.2g} times as badly as {name} itself"
        if self.familiar:
            return f"{found}; {error}."
        return f"{found}, but like none of them: {error}; up to {self.usual:.2g} would be usual."


def identify(
    learner: CrossLearner,
    task: Task,
    episodes: int = 5,
    horizon: int | None = None,
    seed: int = 0,
) -> Identification:
    """Say which trained task a new one is like, after a few episodes.

    Parameters
    ----------
    learner : CrossLearner
        Its tasks must be at hand: each is explored for six times as many episodes.
    task : Task
        The new one. Its observations and actions must be those of the trained tasks.
    episodes : int
        How many of the new task to look at.
    horizon : int, optional
        The most steps of each; by default that of the new task.
    seed : int
        Of the starts and of the noise.

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
    if isinstance(episodes, bool) or int(episodes) != episodes or episodes < 1:
        raise InputError(f"episodes must be a whole number of at least 1, got {episodes!r}")
    if not tasks or not all(isinstance(task, Task) for task in tasks):
        raise InputError(f"identify takes a Task, such as one of task_set(...), got {tasks!r}")
    steps = horizon or max(task.horizon for task in tasks)
    # New and trained tasks may have the same name, but never the same episodes.
    seen = [_explore(learner.central, task, episodes, steps, 2 * seed + 1)[0] for task in tasks]
    own = [
        _explore(learner.central, task, GROUPS * episodes, steps, 2 * seed, GROUPS)
        for task in learner.tasks
    ]
    names = [task.name for task in learner.tasks]
    # One thread: how BLAS splits a sum over threads changes its last bits.
    with threadpool_limits(1, user_api="blas"):
        judge = _Judge.of(own, seed)
        judged = [judge(group) for group in seen]
    found = []
    for task, group, (probabilities, errors) in zip(tasks, seen, judged, strict=True):
        found.append(
            Identification(
                task.name,
                dict(zip(names, probabilities.tolist(), strict=True)),
                dict(zip(names, errors.tolist(), strict=True)),
                judge.usual,
                episodes,
                group.steps,
            )
        )
    return found


class Group(NamedTuple):
    """Steps of some episodes: what was seen and done, (n, d), and what followed, (n, q + 1)."""

    inputs: Floats
    answers: Floats
    steps: int


def _explore(
    policy: Policy, task: Task, trials: int, horizon: int, seed: int, groups: int = 1
) -> list[Group]:
    """Run episodes with exploration noise and return their steps, in groups of episodes."""
    run = run_episodes(policy, task, trials, horizon, seed, deterministic=False)
    parts = np.array_split(np.arange(trials), groups)
    return [_steps(run, part, task) for part in parts]


def _steps(run: Episodes, part: NDArray[np.int64], task: Task) -> Group:
    space = task.action_space
    low, high = space.low.ravel(), space.high.ravel()
    there = np.arange(run.rewards.shape[1]) < run.lengths[part, None]
    before, after = run.observations[part, :-1][there], run.observations[part, 1:][there]
    actions, rewards = np.clip(run.actions[part], low, high)[there], run.rewards[part][there]
    inputs, answers = np.hstack([before, actions]), np.column_stack([after - before, rewards])
    # Evenly thinned: neighbours in time say nearly the same.
    kept = np.unique(np.linspace(0, len(inputs) - 1, _STEPS).astype(int))
    return Group(inputs[kept], answers[kept], len(inputs))


class _Judge:
    """Models of the trained tasks, and how far to trust them.

    The model of a task is what all tasks share plus what is its own: one ridge regression for
    all, in which each has its price. ``models[g]``, shape (features, N, outputs), has not seen
    group g of any task.
    """

    def __init__(self, features: _Features, models: list[Floats], own: list[list[Group]]) -> None:
        self._features, self._models = features, models
        # Errors on unseen groups of the tasks' own: (N, GROUPS) arrays of shape (n, N, outputs).
        unseen = [[self._errors(group, g) for g, group in enumerate(task)] for task in own]
        mine = [[part[:, i] for part in parts] for i, parts in enumerate(unseen)]
        every = np.concatenate([part for parts in mine for part in parts])
        self._spread = np.median(np.abs(every), axis=0) + _NOTHING
        self._sizes = np.array([_size(np.concatenate(parts)) for parts in mine])
        scores = np.array([[self._score(part) for part in parts] for parts in unseen])
        self._scale = _fitted_scale(scores)
        self._trials = scores.shape[0] * scores.shape[1]
        relative = [
            np.mean(_size(part) / size)
            for parts, size in zip(mine, self._sizes, strict=True)
            for part in parts
        ]
        self.usual = _usual(np.array(relative))

    @classmethod
    def of(cls, own: list[list[Group]], seed: int) -> _Judge:
        """Return the judge whose models predict unseen groups of their own tasks best."""
        best: tuple[float, Any] = (np.inf, None)
        for width in _WIDTHS:
            features = _Features(own, width, seed)
            sums = [[features.sums(group) for group in task] for task in own]
            for ridges in _RIDGES:
                models = [_fit(sums, g, *ridges) for g in range(len(own[0]))]
                error = np.mean(
                    [
                        np.mean(np.abs(features.answers(group) - features(group) @ models[g][:, i]))
                        for i, task in enumerate(own)
                        for g, group in enumerate(task)
                    ]
                )
                if error < best[0]:
                    best = float(error), (features, models)
        features, models = best[1]
        return cls(features, models, own)

    def _errors(self, group: Group, g: int) -> Floats:
        """Return how far off every task's model is at a group's steps, shape (n, N, outputs)."""
        model = self._models[g]
        flat = self._features(group) @ model.reshape(len(model), -1)
        return self._features.answers(group)[:, None] - flat.reshape(-1, *model.shape[1:])

    def _score(self, errors: Floats) -> Floats:
        """Return the log-likelihoods of a group's errors, shape (N,), up to a constant."""
        squares = (errors / self._spread) ** 2
        return np.asarray(-0.5 * (_FREEDOM + 1) * np.log1p(squares / _FREEDOM).sum(axis=(0, 2)))

    def __call__(self, group: Group) -> tuple[Floats, Floats]:
        """Return the probabilities of the tasks for a new group, and their relative errors."""
        errors = [self._errors(group, g) for g in range(len(self._models))]
        score = np.mean([self._score(one) for one in errors], axis=0)
        probabilities = _softmax(self._scale * score)
        # So many trials, were they all right, support no more certainty than this.
        doubt = 1.0 / (self._trials + 2)
        probabilities = (1.0 - doubt) * probabilities + doubt / len(probabilities)
        sizes = np.mean([_size(one) for one in errors], axis=0)
        return probabilities, np.mean(sizes / self._sizes, axis=1)


class _Features:
    """What models are linear in: a constant, the inputs, and Gaussians around some of them."""

    def __init__(self, own: list[list[Group]], width: float, seed: int) -> None:
        inputs = np.concatenate([group.inputs for task in own for group in task])
        answers = np.concatenate([group.answers for task in own for group in task])
        self._middle, self._width = inputs.mean(axis=0), _or_one(inputs.std(axis=0))
        self._mean, self._spread = answers.mean(axis=0), _or_one(answers.std(axis=0))
        count = min(_CENTRES, len(inputs) // 2)
        scaled = (inputs - self._middle) / self._width
        chosen = np.random.default_rng([seed, _CENTRES]).choice(len(inputs), count, replace=False)
        self._centres = scaled[chosen]
        self._factor = 0.5 / (width**2 * max(1.0, inputs.shape[1] / 3.0))

    def __call__(self, group: Group) -> Floats:
        """Return the features of a group's steps, shape (n, features)."""
        scaled = (group.inputs - self._middle) / self._width
        squares = (
            np.sum(scaled**2, axis=1)[:, None]
            + np.sum(self._centres**2, axis=1)
            - 2.0 * scaled @ self._centres.T
        )
        bumps = np.exp(-self._factor * squares)
        return np.hstack([np.full((len(scaled), 1), _STRAIGHT), _STRAIGHT * scaled, bumps])

    def answers(self, group: Group) -> Floats:
        """Return what followed, in standard deviations of each number."""
        return np.asarray((group.answers - self._mean) / self._spread)

    def sums(self, group: Group) -> tuple[Floats, Floats]:
        """Return ΦᵀΦ and ΦᵀY of a group, all that a regression needs of it."""
        phi = self(group)
        return phi.T @ phi, phi.T @ self.answers(group)


def _fit(
    sums: list[list[tuple[Floats, Floats]]], without: int, shared: float, own: float
) -> Floats:
    """Return W_0 + W_i of every task, shape (features, N, outputs).

    They minimise Σ_i |Y_i − Φ_i (W_0 + W_i)|² + shared |W_0|² + own Σ_i |W_i|².
    """
    grams, products = (
        np.array([sum(one[k] for g, one in enumerate(task) if g != without) for task in sums])
        for k in (0, 1)
    )
    size = grams.shape[1]
    identity = np.eye(size) * np.trace(grams[0]) / size
    # W_i = H_i (ΦᵀY_i − ΦᵀΦ_i W_0) with H_i = (ΦᵀΦ_i + own)⁻¹; put in, what is left fixes W_0.
    both = np.linalg.solve(grams + own * identity, np.concatenate([grams, products], axis=2))
    left, right = both[:, :, :size], both[:, :, size:]
    ratio = shared / own * np.eye(size)
    common = np.linalg.solve(left.sum(axis=0) + ratio, right.sum(axis=0))
    return np.asarray((common + right - left @ common).transpose(1, 0, 2))


def _fitted_scale(scores: Floats) -> float:
    """Return the scale of the scores, shape (N, groups, N), that was right for the tasks' own.

    It makes the right tasks as probable as it can; a scale that is too large is punished by every
    group that is taken for another task's.
    """
    right = np.arange(len(scores))
    likely = [np.log(_softmax(scale * scores)[right, :, right] + 1e-300).sum() for scale in _SCALES]
    # Where all are told apart, larger scales add nothing: the smallest that does as well.
    best = max(likely)
    return float(_SCALES[int(np.argmax(np.array(likely) >= best - 0.1))])


def _usual(errors: Floats) -> float:
    """Return what one more such error is seldom above: all that were seen, and Student's bound."""
    logarithms, n = np.log(errors), len(errors)
    margin = student_quantile(_USUAL, n - 1) * np.sqrt(1.0 + 1.0 / n)
    bound = logarithms.mean() + margin * logarithms.std(ddof=1)
    return float(np.exp(max(bound, logarithms.max())))


def _size(errors: Floats) -> Floats:
    """Return the mean size of errors, shape (n, …, outputs), over the steps."""
    return np.asarray(np.abs(errors).mean(axis=0) + _NOTHING)


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _or_one(numbers: Floats) -> Floats:
    return np.where(numbers > 0.0, numbers, 1.0)
