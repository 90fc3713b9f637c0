"""Data of rollouts: plain arrays, the same from every executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class HasBounds(Protocol):
    """A box space of any class."""

    @property
    def low(self) -> NDArray[Any]: ...  # noqa: D102
    @property
    def high(self) -> NDArray[Any]: ...  # noqa: D102
    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def dtype(self) -> Any: ...  # noqa: D102


class ActionScale(NamedTuple):
    """Affine map from policy actions, of order one, to task actions: centre + half · a.

    ``centre`` and ``half``, shape (p,), are the midpoints and half-widths of the action ranges.
    """

    centre: Floats
    half: Floats

    @classmethod
    def none(cls, outputs: int) -> ActionScale:
        """Return the identity."""
        return cls(np.zeros(outputs), np.ones(outputs))

    @classmethod
    def of_box(cls, low: NDArray[Any], high: NDArray[Any]) -> ActionScale:
        """Return the scale that maps [−1, 1] to a box."""
        low, high = (np.asarray(end, dtype=np.float64).ravel() for end in (low, high))
        return cls(0.5 * (low + high), 0.5 * (high - low))

    def __call__(self, actions: Floats) -> Floats:
        """Return actions, shape (…, p), in the tasks' units, not yet clipped."""
        return np.asarray(self.centre + self.half * actions)

    def inverse(self, actions: NDArray[Any]) -> Floats:
        """Return task actions, shape (…, p), in the policies' units."""
        return np.asarray((actions - self.centre) / self.half)

    def bounds(self, space: HasBounds) -> Floats:
        """Return the bounds of an action space, shape (2, p), in the policies' units."""
        ends = np.array([space.low, space.high], dtype=np.float64).reshape(2, -1)
        return self.inverse(ends)


def within(space: HasBounds, actions: Floats) -> NDArray[Any]:
    """Return actions, shape (n, p), clipped to a space, in its shape and dtype."""
    shaped = actions.reshape(-1, *space.shape)
    clipped = np.minimum(np.maximum(shaped, space.low), space.high)
    return np.asarray(clipped, dtype=space.dtype)


class Noise(NamedTuple):
    """Gaussian noise of mean zero; ``variance``, shape (p,), is the diagonal of Σ."""

    variance: Floats

    @property
    def std(self) -> Floats:
        """Standard deviations, shape (p,)."""
        return np.sqrt(self.variance)


class Samples(NamedTuple):
    """Gradient samples of N tasks, B of each.

    Attributes
    ----------
    observations : array, shape (N, B, q)
        s_t, the state in which the action was taken.
    deviations : array, shape (N, B, p)
        a_t − h_i(s_t), the noise of the action.
    values : array, shape (N, B, 2)
        Q̂ after a_t and, if the rollouts are mirrored, after the mirrored action.
    returns : array, shape (N, B)
        Sum of rewards up to and including step t. Since P(t ≥ τ) = γ^τ, it is an unbiased
        estimate of the discounted return U_i.
    steps : array of int, shape (N, B)
        Environment steps, including those that replay a path to restore a state.
    """

    observations: Floats
    deviations: Floats
    values: Floats
    returns: Floats
    steps: Integers

    @classmethod
    def empty(cls, shape: tuple[int, ...], q: int, p: int) -> Samples:
        """Return zero arrays for (N, B) samples."""
        observations, deviations, values = (np.zeros((*shape, size)) for size in (q, p, 2))
        return cls(observations, deviations, values, np.zeros(shape), np.zeros(shape, np.int64))


class Episodes(NamedTuple):
    """Episodes of N tasks, n of each.

    Attributes
    ----------
    rewards : array, shape (N, n, horizon)
        Zero after the end of an episode.
    lengths : array of int, shape (N, n)
        Steps until the end.
    terminated : array of bool, shape (N, n)
        False if the episode was truncated, by the horizon or by the environment's time limit.
    observations : array, shape (N, n, horizon + 1, q)
        The last one is repeated after the end of an episode.
    actions : array, shape (N, n, horizon, p)
        In the tasks' units, before clipping to the action space; zero after the end.
    states : array, shape (N, n, horizon + 1, state_size), or None
        Trajectories of compiled tasks; zero in the columns that a smaller state does not use.
    outcomes : sequence of N mappings of str to array, shape (n, …)
        What ``Task.outcomes`` reads from the last states, or else the booleans in the last
        ``info`` and the numbers that the task lists. Missing numbers are NaN, missing booleans
        masked.
    """

    rewards: Floats
    lengths: Integers
    terminated: NDArray[np.bool_]
    observations: Floats
    actions: Floats
    states: Floats | None
    outcomes: Any = ()

    @classmethod
    def empty(cls, shape: tuple[int, ...], q: int, p: int, state_size: int = 0) -> Episodes:
        """Return zero arrays for (N, n, horizon) episodes; without states, room for outcomes."""
        N, n, horizon = shape
        return cls(
            rewards=np.zeros(shape),
            lengths=np.zeros((N, n), dtype=np.int64),
            terminated=np.zeros((N, n), dtype=np.bool_),
            observations=np.zeros((N, n, horizon + 1, q)),
            actions=np.zeros((N, n, horizon, p)),
            states=np.zeros((N, n, horizon + 1, state_size)) if state_size else None,
            outcomes=() if state_size else np.empty((N, n), dtype=np.object_),
        )

    @classmethod
    def joined(cls, parts: Sequence[Episodes]) -> Episodes:
        """Return episodes of the same tasks and horizon as one; outcomes are not collected yet."""
        return cls(
            *(
                np.concatenate(arrays, axis=1) if isinstance(arrays[0], np.ndarray) else arrays[0]
                for arrays in zip(*parts, strict=True)
            )
        )

    def of_task(self, task: int) -> Episodes:
        """Return the episodes of one task, without the task axis."""
        return Episodes(*(None if part is None else part[task] for part in self))  # type: ignore[arg-type]
