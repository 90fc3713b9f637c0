"""Environments whose observations or actions are no box with an axis, such as dictionaries.

Policies read and give vectors of numbers. Dictionaries and tuples of spaces, and boxes without an
axis, are flattened as :mod:`gymnasium.spaces.utils` does; names tell which number is which.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import flatten, flatten_space, unflatten


def needs_flattening(space: Any, is_action: bool) -> bool:
    """Return whether a space is made a vector here: actions must be real numbers already."""
    if isinstance(space, spaces.Box):
        return space.shape == ()
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return False
    leaves = [leaf for _, leaf in _leaves(space, "")]
    if is_action:
        real = [isinstance(leaf, spaces.Box) and leaf.dtype.kind == "f" for leaf in leaves]
        return bool(leaves) and all(real)
    return bool(leaves) and all(isinstance(leaf, _FLATTENED) for leaf in leaves)


_FLATTENED = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def flat_names(space: spaces.Space[Any]) -> tuple[str, ...]:
    """Return a name for each number of a flattened space; nothing if they would not differ.

    They are the keys of dictionaries, with a number where a key has several numbers. A discrete
    value becomes a number for each choice, which is 1 for the one that is taken.
    """
    names = [name for path, leaf in _leaves(space, "") for name in _names_of(path, leaf)]
    return tuple(names) if all(names) and len(set(names)) == len(names) else ()


def _leaves(space: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the spaces that hold no others, each with the keys that lead to it."""
    if isinstance(space, spaces.Dict):
        parts = [(str(key), part) for key, part in space.spaces.items()]
    elif isinstance(space, spaces.Tuple):
        parts = [(f"item {number}", part) for number, part in enumerate(space.spaces)]
    else:
        yield path, space
        return
    for key, part in parts:
        yield from _leaves(part, f"{path} {key}".strip())


def _names_of(path: str, leaf: Any) -> list[str]:
    if isinstance(leaf, spaces.Discrete):
        return [f"{path} = {leaf.start + choice}" for choice in range(int(leaf.n))]
    if isinstance(leaf, spaces.MultiDiscrete):
        counts = enumerate(np.ravel(leaf.nvec).tolist())
        return [f"{path} {place} = {choice}" for place, n in counts for choice in range(n)]
    size = math.prod(leaf.shape)
    return [path] if size == 1 else [f"{path} {place}" for place in range(size)]


class FlatEnvironment(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment with flat observations and actions."""

    def __init__(self, environment: gymnasium.Env[Any, Any]) -> None:
        super().__init__(environment)
        self._flat = [
            needs_flattening(environment.observation_space, is_action=False),
            needs_flattening(environment.action_space, is_action=True),
        ]
        if self._flat[0]:
            self.observation_space = flatten_space(environment.observation_space)
        if self._flat[1]:
            self.action_space = flatten_space(environment.action_space)

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of flattened observations and actions; empty for those that were flat."""
        parts = zip(self._flat, (self.env.observation_space, self.env.action_space), strict=True)
        observations, actions = (flat_names(space) if flat else () for flat, space in parts)
        return observations, actions

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; return the flat observation."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._observed(observation), info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step with a flat action."""
        if self._flat[1]:
            action = unflatten(self.env.action_space, action)
        observation, *rest = self.env.step(action)
        return self._observed(observation), *rest

    def _observed(self, observation: Any) -> Any:
        if not self._flat[0]:
            return observation
        return flatten(self.env.observation_space, observation)


@dataclass(frozen=True, eq=False)
class FlatFactory:
    """Makes flat environments."""

    make: Any

    def __call__(self, render_mode: str | None = None) -> FlatEnvironment:
        """Return a new environment, flattened."""
        made = self.make() if render_mode is None else self.make(render_mode=render_mode)
        return FlatEnvironment(made)
