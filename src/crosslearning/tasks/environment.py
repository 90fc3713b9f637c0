"""A base class for compiled environments: the physics is written once, as four short functions.

The same machine code runs the Gymnasium environment and the learner's rollouts: the same bits.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import IntEnum
from typing import Any, ClassVar, Self

import gymnasium
import numpy as np
from numba.typed import List
from numpy.typing import ArrayLike, NDArray

from crosslearning._base.compiled import compiled, pointer_to
from crosslearning.errors import InputError, unknown_name
from crosslearning.tasks.numbers import check_names, read_array, read_number
from crosslearning.tasks.task import ENDED, OBSERVE, RESET, STEP, Dynamics, Floats, Task


class Parameters(IntEnum):
    """Names of the parameters of a physics, each declared as ``NAME = default``.

    A member is its index in the parameter vector, in compiled code too.

    Examples
    --------
    >>> from crosslearning.tasks import Parameters
    >>> class Tank(Parameters):
    ...     AREA = 1.0
    ...     LEAK = 0.4
    >>> Tank.LEAK.value
    1
    """

    default: float

    def __new__(cls, default: float) -> Self:
        """Return the member with the next index."""
        member = int.__new__(cls, len(cls.__members__))
        member._value_, member.default = int(member), default
        return member

    @classmethod
    def vector(cls, **numbers: float) -> Floats:
        """Return the parameter vector: the defaults, but for the numbers given by name."""
        names = {member.name.lower(): member for member in cls}
        check_names("parameter", numbers, names)
        vector = np.array([member.default for member in cls], dtype=np.float64)
        for name, number in numbers.items():
            vector[names[name]] = read_number(name, number)
        return vector


@compiled
def clipped(number: float, low: float, high: float) -> float:
    """Return the number clipped to [low, high]; NaN stays NaN.

    Examples
    --------
    >>> from crosslearning.tasks import clipped
    >>> clipped(3.0, -1.0, 1.0)
    1.0
    """
    if number < low:
        return low
    if number > high:
        return high
    return number


@compiled
def never_ends(parameters: Floats, state: Floats) -> bool:
    """Return False."""
    return False


@dataclass(frozen=True)
class Physics:
    """Dynamics and rewards as four functions over flat float64 vectors.

    Each is defined at the top level of a module, plain or ``@compiled``; functions that they call
    must be ``@compiled``. They are compiled on first use, and draw no random numbers.

    Parameters
    ----------
    reset : callable
        ``reset(parameters, uniforms, state)`` fills all of ``state`` from numbers in [0, 1).
    observe : callable
        ``observe(parameters, state, observation)`` fills all of ``observation``.
    step : callable
        ``step(parameters, state, action)`` advances ``state`` and returns the reward. Actions may
        lie beyond their bounds: clip them, as with :func:`clipped`.
    ended : callable
        ``ended(parameters, state)`` returns whether the episode has terminated, which no start
        may have; by default never.
    state_size, reset_size : int
        Lengths of ``state`` and of ``uniforms``.
    parameters : subclass of Parameters, optional
        The names of the numbers in ``parameters``.

    Examples
    --------
    >>> from crosslearning.tasks import Physics
    >>> def reset(parameters, uniforms, state):
    ...     state[0] = uniforms[0]
    >>> def observe(parameters, state, observation):
    ...     observation[0] = state[0]
    >>> def step(parameters, state, action):
    ...     state[0] += 0.1 * action[0]
    ...     return -abs(state[0])
    >>> Physics(reset, observe, step, state_size=1, reset_size=1).state_size
    1
    """

    reset: Callable[..., None]
    observe: Callable[..., None]
    step: Callable[..., float]
    ended: Callable[..., bool] = never_ends
    _: KW_ONLY
    state_size: int
    reset_size: int
    parameters: type[Parameters] | None = None

    def dynamics(self, parameters: Floats) -> Dynamics:
        """Return the compiled dynamics of one task."""
        functions = self.reset, self.observe, self.step, self.ended
        return Dynamics(parameters, *map(pointer_to, functions, (RESET, OBSERVE, STEP, ENDED)))


# Calls from Python pass pointers in typed lists. Numba asks Python for the type of a bare pointer
# at every call, which takes longer than the call itself.


@compiled
def _hold(pointer: Any) -> Any:
    held = List()
    held.append(pointer)
    return held


@compiled
def _reset(reset: Any, parameters: Floats, uniforms: Floats, state: Floats) -> None:
    reset[0](parameters, uniforms, state)


@compiled
def _observe(observe: Any, ended: Any, parameters: Floats, state: Floats, seen: Floats) -> bool:
    observe[0](parameters, state, seen)
    return bool(ended[0](parameters, state))


@compiled
def _step(
    observe: Any, step: Any, ended: Any, parameters: Floats, state: Floats, given: Floats, seen: Any
) -> tuple[float, bool]:
    reward = step[0](parameters, state, given)
    return reward, _observe(observe, ended, parameters, state, seen)


class CompiledEnvironment(gymnasium.Env[Floats, Floats]):
    """Base class for Gymnasium environments with compiled physics.

    A subclass defines :attr:`physics`, ``observation_space`` and ``action_space`` (boxes of
    float64 with one axis), in its body or before ``super().__init__``, and may override
    :meth:`outcomes`, :meth:`information` and :meth:`picture`. Parameters of the physics are given
    by name or, if they have no names, as a vector; ``parameters`` is that vector.

    ``reset(options=...)`` takes one of ``{"uniforms": u}``, the numbers in [0, 1) that would
    otherwise be drawn, and ``{"state": vector}``, to continue from a :attr:`state`. After the end
    of an episode ``step`` changes nothing and the reward is 0. There is no time limit.

    Examples
    --------
    >>> from crosslearning.tasks import CompiledEnvironment, NavigationEnvironment
    >>> issubclass(NavigationEnvironment, CompiledEnvironment)
    True
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012
    observation_space: gymnasium.spaces.Box  # type: ignore[assignment]
    action_space: gymnasium.spaces.Box  # type: ignore[assignment]
    #: Squared widths of a Gaussian kernel that suits the observations, if known.
    kernel_covariance: tuple[float, ...] | None = None
    #: The names of reset options; :meth:`state_from` reads them.
    reset_options: ClassVar[tuple[str, ...]] = ("state", "uniforms")

    def __init__(
        self, vector: ArrayLike | None = None, *, render_mode: str | None = None, **parameters: Any
    ) -> None:
        if vector is None:
            vector = (self.physics.parameters or Parameters).vector(**parameters)
        elif parameters:
            raise InputError("give the parameters as a vector or by their names, not both")
        self.parameters = read_array("the parameter vector", vector, (np.size(vector),))
        self.render_mode = self._known_mode(render_mode)
        self._state: Floats = np.zeros(self.physics.state_size)
        self._running = self._over = False
        #: For pictures: the last action of this episode, None at its start; its states so far, if
        #: there is a render mode.
        self.last_action: Floats | None = None
        self._trail: list[Floats] = []

    @property
    def physics(self) -> Physics:
        """The physics; a subclass defines it, usually as ``physics = Physics(...)``."""
        raise InputError(f"{type(self).__name__} has no physics; state it: physics = Physics(...)")

    def outcomes(self, states: Floats) -> Mapping[str, NDArray[Any]]:
        """Return named arrays of length n for final states, shape (n, state_size)."""
        return {}

    def information(self) -> dict[str, Any]:
        """Return the ``info`` of the current state."""
        return {}

    def picture(self) -> Any:
        """Return a picture of the current state for ``render``."""
        raise NotImplementedError(f"{type(self).__name__} has render modes but no picture()")

    def state_from(self, option: str, given: Any) -> Floats:
        """Return the state for a reset option, or raise an InputError."""
        if option != "uniforms":
            return read_array(f"the option {option!r}", given, (self.physics.state_size,))
        uniforms = read_array("the option 'uniforms'", given, (self.physics.reset_size,))
        if not np.all((uniforms >= 0.0) & (uniforms < 1.0)):
            raise InputError(f"the option 'uniforms' is {uniforms}; give numbers in [0, 1)")
        state = np.zeros(self.physics.state_size)
        _reset(self._code[0], self.parameters, uniforms, state)
        return state

    @property
    def state(self) -> Floats:
        """A copy of the state vector; ``reset(options={"state": ...})`` goes back to it."""
        self._require_reset()
        return self._state.copy()

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Start an episode; the class documents the options."""
        super().reset(seed=seed)
        options = options or {"uniforms": self.np_random.random(self.physics.reset_size)}
        check_names("reset option", options, self.reset_options)
        if len(options) > 1:
            raise InputError(f"the reset options {sorted(options)} exclude one another; give one")
        ((option, given),) = options.items()
        self._state[:] = self.state_from(option, given)
        self._running, self.last_action, self._trail = True, None, [self._state.copy()]
        return self._observe(), self.information()

    def step(self, action: ArrayLike) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Advance one step; the physics clips the action to the bounds of the action space."""
        self._require_reset()
        numbers = read_array("the action", action, self.action_space.shape)
        if self._over:
            return self._observe(), 0.0, True, False, self.information()
        self.last_action = numbers
        observation = np.empty(self.observation_space.shape)
        vectors = self.parameters, self._state, numbers, observation
        _, observe, step, ended = self._code
        reward, self._over = _step(observe, step, ended, *vectors)
        if self.render_mode is not None:
            self._trail.append(self._state.copy())
        return observation, reward, self._over, False, self.information()

    def render(self) -> Any:
        """Return a picture of the current state, or None without a render mode."""
        if self.render_mode is None:
            return None
        self._require_reset()
        return self.picture()

    def fresh(self, render_mode: str | None = None) -> CompiledEnvironment:
        """Return a new environment of the same task, not yet reset or seeded."""
        twin = copy.deepcopy(self)
        twin.render_mode = twin._known_mode(render_mode)
        twin._running, twin._np_random, twin._np_random_seed = False, None, None
        return twin

    def task(self, name: str, horizon: int = 0) -> Task:
        """Return this environment as a task; episodes have at most ``horizon`` or 50 steps."""
        has_outcomes = type(self).outcomes is not CompiledEnvironment.outcomes
        kept = self.fresh()  # later changes of this one do not affect the task
        return Task(
            name=name,
            make=kept.fresh,
            dynamics=self.physics.dynamics(self.parameters.copy()),
            state_size=self.physics.state_size,
            reset_size=self.physics.reset_size,
            reset_options=_start_from,
            outcomes=kept.outcomes if has_outcomes else None,
            kernel_covariance=self.kernel_covariance,
            horizon=horizon,
        )

    @functools.cached_property
    def _code(self) -> list[Any]:
        # reset, observe, step and ended; compiled on first use.
        return [_hold(pointer) for pointer in self.physics.dynamics(self.parameters)[1:]]

    def __getstate__(self) -> dict[str, Any]:
        # Machine code cannot be copied or pickled; it is compiled again.
        return {name: value for name, value in self.__dict__.items() if name != "_code"}

    def _observe(self) -> Floats:
        observation = np.empty(self.observation_space.shape)
        _, observe, _, ended = self._code
        self._over = _observe(observe, ended, self.parameters, self._state, observation)
        return observation

    def _require_reset(self) -> None:
        if not self._running:
            raise gymnasium.error.ResetNeeded("no episode has begun; call reset() first")

    def _known_mode(self, mode: str | None) -> str | None:
        if mode is not None and mode not in self.metadata["render_modes"]:
            known = self.metadata["render_modes"] or ["none, as there is no picture"]
            raise unknown_name("render mode", str(mode), known)
        return mode


def _start_from(uniforms: Floats) -> dict[str, Any]:
    return {"uniforms": uniforms}
