"""The task checker; run it on your own task before you learn with it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from crosslearning._base.compiled import compiled
from crosslearning.errors import CrossLearningError, InputError, describe_exception
from crosslearning.tasks.signals import ends_of
from crosslearning.tasks.task import Floats, Task
from crosslearning.tasks.vector import (
    EnvBatch,
    InvalidResult,
    as_flag,
    as_number,
    describe,
    env_batch_of,
    hint_for,
    require,
)

#: Guard numbers behind each vector, which compiled code must neither read nor write.
_GUARD = 8
#: So many episodes that all end at one step end by a time limit.
_ALIKE = 4


class _Check:
    """What the check of one task finds on the way: sentences, and the ends of its episodes."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.notes: dict[str, str] = {}
        #: How the last episode ended; the lengths of all that were repeated, by their ends.
        self.end = "neither"
        self.ends: dict[str, list[int]] = {"terminated": [], "truncated": [], "neither": []}

    def note(self, kind: str, sentence: str) -> None:
        """Keep the first sentence of each kind."""
        self.notes.setdefault(kind, sentence)

    def note_ends(self) -> None:
        """Note ends that are time limits of an environment's own."""
        terminated, truncated = self.ends["terminated"], self.ends["truncated"]
        everywhere = not truncated and not self.ends["neither"]
        if everywhere and len(terminated) >= _ALIKE and len(set(terminated)) == 1 < terminated[0]:
            k = terminated[0]
            self.note(
                "limit",
                f"all {len(terminated)} episodes terminated at step {k}. If that is a time limit, "
                f"what comes after it is taken for worth nothing: say horizon={k - 1} of the task, "
                "or let it return truncated",
            )
        if self.task.unlimited and truncated:
            self.note(
                "horizon",
                f"an episode was truncated after {max(truncated)} steps, but no time limit is "
                f"known, and {self.task.horizon} steps are assumed: say "
                f"horizon={max(truncated)} of the task",
            )


def check_task(task: Task, episodes: int = 6, steps: int = 100, seed: int = 0) -> None:
    """Raise an InputError that names the first property of a task that fails, and a remedy.

    The properties: both spaces are boxes; observations keep their shape and are finite; rewards are
    finite numbers and ends booleans; sub-environments are alike. Compiled dynamics agree with the
    environment bit for bit, also beyond the bounds of actions; they stay within their vectors, fill
    them, and never end an episode at its start; outcomes are named arrays.

    It warns of what can be learned with but may not be meant: observations of another type than
    their space's, or outside of it; episodes that the seed and the actions do not determine; a time
    limit that is not declared, or ``terminated``.

    It runs ``episodes`` of at most ``steps`` steps; ``seed`` determines starts and actions.

    Examples
    --------
    >>> from crosslearning import check_task, task_set
    >>> check_task(task_set("pendulums:1")[0])
    """
    generator, check = np.random.default_rng(seed), _Check(task)
    environment = task.make()
    try:
        batch = env_batch_of(environment)
        _check_description(task)
        alike = describe(environment)[0][0] == task.observation_space
        require(alike, "make() gives environments with different observation_spaces")
        for number in range(episodes):
            actions = _actions(task.action_space, generator, number, steps)
            _check_repeats(check, batch, number, int(generator.integers(2**31)), actions)
            if task.dynamics is not None:
                _check_dynamics(check, batch, generator.random(task.reset_size), actions)
    except InvalidResult as fault:
        raise InputError(f"task {task.name!r}: {fault}") from None
    finally:
        environment.close()
    check.note_ends()
    for sentence in check.notes.values():
        warnings.warn(f"task {task.name!r}: {sentence}", stacklevel=2)


def _check_description(task: Task) -> None:
    observations, actions = task.observation_space, task.action_space
    for kind, space in (("observation_space", observations), ("action_space", actions)):
        require(
            isinstance(space, Box) and 0 not in space.shape,
            f"the {kind} is {space}, but must be a Box of numbers; see "
            "gymnasium.wrappers.TransformObservation and TransformAction",
        )
    fine = np.issubdtype(actions.dtype, np.floating) and bool(np.all(actions.low < actions.high))
    require(fine, f"the action_space is {actions}; give floats, low ends below the high")
    widths, q = task.kernel_covariance, task.observation_size
    fine = widths is None or (len(widths) == q and min(widths) > 0.0)
    require(fine, f"kernel_covariance is {widths}; give {q} numbers greater than 0")
    if task.dynamics is not None:
        fine = observations.dtype == actions.dtype == np.float64 and len(observations.shape) == 1
        require(fine, "spaces must be float64 vectors, as the numbers of compiled dynamics are")
        require(task.reset_options, "no reset_options start its environment as its dynamics do")
        parameters = task.dynamics.parameters
        fine = parameters.dtype == np.float64 and parameters.ndim == 1
        require(fine, f"the parameters are {parameters!r}; give a float64 vector")


