"""Environments by their seats: one that is alone has one, a vector environment several.

The sub-environments of a ``gymnasium.vector.VectorEnv`` are copies of one task. They begin
together, each from its own seed, and each is followed to the end of its episode; what the vector
environment does with it from there to the next common beginning is looked at by nobody. So all
autoreset modes give the same episodes, which are those of the environments one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from crosslearning.errors import InputError


class WrongAnswer(Exception):  # noqa: N818
    """What a vector environment returned is not what one returns; whoever asked says whose."""


class EnvBatch(Protocol):
    """One or several copies of an environment, which begin and step together."""

    count: int
    #: Whether it is no vector environment. Alone, it goes on after it said ``truncated``.
    alone: bool
    #: Whether each begins from a seed of its own.
    own_seeds: bool

    def start(
        self, seeds: Sequence[int], options: dict[str, Any] | None = None
    ) -> list[tuple[Any, Mapping[str, Any]]]:
        """Begin an episode in every seat; return observations and infos."""

    def step(self, seats: Collection[int], actions: Sequence[NDArray[Any]]) -> list[Any]:
        """Step with the actions of some seats; return what the ``step`` of each of them gave."""

    def close(self) -> None:
        """Close the environment."""


def env_batch_of(environment: Any) -> EnvBatch:
    """Return an environment by its seats."""
    return _Vector(environment) if isinstance(environment, VectorEnv) else _Alone(environment)


class _Alone:
    """An environment that is alone."""

    count = 1
    alone = True
    own_seeds = True

    def __init__(self, environment: gymnasium.Env[Any, Any]) -> None:
        self._environment = environment

    def start(
        self, seeds: Sequence[int], options: dict[str, Any] | None = None
    ) -> list[tuple[Any, Mapping[str, Any]]]:
        return [self._environment.reset(seed=int(seeds[0]), options=options)]

    def step(self, seats: Collection[int], actions: Sequence[NDArray[Any]]) -> list[Any]:
        return [self._environment.step(actions[0])]

    def close(self) -> None:
        self._environment.close()


class _Vector:
    """The sub-environments of a vector environment."""

    alone = False

    def __init__(self, environment: VectorEnv[Any, Any, Any]) -> None:
        self._environment = environment
        self.count = environment.num_envs
        self.own_seeds = True
        self._mode = AutoresetMode(environment.metadata["autoreset_mode"])
        self._over = np.zeros(self.count, dtype=np.bool_)
        space = environment.single_action_space
        self._actions = np.zeros((self.count, *(space.shape or ())), dtype=space.dtype)

    def start(
        self, seeds: Sequence[int], options: dict[str, Any] | None = None
    ) -> list[tuple[Any, Mapping[str, Any]]]:
        if self._mode is AutoresetMode.NEXT_STEP and self._over.any():
            # One whose reset is due may not notice this one, and reset once more at its first
            # step (AsyncVectorEnv without shared memory): let it have its reset.
            self._environment.step(self._actions)
        self._over[:] = False
        found = self._reset([int(seed) for seed in seeds], options)
        if not isinstance(found, tuple) or len(found) != 2:
            raise WrongAnswer(f"reset returned {found!r}; expected observations and infos")
        self._check(observations=found[0])
        return [(found[0][i], _own(found[1], i, self.count)) for i in range(self.count)]

    def _reset(self, seeds: list[int], options: dict[str, Any] | None) -> Any:
        """Reset all; one that takes a single number, as its base class does, gets the first."""
        if self.own_seeds:
            try:
                return self._environment.reset(seed=seeds, options=options)  # type: ignore[arg-type]
            except (TypeError, gymnasium.error.Error):
                self.own_seeds = False
        return self._environment.reset(seed=seeds[0], options=options)

    def step(self, seats: Collection[int], actions: Sequence[NDArray[Any]]) -> list[Any]:
        if self._mode is AutoresetMode.DISABLED and self._over.any():
            # They may not be stepped as they are, though nobody looks at them any more.
            self._environment.reset(options={"reset_mask": self._over.copy()})
            self._over[:] = False
        self._actions[:] = actions[0]
        for seat, action in zip(seats, actions, strict=True):
            self._actions[seat] = action
        found: Any = self._environment.step(self._actions.copy())
        if not isinstance(found, tuple) or len(found) != 5:
            raise WrongAnswer(f"step returned {found!r}; expected five things, as Gymnasium's does")
        observations, rewards, terminated, truncated, infos = found
        self._check(
            observations=observations, rewards=rewards, terminated=terminated, truncated=truncated
        )
        over = np.logical_or(terminated, truncated)
        # With autoreset, who was over has begun again in this step.
        self._over = over
        result = []
        for seat in seats:
            seen: Any = observations[seat]
            info: Mapping[str, Any] = _own(infos, seat, self.count)
            if over[seat] and self._mode is AutoresetMode.SAME_STEP:
                seen, info = self._last(info, seat)
            result.append((seen, rewards[seat], terminated[seat], truncated[seat], info))
        return result

    def _last(self, info: Mapping[str, Any], seat: int) -> tuple[Any, Mapping[str, Any]]:
        """Return the last observation of an episode and its info: the others are of the next."""
        if info.get("final_obs") is None:
            raise WrongAnswer(
                f"its autoreset_mode is SAME_STEP, but the infos hold no 'final_obs' of "
                f"sub-environment {seat}, whose episode is over"
            )
        return info["final_obs"], info.get("final_info", {})

    def _check(self, **batches: Any) -> None:
        for name, batch in batches.items():
            shape = np.shape(batch)
            if shape[:1] != (self.count,) or (name != "observations" and len(shape) != 1):
                raise WrongAnswer(
                    f"the {name} of {self.count} sub-environments have the shape {shape}; "
                    "expected one for each"
                )

    def close(self) -> None:
        self._environment.close()


def _own(infos: Mapping[str, Any], seat: int, count: int) -> dict[str, Any]:
    """Return what the infos of all sub-environments say of one: ``_name`` tells who has a name."""
    own = {}
    for name, values in infos.items():
        has = infos.get(f"_{name}")
        if has is not None and not has[seat]:
            continue
        if isinstance(values, Mapping):
            own[name] = _own(values, seat, count)
        elif (has is not None or not name.startswith("_")) and np.shape(values)[:1] == (count,):
            own[name] = values[seat]
    return own


# What a task is told of its environment -----------------------------------------------------


class Given:
    """A maker that hands out one vector environment, which whoever made it will close."""

    def __init__(self, environment: VectorEnv[Any, Any, Any]) -> None:
        self._environment = environment

    def __call__(self, render_mode: str | None = None) -> VectorEnv[Any, Any, Any]:
        """Return it, guarded against being closed."""
        return _Kept(self._environment)

    def __reduce__(self) -> NoReturn:
        raise InputError(
            "its vector environment is one object, which stays where it is; give a function that "
            "makes one"
        )


class _Kept(gymnasium.vector.VectorWrapper[Any, Any, Any, Any, Any]):
    """A vector environment that closing does not end."""

    def close(self, **_: Any) -> None:
        """Do nothing."""

    def __del__(self) -> None:
        """Do nothing: it is its maker's."""


