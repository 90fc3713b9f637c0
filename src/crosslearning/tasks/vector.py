"""Batches of environments: a single one, or the sub-environments of a vector environment.

The sub-environments of a ``gymnasium.vector.VectorEnv`` are copies of one task. They are reset
together, each with its own seed, and each is followed to the end of its episode; what it does from
there to the next common reset is ignored. So all autoreset modes give the episodes of single
environments.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from crosslearning.errors import InputError


class InvalidResult(Exception):  # noqa: N818
    """An environment is not what it should be; the caller adds the name of the task."""


def require(holds: Any, problem: str) -> None:
    """Raise an InvalidResult unless something holds."""
    if not holds:
        raise InvalidResult(problem)


def as_number(value: Any) -> float | None:
    """Return a number, or the one of an array of size 1, as a float; None for anything else."""
    try:
        array = np.asarray(value)
        return float(array.reshape(())) if array.dtype.kind in "fiub" else None
    except (TypeError, ValueError):
        return None


def as_flag(value: Any) -> bool | None:
    """Return a truth value, also a whole 0 or 1, or an array of size 1; None for anything else."""
    number = as_number(value) if np.asarray(value).dtype.kind in "iub" else None
    return bool(number) if number in (0.0, 1.0) else None


def hint_for(problem: BaseException) -> str:
    """Return the usual remedy for an error in the code of an environment, or nothing."""
    said = str(problem)
    if isinstance(problem, TypeError) and re.search(r"reset\(\) got an unexpected keyword", said):
        return (
            ". Gymnasium calls reset(seed=..., options=...): take both, or wrap an environment of "
            "the older gym by shimmy.GymV21CompatibilityV0"
        )
    if isinstance(problem, ValueError) and re.search("unpack .expected 5, got 4", said):
        return (
            ". Its step returns four things, as before Gym 0.26: return terminated and truncated, "
            "or wrap it by shimmy.GymV21CompatibilityV0"
        )
    if isinstance(problem, TypeError) and re.search("0-dimensional|only length-1|scalar", said):
        return (
            ". If it wants a number for its action, which is an array: "
            "gymnasium.wrappers.TransformAction(environment, lambda a: float(a[0]), "
            "environment.action_space)"
        )
    return ""


class EnvBatch:
    """A single environment as a batch of one. It can step on after ``truncated``."""

    is_vector = False
    num_envs = 1
    #: Whether each sub-environment is reset with its own seed.
    own_seeds = True

    def __init__(self, environment: Any) -> None:
        self._environment = environment

    def reset(
        self, seeds: Sequence[int], options: dict[str, Any] | None = None
    ) -> list[tuple[Any, Mapping[str, Any]]]:
        """Reset all sub-environments; return observations and infos."""
        return [self._environment.reset(seed=int(seeds[0]), options=options)]

    def step(self, indices: Collection[int], actions: Sequence[NDArray[Any]]) -> list[Any]:
        """Step with the actions of some sub-environments; return their step results."""
        return [self._environment.step(actions[0])]

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()


def env_batch_of(environment: Any) -> EnvBatch:
    """Return an environment as a batch."""
    return (_VectorBatch if isinstance(environment, VectorEnv) else EnvBatch)(environment)


class _VectorBatch(EnvBatch):
    """The sub-environments of a vector environment."""

    is_vector = True

    def __init__(self, environment: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(environment)
        self.num_envs = environment.num_envs
        self._mode = AutoresetMode(environment.metadata["autoreset_mode"])
        self._done = np.zeros(self.num_envs, dtype=np.bool_)
        space = environment.single_action_space
        self._actions = np.zeros((self.num_envs, *(space.shape or ())), dtype=space.dtype)

    def reset(
        self, seeds: Sequence[int], options: dict[str, Any] | None = None
    ) -> list[tuple[Any, Mapping[str, Any]]]:
        if self._mode is AutoresetMode.NEXT_STEP and self._done.any():
            # A pending autoreset may survive a reset and happen at the first step
            # (AsyncVectorEnv without shared memory): let it happen now.
            self._environment.step(self._actions)
        self._done[:] = False
        result: Any = None
        if self.own_seeds:
            try:
                result = self._environment.reset(seed=[*map(int, seeds)], options=options)
            except (TypeError, gymnasium.error.Error):
                self.own_seeds = False  # it takes a single number
        if not self.own_seeds:
            result = self._environment.reset(seed=int(seeds[0]), options=options)
        observations, infos = self._checked("reset", result, "observations")
        return [(observations[i], self._info(infos, i)) for i in range(self.num_envs)]

    def step(self, indices: Collection[int], actions: Sequence[NDArray[Any]]) -> list[Any]:
        if self._mode is AutoresetMode.DISABLED and self._done.any():
            # Finished ones must be reset before a step, though their results are ignored.
            self._environment.reset(options={"reset_mask": self._done.copy()})
        self._actions[:] = actions[0]
        for index, action in zip(indices, actions, strict=True):
            self._actions[index] = action
        parts = ("observations", "rewards", "terminated", "truncated")
        result = self._checked("step", self._environment.step(self._actions.copy()), *parts)
        observations, rewards, terminated, truncated, infos = result
        self._done = np.logical_or(terminated, truncated)
        results = []
        for i in indices:
            observation, info = observations[i], self._info(infos, i)
            if self._done[i] and self._mode is AutoresetMode.SAME_STEP:
                # The observation is the first one of the next episode.
                kept = info.get("final_obs") is not None
                require(kept, "its mode is SAME_STEP, but the infos hold no 'final_obs'")
                observation, info = info["final_obs"], info.get("final_info", {})
            results.append((observation, rewards[i], terminated[i], truncated[i], info))
        return results

    def _checked(self, method: str, result: Any, *names: str) -> tuple[Any, ...]:
        """Return a result, which must have one of each part for each sub-environment."""
        if not isinstance(result, tuple) or len(result) != len(names) + 1:
            parts = ", ".join(names)
            raise InvalidResult(f"{method} returned {result!r}; expected {parts} and infos")
        for name, batch in zip(names, result, strict=False):
            shape, n = np.shape(batch), self.num_envs
            fine = shape[:1] == (n,) and (name == "observations" or len(shape) == 1)
            require(fine, f"the {name} of {n} sub-environments have shape {shape}; give one each")
        return result

    def _info(self, infos: Mapping[str, Any], index: int) -> dict[str, Any]:
        """Return the info of one sub-environment; ``_name`` masks those that have a name."""
        info = {}
        for name, values in infos.items():
            mask = infos.get(f"_{name}")
            if mask is not None and not mask[index]:
                continue
            if isinstance(values, Mapping):
                info[name] = self._info(values, index)
            elif mask is None and name.startswith("_"):
                continue  # a mask itself
            elif np.shape(values)[:1] == (self.num_envs,):
                info[name] = values[index]
        return info


class Given(gymnasium.vector.VectorWrapper[Any, Any, Any, Any, Any]):
    """The user's vector environment, which "makes" itself, and which the user closes."""

    def __call__(self, render_mode: str | None = None) -> Given:
        """Return it."""
        return self

    def close(self, **_: Any) -> None:
        """Do nothing."""

    def __del__(self) -> None:
        """Do nothing."""

    def __reduce__(self) -> NoReturn:
        raise InputError("its vector environment cannot be sent; give a function that makes one")


