"""The states in which an export of a policy is compared with it, and what it does there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crosslearning.export.program import Floats
from crosslearning.learner import Policy

#: Random states within the bounds, and as many on them; larger bounds count as none.
_STATES, _SENSIBLE = 2000, 1e4


def sensible_ends(policy: Policy) -> tuple[Floats, Floats]:
    """Return the ends of observations, or ends around the knots where there are none."""
    knots, q = policy.plain.knots, policy.observations.size
    low, high = policy.observations.ends
    near, far = np.full(q, -1.0), np.ones(q)
    if len(knots):
        near, far = knots.min(axis=0), knots.max(axis=0)
    margin = 0.5 * (far - near) + 0.5
    low = np.where(np.abs(low) <= _SENSIBLE, low, near - margin)
    return low, np.where(np.abs(high) <= _SENSIBLE, high, far + margin)


def states_for(policy: Policy, seed: int = 0) -> Floats:
    """Return states (n, q): inside the bounds, or near the knots without bounds; on them; knots."""
    generator = np.random.default_rng(seed)
    knots, q = policy.plain.knots, policy.observations.size
    low, high = sensible_ends(policy)
    inside, edges = (generator.uniform(low, high, (_STATES, q)) for _ in range(2))
    edge = generator.integers(q, size=_STATES)
    top = generator.random(_STATES) < 0.5
    edges[np.arange(_STATES), edge] = np.where(top, high[edge], low[edge])
    return np.concatenate([inside, edges, low[None], high[None], knots])


def expected_actions(policy: Policy, states: NDArray[np.floating]) -> Floats:
    """Return the clipped actions (n, p) of the policy in states (n, q), in double precision."""
    values = policy.scale(policy.mean(states.reshape(-1, *policy.observation_shape)))
    return np.clip(values, *policy.actions.ends)