def describe(environment: Any, task: str) -> tuple[tuple[Any, Any], int | None]:
    """Return the spaces of one environment or sub-environment, and its time limit if it has one.

    Raises
    ------
    InputError
        If it is a vector environment whose sub-environments are not copies of one task.
    """
    spec = environment.spec
    if not isinstance(environment, VectorEnv):
        limit = spec.max_episode_steps if spec else None
        return (environment.observation_space, environment.action_space), limit
    count, mode = getattr(environment, "num_envs", None), environment.metadata.get("autoreset_mode")
    if not isinstance(count, int) or count < 1:
        raise InputError(
            f"task {task!r}: its vector environment has num_envs = {count!r}; give at least 1"
        )
    try:
        AutoresetMode(mode)
    except ValueError:
        raise InputError(
            f"task {task!r}: the metadata of its vector environment have {mode!r} for "
            "'autoreset_mode', so that its ends cannot be told from its beginnings; give a "
            "gymnasium.vector.AutoresetMode"
        ) from None
    spaces = []
    for kind in ("observation_space", "action_space"):
        single, batch = (getattr(environment, k, None) for k in (f"single_{kind}", kind))
        if not isinstance(single, gymnasium.Space) or batch != batch_space(single, count):
            raise InputError(
                f"task {task!r}: the {kind} of its vector environment is {batch}, which is not "
                f"{count} times its single_{kind}, {single}. Its sub-environments must be copies "
                "of one task, with the same spaces; give tasks that differ one by one"
            )
        spaces.append(single)
    inner: Any = environment.unwrapped
    if spec is None and hasattr(inner, "get_attr"):
        spec = inner.get_attr("spec")[0]
    return (spaces[0], spaces[1]), spec.max_episode_steps if spec else None
