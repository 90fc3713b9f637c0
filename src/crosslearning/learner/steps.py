"""The steps of recent episodes: what a trust region learns from, and what it keeps in files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from crosslearning._base.choices import Choices
from crosslearning.learner import core
from crosslearning.learner.choosing import choice_statistics
from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rollouts import Episodes


class Steps(NamedTuple):
    """All steps, n, of some episodes, E, of one task, one episode after the other."""

    states: Floats  #: where the actions were taken, shape (n, q)
    actions: Floats  #: shape (n, p), in the policies' units
    densities: Floats  #: their log-densities up to a common constant, or those of choices, (n,)
    rewards: Floats  #: shape (n,)
    last: Floats  #: the observation after each episode, shape (E, q)
    lengths: Integers  #: shape (E,)
    bootstrap_mask: Floats  #: 1 where an episode was truncated, 0 where it terminated, shape (E,)

    @property
    def paid_alike(self) -> bool:
        """Whether every step had the same reward, and no episode terminated."""
        return bool(np.all(self.bootstrap_mask) and np.ptp(self.rewards) == 0.0)

    @classmethod
    def of(
        cls,
        episodes: Episodes,
        noise: Floats,
        std: Floats,
        mean: Callable[[Floats], Floats],
        choices: Choices | None = None,
    ) -> Steps:
        """Lay episodes end to end; their actions were ``mean(states)`` plus ``noise``."""
        E, horizon = episodes.rewards.shape
        there = np.arange(horizon) < episodes.lengths[:, None]
        states = episodes.observations[:, :-1][there]
        means = mean(states)
        actions = means + noise[there]
        densities = log_densities(noise[there], std)
        if choices is not None:
            densities = noise_and_densities(actions, means, std, choices)[1]
        return cls(
            states=states,
            actions=actions,
            densities=densities,
            rewards=episodes.rewards[there],
            last=episodes.observations[np.arange(E), episodes.lengths],
            lengths=episodes.lengths.copy(),
            bootstrap_mask=np.where(episodes.terminated, 0.0, 1.0),
        )


def noise_and_densities(
    actions: Floats, means: Floats, std: Floats, choices: Choices | None
) -> tuple[Floats, Floats]:
    """Return the noise of actions (n, p) and their log-densities (n,), up to a constant.

    If they are scores, these are the mean noise given what they choose, and the log-probability
    of that.
    """
    if choices is None:
        deviations = actions - means
        return deviations, log_densities(deviations, std)
    densities, deviations = choice_statistics(choices, choices.taken(actions), means, std)
    return deviations, densities


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


def unpack(arrays: core.Arrays, tasks: int, q: int, p: int) -> list[list[Steps]]:
    """Return what :func:`pack` packed, or raise FileFormatError if it does not fit together."""
    if "episodes" not in arrays:
        return []
    # Files of version 0.2 have another name for it.
    arrays = {"bootstrap_mask" if k == "goes_on" else k: v for k, v in arrays.items()}
    counts, lengths = arrays["episodes"], arrays["lengths"]
    whole = all(np.all((a >= 1) & (a % 1 == 0) & np.isfinite(a)) for a in (counts, lengths))
    fits = whole and counts.ndim == 2 and counts.shape[1] == tasks and len(counts) > 0
    if not fits or lengths.shape != (int(counts.sum()),):
        raise core.misfit("episodes")
    n, E = int(lengths.sum()), len(lengths)
    per_step = {"states": (n, q), "actions": (n, p), "densities": (n,), "rewards": (n,)}
    core.check_shapes(arrays, {**per_step, "last": (E, q), "bootstrap_mask": (E,)})
    arrays["lengths"] = lengths.astype(np.int64)
    episodes = np.cumsum(counts.astype(np.int64))
    rows = np.cumsum(arrays["lengths"])[episodes - 1]
    columns = [
        np.split(arrays[name].copy(), (rows if name in per_step else episodes)[:-1])
        for name in Steps._fields
    ]
    steps = [Steps(*parts) for parts in zip(*columns, strict=True)]
    return [steps[k : k + tasks] for k in range(0, len(steps), tasks)]
