"""A policy that a robot or an evaluation can call."""

from __future__ import annotations

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.errors import InputError
from crosslearning.rkhs import Family

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
    seed : int
        Seeds the noise of actions that are not deterministic.
    """

    def __init__(
        self,
        name: str,
        function: Family,
        noise_std: Floats,
        action_space: gymnasium.spaces.Box,
        discount: float | None = None,
        seed: int = 0,
    ) -> None:
        self.name = name
        self.function = function
        self.noise_std = noise_std
        self.action_space = action_space
        self.discount = discount
        self._generator = np.random.default_rng(seed)

    def __repr__(self) -> str:
        return f"Policy({self.name!r}, {self.function})"

    def mean(self, observation: ArrayLike) -> Floats:
        """Return the mean action before clipping: shape (p,), or (n, p) for a batch."""
        values = self.function(observation)
        return values[0] if values.ndim == 2 else values[:, 0]

    def predict(
        self, observation: ArrayLike, deterministic: bool = True
    ) -> tuple[NDArray[np.generic], None]:
        """Return the action for an observation, or for a batch, and None.

        The same form as Stable-Baselines3's ``predict``.

        Parameters
        ----------
        observation : array_like, shape (q,) or (n, q)
        deterministic : bool
            Whether to act without exploration noise.
        """
        if np.ndim(observation) not in (1, 2):
            raise InputError(
                f"observation must have shape (q,) or (n, q), got {np.shape(observation)}"
            )
        action = self.mean(observation)
        if not deterministic:
            action = action + self.noise_std * self._generator.standard_normal(action.shape)
        clipped = np.clip(action, self.action_space.low, self.action_space.high)
        return clipped.astype(self.action_space.dtype), None
