"""Algorithm 2, one iteration at a time: a method proposes a step of the policies, and nothing else.

The core applies the step, projects the policies onto the constraint, prunes them and reports. So
every method ends an iteration in the same way, and the guarantees on distances and pruning hold
for all of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from crosslearning.errors import FileFormatError, InputError, NumericalError
from crosslearning.learner.gradients import ESTIMATORS
from crosslearning.learner.keeping import Again, Candidate, Keeper
from crosslearning.learner.sampling import Sampling
from crosslearning.learner.settings import LearnerSettings
from crosslearning.rkhs import Dictionary, Family, Kernel, Projection, PruningCertificate
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.program import Expansion
from crosslearning.rollouts import Episodes, Executor, Noise

#: Squares of sums of such rewards are still finite.
_LARGEST_REWARD = 1e100
#: Rewards that differ by less, relatively, are the same up to the rounding of their means.
_ROUNDING = 1e-12
Arrays = Mapping[str, Floats]
#: What the next iteration depends on, for a file: arrays by name, and plain data.
State = tuple[dict[str, Floats], dict[str, Any]]


# Reports ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class GapCheck:
    """A check of the stationarity gaps on a separate batch, after an iteration's step.

    With probability 1 − δ no bound of any check of the run and of any task is too low.
    """

    number: int  #: j, from 1
    bounds: Floats  #: upper confidence bounds of the true gaps, shape (N,)
    level: float  #: the confidence of each bound: 1 − δ/(j(j+1)N)
    samples: int  #: of each task
    steps: int  #: environment steps, over all tasks

    @property
    def bound(self) -> float:
        """The largest upper bound of any task."""
        return float(np.max(self.bounds))


class StopDecision(NamedTuple):
    """Whether to stop after an iteration, the check, and numbers that are known only then."""

    stop: bool = False
    check: GapCheck | None = None
    numbers: Arrays = MappingProxyType({})


@dataclass(frozen=True)
class IterationReport:
    """The numbers of one iteration of Algorithm 2.

    Attributes
    ----------
    iteration : int
        k, from 1.
    steps, episodes : int
        Environment steps and rollouts, without those of a check.
    returns : array, shape (N,)
        Estimates of the discounted returns U_i of the policies before the step.
    numbers : mapping of str to array, shape (N,)
        Statistics of the method. Policy gradient: ``gradient_norm``, ‖∇̂_i‖, and ``gap``, the
        stationarity gap max ⟨∇̂_i, h − h_i⟩ over feasible h, infinite for ε = ∞. Trust region:
        ``total_return`` and ``length`` of the episodes, ``kl`` of the step, ``entropy`` of the
        noise, ``explained_variance`` of the critic, and the rates of the tasks' outcomes, such as
        ``crashed``; NaN where unknown.
    distances : array, shape (N,)
        ‖h_i − g‖ after the projection; pruning, which follows, cannot lengthen them.
    projection : Projection
    pruning : PruningCertificate
    stop : bool
        Whether the method's stopping rule applies.
    check : GapCheck, optional
        If the gaps of the policies after the step were checked.

    Examples
    --------
    >>> from crosslearning import CrossLearner, PolicyGradient
    >>> learner = CrossLearner("paper", PolicyGradient(epsilon=3.0))
    >>> reports = []
    >>> _ = learner.learn(2, callback=reports.append)
    >>> reports[-1].iteration, bool((reports[-1].distances <= 3.0).all())
    (2, True)
    """

    iteration: int
    steps: int
    episodes: int
    returns: Floats
    numbers: Arrays
    distances: Floats
    projection: Projection
    pruning: PruningCertificate
    stop: bool = False
    check: GapCheck | None = None


# The iterate ------------------------------------------------------------------------------


class Iterate:
    """The policies on their common dictionary, the generator and the counters.

    The dictionary holds h_1 … h_N, then g, then ``more`` functions of the method. The pruning
    budget guards the policies and g.
    """

    def __init__(
        self, kernel: Kernel, settings: LearnerSettings, tasks: int, outputs: int, more: int
    ) -> None:
        self.settings, self.tasks = settings, tasks
        # Algorithm 2, line 1: all functions are zero.
        self.dictionary = Dictionary(kernel, tasks + 1 + more, outputs, guarded=tasks + 1)
        self.generator = np.random.default_rng(settings.seed)
        self.iteration = self.steps = 0
        #: The most steps in all, and since which iteration; None: as many as it takes. They are
        #: part of what was learned, since the last iteration before a limit may be shorter.
        self.step_limits: list[tuple[int, int | None]] = []
        #: None where the last policies are the ones to use.
        self.keeper: Keeper | None = None

    def allow(self, most_steps: int | None) -> None:
        """Set how many environment steps may be taken in all; None: as many as it takes."""
        if most_steps != (self.step_limits[-1][1] if self.step_limits else None):
            self.step_limits.append((self.iteration, most_steps))

    @property
    def steps_left(self) -> float:
        """How many environment steps may still be taken."""
        most = self.step_limits[-1][1] if self.step_limits else None
        return math.inf if most is None else most - self.steps

    @property
    def policies(self) -> Expansion:
        """The functions for rollouts; function i acts in task i."""
        return self.dictionary.expansion

    @property
    def family(self) -> Family:
        """The policies h_1 … h_N and g, as a value."""
        return self.dictionary.family(self.tasks + 1)

    def padded(self, weights: Floats) -> Floats:
        """Return weights (n, m, p) of the first m functions as weights of all, the rest zero."""
        n, m, p = weights.shape
        full = np.zeros((n, self.dictionary.functions, p))
        full[:, :m] = weights
        return full

    def start_from(self, family: Family) -> None:
        """Set the initial policies and g: one function for all, or N + 1."""
        if len(family.knots):
            shape = (len(family.knots), self.tasks + 1, family.outputs)
            weights = np.broadcast_to(family.weights, shape)
            self.dictionary.extend(family.knots, self.padded(weights))

    def saw(self, returns: Floats, again: Again | None) -> int:
        """Take in real returns (N, n) of the policies; return the steps of a test of them.

        Nothing is tested if there is no ``again``, for want of steps.
        """
        if self.keeper is None:
            return 0
        return self.keeper.saw(returns, self.iteration, lambda: self.family, again)

    def distances(self) -> Floats:
        """Return ‖h_i − g‖, shape (N,), in the dictionary's geometry."""
        return np.sqrt(np.maximum(np.diag(self.dictionary.differences()), 0.0))

    def radii(self) -> Floats:
        """Return how far from g each policy may be while g and the others stay, shape (N,).

        ε; or, if the projection is the relaxed one, what the others leave of Nε².
        """
        N, epsilon = self.tasks, self.settings.epsilon
        if self.settings.projection == "relaxed" and math.isfinite(epsilon):
            squares = self.distances() ** 2
            left = N * epsilon**2 - (squares.sum() - squares)
            return np.asarray(np.sqrt(np.maximum(left, 0.0)))
        return np.full(N, epsilon)


