"""What rollouts return: plain arrays, the same from every executor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Samples(NamedTuple):
    """One state, its action's noise and the rewards that followed, for N tasks and B samples.

    Attributes
    ----------
    observations : array, shape (N, B, q)
        s_t: where the action was taken.
    deviations : array, shape (N, B, p)
        a_t − h_i(s_t): the noise of the action.
    values : array, shape (N, B, 2)
        Q̂ after a_t, and, if the rollouts are antithetic, after the mirrored action.
    returns : array, shape (N, B)
        Rewards up to and including step t: since P(t ≥ τ) = γ^τ, an unbiased estimate of the
        discounted return U_i.
    steps : array of int, shape (N, B)
        Environment steps taken, those that repeat a path to put an environment back included.
    """

    observations: Floats
    deviations: Floats
    values: Floats
    returns: Floats
    steps: Integers


def empty_samples(tasks: int, batch: int, observation_size: int, outputs: int) -> Samples:
    """Return arrays of the right shapes for an executor to fill."""
    return Samples(
        observations=np.empty((tasks, batch, observation_size)),
        deviations=np.empty((tasks, batch, outputs)),
        values=np.zeros((tasks, batch, 2)),
        returns=np.empty((tasks, batch)),
        steps=np.empty((tasks, batch), dtype=np.int64),
    )


class Episodes(NamedTuple):
    """Whole episodes of one task.

    Attributes
    ----------
    rewards : array, shape (n, steps)
        Zero after the end of an episode.
    lengths : array of int, shape (n,)
        Steps until the end.
    observations : array, shape (n, steps + 1, q)
    actions : array, shape (n, steps, p)
    states : array, shape (n, steps + 1, state_size), or None
        For compiled tasks: the whole path; ``Task.outcomes`` reads its last states.
    """

    rewards: Floats
    lengths: Integers
    observations: Floats
    actions: Floats
    states: Floats | None
