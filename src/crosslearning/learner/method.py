"""What a method of learning is: it says where the policies should go, and nothing else.

A method proposes; the core moves the policies there, projects them onto the constraint, prunes
them and reports. So every method ends an iteration in the same way, and what is promised of the
distances and of pruning holds for all of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError, NumericalError
from crosslearning.learner.iterate import Iterate
from crosslearning.learner.report import IterationReport, StopDecision
from crosslearning.learner.sampling import Sampling
from crosslearning.learner.settings import METHODS, LearnerSettings
from crosslearning.rkhs import Kernel
from crosslearning.rollouts import Episodes, Executor, Noise

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Momentum:
    """Functions of the method's own that move the policies: one for each task.

    They are kept on the common dictionary, after the policies and the central one. First they are
    multiplied by ``keep``, then ``weights`` are added to them, then policy i moves by
    ``lengths[i]`` times the i-th of them.

    Attributes
    ----------
    keep : float
    weights : array, shape (n, N, p)
    lengths : array, shape (N,)
    """

    keep: float
    weights: Floats
    lengths: Floats


@dataclass(frozen=True)
class Improvement:
    """Where a method wants the policies to go, and what it saw on the way.

    Attributes
    ----------
    knots : array, shape (n, q)
    weights : array, shape (n, N, p)
        Policy i becomes h_i + Σ_m κ(knots[m], ·) weights[m, i].
    steps, episodes : int
        Environment steps that were taken, and rollouts that were begun, over all tasks.
    returns : array, shape (N,)
        Estimates of the discounted returns of the policies before the step.
    numbers : mapping of str to array, shape (N,)
        What else the method tells of every task; lines of metrics hold their means.
    momentum : Momentum, optional
    """

    knots: Floats
    weights: Floats
    steps: int
    episodes: int
    returns: Floats
    numbers: Mapping[str, Floats] = field(default_factory=dict)
    momentum: Momentum | None = None


class Method(Protocol):
    """A way of learning.

    ``Method(executor, settings, kernel)`` makes one; settings are those of its own package.
    """

    @property
    def functions(self) -> int:
        """How many functions of its own the method keeps on the dictionary."""

    @property
    def round_finished(self) -> bool:
        """Whether all that was seen has been learned from, so that one may end here."""

    @property
    def noise(self) -> Noise:
        """The exploration noise of the policies."""

    def __init__(self, executor: Executor, settings: Any, kernel: Kernel) -> None:
        """Begin."""

    def begin(self, episodes: Episodes) -> None:
        """See the episodes that were looked at before learning began, if there were any."""

    def use_data_of(self, other: Method) -> None:
        """Know what the method of another learner, of related tasks, can tell of them."""

    def improve(self, iterate: Iterate) -> Improvement:
        """Say where the policies should go from here; draws from the iterate's generator alone.

        Whatever is raised before it returns must leave the method as it was.
        """

    def stop_decision(self, iterate: Iterate, improvement: Improvement) -> StopDecision:
        """Say, after the iteration that this improvement led to, whether to stop."""

    def why(self, report: IterationReport) -> str:
        """Return the sentence that says why the method stopped here."""

    def transfer_settings(self) -> dict[str, Any]:
        """Return settings that a learner which goes on from these policies should begin with."""

    @property
    def sampling(self) -> Sampling:
        """How gradients at the policies are sampled, for whoever certifies them."""

    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Return all that the next iteration depends on: arrays, and plain data."""

    def restore(self, arrays: Mapping[str, Floats], numbers: Mapping[str, Any]) -> None:
        """Take a state back, or raise FileFormatError if it does not fit."""


def each_action(name: str, given: tuple[float, ...], outputs: int) -> Floats:
    """Return one number for each of the actions, or say that there are too few or too many."""
    if len(given) not in (1, outputs):
        raise InputError(
            f"{name} has {len(given)} numbers, but the tasks have {outputs} actions; give one "
            "number, or one for each action"
        )
    return np.array(given * outputs if len(given) == 1 else given, dtype=np.float64)


def part_of(arrays: Mapping[str, Floats], name: str) -> dict[str, Floats]:
    """Return the arrays of a method's state that belong to one of its parts."""
    own = f"{name}."
    return {key.removeprefix(own): array for key, array in arrays.items() if key.startswith(own)}


def too_large(task: str) -> NumericalError:
    """Return the error for a task whose gradient float64 cannot hold."""
    return NumericalError(
        f"the gradient of task {task!r} is too large for float64; scale its rewards, for "
        "instance with gymnasium.wrappers.TransformReward. The iteration was not applied"
    )


def make_method(executor: Executor, settings: LearnerSettings, kernel: Kernel) -> Method:
    """Return the method that the settings name, from its package."""
    package, name = METHODS[settings.method]
    module = importlib.import_module(f"crosslearning.learner.{package}.method")
    method: Method = getattr(module, f"{name}Method")(executor, settings, kernel)
    return method
