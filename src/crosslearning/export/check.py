"""The agreement of an export with its policy, measured in thousands of states."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import NumericalError
from crosslearning.export.targets import Precision
from crosslearning.learner import Policy

Floats = NDArray[np.float64]
#: An export: from states (n, q) to actions (n, p), both of its precision.
Act = Callable[[NDArray[np.floating]], NDArray[np.floating]]

#: The largest difference of an export, as a share of the action's range or of one unit.
TOLERANCES = {"double": 1e-9, "float": 1e-5}
TYPES: dict[Precision, type[np.floating]] = {"double": np.float64, "float": np.float32}
#: Random states within the bounds, and as many on them.
_STATES = 2000
#: Larger bounds count as none.
_SENSIBLE = 1e4


@dataclass(frozen=True)
class Agreement:
    """The largest difference of an export from its policy."""

    states: int  #: the number of states
    difference: float  #: the largest difference of an action
    share: float  #: the same as a share of that action's range

    def __str__(self) -> str:
        return (
            f"largest difference {self.difference:.2g} in {self.states} states "
            f"({self.share:.2g} of the action's range)"
        )


def states_for(policy: Policy, seed: int = 0) -> Floats:
    """Return states (n, q): inside the bounds, or near the knots without bounds; on them; knots."""
    generator = np.random.default_rng(seed)
    knots, q = policy.plain.knots, policy.observations.size
    low, high = policy.observations.ends
    if len(knots):
        near, far = knots.min(axis=0), knots.max(axis=0)
    else:
        near, far = np.full(q, -1.0), np.ones(q)
    margin = 0.5 * (far - near) + 0.5
    low = np.where(np.abs(low) <= _SENSIBLE, low, near - margin)
    high = np.where(np.abs(high) <= _SENSIBLE, high, far + margin)
    inside = generator.uniform(low, high, (_STATES, q))
    edges = generator.uniform(low, high, (_STATES, q))
    edge = generator.integers(q, size=_STATES)
    top = generator.random(_STATES) < 0.5
    edges[np.arange(_STATES), edge] = np.where(top, high[edge], low[edge])
    return np.concatenate([inside, edges, low[None], high[None], knots])


def expected_actions(policy: Policy, states: NDArray[np.floating]) -> Floats:
    """Return the clipped actions (n, p) of the policy in states (n, q), in double precision."""
    values = policy.scale(policy.mean(states.reshape(-1, *policy.observation_shape)))
    return np.clip(values, *policy.actions.ends)


def measure(policy: Policy, act: Act, precision: Precision) -> Agreement:
    """Return the agreement of an export, a function of states, with the policy."""
    states = states_for(policy).astype(TYPES[precision])
    expected = expected_actions(policy, states)
    difference = np.abs(np.asarray(act(states), dtype=np.float64) - expected)
    low, high = policy.actions.ends
    width = high - low
    unit = np.where(np.isfinite(width) & (width > 0.0), width, 1.0)
    # Actions without bounds are measured by their range.
    unit = np.where(np.isfinite(width), unit, np.maximum(1.0, np.ptp(expected, axis=0)))
    share = difference / (np.maximum(1.0, unit) if precision == "double" else unit)
    return Agreement(len(states), float(np.max(difference)), float(np.max(share)))


def is_close(agreement: Agreement, precision: Precision) -> bool:
    """Return whether an export is within the tolerance of its precision; NaN is not."""
    return agreement.share <= TOLERANCES[precision]


def compare(policy: Policy, act: Act, precision: Precision) -> Agreement:
    """Return the result of :func:`measure`, or raise an error if the two disagree."""
    agreement = measure(policy, act, precision)
    if not is_close(agreement, precision):
        remedy = (
            "its actions are too large for single precision: export it with --precision double"
            if precision == "float" and math.isfinite(agreement.share)
            else "this is an error of crosslearning's: please report it with the policy"
        )
        raise NumericalError(
            f"the export does not do what the policy does: {agreement}, at most "
            f"{TOLERANCES[precision]:g} of the range is allowed; {remedy}. Nothing was written"
        )
    return agreement
