"""What a task is: a Gymnasium environment with a name and, if it has them, compiled dynamics.

Everything that learns or evaluates takes tasks in this form. An environment alone is enough;
compiled dynamics make it fast, and let a rollout start again from any of its states.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from numba import types
from numpy.typing import NDArray

from crosslearning._base.compiled import FunctionPointer
from crosslearning.errors import CrossLearningError, InputError, describe_exception, visible
from crosslearning.tasks.vector import Given, describe

Floats = NDArray[np.float64]

_VECTOR = types.float64[::1]
#: ``reset(parameters, uniforms, state)`` fills ``state`` from uniform numbers in [0, 1).
RESET = types.void(_VECTOR, _VECTOR, _VECTOR)
#: ``observe(parameters, state, observation)`` fills ``observation``.
OBSERVE = types.void(_VECTOR, _VECTOR, _VECTOR)
#: ``step(parameters, state, action) -> reward`` moves ``state`` one step on, in place. The
#: action may lie beyond the bounds of the action space and is clipped to them here. It is never
#: called once ``ended`` is true: nothing is paid and nothing moves after an end, and whoever
#: steps (a rollout, an environment) asks ``ended`` first.
STEP = types.float64(_VECTOR, _VECTOR, _VECTOR)
#: ``ended(parameters, state)`` tells whether the episode is over (Gymnasium's *terminated*). It
#: is false at every start: Gymnasium has no word for an episode that ends before its first step.
ENDED = types.boolean(_VECTOR, _VECTOR)

#: The most steps of an evaluated episode, for environments that set no limit of their own.
HORIZON = 50
#: More tasks than these are a mistake, or somebody's attempt to fill the memory.
MOST_TASKS = 100_000


class Dynamics(NamedTuple):
    """A task's physics as compiled functions over a flat state vector.

    The four functions draw no random number: a rollout is a pure function of its start, its
    policy and the noise that it is handed.

    Examples
    --------
    >>> from crosslearning.tasks import task_set
    >>> task_set("pendulums:1")[0].dynamics.parameters.ndim
    1
    """

    parameters: Floats
    reset: FunctionPointer
    observe: FunctionPointer
    step: FunctionPointer
    ended: FunctionPointer


@dataclass(frozen=True, eq=False)
class Task:
    """One Markov decision process.

    Parameters
    ----------
    name : str
        A name that is unique in its task set; errors and metrics use it.
    make : callable
        ``make(render_mode=None)`` returns a new Gymnasium environment, or a vector environment
        whose sub-environments are copies of the task. A vector environment itself will do; you
        close it.
    dynamics : Dynamics, optional
        The same physics, compiled. The environment and the dynamics must give the same
        observations and rewards: :func:`crosslearning.tasks.check_task` looks.
    state_size : int
        Length of the dynamics' state vector.
    reset_size : int
        How many uniform numbers ``dynamics.reset`` uses.
    reset_options : callable, optional
        ``reset_options(uniforms)`` returns the ``options`` with which the environment's
        ``reset`` starts just as ``dynamics.reset`` does from the same numbers.
    outcomes : sequence of str, or callable, optional
        How an episode ended. Names of numbers in the ``info`` of its last step, such as
        ``["distance"]``, beside the truth values in it, which count anyway. Of compiled dynamics:
        ``outcomes(states)`` reads final states, shape (n, state_size), into named arrays of
        length n, such as ``{"crashed": ..., "arrived": ...}``.
    kernel_covariance : sequence of q floats, optional
        Squared widths of a Gaussian kernel that suits the observations.
    horizon : int
        The most steps of an episode in evaluations and pictures; by default the environment's
        own time limit, else 50. Learning knows no limit: a rollout chooses its length.
    context : mapping of str to float
        What makes it differ from other members of its family, such as ``{"g": 9.8}``.
    reward, terminated : callable, optional
        What is known of how the task pays, and of when an episode ends:
        ``reward(observations, actions, next_observations)`` returns a number for each of n steps,
        from arrays of shapes (n, q), (n, p) and (n, q). It is asked only by the method ``models``,
        which else has to learn it; the environment pays as ever.
    spaces : pair of Box, optional
        Of observations and actions; by default those of the environment. A box of any shape will
        do: policies read observations, and give actions, as flat vectors.

    Examples
    --------
    >>> import gymnasium
    >>> from crosslearning import Task
    >>> Task("pendulum", lambda render_mode=None: gymnasium.make("Pendulum-v1", g=9.0)).name
    'pendulum'
    """

    name: str
    make: Callable[..., Any]
    dynamics: Dynamics | None = None
    state_size: int = 0
    reset_size: int = 0
    reset_options: Callable[[Floats], dict[str, Any]] | None = None
    outcomes: Callable[[Floats], Mapping[str, NDArray[Any]]] | Sequence[str] | None = None
    kernel_covariance: tuple[float, ...] | None = None
    horizon: int = 0
    context: Mapping[str, float] = field(default_factory=dict)
    reward: Callable[[Floats, Floats, Floats], Any] | None = None
    terminated: Callable[[Floats, Floats, Floats], Any] | None = None
    spaces: tuple[gymnasium.spaces.Box, gymnasium.spaces.Box] | None = None
    observation_space: gymnasium.spaces.Box = field(init=False)
    action_space: gymnasium.spaces.Box = field(init=False)
    #: What the numbers of observations and actions are, and steps a second, where the metadata of
    #: the environment tell: ``observation_names``, ``action_names`` (as many as there are numbers,
    #: a unit in brackets at the end: ``"speed [rad/s]"``) and ``rate``.
    observation_names: tuple[str, ...] = field(init=False, default=())
    action_names: tuple[str, ...] = field(init=False, default=())
    rate: float | None = field(init=False, default=None)
    #: Whether nobody, neither who made the task nor its environment, said how long episodes are.
    unlimited: bool = field(init=False, default=False)
    #: Whether its environment is a vector of them, as far as one was looked at.
    vector: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or visible(self.name, 500) != self.name:
            raise InputError(
                f"a task is called '{visible(self.name, 60)}'; give a name of up to 500 characters "
                "that are all visible"
            )
        self._check_outcomes()
        given: Any = self.make
        if isinstance(given, VectorEnv):
            object.__setattr__(self, "make", Given(given))
        spaces, limit = self.spaces, None
        if spaces is None:
            spaces, limit = self._look()
        object.__setattr__(self, "observation_space", spaces[0])
        object.__setattr__(self, "action_space", spaces[1])
        if not self.horizon and not limit:
            looked = self.spaces is None and self.dynamics is None
            object.__setattr__(self, "unlimited", looked)
        object.__setattr__(self, "horizon", self.horizon or limit or HORIZON)

    def _check_outcomes(self) -> None:
        names = self.outcomes
        if names is None or callable(names):
            return
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise InputError(
                f"task {self.name!r}: outcomes is {names!r}; give names in a list, such as "
                "['distance'], or a function of final states"
            )
        if self.dynamics is not None:
            raise InputError(
                f"task {self.name!r}: outcomes lists {', '.join(names)}, but compiled dynamics "
                "have no info; give a function of final states"
            )

    @property
    def listed_outcomes(self) -> tuple[str, ...]:
        """The names of numbers in the last ``info`` that are outcomes."""
        return () if self.outcomes is None or callable(self.outcomes) else tuple(self.outcomes)

    def _look(self) -> tuple[Any, int | None]:
        """Return the spaces of the environment and its time limit."""
        try:
            environment = self.make()
        except CrossLearningError:
            raise
        except Exception as problem:
            raise InputError(
                f"the environment of task {self.name!r} cannot be made: "
                f"{describe_exception(problem)}"
            ) from problem
        if not isinstance(environment, gymnasium.Env | VectorEnv):
            raise InputError(
                f"task {self.name!r}: make() returned {environment!r}; expected a new environment "
                "of Gymnasium"
            )
        try:
            if isinstance(environment, VectorEnv) and (self.dynamics or self.reset_options):
                raise InputError(
                    f"task {self.name!r} has a vector environment, which starts from seeds alone: "
                    "leave out dynamics and reset_options"
                )
            object.__setattr__(self, "vector", isinstance(environment, VectorEnv))
            spaces, limit = describe(environment, self.name)
            self._read(environment.metadata or {}, spaces)
            return spaces, limit
        finally:
            environment.close()

    def _read(self, metadata: Mapping[str, Any], spaces: tuple[Any, Any]) -> None:
        """Take over what the metadata tell of observations and actions."""
        for key, space in zip(("observation_names", "action_names"), spaces, strict=True):
            names, size = metadata.get(key), math.prod(space.shape or ())
            if names is None:
                continue
            fine = isinstance(names, list | tuple) and all(isinstance(n, str) and n for n in names)
            if not fine or len(names) != size or len(set(names)) != size:
                raise InputError(
                    f"task {self.name!r}: the metadata of its environment have {names!r} for "
                    f"{key!r}; give {size} different names, or leave it out"
                )
            object.__setattr__(self, key, tuple(names))
        rate = metadata.get("rate")
        if rate is not None:
            number = isinstance(rate, int | float) and not isinstance(rate, bool)
            if not number or not 0 < rate < math.inf:
                raise InputError(
                    f"task {self.name!r}: the metadata of its environment have {rate!r} for "
                    "'rate'; give the steps a second, such as 20.0"
                )
            object.__setattr__(self, "rate", float(rate))

    @property
    def observation_size(self) -> int:
        """How many numbers an observation has."""
        return math.prod(self.observation_space.shape)

    @property
    def action_size(self) -> int:
        """How many numbers an action has."""
        return math.prod(self.action_space.shape)


def warn_of_no_limit(tasks: Iterable[Task]) -> None:
    """Warn of tasks whose horizon is a guess, and say what to set."""
    names = [repr(task.name) for task in tasks if task.unlimited]
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        # Always from this line, so that Python says it once.
        warnings.warn(
            f"no time limit is known of the tasks {', '.join(names[:3])}{more}: their episodes are "
            f"taken to have at most {HORIZON} steps. Say how many: Task(..., horizon=200), horizon "
            "= 200 in tasks.toml, or max_episode_steps=200 in gymnasium.make",
            stacklevel=1,
        )
