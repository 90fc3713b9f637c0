"""Which policies are kept: those with the best lower bounds or expectations, task by task.

Learning goes on from the last policies, and may make them worse. A learner also keeps, for each
task, the policy whose gain over the first one, such as the controller in use, has the highest lower
bound. The first policy gains 0: it stays wherever no other is sure to gain 1 % of its return.

Without a controller there is nothing to protect, and no policy need be sure. With
``keep="expected"`` a learner keeps, for each task, the policy of the round that just ended unless
the models expect it to lose 1 % of the policy kept so far; the first ones are never kept.

Policies that were kept at different iterations must still be within ε of one centre. So the centre
is that of the first policies, of those kept so far or of the current ones, and for each task only
policies within ε of it can be chosen. Of these choices, the one with the highest sum of lower
bounds, or of expected gains, is taken, in which a centre counts as the mean of the policies that it
was learned with. A choice that has to take a policy with a negative lower bound is not possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from crosslearning._base.statistics import student_quantile
from crosslearning.errors import FileFormatError, InputError
from crosslearning.learner.settings import LearnerSettings
from crosslearning.rkhs import Family, Kernel, prune
from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rkhs.program import Expansion

#: The one-sided confidence of a lower bound.
CONFIDENCE = 0.95
#: A lower bound is taken less this share of the first policy's return: a smaller gain is not worth
#: a change, and what comparisons by few starts and uncertain models miss is of that size.
WORTH = 0.01


class Candidate(NamedTuple):
    """Policies h_1 … h_N and g, and what is known of them."""

    family: Family
    iterations: Integers  #: after which each task's policy was learned; 0 for the first ones
    #: Lower bounds of the gain in return over the first policies, less WORTH; or expected gains
    #: over the policies kept so far, and WORTH for newer ones. Shape (N,).
    gains: Floats


def predicted_gain(gains: Floats, own: int = 0) -> float:
    """Return the lower bound of a gain that was imagined in S models from K starts, shape (S, K).

    The models are samples of a posterior, of which the machine is one more: the bound is that of
    a prediction, σ √(1 + 1/S) below the mean of the models. The starts are a sample of those to
    come, on which the gain is a mean: their standard error is added.

    Of the starts the first ones, ``own`` of them, may be the machine's own. Models differ less
    there than where other machines began, but they are fewer: the higher of both bounds counts,
    unless a loss is expected from all starts.
    """
    S, K = gains.shape
    spread = np.var(gains.mean(axis=0), ddof=1) if K > 1 else 0.0
    quantile, bounds = student_quantile(CONFIDENCE, S - 1), []
    for count in {K, own or K}:
        means = gains[:, :count].mean(axis=1)
        variance = np.var(means, ddof=1) * (1.0 + 1.0 / S) + spread / count
        bounds.append(float(means.mean() - quantile * math.sqrt(variance)))
    return max(bounds) if gains.mean() > 0.0 else min(bounds)


def seen_gain(first: Floats, last: Floats, blocks: int = 5) -> float:
    """Return the upper bound of the gain in reward per step, from two real episodes' rewards.

    Neighbouring steps are alike, so means of blocks are compared, at the same times of both
    episodes. Infinite for episodes that are too short.
    """
    length = min(len(first), len(last)) // blocks
    if not length:
        return math.inf
    both = np.array([first[: length * blocks], last[: length * blocks]])
    means = both.reshape(2, blocks, length).mean(axis=2)
    gains = means[1] - means[0]
    error = float(np.std(gains, ddof=1)) / math.sqrt(blocks)
    return float(gains.mean()) + student_quantile(CONFIDENCE, blocks - 1) * error


def choose(candidates: Sequence[Candidate], settings: LearnerSettings) -> Candidate:
    """Return the policies to keep, in one family within ε; the first candidate gains 0.

    Where two are equal, the earlier candidate is taken. No policy with a negative lower bound is
    kept; expected losses of some tasks may be outweighed by the gains of others.
    """
    N, epsilon = len(candidates[0].gains), settings.epsilon
    together = _together([one.family for one in candidates])
    gains = np.array([one.gains for one in candidates])
    best, choice, centre = -math.inf, np.zeros(N, dtype=np.int64), 0
    for number in range(len(candidates)):
        distances = _distances(together, number * (N + 1) + N, N)
        allowed = distances <= epsilon
        allowed[number] = True
        possible = np.where(allowed, gains, -math.inf)
        chosen = possible.argmax(axis=0)
        if settings.projection == "relaxed" and np.any(chosen != number):
            squares = distances[chosen, np.arange(N)] ** 2
            if np.mean(squares) > epsilon**2:
                continue
        value = possible.max(axis=0).mean() + gains[number].mean()
        no_loss = settings.keep == "expected" or possible.max(axis=0).min() >= 0.0
        if no_loss and value > best:
            best, choice, centre = value, chosen, number
    tasks = np.arange(N)
    iterations = np.array([one.iterations for one in candidates])[choice, tasks]
    family = candidates[centre].family
    if np.any(choice != centre):
        family = _without_idle_knots(
            together.select(*(choice * (N + 1) + tasks).tolist(), centre * (N + 1) + N), settings
        )
    return Candidate(family, iterations, gains[choice, tasks])


def _together(families: Sequence[Family]) -> Family:
    """Return all functions on the union of the knots."""
    first = families[0]
    knots = np.concatenate([family.knots for family in families])
    if not len(knots):
        return Family.zeros(first.kernel, len(families) * first.functions, first.outputs)
    unique, index = np.unique(knots, axis=0, return_inverse=True)
    weights = np.zeros((len(unique), len(families) * first.functions, first.outputs))
    place = 0
    for number, family in enumerate(families):
        own = slice(number * first.functions, (number + 1) * first.functions)
        np.add.at(weights[:, own], index[place : place + len(family.knots)], family.weights)
        place += len(family.knots)
    return Family(first.kernel, unique, weights)


def _distances(together: Family, centre: int, tasks: int) -> Floats:
    """Return the distances of all candidates' policies from a function, shape (candidates, N)."""
    if not len(together.knots):
        return np.zeros((together.functions // (tasks + 1), tasks))
    _ = together.gram  # once for all
    minus = np.eye(together.functions)
    minus[:, centre] -= 1.0
    return together.mix(minus).norms().reshape(-1, tasks + 1)[:, :tasks]


def _without_idle_knots(family: Family, settings: LearnerSettings) -> Family:
    """Return a mixed family pruned as an iteration's is, unless rounding would break ε."""
    used = np.any(family.weights != 0.0, axis=(1, 2))
    if not np.any(used):
        return Family.zeros(family.kernel, family.functions, family.outputs)
    family = Family(family.kernel, family.knots[used], family.weights[used])
    pruned, _ = prune(family, settings.budget, settings.max_knots)
    limits = np.maximum(settings.epsilon, family.distances())
    return pruned if np.all(pruned.distances() <= limits) else family


#: Runs the episodes of an iteration again, from the same starts with the same noise, by other
#: policies: their returns, shape (N, n), and the environment steps.
Again = Callable[[Expansion], tuple[Floats, int]]


class Keeper:
    """The policies that a learner keeps, and the real returns that decide where nothing else does.

    Methods without models compare the returns of an iteration's episodes with those of the first
    one, in which the first policies act. Noise may have shrunk since, and the best of many
    comparisons is luck. So a policy that looks better is tested: the first policies run the same
    episodes again. The j-th test has the confidence 1 − δ/(j(j + 1)), so that with 1 − δ = 95 % no
    test of a task is wrong.
    """

    def __init__(self, start: Family, settings: LearnerSettings) -> None:
        N = start.functions - 1
        self.settings = settings
        #: The first policies.
        self.start = Candidate(start, np.zeros(N, dtype=np.int64), np.zeros(N))
        self.kept = self.start
        #: Means of the first returns and their squared standard errors, shape (2, N).
        self.first: Floats | None = None
        #: How many tests were made.
        self.tests = 0

    def choose(self, current: Candidate, kept: Candidate) -> Candidate:
        """Return which to keep: the first policies, those kept so far, or the current ones."""
        first = [] if self.settings.keep == "expected" else [self.start]
        return choose([*first, kept, current], self.settings)

    def saw(
        self, returns: Floats, iteration: int, family: Callable[[], Family], again: Again | None
    ) -> int:
        """Take in real returns (N, n) of the policies after an iteration, ``family()``.

        Returns the environment steps of a test; without ``again`` there is none.
        """
        n = returns.shape[1]
        if n < 2:
            return 0
        now = np.array([returns.mean(axis=1), returns.var(axis=1, ddof=1) / n])
        if self.first is None:
            self.first = now
            return 0
        margin = student_quantile(CONFIDENCE, n - 1) * np.sqrt(now[1] + self.first[1])
        looks_worse = np.all(now[0] - self.first[0] - margin <= np.maximum(self.kept.gains, 0.0))
        if again is None or looks_worse:
            return 0
        before, steps = again(self.start.family.expansion)
        self.tests += 1
        level = 1.0 - (1.0 - CONFIDENCE) / (self.tests * (self.tests + 1))
        gains = returns - before
        errors = gains.std(axis=1, ddof=1) / math.sqrt(n)
        bounds = gains.mean(axis=1) - student_quantile(level, n - 1) * errors
        bounds -= WORTH * np.abs(before.mean(axis=1))
        current = Candidate(family(), np.full(len(bounds), iteration), bounds)
        self.kept = self.choose(current, self.kept)
        return steps

    # Files -----------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Return everything that later choices depend on."""
        arrays = {"gains": self.kept.gains.copy()}
        for name, one in (("start", self.start.family), ("policies", self.kept.family)):
            arrays |= {f"{name}.knots": one.knots.copy(), f"{name}.weights": one.weights.copy()}
        if self.first is not None:
            arrays["first"] = self.first.copy()
        return arrays, {"iterations": self.kept.iterations.tolist(), "tests": self.tests}

    def restore(self, kernel: Kernel, arrays: Mapping[str, Floats], numbers: Any) -> None:
        """Restore a state, or raise FileFormatError if it does not fit."""
        N, p = len(self.start.gains), self.start.family.outputs
        start, kept = (_read_family(kernel, arrays, name) for name in ("start", "policies"))
        iterations = np.array(numbers["iterations"], dtype=np.int64)
        gains, first = arrays["gains"], arrays.get("first")
        shapes = {start.weights.shape[1:], kept.weights.shape[1:]}
        fits = shapes == {(N + 1, p)} and gains.shape == iterations.shape == (N,)
        fits &= bool(np.all(np.isfinite(gains))) and type(numbers["tests"]) is int
        if not fits or (first is not None and first.shape != (2, N)):
            raise FileFormatError("its parts do not fit together: the kept policies")
        self.start = self.start._replace(family=start)
        self.kept = Candidate(kept, iterations, gains.copy())
        self.first, self.tests = None if first is None else first.copy(), numbers["tests"]


def _read_family(kernel: Kernel, arrays: Mapping[str, Floats], name: str) -> Family:
    knots, weights = arrays[f"{name}.knots"], arrays[f"{name}.weights"]
    try:
        if not len(knots):
            return Family.zeros(kernel, weights.shape[1], weights.shape[2])
        return Family(kernel, knots, weights)
    except (InputError, LookupError) as problem:
        raise FileFormatError(f"its parts do not fit together: {problem}") from problem
