"""Episodes imagined to compare policies, and what is read off real ones beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crosslearning.learner.keeping import WORTH, predicted_gain
from crosslearning.learner.limits import Limits
from crosslearning.learner.model_based.data import Transitions
from crosslearning.learner.model_based.disturbances import Disturbances
from crosslearning.learner.model_based.imagination import World, imagine
from crosslearning.rkhs import Family
from crosslearning.rkhs.checks import Floats, Integers


def last_episode(steps: Transitions) -> Transitions:
    """Return the steps of the episode that was begun last."""
    first = np.flatnonzero(steps.first)[-1]
    return Transitions(*(array[first:] for array in steps))


def longest_episode(steps: Transitions) -> int:
    """Return the number of steps of the longest episode."""
    ends = np.append(np.flatnonzero(steps.first), len(steps.first))
    return int(np.max(np.diff(ends)))


def least_gain(before: Floats, after: Floats, own: int = 0) -> float:
    """Return the lower bound of gains from returns of several lengths, shapes (lengths, S, K).

    The first starts, ``own`` of them, are the machine's own.

    A long episode shows what a short one hides, and a short one is better known: the highest bound
    counts, unless the longest episodes are expected to lose.
    """
    gains, worth = after - before, _worth(before, after)
    bounds = [predicted_gain(one, own) for one in gains] - worth
    return float(bounds.max() if gains[-1].mean() > 0.0 else bounds.min())


def likely_gain(before: Floats, after: Floats) -> float:
    """Return the mean gain in the longest episodes, less WORTH, from returns (lengths, S, K)."""
    return float((after - before)[-1].mean() - _worth(before, after)[-1])


def _worth(before: Floats, after: Floats) -> Floats:
    # Policies that are equal gain nothing, and lose nothing.
    return np.asarray(WORTH * np.abs(before.mean(axis=(1, 2))) * (after - before).any(axis=(1, 2)))


def expected_gain(before: Floats, after: Floats) -> float:
    """Return the mean gain of later policies from returns (lengths, S, K), and WORTH.

    The later ones were learned from more data, so that they are not given up for a smaller loss.
    """
    return float(np.mean(after - before) + WORTH * np.abs(before.mean()))


def imagined_returns(
    family: Family,
    world: World,
    starts: Floats,
    lengths: Sequence[int],
    limits: Limits,
    replayed: tuple[Disturbances, Integers] | None = None,
) -> Floats:
    """Return Σ r_t of the tasks' policies in sampled models, (N, lengths, samples, starts).

    Episodes begin at ``starts``, shape (N, n, q). Disturbances are ``replayed`` from steps (N, n)
    on. Rewards are less the penalties of limits.
    """
    N, n, q = starts.shape
    S = world.functions.rows.shape[0] // N
    task, sample = np.repeat(np.arange(N), S * n), np.tile(np.repeat(np.arange(S), n), N)
    first = np.repeat(starts[:, None], S, axis=1).reshape(-1, q)
    length, met = max(lengths), None
    if replayed is not None:
        seen, steps = replayed
        met = seen.along(sample, np.repeat(steps[:, None], S, axis=1).ravel(), length)
    still = np.zeros((len(task), length, family.outputs))
    path = imagine(family.expansion, world, first, task, task + N * sample, still, met)
    there = np.ones(path.rewards.shape)
    np.cumprod(path.bootstrap_mask[:, :-1], axis=1, out=there[:, 1:])
    rewards = path.rewards
    if len(limits):
        after = path.states[:, 1:].reshape(N, S * n * length, q)
        charges = [limits.charge(i, states) for i, states in enumerate(after)]
        rewards = rewards - np.reshape(charges, rewards.shape)
    sums = [np.sum((rewards * there)[:, :steps], axis=1).reshape(N, S, n) for steps in lengths]
    return np.stack(sums, axis=1)
