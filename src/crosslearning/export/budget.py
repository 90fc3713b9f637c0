"""A policy on as few knots as a small machine has room for, and what that costs at most.

Knots are removed as learning removes them: each removal projects the function onto the knots that
are left, and a certificate bounds how far it moved in the RKHS. By |f(s) − g(s)| ≤ ‖f − g‖ √κ(s, s)
that bounds the change of every action in every state; clipping, limits and rates, from the same
memory, make no change larger.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crosslearning.errors import InputError
from crosslearning.export import Precision
from crosslearning.export.program import TYPES, Floats, Program
from crosslearning.export.states import expected_actions, states_for
from crosslearning.learner import Policy

if TYPE_CHECKING:
    from crosslearning.learner.deployment import LearnedController


class Pruning(NamedTuple):
    """What pruning to a budget did."""

    knots_before: int
    knots: int
    distance: float  #: the most that the function moved, an RKHS norm
    #: The most that each action can change in any state, in its unit; infinite if unknown.
    largest_possible: Floats
    largest_seen: Floats  #: the largest change of each action in the states of the check

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the contract; no bound is null."""
        possible = [most if math.isfinite(most) else None for most in self.largest_possible]
        return {
            "knots_before": self.knots_before,
            "distance": self.distance,
            "largest_possible": possible,
            "largest_seen": self.largest_seen.tolist(),
        }


def table_bytes(exported: Policy | LearnedController, arithmetic: Precision) -> tuple[int, int]:
    """Return the bytes of all knots and weights, and those of one knot of the policy."""
    if isinstance(exported, Policy):
        programs = [Program.of(exported)]
    else:
        from crosslearning.export.c_loop import Level

        levels = Level(exported, "policy").inwards()
        programs = [program for level in levels for _, program in level.programs()]
    one = np.dtype(TYPES[arithmetic]).itemsize
    sizes = [one * (program.knots.size + program.weights.size) for program in programs]
    return sum(sizes), sizes[0] // len(programs[0].knots)


def prune_to_budget(
    exported: Policy | LearnedController,
    max_knots: int | None,
    max_bytes: int | None,
    arithmetic: Precision,
) -> tuple[Policy | LearnedController, Pruning | None]:
    """Return a policy, or a controller with one, within a budget, and what pruning to it did.

    ``max_bytes`` is for knots and weights as exports hold them, those of a controller inside
    included, which is never pruned.
    """
    for name, cap in (("max_knots", max_knots), ("max_bytes", max_bytes)):
        if cap is not None and (not isinstance(cap, int) or isinstance(cap, bool) or cap < 1):
            raise InputError(f"{name} is {cap!r}; give a whole number of at least 1")
    policy = exported if isinstance(exported, Policy) else exported.policy
    before = room = len(policy.plain.knots)
    if max_knots is not None:
        room = min(room, max_knots)
    if max_bytes is not None:
        used, each = table_bytes(exported, arithmetic)
        others = used - each * max(before, 1)
        room = min(room, (max_bytes - others) // each)
        if room < min(before, 1):
            raise InputError(
                f"max_bytes is {max_bytes}, but one knot takes {each} bytes in {arithmetic} "
                f"precision{f', and the controller inside {others}' if others else ''}; give at "
                f"least {others + each}"
            )
    if room == before:
        return exported, None
    pruned, distance = _pruned(policy, room)
    low, high = policy.actions.ends
    most = distance and distance * math.sqrt(_ceiling(policy))
    possible = np.minimum(np.abs(policy.scale.half) * most, high - low)
    states = states_for(policy)
    seen = np.abs(expected_actions(pruned, states) - expected_actions(policy, states))
    pruning = Pruning(before, len(pruned.plain.knots), distance, possible, seen.max(axis=0))
    if isinstance(exported, Policy):
        return pruned, pruning
    from crosslearning.learner.deployment import LearnedController

    return LearnedController(pruned, exported.loop.spec), pruning


def _pruned(policy: Policy, cap: int) -> tuple[Policy, float]:
    """Return a policy on at most ``cap`` knots, and the most that its function moved."""
    from crosslearning.rkhs import prune

    family, certificate = prune(policy.function, 0.0, cap)
    # The certificate comes from an inverse that is updated; the distance is computed afresh.
    moved = max(float(certificate.errors[0]), float(policy.function.distances_to(family)[0]))
    signals = policy.actions, policy.discount, policy.observations, policy.rate
    pruned = Policy(policy.name, family, policy.noise_std, *signals)
    pruned.scale, pruned.corrects = policy.scale, policy.corrects
    pruned.choices = policy.choices
    if policy.bound is not None:  # a projection makes no norm larger, but for rounding
        pruned.bound = max(policy.bound, float(family.norms()[0]))
    return pruned, moved


def _ceiling(policy: Policy) -> float:
    """Return the most that κ(s, s) can be for the policy's observations."""
    reach, total = np.max(np.abs(policy.observations.ends), axis=0), 0.0
    for product in policy.plain.products:
        value = product.scale
        for factor in product.factors:
            if factor.formula == "polynomial":  # of points divided by their widths; others are 1
                scaled = np.diagonal(factor.whitening) * reach[list(factor.reads)]
                with np.errstate(over="ignore"):
                    value *= float((factor.bias + np.sum(scaled**2)) ** factor.degree)
        total += value
    return total
