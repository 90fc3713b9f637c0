"""The interface of a learning method: it proposes a step of the policies, and nothing else.

The core applies the step, projects the policies onto the constraint, prunes them and reports. So
every method ends an iteration in the same way, and the guarantees on distances and pruning hold
for all of them.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crosslearning.errors import FileFormatError, InputError, NumericalError
from crosslearning.learner.iterate import Iterate
from crosslearning.learner.report import IterationReport, StopDecision
from crosslearning.learner.sampling import Sampling
from crosslearning.learner.settings import METHODS, LearnerSettings
from crosslearning.rkhs import Kernel
from crosslearning.rkhs.checks import Floats
from crosslearning.rollouts import Episodes, Executor, Noise

#: Squares of sums of such rewards are still finite.
_LARGEST_REWARD = 1e100


@dataclass(frozen=True)
class Momentum:
    """One momentum function for each task, kept on the dictionary after the policies and g.

    The functions are multiplied by ``keep``, then ``weights``, shape (n, N, p), are added, then
    policy i moves by ``lengths[i]`` times the i-th of them; lengths have shape (N,).
    """

    keep: float
    weights: Floats
    lengths: Floats


@dataclass(frozen=True)
class Improvement:
    """The step that a method proposes, and the statistics of the rollouts behind it.

    Attributes
    ----------
    knots : array, shape (n, q)
    weights : array, shape (n, N, p)
        Policy i becomes h_i + Σ_m κ(knots[m], ·) weights[m, i].
    steps, episodes : int
        Environment steps and rollouts, over all tasks.
    returns : array, shape (N,)
        Estimates of the discounted returns of the policies before the step.
    numbers : mapping of str to array, shape (N,)
        Further statistics of every task; the metrics hold their means.
    momentum : Momentum, optional
    """

    knots: Floats
    weights: Floats
    steps: int
    episodes: int
    returns: Floats
    numbers: Mapping[str, Floats] = field(default_factory=dict)
    momentum: Momentum | None = None


class Method(ABC):
    """A learning method, with the defaults of one without data and stopping rule.

    ``Method(executor, settings, kernel)`` makes one, with the settings class of its package.
    """

    def __init__(self, executor: Executor, settings: Any, kernel: Kernel, noise: str) -> None:
        self.executor, self.settings, self.kernel = executor, settings, kernel
        self.outputs = executor.tasks[0].action_size
        scale = each_action(noise, getattr(settings, noise), self.outputs)
        #: The exploration noise of the policies, from the setting named ``noise``.
        self.noise = Noise(scale if noise == "action_variance" else scale**2)

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
        return Sampling.as_in_the_paper(self.executor, self.kernel, self.noise, self.settings.gamma)

    def begin(self, episodes: Episodes) -> None:  # noqa: B027  (most methods do not use them)
        """Use the episodes of the initial exploration."""

    def use_data_of(self, other: Method) -> None:  # noqa: B027
        """Use the data of another learner's method, whose tasks are related."""

    @abstractmethod
    def improve(self, iterate: Iterate) -> Improvement:
        """Propose a step; random numbers come from the iterate's generator alone.

        An exception must leave the method unchanged.
        """

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
    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Return everything that the next iteration depends on: arrays, and plain data."""

    @abstractmethod
    def restore(self, arrays: Mapping[str, Floats], numbers: Mapping[str, Any]) -> None:
        """Restore a state, or raise FileFormatError if it does not fit."""


def each_action(name: str, given: tuple[float, ...], outputs: int) -> Floats:
    """Return one number for each action, or refuse too few or too many."""
    if len(given) not in (1, outputs):
        raise InputError(
            f"{name} has {len(given)} numbers, but the tasks have {outputs} actions; give one "
            "number, or one for each action"
        )
    return np.array(given * outputs if len(given) == 1 else given, dtype=np.float64)


def part_of(arrays: Mapping[str, Floats], name: str) -> dict[str, Floats]:
    """Return the arrays whose names begin with ``name`` and a dot, without that prefix."""
    prefix = f"{name}."
    return {k.removeprefix(prefix): a for k, a in arrays.items() if k.startswith(prefix)}


def prefixed(name: str, arrays: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return arrays under the names that :func:`part_of` reads."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def misfit(what: str) -> FileFormatError:
    """Return the error for a part of a learner's file that does not fit the others."""
    return FileFormatError(f"its parts do not fit together: {what}")


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


def make_method(executor: Executor, settings: LearnerSettings, kernel: Kernel) -> Method:
    """Return the method that the settings name, from its package."""
    package, name = METHODS[settings.method]
    module = importlib.import_module(f"crosslearning.learner.{package}.method")
    method: Method = getattr(module, f"{name}Method")(executor, settings, kernel)
    return method
