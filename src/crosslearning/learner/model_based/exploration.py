"""Exploration: act in the real tasks where the sampled models disagree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crosslearning.learner import core
from crosslearning.learner.model_based.data import Transitions
from crosslearning.learner.model_based.imagination import World, imagine
from crosslearning.learner.settings import ModelBased
from crosslearning.rkhs.checks import Floats
from crosslearning.rkhs.program import Expansion

#: Starts from which every candidate for exploration is imagined.
_STARTS = 4
#: Every so many imagined steps the models' predictions are compared.
_COMPARED = 4
_TINY = 1e-12


def explorers(
    iterate: core.Iterate,
    settings: ModelBased,
    data: Sequence[Transitions],
    world: World,
    units: tuple[Floats, Floats],
    length: int,
) -> Expansion:
    """Return for each task the candidate policy along which its models disagree most.

    A candidate is the policy plus a random function on the same knots. Unlike noise at every step
    it acts alike in like states, so that it leads somewhere. ``world`` holds posterior samples;
    ``units``, shapes (p,) and (q,), are the size of a change of the actions at the visited states,
    and the units of disagreement on the next observation; ``length`` are the steps of the round.
    """
    policies, generator = iterate.policies, iterate.generator
    N, J, L = len(data), settings.explorers, len(iterate.dictionary)
    rows = policies.rows[:N]
    change = np.zeros((J, *rows.shape))
    change[..., :L] = generator.standard_normal((J, *rows.shape[:2], L))
    for i, seen in enumerate(data):
        which = np.full(len(seen.states), i)
        for j in range(J):
            moved = policies._replace(rows=np.ascontiguousarray(change[j]))
            size = np.sqrt(np.mean(moved.each(seen.states, which) ** 2, axis=0))
            change[j, i] *= (units[0] / np.maximum(size, _TINY))[:, None]
    candidates = policies._replace(rows=(rows + change).reshape(J * N, *rows.shape[1:]))
    firsts = [seen.states[seen.first == 1.0] for seen in data]
    starts = [states[generator.integers(len(states), size=_STARTS)] for states in firsts]
    spread = _disagreement(candidates, settings, np.array(starts), world, units[1], length)
    chosen = policies.rows.copy()
    chosen[:N] = (rows + change)[np.argmax(spread, axis=0), np.arange(N)]
    return policies._replace(rows=chosen)


def _disagreement(
    candidates: Expansion,
    settings: ModelBased,
    starts: Floats,
    world: World,
    unit: Floats,
    length: int,
) -> Floats:
    """Return the models' disagreement along paths from ``starts`` (N, n, q), shape (J, N)."""
    N, n, q = starts.shape
    J, S, p = settings.explorers, max(1, settings.samples), candidates.rows.shape[1]
    task = np.tile(np.repeat(np.arange(N), n), J)
    policy = task + N * np.repeat(np.arange(J), N * n)
    still = np.zeros((len(task), length, p))
    first = np.tile(starts.reshape(-1, q), (J, 1))
    path = imagine(candidates, world, first, policy, task, still).states[:, :-1:_COMPARED]
    # Compare the samples' next observations along the paths, for the same actions.
    whose, where = np.repeat(policy, path.shape[1]), np.repeat(task, path.shape[1])
    places, none = path.reshape(-1, q), np.zeros((len(whose), 1, p))
    predictions = [
        imagine(candidates, world, places, whose, where + N * s, none).states[:, 1]
        for s in range(S)
    ]
    spread = np.sum((np.std(predictions, axis=0) / unit) ** 2, axis=1)
    return np.asarray(np.log1p(spread).reshape(J, N, -1).mean(axis=2))
