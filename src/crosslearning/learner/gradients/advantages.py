"""λ-returns: what actions were worth, from the rewards that followed and a critic's word.

A critic V says what a state is worth. After step t the sum of l rewards and γˡ V of the state
after them estimates what the step was worth, with less bias and more noise the larger l is. The
λ-return is their mean with weights (1 − λ) λ^(l−1) (Sutton 1988; Schulman et al. 2016), which a
sweep from the end of the episode computes: G_t = r_t + γ ((1 − λ) V(s_{t+1}) + λ G_{t+1}).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.compiled import FastEntry, compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@compiled
def fill_lambda_returns(
    rewards: Floats,
    values: Floats,
    lengths: Integers,
    last: Floats,
    discount: float,
    trace: float,
    out: Floats,
) -> None:
    """Fill ``out``, shape (n,), with the λ-returns of episodes that are laid end to end."""
    end = 0
    for e in range(len(lengths)):
        begin, end = end, end + lengths[e]
        value = last[e]
        after = last[e]
        for t in range(end - 1, begin - 1, -1):
            after = rewards[t] + discount * ((1.0 - trace) * value + trace * after)
            out[t] = after
            value = values[t]


_fill = FastEntry(fill_lambda_returns)


def lambda_returns(
    rewards: Floats,
    values: Floats,
    lengths: Integers,
    last: Floats,
    discount: float,
    trace: float,
) -> Floats:
    """Return the λ-return of every step, shape (n,).

    Parameters
    ----------
    rewards, values : arrays, shape (n,)
        Rewards of the steps, and the critic's values of the states they were taken in; episodes
        are laid end to end.
    lengths : array of int, shape (E,)
        Steps of each episode.
    last : array, shape (E,)
        The critic's value of the state after the last step: zero where the episode terminated,
        for nothing follows; not so where it was cut off.
    discount, trace : float
        γ, and λ in [0, 1].
    """
    out = np.empty(len(rewards))
    _fill(rewards, values, lengths, last, float(discount), float(trace), out)
    return out
