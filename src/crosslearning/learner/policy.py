"""A policy that a robot or an evaluation can call."""

from __future__ import annotations

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.errors import InputError
from crosslearning.rkhs import Family
from crosslearning.rollouts import ActionScale, within

Floats = NDArray[np.float64]


class Policy:
    """One function of a family, as a Gaussian policy with bounds on its actions.

    Parameters
    ----------
    name : str
        What it is, such as ``"central"`` or a task's name.
    function : Family
        A family of one function: the mean action.
    noise_std : array, shape (p,)
        Standard deviation of the exploration noise.
    action_space : Box
        Actions are clipped to it.
    discount : float, optional
        γ with which it was learned: what an evaluation takes if it is told no other.
    observation_shape : tuple of int, optional
        By default (q,): what the function reads, as one vector.
    """

    def __init__(
        self,
        name: str,
        function: Family,
        noise_std: Floats,
        action_space: gymnasium.spaces.Box,
        discount: float | None = None,
        observation_shape: tuple[int, ...] | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.noise_std = noise_std
        self.action_space = action_space
        self.discount = discount
        self.observation_shape = observation_shape or (function.kernel.dimension,)
        #: From the function's values to the units of the task.
        self.scale = ActionScale.none(function.outputs)
        self.seed(0)

    def __repr__(self) -> str:
        return f"Policy({self.name!r}, {self.function})"

    def seed(self, seed: int) -> Policy:
        """Choose the noise of actions that are not deterministic; return the policy itself."""
        self._generator = np.random.default_rng(seed)
        return self

    def mean(self, observation: ArrayLike) -> Floats:
        """Return the function's value: shape (p,), or (n, p) for a batch; not scaled or clipped."""
        shape = self.observation_shape
        try:
            given = np.asarray(observation, dtype=np.float64)
        except (TypeError, ValueError):
            given = np.empty((0, 0, 0))
        single = given.shape == shape
        if not single and (given.ndim != len(shape) + 1 or given.shape[1:] != shape):
            raise InputError(
                f"observation must be numbers of shape {shape}, or (n, {str(shape)[1:-1]}) for a "
                f"batch, got {observation!r}"
            )
        flat = np.ascontiguousarray(given.reshape(-1, self.function.kernel.dimension))
        if not np.isfinite(flat).all():
            raise InputError(f"observation must be finite, got {observation!r}")
        values = self.function.expansion(flat)[:, 0]
        return values[0] if single else values

    def predict(
        self,
        observation: ArrayLike,
        deterministic: bool = True,
        *,
        state: object = None,
        episode_start: object = None,
    ) -> tuple[NDArray[np.generic], None]:
        """Return the action for an observation, or for a batch, and None.

        As in Stable-Baselines3, whose ``evaluate_policy`` takes a policy as its model.

        Parameters
        ----------
        observation : array_like, shape of an observation, or (n, …) for a batch
        deterministic : bool
            Whether to act without exploration noise.
        state, episode_start
            Not used: the policy has no memory.
        """
        action = self.mean(observation)
        if not deterministic:
            action = action + self.noise_std * self._generator.standard_normal(action.shape)
        given = within(self.action_space, self.scale(action))
        return given if action.ndim == 2 else given[0], None
