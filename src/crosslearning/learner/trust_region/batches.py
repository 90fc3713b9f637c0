"""The steps of recent episodes, laid end to end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crosslearning.learner.method import misfit
from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rollouts import Episodes


class Steps(NamedTuple):
    """All steps of some episodes of one task, one episode after the other.

    Attributes
    ----------
    states : array, shape (n, q)
        Where the actions were taken.
    actions : array, shape (n, p)
        In the policies' units.
    densities : array, shape (n,)
        Log-densities of the actions, up to a common constant.
    rewards : array, shape (n,)
    last : array, shape (E, q)
        The observation after the last step of each episode.
    lengths : array of int, shape (E,)
    bootstrap_mask : array, shape (E,)
        1 where an episode was truncated, 0 where it terminated.
    """

    states: Floats
    actions: Floats
    densities: Floats
    rewards: Floats
    last: Floats
    lengths: Integers
    bootstrap_mask: Floats

    @classmethod
    def of(
        cls, episodes: Episodes, noise: Floats, std: Floats, mean: Callable[[Floats], Floats]
    ) -> Steps:
        """Lay the episodes of one task end to end.

        ``noise``, shape (E, horizon, p), of standard deviations ``std``, was added to the mean
        actions (n, p) that ``mean`` returns for states (n, q).
        """
        E, horizon = episodes.rewards.shape
        there = np.arange(horizon) < episodes.lengths[:, None]
        states, added = episodes.observations[:, :-1][there], noise[there]
        return cls(
            states=states,
            actions=mean(states) + added,
            densities=log_densities(added, std),
            rewards=episodes.rewards[there],
            last=episodes.observations[np.arange(E), episodes.lengths],
            lengths=episodes.lengths.copy(),
            bootstrap_mask=np.where(episodes.terminated, 0.0, 1.0),
        )


def log_densities(deviations: Floats, std: Floats) -> Floats:
    """Return Σ_j (−½ (n_j/σ_j)² − ln σ_j) for every row n of the deviations."""
    return np.asarray(-0.5 * np.sum((deviations / std) ** 2, axis=1) - np.sum(np.log(std)))


def pack(batches: Sequence[Sequence[Steps]]) -> dict[str, Floats]:
    """Return the steps of every batch and task as a few arrays."""
    flat = [steps for batch in batches for steps in batch]
    if not flat:
        return {}
    columns = zip(Steps._fields, zip(*flat, strict=True), strict=True)
    parts = {name: np.concatenate(arrays).astype(np.float64) for name, arrays in columns}
    counts = np.array([[len(steps.lengths) for steps in batch] for batch in batches])
    return {**parts, "episodes": counts.astype(np.float64)}


def unpack(arrays: Mapping[str, Floats], tasks: int, q: int, p: int) -> list[list[Steps]]:
    """Return what :func:`pack` packed, or raise FileFormatError if it does not fit together."""
    if "episodes" not in arrays:
        return []
    # Files of version 0.2 have another name for it.
    arrays = {"bootstrap_mask" if k == "goes_on" else k: v for k, v in arrays.items()}
    counts, lengths = arrays["episodes"], arrays["lengths"]
    whole = all(_counts(array) for array in (counts, lengths))
    fits = whole and counts.ndim == 2 and counts.shape[1] == tasks and len(counts) > 0
    if not fits or lengths.shape != (int(counts.sum()),):
        raise misfit("episodes")
    n, E = int(lengths.sum()), len(lengths)
    per_step = {"states": (n, q), "actions": (n, p), "densities": (n,), "rewards": (n,)}
    per_episode = {"last": (E, q), "bootstrap_mask": (E,)}
    for name, shape in {**per_step, **per_episode}.items():
        if arrays[name].shape != shape or not np.all(np.isfinite(arrays[name])):
            raise misfit(name)
    begins = np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])
    result: list[Steps] = []
    first = 0
    for count in counts.astype(np.int64).flat:
        episodes = slice(first, first + int(count))
        rows = slice(int(begins[episodes.start]), int(begins[episodes.stop]))
        taken = {name: arrays[name][rows].copy() for name in per_step}
        taken |= {name: arrays[name][episodes].copy() for name in per_episode}
        result.append(Steps(lengths=lengths[episodes].astype(np.int64), **taken))
        first = episodes.stop
    return [result[k : k + tasks] for k in range(0, len(result), tasks)]


def _counts(array: Floats) -> bool:
    """Return whether an array holds counts of at least one."""
    return bool(np.all(np.isfinite(array)) and np.all(array >= 1) and np.all(array % 1 == 0))
