"""What an exported controller takes and gives."""

from __future__ import annotations

from crosslearning.learner.deployment import LearnedController
from crosslearning.learner.policy import BoxSpec


def machine_signals(controller: LearnedController) -> tuple[BoxSpec, BoxSpec]:
    """Return what a controller takes and gives: the machine's observations and its actions."""
    spec = controller.loop.spec
    seen = BoxSpec(spec.observations.low, spec.observations.high, spec.observation_names)
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
