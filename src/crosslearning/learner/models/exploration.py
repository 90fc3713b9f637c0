"""Exploration: act in the real tasks where the models do not agree on what would happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crosslearning.learner.iterate import Iterate
from crosslearning.models.imagination import imagine
from crosslearning.rkhs.program import Expansion

if TYPE_CHECKING:
    from crosslearning.learner.models.method import Method

Floats = NDArray[np.float64]

#: Starts from which every way to act is imagined.
_STARTS = 4
#: Every so many imagined steps the models are asked for their opinions.
_STRIDE = 4


def explorers(method: Method, iterate: Iterate) -> Expansion:
    """Return changed policies, each the one of several along which the models disagree most.

    A change is a random function on the policies' own knots, as large at the visited states as
    the exploration noise: unlike noise at every step it does the same thing again wherever it
    comes to the same place, so that it leads somewhere.
    """
    policies, generator = iterate.policies, iterate.generator
    N, J, L = len(method.data), method.settings.explorers, len(iterate.dictionary)
    own = policies.rows[:N]
    change = np.zeros((J, *own.shape))
    change[..., :L] = generator.standard_normal((J, *own.shape[:2], L))
    visited = [data.states for data in method.data]
    for i, states in enumerate(visited):
        for j in range(J):
            moved = policies._replace(rows=np.ascontiguousarray(change[j]))
            size = np.sqrt(np.mean(moved.each(states, np.full(len(states), i)) ** 2, axis=0))
            change[j, i] *= (method.noise.std / np.maximum(size, 1e-12))[:, None]
    candidates = policies._replace(rows=(own + change).reshape(J * N, *own.shape[1:]))
    chosen = np.argmax(_disagreement(method, iterate, candidates), axis=0)
    rows = policies.rows.copy()
    rows[:N] = (own + change)[chosen, np.arange(N)]
    return policies._replace(rows=rows)


def _disagreement(method: Method, iterate: Iterate, candidates: Expansion) -> Floats:
    """Return how far apart the sampled models are along each candidate's path, shape (J, N)."""
    settings, generator, world = method.settings, iterate.generator, method.world
    N, J, S = len(method.data), settings.explorers, max(1, settings.samples)
    p = candidates.rows.shape[1]
    firsts = [data.states[data.first == 1.0] for data in method.data]
    picked = [own[generator.integers(len(own), size=_STARTS)] for own in firsts]
    starts = np.tile(np.concatenate(picked), (J, 1))
    task = np.tile(np.repeat(np.arange(N), _STARTS), J)
    policy = task + N * np.repeat(np.arange(J), N * _STARTS)
    still = np.zeros((len(starts), settings.round_steps, p))
    path = imagine(candidates, world, starts, policy, task, still)
    # Ask every sample what comes next at places on the way, the same action taken.
    places = path.states[:, :-1:_STRIDE].reshape(-1, starts.shape[1])
    each = path.states[:, :-1:_STRIDE].shape[1]
    whose, where = np.repeat(policy, each), np.repeat(task, each)
    none = np.zeros((len(places), 1, p))
    next_states = [
        imagine(candidates, world, places, whose, where + N * s, none).states[:, 1]
        for s in range(S)
    ]
    assert method.frame is not None
    unit = method.frame.unit[: starts.shape[1]]
    spread = np.sum((np.std(next_states, axis=0) / unit) ** 2, axis=1)
    return np.asarray(np.log1p(spread).reshape(J, N, -1).mean(axis=2))
