"""Environments whose observations or actions are no box with an axis, such as dictionaries.

Policies read and give vectors of numbers. Dictionaries and tuples of spaces, and boxes without an
axis, are flattened as :mod:`gymnasium.spaces.utils` does; names tell which number is which.
Discrete actions are chosen by the scores that a policy gives them.
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

from crosslearning._base.choices import MOST_OPTIONS, Choices
from crosslearning.tasks.vector import require


def needs_flattening(space: Any, is_action: bool) -> bool:
    """Return whether a space is made a vector here; parts of actions must be real numbers."""
    if isinstance(space, spaces.Box):
        return space.shape == ()
    if is_action and isinstance(space, _DISCRETE):
        return True
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return False
    leaves = [leaf for _, leaf in _leaves(space, "")]
    if is_action:
        real = [isinstance(leaf, spaces.Box) and leaf.dtype.kind == "f" for leaf in leaves]
        return bool(leaves) and all(real)
    return bool(leaves) and all(isinstance(leaf, _FLATTENED) for leaf in leaves)


_DISCRETE = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
_FLATTENED = (spaces.Box, *_DISCRETE)


def choices_of(space: Any) -> Choices | None:
    """Return the choices that a space of actions offers; None for real numbers."""
    if not isinstance(space, _DISCRETE):
        return None
    if isinstance(space, spaces.Discrete):
        choices = Choices((int(space.n),), (int(space.start),))
    elif isinstance(space, spaces.MultiDiscrete):
        options, first = (tuple(np.ravel(part).tolist()) for part in (space.nvec, space.start))
        choices = Choices(options, first, space.shape)
    else:
        size = math.prod(space.shape)
        choices = Choices((2,) * size, (0,) * size, space.shape)
    fine = choices.options and all(2 <= n <= MOST_OPTIONS for n in choices.options)
    require(fine, f"its actions are {space}; give decisions between 2 to {MOST_OPTIONS} options")
    return choices


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
        self.choices = choices_of(environment.action_space)
        if self.choices is not None:
            self.action_space = spaces.Box(-np.inf, np.inf, (self.choices.size,), np.float64)
        elif self._flat[1]:
            self.action_space = flatten_space(environment.action_space)

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of flattened observations and actions; empty for those that were flat."""
        parts = zip(self._flat, (self.env.observation_space, self.env.action_space), strict=True)
        observations, actions = (flat_names(space) if flat else () for flat, space in parts)
        return observations, actions if self.choices is None else self.choices.names

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; return the flat observation."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._observed(observation), info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step with a flat action, or with what scores choose."""
        if self.choices is not None:
            action = self.choices.choose(action)[()]
        elif self._flat[1]:
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