def describe(environment: Any) -> tuple[tuple[Any, Any], int | None]:
    """Return the spaces and the time limit of an environment, or of its sub-environments.

    It is an InvalidResult if the sub-environments are not copies of one task.
    """
    spec = environment.spec
    spaces = [environment.observation_space, environment.action_space]
    if isinstance(environment, VectorEnv):
        count: Any = getattr(environment, "num_envs", None)
        mode = environment.metadata.get("autoreset_mode")
        whole = isinstance(count, int) and count >= 1
        require(whole, f"its vector environment has num_envs = {count!r}; give at least 1")
        require(
            mode in [*AutoresetMode, *(known.value for known in AutoresetMode)],
            f"the metadata of its vector environment have {mode!r} for 'autoreset_mode'; give a "
            "gymnasium.vector.AutoresetMode, by which its ends are detected",
        )
        for i, kind in enumerate(("observation_space", "action_space")):
            batch, single = spaces[i], getattr(environment, f"single_{kind}", None)
            require(
                isinstance(single, gymnasium.Space) and batch == batch_space(single, count),
                f"the {kind} of its vector environment is {batch}, not {count} times its "
                f"single_{kind}, {single}. Its sub-environments must be copies of one task; give "
                "tasks that differ one by one",
            )
            spaces[i] = single
        inner: Any = environment.unwrapped
        if spec is None and hasattr(inner, "get_attr"):
            spec = inner.get_attr("spec")[0]
        environment = next(iter(getattr(inner, "envs", ())), None)  # not of other processes
    limits = [getattr(spec, "max_episode_steps", None)]
    while isinstance(environment, gymnasium.Wrapper):
        if isinstance(environment, TimeLimit):  # its environment need not be registered
            limits.append(environment._max_episode_steps)
        environment = environment.env
    return (spaces[0], spaces[1]), min((limit for limit in limits if limit), default=None)
