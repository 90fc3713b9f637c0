"""What an exported controller takes and gives."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.choices import Choices
from crosslearning.learner.deployment import LearnedController
from crosslearning.learner.policy import BoxSpec, Policy


class Port(NamedTuple):
    """One number that goes in or out."""

    name: str
    unit: str | None
    low: float
    high: float
    whole: bool = False  #: whether it is the number of an option

    @property
    def ends(self) -> dict[str, float]:
        """The finite ends."""
        return {k: v for k, v in (("min", self.low), ("max", self.high)) if math.isfinite(v)}


def ports_of(exported: Policy | LearnedController) -> tuple[list[Port], list[Port]]:
    """Return what goes in and out; in goes also what a controller that is code gave."""
    if isinstance(exported, Policy):
        return _ports(exported.observations), _ports(exported.outputs, exported.choices)
    seen, sent = machine_signals(exported)
    inputs, outputs = _ports(seen), _ports(sent, exported.policy.choices)
    if unknown_controller(exported):
        inputs = inputs + [port._replace(name=f"controller {port.name}") for port in outputs]
        for i in range(remembered_by_code(exported)):
            inputs.append(Port(f"controller memory {i}", None, -math.inf, math.inf))
    return inputs, outputs


def _ports(signals: BoxSpec, choices: Choices | None = None) -> list[Port]:
    data, ends, whole = signals.to_dict(), signals.ends, choices is not None
    return [Port(*one, whole) for one in zip(data["names"], data["units"], *ends, strict=True)]


def middle_of(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what stands for an action before the first."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(0.5 * (low + high), posinf=0.0, neginf=0.0)


def machine_signals(controller: LearnedController) -> tuple[BoxSpec, BoxSpec]:
    """Return what a controller takes and gives: the machine's observations and its actions."""
    spec = controller.loop.spec
    seen = BoxSpec(spec.observations.low, spec.observations.high, spec.observation_names)
    if controller.policy.choices is not None:
        return seen, controller.policy.outputs
    low, high = (
        end.reshape(spec.actions.shape).astype(spec.actions.dtype) for end in (spec.low, spec.high)
    )
    return seen, BoxSpec(low, high, spec.action_names)


def unknown_controller(controller: LearnedController) -> bool:
    """Return whether the controller that is corrected is code, which no export can hold."""
    return bool(controller.loop.spec.to_dict()["controller"] == "code")


def remembered_by_code(controller: LearnedController) -> int:
    """Return how many numbers of the memory of a controller that is code the policy observes."""
    spec = controller.loop.spec
    known = len(spec.observation_names) + len(spec.changing) * spec.lags
    known += len(spec.low) * spec.past_actions
    known += sum(1 + (at is not None) for _, _, at in spec.setpoints)
    return controller.policy.observations.size - known
