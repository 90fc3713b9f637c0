"""What every task must satisfy; run it on a task of your own before you learn with it."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from crosslearning.compiled import compiled
from crosslearning.errors import InputError
from crosslearning.tasks.task import Dynamics, Floats, Task

#: Numbers behind the end of an array that compiled code must neither read nor write.
_GUARD = 8


class _Path(NamedTuple):
    """What was seen along an episode; one observation more than rewards."""

    observations: Floats
    rewards: Floats
    ends: NDArray[np.bool_]

    def until(self, other: _Path) -> int | None:
        """Return the first step at which two paths differ, 0 for the start; None if they agree."""
        for k in range(max(len(self.observations), len(other.observations))):
            mine, theirs = self._at(k), other._at(k)
            if mine is None or theirs is None or not np.array_equal(mine, theirs, equal_nan=True):
                return k
        return None

    def _at(self, k: int) -> Floats | None:
        if k >= len(self.observations):
            return None
        paid = [self.rewards[k - 1], self.ends[k - 1]] if k else []
        return np.concatenate([self.observations[k], paid])


def check_task(task: Task, episodes: int = 6, steps: int = 100, seed: int = 0) -> None:
    """Raise an error that names the first property of a task that fails.

    The properties: both spaces are boxes with one axis; observations keep their shape and type,
    are finite and lie in their space; rewards are finite numbers and ends truth values; the
    same seed and the same actions give the same episode. If the task has compiled dynamics:
    they and the environment agree bit for bit, actions beyond their bounds and ends included;
    they stay within their vectors, fill them, and never end an episode at its start; outcomes
    are named arrays.

    Parameters
    ----------
    task : Task
        The task to check.
    episodes, steps : int
        How many episodes are run, and for how many steps at most.
    seed : int
        Seeds the starts and the actions, which are random, some beyond their bounds.

    Raises
    ------
    InputError
        What is wrong, and what to do about it.
    """
    _check_description(task)
    generator = np.random.default_rng(seed)
    environments = task.make(), task.make()
    try:
        for environment in environments:
            for kind in ("observation_space", "action_space"):
                if getattr(environment, kind) != getattr(task, kind):
                    raise _wrong(task, f"make() gives environments with different {kind}s")
        for number in range(episodes):
            actions = _actions(task.action_space, generator, number, steps)
            _check_repeats(task, environments, int(generator.integers(2**31)), actions)
            if task.dynamics is not None:
                uniforms = generator.random(task.reset_size)
                _check_dynamics(task, task.dynamics, environments[0], uniforms, actions)
    finally:
        for environment in environments:
            environment.close()


def _wrong(task: Task, what: str) -> InputError:
    return InputError(f"task {task.name!r}: {what}")


def _check_description(task: Task) -> None:
    """Check what a task says of itself."""
    for kind in ("observation_space", "action_space"):
        space = getattr(task, kind)
        if (
            not isinstance(space, gymnasium.spaces.Box)
            or len(space.shape) != 1
            or not space.shape[0]
        ):
            raise _wrong(
                task,
                f"the {kind} is {space}, but must be a Box with one axis; flatten it with "
                "gymnasium.wrappers (FlattenObservation, or an ActionWrapper of yours)",
            )
    actions = task.action_space
    if not np.issubdtype(actions.dtype, np.floating) or not np.all(actions.low < actions.high):
        raise _wrong(
            task, f"the action_space is {actions}; give floats whose low ends are below the high"
        )
    size = task.observation_space.shape[0]
    widths = task.kernel_covariance
    if widths is not None and (len(widths) != size or not min(widths) > 0.0):
        raise _wrong(
            task, f"kernel_covariance is {widths}; give {size} numbers greater than 0, or None"
        )
    if task.dynamics is None:
        return
    if task.observation_space.dtype != np.float64 or actions.dtype != np.float64:
        raise _wrong(task, "spaces must be float64, as the numbers of compiled dynamics are")
    if task.reset_options is None:
        raise _wrong(
            task,
            "it has dynamics but no reset_options, so that its environment cannot start as they "
            "do; give reset_options(uniforms)",
        )
    parameters = task.dynamics.parameters
    if parameters.dtype != np.float64 or parameters.ndim != 1 or not np.isfinite(parameters).all():
        raise _wrong(task, f"the parameters are {parameters}; give a vector of finite float64")


def _actions(
    space: gymnasium.spaces.Box, generator: np.random.Generator, number: int, steps: int
) -> Floats:
    """Return actions, shape (steps, p): wider from episode to episode, and every other time held.

    A random walk stays where it is; an action that is held leads to bounds and ends.
    """
    reach = 10.0 ** (number // 2 % 3)
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    near = np.clip(0.0, low, high)
    low, high = np.maximum(low, near - reach), np.minimum(high, near + reach)
    beyond = 0.2 * (high - low)
    drawn = generator.uniform(low - beyond, high + beyond, size=(steps, len(low)))
    return np.repeat(drawn[:1], steps, axis=0) if number % 2 else drawn


# The environment -------------------------------------------------------------------------


def _drive(
    task: Task, environment: Any, actions: Floats, seed: int, options: dict[str, Any] | None = None
) -> _Path:
    """Return an episode of the environment, every number of it checked."""
    space = task.action_space
    started = environment.reset(seed=seed, options=options)
    if not isinstance(started, tuple) or len(started) != 2 or not isinstance(started[1], dict):
        raise _wrong(task, f"reset() returned {started!r}; give (observation, info)")
    observations, rewards, ends = [_observed(task, started[0], 0)], [], []
    for k, action in enumerate(actions, start=1):
        # As a rollout does it.
        taken = environment.step(np.clip(action, space.low, space.high).astype(space.dtype))
        if not isinstance(taken, tuple) or len(taken) != 5:
            raise _wrong(
                task,
                f"step() returned {taken!r}; give (observation, reward, terminated, truncated, info)",
            )
        observation, reward, terminated, truncated, _ = taken
        observations.append(_observed(task, observation, k))
        if not isinstance(reward, Real) or not np.isfinite(float(reward)):
            raise _wrong(
                task,
                f"the reward of step {k} is {reward!r}; give a finite number, as by float(...)",
            )
        for word, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, bool | np.bool_):
                raise _wrong(task, f"{word} is {value!r} at step {k}; give True or False")
        rewards.append(float(reward))
        ends.append(bool(terminated))
        if terminated:
            break
    return _Path(np.array(observations), np.array(rewards), np.array(ends, dtype=np.bool_))


def _observed(task: Task, observation: Any, step: int) -> Floats:
    space, where = (
        task.observation_space,
        f"the observation of step {step}" if step else "the start",
    )
    if not isinstance(observation, np.ndarray) or (
        (observation.shape, observation.dtype) != (space.shape, space.dtype)
    ):
        found = f"{getattr(observation, 'dtype', type(observation).__name__)}"
        raise _wrong(
            task,
            f"{where} is of type {found} and shape {np.shape(observation)}, but the space says "
            f"{space.dtype} and {space.shape}; return arrays of that type and shape",
        )
    if not np.all(np.isfinite(observation)):
        raise _wrong(task, f"{where} is {observation}; observations must be finite")
    if not space.contains(observation):
        raise _wrong(
            task,
            f"{where} is {observation}, outside of its space {space}; widen the space, or clip "
            "the observation",
        )
    return observation.astype(np.float64)


def _check_repeats(task: Task, environments: Any, seed: int, actions: Floats) -> None:
    """Check that an episode is a function of its seed and its actions."""
    once, again = (_drive(task, environment, actions, seed) for environment in environments)
    k = once.until(again)
    if k is not None:
        where = f"after {k} steps" if k else "at the start"
        raise _wrong(
            task,
            f"the same seed and the same actions gave two episodes, which differ {where}. The "
            "estimator 'antithetic' comes back to a state by repeating what led to it, and would "
            "give wrong gradients in silence. Let reset(seed=...) set all that the environment "
            "draws and remembers (draw from self.np_random alone); if that cannot be, learn with "
            "estimator='baseline', which repeats nothing",
        )


# The compiled dynamics -------------------------------------------------------------------


@compiled
def _roll(
    dynamics: Any,
    uniforms: Floats,
    actions: Floats,
    state: Floats,
    states: Floats,
    observations: Floats,
    rewards: Floats,
    ends: NDArray[np.bool_],
) -> tuple[int, bool]:
    """Run an episode as a rollout does; return its length, and whether it ended at its start."""
    parameters = dynamics.parameters
    dynamics.reset(parameters, uniforms, state)
    dynamics.observe(parameters, state, observations[0])
    states[0] = state
    if dynamics.ended(parameters, state):
        return 0, True
    for k in range(len(actions)):
        rewards[k] = dynamics.step(parameters, state, actions[k])
        dynamics.observe(parameters, state, observations[k + 1])
        states[k + 1] = state
        ends[k] = dynamics.ended(parameters, state)
        if ends[k]:
            return k + 1, False
    return len(actions), False


def _guarded(array: Floats, guard: float) -> Floats:
    """Return a copy with ``guard`` behind it, in memory, where an overrun would read or write."""
    buffer = np.full(array.size + _GUARD, guard)
    buffer[: array.size] = array.ravel()
    return buffer[: array.size].reshape(array.shape)


def _overrun(array: Floats, guard: float) -> bool:
    buffer = array.base
    while buffer.base is not None:
        buffer = buffer.base
    return not bool(np.all(buffer[array.size :] == guard))


def _simulate(
    task: Task, dynamics: Dynamics, uniforms: Floats, actions: Floats, rest: tuple[float, float]
) -> tuple[_Path, Floats]:
    """Return an episode of the dynamics and its states; ``rest`` is what else the memory holds.

    The two numbers stand behind every vector, and in the state before the start.
    """
    guard, before = rest
    n, q = len(actions), task.observation_space.shape[0]
    vectors = [_guarded(v, guard) for v in (dynamics.parameters, uniforms, actions)]
    state = _guarded(np.full(task.state_size, before), guard)
    observations = _guarded(np.full((n + 1, q), np.nan), guard)
    states, rewards, ends = np.empty((n + 1, task.state_size)), np.empty(n), np.zeros(n, np.bool_)
    guarded = dynamics._replace(parameters=vectors[0])
    length, over = _roll(guarded, *vectors[1:], state, states, observations, rewards, ends)
    if over:
        raise _wrong(
            task, "dynamics.ended is true at a start; an episode must have at least one step"
        )
    if any(_overrun(vector, guard) for vector in (*vectors, state, observations)):
        raise _wrong(
            task,
            "the dynamics write beyond the end of a vector, into memory that is not theirs; "
            f"state_size is {task.state_size}, observations have {q} numbers",
        )
    path = _Path(observations[: length + 1], rewards[:length], ends[:length])
    return path, states[: length + 1]


def _check_dynamics(
    task: Task, dynamics: Dynamics, environment: Any, uniforms: Floats, actions: Floats
) -> None:
    """Check an episode of the dynamics, against the environment's too."""
    path, states = _simulate(task, dynamics, uniforms, actions, (0.25, 0.0))
    if path.until(_simulate(task, dynamics, uniforms, actions, (-3.0, 0.0))[0]) is not None:
        raise _wrong(
            task,
            "the dynamics read beyond the end of a vector: their results depend on what stands "
            f"behind it. reset_size is {task.reset_size}, state_size {task.state_size}, and there "
            f"are {len(dynamics.parameters)} parameters",
        )
    if path.until(_simulate(task, dynamics, uniforms, actions, (0.25, 7.0))[0]) is not None:
        raise _wrong(task, "dynamics.reset leaves some of the state as it was; fill all of it")
    for what, numbers in (("state", states), ("observation", path.observations)):
        if not np.all(np.isfinite(numbers)):
            raise _wrong(task, f"the dynamics leave a number of the {what} unset or not finite")
    assert task.reset_options is not None
    seen = _drive(task, environment, actions, 0, task.reset_options(uniforms))
    k = path.until(seen)
    if k is not None:
        space = task.action_space
        within = np.clip(actions, space.low, space.high)
        if seen.until(_simulate(task, dynamics, uniforms, within, (0.25, 0.0))[0]) is None:
            raise _wrong(
                task,
                "dynamics.step does not clip actions to the bounds of the action space, as the "
                "environment's rollouts do; clip them, as with crosslearning.tasks.clipped",
            )
        where = f"after {k} steps" if k else "at the start (see reset_options)"
        raise _wrong(
            task,
            f"the environment and the dynamics differ {where}; both must give the same bits, "
            "most easily by one code: see crosslearning.tasks.CompiledEnvironment",
        )
    if task.outcomes is not None:
        outcomes = task.outcomes(states)
        if not isinstance(outcomes, Mapping) or any(
            np.shape(values)[:1] != (len(states),) for values in outcomes.values()
        ):
            raise _wrong(
                task,
                f"outcomes of {len(states)} states are {outcomes}; give names with as many values",
            )
