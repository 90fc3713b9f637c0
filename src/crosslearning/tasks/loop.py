"""The loop between a policy and a machine at work, in training, logged data and deployment.

A :class:`Loop` turns what a policy gives, a correction, into the machine's action: it adds the
controller's action, and holds the bounds of actions and of their rates exactly. It turns what the
machine shows into what a policy observes; :mod:`crosslearning.tasks.loop_spec` says what that is.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike, NDArray

from crosslearning.errors import InputError, describe_exception
from crosslearning.tasks.controllers import (
    KINDS,
    Controller,
    Floats,
    KernelController,
    as_controller,
)
from crosslearning.tasks.loop_spec import LoopSpec, memory_of
from crosslearning.tasks.signals import angles_of
from crosslearning.tasks.vector import InvalidResult


def _copied(observation: ArrayLike) -> Floats:
    # A machine may write its next observation to the same place.
    return np.array(observation, dtype=np.float64).ravel()


class Loop:
    """A loop at work: it remembers what it needs of the episode."""

    def __init__(self, spec: LoopSpec) -> None:
        self.spec = spec
        self.controller = None
        if spec.controller is not None:
            self.controller = as_controller(spec.controller, spec.rate, spec.low, spec.high)
        self.is_angle = np.zeros(len(spec.observation_names), dtype=np.bool_)
        self.is_angle[angles_of(spec.observations)] = True
        self.is_angle[[cosine for cosine, _ in spec.circles]] = True
        self.steps = 0

    def reset(self, observation: ArrayLike) -> Floats:
        """Begin an episode at an observation; return what a policy observes."""
        spec, seen = self.spec, _copied(observation)
        if self.controller is not None:
            self.controller.reset()
        self.observation, self.steps, self._clipped = seen, 0, False
        self.action: Floats | None = None
        self._changes = np.zeros((spec.lags, len(spec.changing)))
        # Before the first action of an episode there is none: the middle of what is allowed.
        with np.errstate(invalid="ignore"):
            middle = np.nan_to_num(0.5 * (spec.low + spec.high), nan=0.0, posinf=0.0, neginf=0.0)
        self._past = np.tile(middle, (spec.past_actions, 1))
        self._integrals = np.zeros(len(spec.setpoints))
        return self._seen()

    def act(self, correction: ArrayLike) -> Floats:
        """Return the machine's action for a policy's correction; shape (p,)."""
        return self._apply(np.ravel(np.asarray(correction, dtype=np.float64)) + self._asked())

    def _apply(self, wanted: Floats) -> Floats:
        spec = self.spec
        action = np.minimum(np.maximum(wanted, spec.low), spec.high)
        if spec.rates is not None and self.action is not None:
            # The difference of two actions, as the machine rounds them, is at most the rate.
            slack = 4.0 * float(np.finfo(str(spec.actions.dtype)).eps) * np.abs(self.action)
            step = np.maximum(spec.rates - slack, 0.0)
            action = np.minimum(np.maximum(action, self.action - step), self.action + step)
        self._clipped = not np.array_equal(action, wanted)
        self._remember(action)
        return action

    def _remember(self, action: Floats) -> None:
        self.action = action
        if len(self._past):
            self._past = np.concatenate([action[None], self._past[:-1]])

    def gave(self, action: ArrayLike) -> None:
        """Remember that the machine was given this action instead of the last one."""
        self.action = np.ravel(np.asarray(action, dtype=np.float64))
        self._past[:1] = self.action

    def observe(self, observation: ArrayLike) -> Floats:
        """Take in the observation after an action; return what a policy observes."""
        seen = _copied(observation)
        if len(self._changes):
            change, turning = seen - self.observation, self.is_angle
            for cosine, sine in self.spec.circles:
                now, before = (math.atan2(o[sine], o[cosine]) for o in (seen, self.observation))
                change[cosine] = now - before
            wrapped = (change + np.pi) % (2.0 * np.pi) - np.pi
            change = np.where(turning, wrapped, change)[self.spec.changing]
            self._changes = np.concatenate([change[None], self._changes[:-1]])
        self.observation, self.steps = seen, self.steps + 1
        if not self._clipped:  # anti-windup
            self._integrals = self._integrals + self._errors() / (self.spec.rate or 1.0)
        return self._seen()

    def replay(self, observations: Floats, actions: Floats) -> tuple[Floats, Floats]:
        """Return what a policy would have observed, and its corrections, in a logged episode.

        ``observations`` have shape (T + 1, q) and ``actions`` (T, p); so do the results.
        """
        seen, corrections = [self.reset(observations[0])], []
        for k, action in enumerate(np.asarray(actions, dtype=np.float64)):
            corrections.append(action - self._asked())
            self._clipped = bool(np.any((action <= self.spec.low) | (action >= self.spec.high)))
            self._remember(action)
            seen.append(self.observe(observations[k + 1]))
        return np.array(seen), np.array(corrections).reshape(np.shape(actions))

    def _errors(self) -> Floats:
        """Return the errors of the set-points."""
        o = self.observation
        aims = self.spec.setpoints
        return np.array([(aim if at is None else o[at]) - o[i] for i, aim, at in aims])

    def _seen(self) -> Floats:
        held = [at is not None for _, _, at in self.spec.setpoints]
        parts = [self.observation, self._changes.ravel(), self._past.ravel()]
        return np.concatenate(
            [*parts, self._errors()[held], self._integrals, memory_of(self.controller)]
        )

    @property
    def memory(self) -> Floats:
        """What the next action depends on beside the observation."""
        parts = [self._changes.ravel(), self._past.ravel(), self._integrals]
        return np.concatenate([*parts, memory_of(self.controller)])

    def _asked(self) -> Floats:
        """Return the controller's action, within the bounds of actions; zeros without one."""
        spec, o = self.spec, self.observation
        if self.controller is None:
            return np.zeros(len(spec.low))
        where = f"for the observation {np.array2string(o, precision=6)} at step {self.steps}"
        try:
            flat = isinstance(self.controller, Controller)
            given = o if flat else o.reshape(spec.observations.shape)
            answer = np.asarray(self.controller.act(given), dtype=np.float64)
        except Exception as problem:
            raise InvalidResult(
                f"its controller raised {describe_exception(problem)} {where}"
            ) from problem
        if answer.size != len(spec.low) or not np.all(np.isfinite(answer)):
            raise InvalidResult(
                f"its controller returned {answer} {where}; it must return {len(spec.low)} finite "
                "numbers, in the units of the actions"
            )
        action = answer.ravel()
        clipped = np.minimum(np.maximum(action, spec.low), spec.high)
        if not np.array_equal(clipped, action) and not spec._warned:
            spec._warned.append(where)
            warnings.warn(
                f"the controller asks for the action {action} {where}, beyond the bounds from "
                f"{spec.low} to {spec.high}; it is clipped, here and from now on",
                stacklevel=2,
            )
        return clipped


