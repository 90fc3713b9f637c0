"""The steps of recent episodes, laid end to end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import FileFormatError
from crosslearning.rollouts import Episodes

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Steps(NamedTuple):
    """All steps of some episodes of one task, one episode after the other.

    Attributes
    ----------
    states : array, shape (n, q)
        Where the actions were taken.
    actions : array, shape (n, p)
        In the policies' units.
    densities : array, shape (n,)
        Logarithms of how likely the actions were, up to a constant that all share.
    rewards : array, shape (n,)
    last : array, shape (E, q)
        The observation after the last step of each episode.
    lengths : array of int, shape (E,)
    bootstrap_mask : array, shape (E,)
        1 where an episode was cut off and more would have followed, 0 where it terminated.
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

        Parameters
        ----------
        noise : array, shape (E, horizon, p)
            What was added to the mean actions.
        std : array, shape (p,)
            Its standard deviations.
        mean : callable
            From states (n, q) to mean actions (n, p).
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
    parts = {
        name: np.concatenate([np.asarray(getattr(steps, name), dtype=np.float64) for steps in flat])
        for name in Steps._fields
    }
    tasks = len(batches[0])
    counts = np.array([len(steps.lengths) for steps in flat], dtype=np.float64)
    return {**parts, "episodes": counts.reshape(len(batches), tasks)}


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
        raise FileFormatError("its parts do not fit together: episodes")
    n, E = int(lengths.sum()), len(lengths)
    shapes = {"states": (n, q), "actions": (n, p), "densities": (n,), "rewards": (n,)}
    shapes |= {"last": (E, q), "bootstrap_mask": (E,)}
    for name, shape in shapes.items():
        if arrays[name].shape != shape or not np.all(np.isfinite(arrays[name])):
            raise FileFormatError(f"its parts do not fit together: {name}")
    ends = np.cumsum(counts.astype(np.int64).ravel())
    episodes = [slice(end - int(count), end) for count, end in zip(counts.flat, ends, strict=True)]
    begins = np.concatenate([[0], np.cumsum(lengths.astype(np.int64))])
    result: list[list[Steps]] = []
    for k, own in enumerate(episodes):
        if k % tasks == 0:
            result.append([])
        rows = slice(int(begins[own.start]), int(begins[own.stop]))
        taken = {
            name: arrays[name][
                own if shape[0] == E and name in ("last", "bootstrap_mask") else rows
            ]
            for name, shape in shapes.items()
        }
        taken = {name: part.copy() for name, part in taken.items()}
        result[-1].append(Steps(lengths=lengths[own].astype(np.int64), **taken))
    return result


def _counts(array: Floats) -> bool:
    """Return whether an array holds counts of at least one."""
    return bool(np.all(np.isfinite(array)) and np.all(array >= 1) and np.all(array % 1 == 0))
