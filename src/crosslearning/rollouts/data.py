"""What rollouts take and return: plain arrays, the same from every executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gymnasium.spaces import Box

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class ActionScale(NamedTuple):
    """From the actions of policies, of the order of one, to those of tasks: centre + half · a.

    Attributes
    ----------
    centre, half : arrays, shape (p,)
        The middle of each action's range, and half of its width.
    """

    centre: Floats
    half: Floats

    @classmethod
    def none(cls, outputs: int) -> ActionScale:
        """Return the scale of policies that speak the tasks' own units."""
        return cls(np.zeros(outputs), np.ones(outputs))

    @classmethod
    def of_box(cls, low: NDArray[Any], high: NDArray[Any]) -> ActionScale:
        """Return the scale that takes [−1, 1] to a box."""
        low, high = (np.asarray(end, dtype=np.float64).ravel() for end in (low, high))
        return cls(0.5 * (low + high), 0.5 * (high - low))

    def __call__(self, actions: Floats) -> Floats:
        """Return actions, shape (…, p), in the tasks' units, not yet clipped."""
        return np.asarray(self.centre + self.half * actions)

    def inverse(self, actions: NDArray[Any]) -> Floats:
        """Return actions of tasks, shape (…, p), in the policies' units."""
        return np.asarray((actions - self.centre) / self.half)

    def bounds(self, space: Box) -> Floats:
        """Return the ends of an action space, shape (2, p), in the policies' units."""
        ends = np.array([space.low, space.high], dtype=np.float64).reshape(2, -1)
        return self.inverse(ends)


class HasBounds(Protocol):
    """What a box tells of the numbers in it, by whatever class."""

    @property
    def low(self) -> NDArray[Any]: ...  # noqa: D102
    @property
    def high(self) -> NDArray[Any]: ...  # noqa: D102
    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def dtype(self) -> Any: ...  # noqa: D102


def within(space: HasBounds, actions: Floats) -> NDArray[Any]:
    """Return actions, shape (n, p), clipped to a space and of its shape and type."""
    shaped = actions.reshape(-1, *space.shape)
    clipped = np.minimum(np.maximum(shaped, space.low), space.high)
    return np.asarray(clipped, dtype=space.dtype)


class Noise(NamedTuple):
    """Independent normal numbers of mean zero, one for each action.

    Attributes
    ----------
    variance : array, shape (p,)
        The diagonal of Σ.
    """

    variance: Floats

    @property
    def std(self) -> Floats:
        """Standard deviations, shape (p,)."""
        return np.sqrt(self.variance)


class Samples(NamedTuple):
    """One state, its action's noise and the rewards that followed, for N tasks and B samples.

    Attributes
    ----------
    observations : array, shape (N, B, q)
        s_t: where the action was taken.
    deviations : array, shape (N, B, p)
        a_t − h_i(s_t): the noise of the action.
    values : array, shape (N, B, 2)
        Q̂ after a_t, and, if the rollouts are mirrored, after the mirrored action.
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

    @classmethod
    def empty(cls, tasks: int, batch: int, observation_size: int, outputs: int) -> Samples:
        """Return arrays of the right shapes for an executor to fill."""
        return cls(
            observations=np.empty((tasks, batch, observation_size)),
            deviations=np.empty((tasks, batch, outputs)),
            values=np.zeros((tasks, batch, 2)),
            returns=np.empty((tasks, batch)),
            steps=np.empty((tasks, batch), dtype=np.int64),
        )


class Episodes(NamedTuple):
    """Whole episodes of N tasks, n of each; :meth:`of_task` takes the first axis off.

    Attributes
    ----------
    rewards : array, shape (N, n, horizon)
        Zero after the end of an episode.
    lengths : array of int, shape (N, n)
        Steps until the end.
    terminated : array of bool, shape (N, n)
        Whether the episode ended; one that did not was cut off, by the horizon or by the
        environment's own time limit, and more rewards would have followed.
    observations : array, shape (N, n, horizon + 1, q)
        After the end of an episode its last one is repeated.
    actions : array, shape (N, n, horizon, p)
        In the tasks' units, before they were clipped to the action space; zero after the end.
    states : array, shape (N, n, horizon + 1, state_size), or None
        For compiled tasks: the whole path. Tasks with a smaller state leave the last columns zero.
    outcomes : sequence of N mappings of str to array, shape (n, …)
        How the episodes ended, by name, as far as a task can tell: what ``Task.outcomes`` reads
        from the last states; else what the last ``info`` tells, its truth values and the numbers
        that the task lists. What some of the episodes do not tell is NaN, a truth value masked.
    """

    rewards: Floats
    lengths: Integers
    terminated: NDArray[np.bool_]
    observations: Floats
    actions: Floats
    states: Floats | None
    outcomes: Any = ()

    @classmethod
    def empty(cls, shape: tuple[int, int, int], q: int, p: int, state_size: int = 0) -> Episodes:
        """Return arrays for (N, n, horizon) episodes in which nothing has happened."""
        N, n, horizon = shape
        return cls(
            rewards=np.zeros(shape),
            lengths=np.zeros((N, n), dtype=np.int64),
            terminated=np.zeros((N, n), dtype=np.bool_),
            observations=np.zeros((N, n, horizon + 1, q)),
            actions=np.zeros((N, n, horizon, p)),
            states=np.zeros((N, n, horizon + 1, state_size)) if state_size else None,
        )

    def of_task(self, task: int) -> Episodes:
        """Return the episodes of one task, without the axis of tasks."""
        return Episodes(*(None if part is None else part[task] for part in self))  # type: ignore[arg-type]
