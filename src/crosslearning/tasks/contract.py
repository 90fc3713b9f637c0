"""The task checker; run it on your own task before you learn with it."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from crosslearning._base.compiled import compiled
from crosslearning.errors import InputError
from crosslearning.tasks.task import Floats, Task
from crosslearning.tasks.vector import EnvBatch, InvalidResult, describe, env_batch_of, require

#: Guard numbers behind each vector, which compiled code must neither read nor write.
_GUARD = 8


def check_task(task: Task, episodes: int = 6, steps: int = 100, seed: int = 0) -> None:
    """Raise an InputError that names the first property of a task that fails, and a remedy.

    The properties: both spaces are boxes with one axis; observations keep their shape and type,
    are finite and lie in their space; rewards are finite numbers and ends booleans; the same seed
    and actions give the same episode, in all sub-environments. Compiled dynamics agree with the
    environment bit for bit, also beyond the bounds of actions; they stay within their vectors, fill
    them, and never end an episode at its start; outcomes are named arrays.

    It runs ``episodes`` of at most ``steps`` steps; ``seed`` determines starts and actions.

    Examples
    --------
    >>> from crosslearning import check_task, task_set
    >>> check_task(task_set("pendulums:1")[0])
    """
    generator = np.random.default_rng(seed)
    environment = task.make()
    try:
        batch = env_batch_of(environment)
        _check_description(task)
        alike = describe(environment)[0][0] == task.observation_space
        require(alike, "make() gives environments with different observation_spaces")
        for number in range(episodes):
            actions = _actions(task.action_space, generator, number, steps)
            _check_repeats(task, batch, number, int(generator.integers(2**31)), actions)
            if task.dynamics is not None:
                _check_dynamics(task, batch, generator.random(task.reset_size), actions)
    except InvalidResult as fault:
        raise InputError(f"task {task.name!r}: {fault}") from None
    finally:
        environment.close()


def _check_description(task: Task) -> None:
    observations, actions = task.observation_space, task.action_space
    for kind, space in (("observation_space", observations), ("action_space", actions)):
        require(
            isinstance(space, Box) and len(space.shape) == 1 and 0 not in space.shape,
            f"the {kind} is {space}, but must be a Box with one axis; flatten it, as with "
            "gymnasium.wrappers.FlattenObservation",
        )
    fine = np.issubdtype(actions.dtype, np.floating) and bool(np.all(actions.low < actions.high))
    require(fine, f"the action_space is {actions}; give floats, low ends below the high")
    widths, q = task.kernel_covariance, observations.shape[0]
    fine = widths is None or (len(widths) == q and min(widths) > 0.0)
    require(fine, f"kernel_covariance is {widths}; give {q} numbers greater than 0")
    if task.dynamics is not None:
        fine = observations.dtype == actions.dtype == np.float64
        require(fine, "spaces must be float64, as the numbers of compiled dynamics are")
        require(task.reset_options, "no reset_options start its environment as its dynamics do")
        parameters = task.dynamics.parameters
        fine = parameters.dtype == np.float64 and parameters.ndim == 1
        require(fine, f"the parameters are {parameters!r}; give a float64 vector")


def _actions(space: Box, generator: np.random.Generator, number: int, steps: int) -> Floats:
    """Return actions, shape (steps, p), wider from episode to episode, and constant in every other.

    Random actions stay near the start; constant ones lead to bounds and ends.
    """
    reach = 10.0 ** (number // 2 % 3)
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    near = np.clip(0.0, low, high)
    low, high = np.maximum(low, near - reach), np.minimum(high, near + reach)
    beyond = 0.2 * (high - low)
    drawn = generator.uniform(low - beyond, high + beyond, size=(steps, len(low)))
    return np.repeat(drawn[:1], steps, axis=0) if number % 2 else drawn


# An episode of n steps is an array of shape (n + 1, q + 2): each row has an observation, and the
# reward and termination of the step before it, which are 0 at the start.


def _differs_at(one: Floats, other: Floats) -> int | None:
    """Return the step after which two episodes differ, 0 for the start; None if they agree."""
    for k, (row, its) in enumerate(zip(one, other, strict=False)):
        if not np.array_equal(row, its, equal_nan=True):
            return k
    return None if len(one) == len(other) else min(len(one), len(other))


def _drive(
    task: Task, batch: EnvBatch, actions: Floats, seed: int, options: Any = None, index: int = 0
) -> Floats:
    """Return a checked episode of the environment."""
    initial: Any = batch.reset([seed] * batch.num_envs, options)[index]
    if not isinstance(initial, tuple) or len(initial) != 2:
        raise InvalidResult(f"reset() returned {initial!r}; give (observation, info)")
    rows = [[*_observed(task.observation_space, initial[0], "the start"), 0.0, 0.0]]
    space = task.action_space
    clipped = np.clip(actions, space.low, space.high).astype(space.dtype)  # as in a rollout
    for k, action in enumerate(clipped, start=1):
        (result,) = batch.step([index], [action])
        if not isinstance(result, tuple) or len(result) != 5:
            raise InvalidResult(f"step() returned {result!r}; give five things, as in Gymnasium")
        observation, reward, terminated, truncated, _ = result
        row = _observed(task.observation_space, observation, f"the observation of step {k}")
        if not isinstance(reward, Real) or not np.isfinite(float(reward)):
            raise InvalidResult(f"the reward of step {k} is {reward!r}; give a finite number")
        for name, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, bool | np.bool_):
                raise InvalidResult(f"{name} is {value!r} at step {k}; give True or False")
        rows.append([*row, float(reward), float(terminated)])
        if terminated or (truncated and batch.is_vector):
            break
    return np.array(rows)


def _observed(space: Box, observation: Any, where: str) -> Floats:
    kind, shape = getattr(observation, "dtype", type(observation).__name__), np.shape(observation)
    if kind != space.dtype or shape != space.shape:
        raise InvalidResult(
            f"{where} is of type {kind} and shape {shape}, but the space says {space.dtype} and "
            f"{space.shape}; return arrays of that type and shape"
        )
    if not np.all(np.isfinite(observation)):
        raise InvalidResult(f"{where} is {observation}; observations must be finite")
    if not space.contains(observation):
        raise InvalidResult(f"{where} is {observation}, outside of {space}; widen the space")
    return np.array(observation, dtype=np.float64)


def _check_repeats(task: Task, batch: EnvBatch, number: int, seed: int, actions: Floats) -> None:
    """Check that an episode is a function of its seed and its actions, in any sub-environment."""
    index = number % batch.num_envs
    first = 0 if batch.own_seeds else index
    k = _differs_at(*(_drive(task, batch, actions, seed, index=one) for one in (first, index)))
    where = f" in its sub-environments 0 and {index}" if first != index else ""
    require(
        k is None,
        f"the same seed and actions gave two episodes{where}, which differ after {k} steps: the "
        "estimator 'antithetic', which repeats episodes, would give wrong gradients. Let "
        "reset(seed=...) set all that the environment draws and remembers (draw from "
        "self.np_random alone), alike in all sub-environments, or learn with estimator='baseline'",
    )


@compiled
def _roll(
    dynamics: Any,
    uniforms: Floats,
    actions: Floats,
    state: Floats,
    observations: Floats,
    states: Floats,
    rewards: Floats,
) -> int:
    """Run an episode as a rollout does; return its length. ``rewards`` has a column for ends."""
    parameters = dynamics.parameters
    dynamics.reset(parameters, uniforms, state)
    dynamics.observe(parameters, state, observations[0])
    states[0] = state
    if dynamics.ended(parameters, state):
        return 0
    for k in range(1, len(actions) + 1):
        rewards[k, 0] = dynamics.step(parameters, state, actions[k - 1])
        dynamics.observe(parameters, state, observations[k])
        states[k] = state
        if dynamics.ended(parameters, state):
            rewards[k, 1] = 1.0
            return k
    return len(actions)


def _simulate(
    task: Task, actions: Floats, uniforms: Floats, guard: float = 0.25, before: float = 0.0
) -> tuple[Floats, Floats]:
    """Return an episode of the dynamics and its states.

    ``guard`` is in memory behind every vector, and ``before`` fills the state before the reset:
    the result must depend on neither.
    """
    assert task.dynamics is not None
    n, q = len(actions), task.observation_space.shape[0]
    observed, old = np.full((n + 1, q), np.nan), np.full(task.state_size, before)
    arrays = (task.dynamics.parameters, uniforms, actions, old, observed)
    wholes = [np.append(array.ravel(), np.full(_GUARD, guard)) for array in arrays]
    parameters, uniforms, actions, state, observed = (
        whole[: array.size].reshape(array.shape)
        for whole, array in zip(wholes, arrays, strict=True)
    )
    states, rewards = np.empty((n + 1, task.state_size)), np.zeros((n + 1, 2))
    dynamics = task.dynamics._replace(parameters=parameters)
    length = _roll(dynamics, uniforms, actions, state, observed, states, rewards)
    require(length, "dynamics.ended is true at a start; a start must never be an end")
    require(
        all(np.all(whole[-_GUARD:] == guard) for whole in wholes),
        "the dynamics write beyond the end of a vector; "
        f"state_size is {task.state_size}, observations have {q} numbers",
    )
    return np.hstack([observed, rewards])[: length + 1], states[: length + 1]


def _check_dynamics(task: Task, batch: EnvBatch, uniforms: Floats, actions: Floats) -> None:
    """Check an episode of the dynamics, and compare it with the environment."""
    assert task.dynamics is not None
    path, states = _simulate(task, actions, uniforms)
    require(
        _differs_at(path, _simulate(task, actions, uniforms, guard=-3.0)[0]) is None,
        f"the dynamics read beyond the end of a vector: reset_size is {task.reset_size}, "
        f"state_size {task.state_size}, and there are {len(task.dynamics.parameters)} parameters",
    )
    filled = _differs_at(path, _simulate(task, actions, uniforms, before=7.0)[0]) is None
    require(filled, "dynamics.reset leaves some of the state as it was; fill all of it")
    for what, numbers in (("state", states), ("observation", path[:, :-2])):
        finite = np.all(np.isfinite(numbers))
        require(finite, f"the dynamics leave a number of the {what} unset or not finite")
    options = task.reset_options(uniforms) if task.reset_options else None
    expected = _drive(task, batch, actions, 0, options)
    k = _differs_at(path, expected)
    within = np.clip(actions, task.action_space.low, task.action_space.high)
    require(
        k is None or _differs_at(expected, _simulate(task, within, uniforms)[0]) is not None,
        "dynamics.step does not clip actions to the bounds of the action space; clip them, as with "
        "crosslearning.tasks.clipped",
    )
    require(
        k is None,
        f"the environment and the dynamics differ after {k} steps (0: reset_options); both must "
        "give the same bits, most easily by one code: see CompiledEnvironment",
    )
    outcomes = task.outcomes(states) if callable(task.outcomes) else {}
    fine = isinstance(outcomes, Mapping) and all(
        np.shape(values)[:1] == (len(states),) for values in outcomes.values()
    )
    require(fine, f"the outcomes of {len(states)} states are {outcomes}; give one each")