# Methods ----------------------------------------------------------------------------------


class Momentum(NamedTuple):
    """One momentum function for each task, kept on the dictionary after the policies and g.

    The functions are multiplied by ``keep``, then the step's weights are added, then policy i
    moves by ``lengths[i]`` times the i-th of them; lengths have shape (N,).
    """

    keep: float
    lengths: Floats


@dataclass(frozen=True)
class Improvement:
    """The step that a method proposes, and the statistics of the rollouts behind it.

    Function i of the dictionary becomes f_i + Σ_k κ(knots[k], ·) weights[k, i].
    """

    knots: Floats  #: shape (n, q)
    weights: Floats  #: shape (n, m, p), of the policies alone, m = N, or of all functions
    steps: int  #: environment steps, over all tasks
    episodes: int  #: rollouts, over all tasks
    returns: Floats  #: estimates of the returns of the policies before the step, shape (N,)
    numbers: Arrays = field(default_factory=dict)  #: further statistics of every task
    momentum: Momentum | None = None


class Method(ABC):
    """A learning method, with the defaults of one without data and stopping rule.

    ``Method(executor, settings, kernel)`` makes one, with its settings class.
    """

    def __init__(self, executor: Executor, settings: Any, kernel: Kernel, noise: str) -> None:
        self.executor, self.settings, self.kernel = executor, settings, kernel
        self.outputs = executor.tasks[0].action_size
        scale = _each_action(noise, getattr(settings, noise), self.outputs)
        #: The exploration noise of the policies, from the setting named ``noise``.
        self.noise = Noise(scale if noise == "action_variance" else scale**2)
        #: The reward of all steps so far, until it varies.
        self._reward: float | None = None
        self._varied = False

    @property
    def functions(self) -> int:
        """How many functions the method keeps on the dictionary."""
        return 0

    @property
    def round_finished(self) -> bool:
        """Whether the policies have been updated with all data, so that learning may end here."""
        return True

    @property
    def sampling(self) -> Sampling:
        """How certificates sample gradients at the policies: by default as the paper's method."""
        paper, gamma = ESTIMATORS["antithetic"], self.settings.gamma
        return Sampling(self.executor, paper, self.kernel, self.noise, gamma)

    def watch_rewards(
        self, iteration: int, rewards: Floats, terminated: bool = False, patience: int = 1
    ) -> None:
        """Refuse rewards that were the same in every step, of every task, for some iterations.

        Unless an episode terminated: then its length makes the difference, if they are not zero.
        """
        if self._varied or iteration >= patience:
            return
        if self._reward is None:
            self._reward = float(rewards[0])
        only = self._reward
        same = np.max(np.abs(rewards - only)) <= _ROUNDING * abs(only)
        self._varied = not same or (terminated and only != 0.0)
        if not self._varied and iteration == patience - 1:
            raise InputError(
                f"the reward was {only:g} in every step of every task so far: no policy is better "
                "than another. Check the reward; if it changes at a goal alone, reward the way to "
                "it, or begin nearer to it"
            )

    def begin(self, parts: Sequence[Episodes]) -> None:  # noqa: B027  (most do not use them)
        """Use the episodes of the initial exploration."""

    def use_data_of(self, other: Method) -> None:  # noqa: B027
        """Use the data of another learner's method, whose tasks are related."""

    def steps_needed(self, iterate: Iterate) -> int:
        """Return the fewest environment steps with which the next iteration can be made."""
        return len(self.executor.tasks)

    @abstractmethod
    def improve(self, iterate: Iterate) -> Improvement:
        """Propose a step; random numbers come from the iterate's generator alone.

        It takes no more environment steps than are left, if those that it needs are.
        An exception that a rollout raises must leave the method unchanged.
        """

    def gains(self, iterate: Iterate, first: Family, kept: Candidate) -> Floats | None:
        """Return lower bounds of gains over the ``first`` policies, if not by real returns.

        Of the policies that are kept and of the iterate's, shape (2, N); None as long as nothing
        is known of them. With ``keep="expected"``, expected gains over those that are kept.
        """
        return None

    def stop_decision(self, iterate: Iterate, improvement: Improvement) -> StopDecision:
        """Decide, after the core applied this improvement, whether to stop."""
        return StopDecision()

    def why(self, report: IterationReport) -> str:
        """Return the sentence that explains the stop."""
        return "the method has no rule to stop by."

    def transfer_settings(self) -> dict[str, Any]:
        """Return settings for a learner that starts from these policies."""
        return {}

    @abstractmethod
    def state(self) -> State:
        """Return everything that the next iteration depends on: arrays, and plain data."""

    @abstractmethod
    def restore(self, arrays: Arrays, numbers: Mapping[str, Any]) -> None:
        """Restore a state, or raise FileFormatError if it does not fit."""


