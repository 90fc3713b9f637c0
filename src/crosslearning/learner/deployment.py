"""A learned policy as the controller of a machine: it takes and gives what the machine does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning._base.files import MALFORMED, read_document, write_document
from crosslearning.errors import FileFormatError, InputError
from crosslearning.learner.policy import FILE_KIND, FILE_VERSION, Policy
from crosslearning.tasks.controllers import Controller, KernelController
from crosslearning.tasks.loop import CorrectedController
from crosslearning.tasks.loop_spec import LoopSpec


class MissingController:
    """Stands in for a controller that is code, which files never carry, and says so."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __call__(self, observation: object) -> NoReturn:
        """Raise the error."""
        raise InputError(self.why)


class LearnedController(CorrectedController):
    """A policy and the loop of its task: the controller that it corrects, lags, limits and rates.

    It is used like a PID: ``reset()`` before an episode, then ``act(observation)`` at every step,
    with the machine's observations and actions. ``predict`` is the same for ``evaluate``, and it
    may be the controller that further learning starts ``around``.

    Examples
    --------
    >>> from crosslearning import PID, CrossLearner
    >>> learner = CrossLearner("pendulums:2", around=PID(kp=2.0, measured=1), epsilon=0.2)
    >>> controller = learner.learn(2, progress=False).controller(0)
    >>> controller.reset()
    >>> controller.act([1.0, 0.1, 0.0]).shape
    (1,)
    """

    def __init__(self, policy: Policy, spec: LoopSpec) -> None:
        self.policy, self.name, self.discount = policy, policy.name, policy.discount
        self._stand(self._correction, spec, policy.observations.size)

    def _correction(self, seen: NDArray[np.float64]) -> NDArray[Any]:
        if seen.size != (reads := self.policy.observations.size):
            raise InputError(
                f"the policy reads {reads} numbers, but its loop shows {seen.size}: the controller "
                "is not the one that it was learned around, whose memory it observes"
            )
        return self.policy.vector(seen.reshape(self.policy.observation_shape))

    def __repr__(self) -> str:
        spec = self.loop.spec
        signals = [", ".join(names) for names in (spec.observation_names, spec.action_names)]
        parts = [f"{signals[0]} to {signals[1]}", *describe_loop(spec)]
        if self.change is not None:
            parts.append(f"changes of at most {', '.join(f'{most:.4g}' for most in self.change)}")
        return f"LearnedController({self.name!r}: {'; '.join(parts)})"

    def act(self, observation: ArrayLike) -> NDArray[Any]:
        """Return the machine's action for its observation, in the shape of its space."""
        controller = self.loop.spec.controller
        if isinstance(controller, MissingController):
            raise InputError(controller.why)
        action, choices = super().act(observation), self.policy.choices
        return action if choices is None else choices.choose(action)

    @property
    def change(self) -> NDArray[np.float64] | None:
        """The most by which it can change its controller's actions, before limits of rates.

        In the actions' units, shape (p,); None if the policy is not known to be bounded, or if
        there is no controller.
        """
        policy, spec = self.policy, self.loop.spec
        if policy.bound is None or spec.controller is None:
            return None
        # |h(s)| <= |h| sqrt(kappa(s, s)), and the kernel is at most 1; clipping adds nothing.
        most = np.abs(policy.scale.centre) + np.abs(policy.scale.half) * policy.bound
        return np.asarray(np.minimum(most, np.max(np.abs(policy.actions.ends), axis=0)))

    def predict(
        self, observation: ArrayLike, deterministic: bool = True
    ) -> tuple[NDArray[Any], None]:
        """Return :meth:`act` and None, as Stable-Baselines3 does."""
        return self.act(observation), None

    # Files -----------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Return the plain data of the policy with its ``loop``."""
        return {**self.policy.to_dict(), "loop": self.loop.spec.to_dict()}

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file, atomically; a controller that is code is only mentioned."""
        write_document(path, FILE_KIND, FILE_VERSION, self.document())

    @classmethod
    def load(cls, path: str | Path, controller: Any = None) -> LearnedController:
        """Read it from a file; ``controller`` is the one inside, if that is code."""
        data = read_document(path, FILE_KIND, FILE_VERSION)
        try:
            return cls.from_document(data, controller)
        except (FileFormatError, InputError) as problem:
            raise type(problem)(f"{path}: {problem}") from problem

    @classmethod
    def from_document(cls, data: Mapping[str, Any], controller: Any = None) -> LearnedController:
        """Return the controller of :meth:`document`."""
        policy = Policy.from_dict(data)
        try:
            return cls(policy, LoopSpec.from_dict(data["loop"], controller))
        except (FileFormatError, InputError):
            raise
        except MALFORMED as problem:
            raise FileFormatError(f"it holds no loop around its policy: {problem}") from problem


def describe_loop(spec: LoopSpec) -> list[str]:
    """Return what stands between a policy and its machine, by the names of a task's fields."""
    parts = [f"{name}={n}" for name in ("lags", "past_actions") if (n := getattr(spec, name))]
    aims = {
        spec.observation_names[i]: aim if at is None else spec.observation_names[at]
        for i, aim, at in spec.setpoints
    }
    if aims:
        parts.append(f"setpoints={aims}")
    if spec.rates is not None:
        parts.append(f"rates={spec.rates.tolist()}")
    if spec.controller is not None:
        parts.append(f"around {describe_controller(spec.controller)}")
    return parts


def describe_controller(given: Any) -> str:
    """Return what a controller is, in a few words."""
    if isinstance(given, MissingController):
        return "a controller that is missing here"
    if isinstance(given, KernelController):
        return "a policy"
    if isinstance(given, Controller) and not isinstance(given, CorrectedController):
        return re.sub(r"array\(([^()]*)\)", r"\1", repr(given))
    return getattr(given, "__name__", type(given).__name__)