class CorrectedController(Controller):
    """A correction and the loop that it stands in, of a policy's plain data with a ``loop``."""

    kind = "corrected"

    def __init__(self, policy: Mapping[str, Any]) -> None:
        self._plain = {**policy, "name": str(policy["name"])}
        function = KernelController.of_policy(policy)
        self._stand(function.act, LoopSpec.from_dict(policy["loop"]), function.function.dimension)

    def _stand(self, correct: Callable[[Floats], ArrayLike], spec: LoopSpec, reads: int) -> None:
        """Begin with a function from what a policy observes, ``reads`` numbers, to corrections."""
        self._correct, self.loop = correct, Loop(spec)
        self.reset()
        shown = len(self.loop.reset(np.zeros(len(spec.observation_names))))
        if shown != reads and self.is_plain:  # what code remembers may not be known here
            raise InputError(f"the policy reads {reads} numbers, but its loop shows {shown}")

    @property
    def is_plain(self) -> bool:
        """Whether the controller that it corrects is plain, too."""
        return bool(self.loop.spec.to_dict()["controller"] != "code")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"controller": self.kind, "policy": self.document()}

    def document(self) -> dict[str, Any]:
        """Return the plain data of the policy with its ``loop``."""
        return self._plain

    def reset(self) -> None:
        """Begin an episode."""
        self._begun = False

    @property
    def memory(self) -> Floats:
        """What the next action depends on beside the observation, for learning around it."""
        if not self._begun:
            self.loop.reset(np.zeros(len(self.loop.spec.observation_names)))
        return self.loop.memory

    def act(self, observation: ArrayLike) -> NDArray[Any]:
        """Return the machine's action for its observation, in the shape of its space."""
        loop, space = self.loop, self.loop.spec.actions
        names, given = loop.spec.observation_names, np.asarray(observation, dtype=np.float64)
        # Refused before anything is remembered: the next observation finds all as it was.
        if given.size != len(names) or not np.all(np.isfinite(given)):
            raise InputError(
                f"the observation is {observation!r}; give {len(names)} finite numbers: "
                f"{', '.join(names)}"
            )
        seen = loop.observe(observation) if self._begun else loop.reset(observation)
        self._begun = True
        return loop.act(self._correct(seen)).reshape(space.shape).astype(space.dtype)


KINDS[CorrectedController.kind] = CorrectedController


class LoopEnvironment(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment behind a loop: actions are corrections, observations what a policy sees."""

    def __init__(self, environment: gymnasium.Env[Any, Any], spec: LoopSpec) -> None:
        super().__init__(environment)
        self.observation_space, self.action_space = spec.spaces
        self.loop = Loop(spec)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Reset the environment and the loop."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.loop.reset(observation), info

    def step(self, action: ArrayLike) -> tuple[Floats, Any, Any, Any, dict[str, Any]]:
        """Step with the action that the loop makes of a correction."""
        space = self.loop.spec.actions
        given = self.loop.act(action).reshape(space.shape).astype(space.dtype)
        observation, reward, terminated, truncated, info = self.env.step(given)
        return self.loop.observe(observation), reward, terminated, truncated, info


@dataclass(frozen=True, eq=False)
class LoopFactory:
    """Makes environments behind a loop."""

    make: Any
    spec: LoopSpec

    def __call__(self, render_mode: str | None = None) -> LoopEnvironment:
        """Return a new environment behind a new loop."""
        environment = self.make() if render_mode is None else self.make(render_mode=render_mode)
        if isinstance(environment, VectorEnv):
            raise InputError(
                "a vector environment has no lags, past_actions, setpoints, rates or controller; "
                "give a function that makes one environment"
            )
        return LoopEnvironment(environment, self.spec)