def _each_action(name: str, given: tuple[float, ...], outputs: int) -> Floats:
    """Return one number for each action, or refuse too few or too many."""
    if len(given) not in (1, outputs):
        raise InputError(
            f"{name} has {len(given)} numbers, but the tasks have {outputs} actions; give one "
            "number, or one for each action"
        )
    return np.array(given * outputs if len(given) == 1 else given, dtype=np.float64)


def too_large(task: str) -> NumericalError:
    """Return the error for a task whose gradient overflows float64."""
    return NumericalError(
        f"the gradient of task {task!r} is too large for float64; scale its rewards, for "
        "instance with gymnasium.wrappers.TransformReward. The iteration was not applied"
    )


def refuse_huge_rewards(executor: Executor, episodes: Episodes) -> None:
    """Refuse rewards so large that squares of their sums overflow."""
    for task, rewards in zip(executor.tasks, episodes.rewards, strict=True):
        if np.max(np.abs(rewards)) > _LARGEST_REWARD:
            raise too_large(task.name)


# The core ---------------------------------------------------------------------------------


class Core:
    """Applies the method's steps to the policies, and keeps them on the constraint."""

    def __init__(self, iterate: Iterate, method: Method) -> None:
        self.iterate, self.method = iterate, method
        if iterate.settings.compares:
            iterate.keeper = Keeper(iterate.family, iterate.settings)

    @property
    def keeper(self) -> Keeper | None:
        """What is kept; None where the last policies are the ones to use."""
        return self.iterate.keeper

    @property
    def kept(self) -> Candidate:
        """The policies with the best lower bounds, if they are compared."""
        assert self.keeper is not None
        # Within a round the current ones are compared as they are.
        return self.keeper.kept if self.method.round_finished else self._compared(self.keeper)

    def _compared(self, keeper: Keeper) -> Candidate:
        iterate = self.iterate
        iterations = np.full(iterate.tasks, iterate.iteration)
        if iterate.settings.keep == "expected" and not keeper.kept.iterations.any():
            return Candidate(iterate.family, iterations, np.zeros(iterate.tasks))
        gains = self.method.gains(iterate, keeper.start.family, keeper.kept)
        if gains is None:
            return keeper.kept
        current = Candidate(iterate.family, iterations, gains[1])
        return keeper.choose(current, keeper.kept._replace(gains=gains[0]))

    def step(self) -> IterationReport:
        """Make one iteration of Algorithm 2 (lines 3 to 8)."""
        iterate, settings = self.iterate, self.iterate.settings
        dictionary = iterate.dictionary
        # Lines 3 to 5: the method proposes a step for every task.
        improvement = self._improve()
        # Line 6: take the step, then project.
        folded = self._move(improvement)
        projection = dictionary.project(settings.epsilon, settings.projection, settings.bound)
        # Line 7: CDKOMP.
        pruning = dictionary.prune(settings.budget, settings.max_knots, folded)
        iterate.iteration += 1
        iterate.steps += improvement.steps
        # Line 8: whether to stop.
        decision = self.method.stop_decision(iterate, improvement)
        if decision.check is not None:
            iterate.steps += decision.check.steps
        if self.keeper is not None and self.method.round_finished:
            self.keeper.kept = self._compared(self.keeper)
        return IterationReport(
            iteration=iterate.iteration,
            steps=improvement.steps,
            episodes=improvement.episodes,
            returns=improvement.returns,
            numbers={**improvement.numbers, **decision.numbers},
            distances=projection.distances,
            projection=projection,
            pruning=pruning,
            stop=decision.stop,
            check=decision.check,
        )

    def _improve(self) -> Improvement:
        """Call the method; if it fails, reset the generator, so that a retry is the same."""
        generator = self.iterate.generator.bit_generator
        before = generator.state
        try:
            return self.method.improve(self.iterate)
        except BaseException:
            generator.state = before
            raise

    def _move(self, improvement: Improvement) -> PruningCertificate | None:
        """Add each task's step to its policy: h̄_i = h_i + η_i ∇̂_i, or along its momentum.

        If there are many new knots, most are pruned at once; then the certificate is returned.
        """
        dictionary, settings = self.iterate.dictionary, self.iterate.settings
        weights, momentum = self.iterate.padded(improvement.weights), improvement.momentum
        N, first = self.iterate.tasks, self.iterate.tasks + 1
        if momentum is not None:
            dictionary.scale(first, momentum.keep)
        if not dictionary.crowded_by(len(weights), settings.max_knots):
            dictionary.extend(improvement.knots, weights)
            if momentum is not None:
                dictionary.add_multiples(first, momentum.lengths)
            return None
        if momentum is not None:
            dictionary.add_multiples(first, momentum.lengths)
            weights[:, :N] += momentum.lengths[:, None] * weights[:, first:]
        limits = settings.budget, settings.max_knots
        return dictionary.extend_within(improvement.knots, weights, *limits)

    def state(self) -> State:
        """Return everything needed to continue bit for bit."""
        iterate = self.iterate
        arrays, dictionary = iterate.dictionary.state()
        more, plain = self.method.state()
        arrays |= prefixed("method", more)
        numbers: dict[str, Any] = {}
        if iterate.step_limits:
            numbers["step_limits"] = [list(limit) for limit in iterate.step_limits]
        if self.keeper is not None:
            best, numbers["kept"] = self.keeper.state()
            arrays |= prefixed("kept", best)
        return arrays, {
            **numbers,
            "dictionary": dictionary,
            "iteration": iterate.iteration,
            "steps": iterate.steps,
            "generator": iterate.generator.bit_generator.state,
            "method": {
                "name": iterate.settings.method,
                "functions": self.method.functions,
                **plain,
            },
        }

    def restore(self, arrays: Arrays, numbers: Mapping[str, Any]) -> None:
        """Restore a state, or raise FileFormatError if it does not fit."""
        self.method.restore(part_of(arrays, "method"), numbers["method"])
        iterate, fresh = self.iterate, self.iterate.dictionary
        shared = {k: a for k, a in arrays.items() if not k.startswith(("method.", "kept."))}
        dictionary = Dictionary.from_state(fresh.kernel, shared, numbers["dictionary"])
        sizes = [(d.functions, d.outputs, d.guarded) for d in (dictionary, fresh)]
        counts = [numbers["iteration"], numbers["steps"]]
        if sizes[0] != sizes[1] or not all(type(n) is int and n >= 0 for n in counts):
            raise FileFormatError("its parts do not fit together")
        generator = numbers["generator"]
        try:
            iterate.generator.bit_generator.state = generator
        except (ValueError, TypeError, KeyError, OverflowError) as problem:
            raise FileFormatError(f"the state of its generator is damaged: {problem}") from problem
        iterate.dictionary = dictionary
        iterate.iteration, iterate.steps = counts
        iterate.step_limits = [(int(k), most) for k, most in numbers.get("step_limits", ())]
        if any(type(most) not in (int, type(None)) for _, most in iterate.step_limits):
            raise misfit("step_limits")
        if self.keeper is not None and "kept" in numbers:
            self.keeper.restore(fresh.kernel, part_of(arrays, "kept"), numbers["kept"])


# Files ------------------------------------------------------------------------------------


def part_of(arrays: Arrays, name: str) -> dict[str, Floats]:
    """Return the arrays whose names begin with ``name`` and a dot, without that prefix."""
    prefix = f"{name}."
    return {k.removeprefix(prefix): a for k, a in arrays.items() if k.startswith(prefix)}


def prefixed(name: str, arrays: Arrays) -> dict[str, Floats]:
    """Return arrays under the names that :func:`part_of` reads."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def misfit(what: str) -> FileFormatError:
    """Return the error for a part of a learner's file that does not fit the others."""
    return FileFormatError(f"its parts do not fit together: {what}")


def check_shapes(arrays: Arrays, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse arrays of a file that are not finite, or of another shape than expected."""
    for name, shape in shapes.items():
        if arrays[name].shape != shape or not np.all(np.isfinite(arrays[name])):
            raise misfit(name)