def _actions(space: Box, generator: np.random.Generator, number: int, steps: int) -> Floats:
    """Return actions, shape (steps, p), wider from episode to episode, and constant in every other.

    Random actions stay near the start; constant ones lead to bounds and ends.
    """
    reach = 10.0 ** (number // 2 % 3)
    low, high = ends_of(space)
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
    check: _Check, batch: EnvBatch, actions: Floats, seed: int, options: Any = None, index: int = 0
) -> Floats:
    """Return a checked episode of the environment, up to its end."""
    task = check.task
    initial: Any = _called(0, batch.reset, [seed] * batch.num_envs, options)[index]
    if not isinstance(initial, tuple) or len(initial) != 2:
        raise InvalidResult(f"reset() returned {initial!r}; give (observation, info)")
    rows = [[*_observed(check, initial[0], "the start"), 0.0, 0.0]]
    check.end = "neither"
    for k, action in enumerate(_clipped(task.action_space, actions), start=1):
        (result,) = _called(k, batch.step, [index], [action])
        if not isinstance(result, tuple) or len(result) != 5:
            raise InvalidResult(f"step() returned {result!r}; give five things, as in Gymnasium")
        observation, reward, terminated, truncated, _ = result
        row = _observed(check, observation, f"the observation of step {k}")
        number = as_number(reward)
        if number is None or not np.isfinite(number):
            raise InvalidResult(f"the reward of step {k} is {reward!r}; give a finite number")
        flags = {"terminated": as_flag(terminated), "truncated": as_flag(truncated)}
        for name, value in zip(flags, (terminated, truncated), strict=True):
            if flags[name] is None:
                raise InvalidResult(f"{name} is {value!r} at step {k}; give True or False")
        rows.append([*row, number, float(flags["terminated"] or 0.0)])
        if any(flags.values()):
            check.end = next(name for name, holds in flags.items() if holds)
            break
    return np.array(rows)


def _clipped(space: Box, actions: Floats) -> NDArray[Any]:
    """Return actions, shape (n, p), as a rollout gives them to an environment."""
    shaped = actions.reshape(-1, *space.shape)
    return np.clip(shaped, space.low, space.high).astype(space.dtype)


def _called(k: int, call: Any, *arguments: Any) -> Any:
    """Call the environment; an error of its own is told with the step, and the usual remedy."""
    try:
        return call(*arguments)
    except (CrossLearningError, InvalidResult):
        raise
    except Exception as problem:
        where = f"step {k}" if k else "reset"
        what = describe_exception(problem)
        raise InvalidResult(f"{where} raised {what}{hint_for(problem)}") from problem


def _observed(check: _Check, observation: Any, where: str) -> Floats:
    space = check.task.observation_space
    kind, shape = getattr(observation, "dtype", type(observation).__name__), np.shape(observation)
    try:
        row = np.array(observation, dtype=np.float64)
    except (TypeError, ValueError):
        row = np.empty(0)
    if row.shape != space.shape:
        raise InvalidResult(
            f"{where} is of type {kind} and shape {shape}, but the space says {space.dtype} and "
            f"{space.shape}; return arrays of that type and shape"
        )
    if not np.all(np.isfinite(row)):
        raise InvalidResult(f"{where} is {observation}; observations must be finite")
    if kind != space.dtype:
        check.note(
            "type",
            f"{where} is of type {kind}, but the space says {space.dtype}. Policies read float64, "
            "so nothing is lost; gymnasium.wrappers.DtypeObservation makes them agree",
        )
    seen = row.astype(space.dtype) if space.dtype.kind == "f" else row  # as its bounds are rounded
    outside = (seen < space.low) | (seen > space.high)
    if np.any(outside):
        at, (low, high) = int(np.argmax(outside.ravel())), ends_of(space)
        check.note(
            "outside",
            f"number {at} of {where} is {row.ravel()[at]:g}, outside of its bounds {low[at]:g} and "
            f"{high[at]:g}. Kernels take their widths from what they see, so learning goes on; "
            "widen the space, or clip with gymnasium.wrappers.TransformObservation",
        )
    return row.ravel()


def _check_repeats(check: _Check, batch: EnvBatch, number: int, seed: int, actions: Floats) -> None:
    """Check that an episode is a function of its seed and its actions, in any sub-environment."""
    index = number % batch.num_envs
    first = 0 if batch.own_seeds else index
    one, other = (_drive(check, batch, actions, seed, index=i) for i in (first, index))
    check.ends[check.end].append(len(other) - 1)
    k = _differs_at(one, other)
    if k is None:
        return
    where = f" in its sub-environments 0 and {index}" if first != index else ""
    sentence = (
        f"the same seed and actions gave two episodes{where}, which differ after {k} steps. "
        "trust-region and models learn all the same, but a run cannot be repeated, and "
        "policy-gradient needs estimator='baseline': 'antithetic' repeats episodes. Let "
        "reset(seed=...) set all that the environment draws and remembers (draw from "
        "self.np_random alone), alike in all sub-environments; for one that draws from "
        "numpy.random, a wrapper can call numpy.random.seed(seed) in its reset"
    )
    require(first == index, sentence)  # sub-environments must be copies of one task
    check.note("seed", sentence)


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


def _check_dynamics(check: _Check, batch: EnvBatch, uniforms: Floats, actions: Floats) -> None:
    """Check an episode of the dynamics, and compare it with the environment."""
    task = check.task
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
    expected = _drive(check, batch, actions, 0, options)
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
