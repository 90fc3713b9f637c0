"""Tasks: a Gymnasium environment with a name and, optionally, compiled dynamics.

Compiled dynamics make rollouts fast and let them restart from any state.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from numba import types
from numpy.typing import NDArray

from crosslearning._base.choices import Choices
from crosslearning._base.compiled import FunctionPointer
from crosslearning.errors import CrossLearningError, InputError, describe_exception, visible
from crosslearning.tasks.flattening import FlatEnvironment, FlatFactory, needs_flattening
from crosslearning.tasks.loop import LoopFactory
from crosslearning.tasks.loop_spec import LoopSpec, Range
from crosslearning.tasks.signals import find_circles, find_name
from crosslearning.tasks.vector import Given, InvalidResult, describe, require

Floats = NDArray[np.float64]

_VECTOR = types.float64[::1]
#: Signatures of the functions of :class:`~crosslearning.tasks.Physics`.
RESET = OBSERVE = types.void(_VECTOR, _VECTOR, _VECTOR)
STEP = types.float64(_VECTOR, _VECTOR, _VECTOR)
ENDED = types.boolean(_VECTOR, _VECTOR)

#: The most steps of an evaluated episode in environments without a time limit.
HORIZON = 50
#: Starts in which cosines and sines are looked for.
_STARTS = 8
#: More tasks are a mistake, or an attempt to fill the memory.
MOST_TASKS = 100_000


class Dynamics(NamedTuple):
    """Dynamics as compiled functions over a flat state vector; they draw no random numbers.

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
        Unique in its task set; used in errors and metrics.
    make : callable
        ``make(render_mode=None)`` returns a new Gymnasium environment, or a vector environment
        whose sub-environments are copies of the task. It may also be a vector environment itself,
        which you close.
    dynamics : Dynamics, optional
        The same physics, compiled. The environment and the dynamics must give the same
        observations and rewards; :func:`crosslearning.tasks.check_task` tests it.
    state_size, reset_size : int
        Length of the dynamics' state, and how many uniform numbers ``dynamics.reset`` uses.
    reset_options : callable, optional
        ``reset_options(uniforms)`` returns the ``options`` with which the environment's
        ``reset`` starts as ``dynamics.reset`` does from the same numbers.
    outcomes : sequence of str, or callable, optional
        What is told of an episode: names of numbers in ``info``, such as ``["distance"]``, in
        addition to the booleans of its last ``info``, which always count. A number that every step
        reports is averaged over the episode, another is that of the last ``info``;
        ``"last distance"`` is the last one in any case. With compiled dynamics:
        ``outcomes(states)`` maps final states, shape (n, state_size), to named arrays of length n.
    kernel_covariance : sequence of q floats, optional
        Squared widths of a Gaussian kernel that suits the observations.
    horizon : int
        The most steps of an episode; by default the environment's time limit (its ``spec``, or a
        ``TimeLimit`` wrapper), else 50. Default
        discounts and episode lengths follow from it; samples of ``policy-gradient`` draw their
        own length.
    context : mapping of str to float
        How it differs from other members of its family, such as ``{"g": 9.8}``.
    reward, terminated : callable, optional
        Known functions ``reward(observations, actions, next_observations)``, one number per step
        from arrays of shapes (n, q), (n, p) and (n, q). Only the method ``models`` uses them;
        without them it learns both.
    spaces : pair of Box, optional
        Of observations and actions, of any shape; by default those of the environment, where
        dictionaries and tuples are flattened. Policies read observations, and give actions, as
        flat vectors.
    lags, past_actions : int
        How many differences of successive observations, and how many of the last actions, policies
        observe as well: for speeds that are not measured, and for delays. With ``lags="auto"`` a
        learner chooses from its first exploration, by the evidence of models.
    circles : sequence of pairs of int, optional
        Observations that are a cosine and its sine, for the differences of their angle; by default
        found in a few starts of the environment.
    setpoints : mapping of str to float or str, optional
        Observations to hold at a number, or at another observation. Policies observe the integral
        of each error, and the error itself where it is not a shifted observation.
    limits : mapping of str to pair, optional
        Ranges ``(low, high)`` by name or number, None for no end. Those of actions hold exactly;
        those of observations hold for whole episodes with probability ``chance``.
    rates : mapping of str to float, optional
        The largest change of an action from one step to the next; it holds exactly.
    disturbances : sequence of str or int, optional
        Observations that no action changes, such as the weather; by default those that the
        environment's metadata name. The method ``models`` then learns them from one another alone.
    chance : float
        The probability with which the limits of observations shall hold.
    controller : Controller, callable or object with ``reset`` and ``act``, optional
        Runs the machine today. The task's actions are then corrections, which are added to the
        controller's actions; see :meth:`around`.
    observation_names, action_names : sequence of str, optional
        With units in brackets, such as ``"speed [rad/s]"``; by default those of the environment's
        metadata.

    Examples
    --------
    >>> import gymnasium
    >>> from crosslearning import Task
    >>> def make(render_mode=None):
    ...     return gymnasium.make("Pendulum-v1", g=9.0, render_mode=render_mode)
    >>> Task("pendulum", make).horizon
    200
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
    lags: int | str = 0
    circles: Sequence[tuple[int, int]] | None = None
    past_actions: int = 0
    setpoints: Mapping[str, float | str] | None = None
    limits: Mapping[str, Range] | None = None
    rates: Mapping[str, float] | None = None
    chance: float = 0.95
    disturbances: Sequence[str | int] | None = None
    controller: Any = None
    observation_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    #: What stands between a policy and the environment, and limits of observations by number.
    loop: LoopSpec | None = field(init=False, default=None)
    state_limits: Mapping[int, Range] = field(init=False, default_factory=dict)
    #: The coordinates of what a policy observes that no action changes.
    exogenous: tuple[int, ...] = field(init=False, default=())
    observation_space: gymnasium.spaces.Box = field(init=False)
    action_space: gymnasium.spaces.Box = field(init=False)
    #: Steps per second, from the metadata of the environment.
    rate: float | None = field(init=False, default=None)
    #: Whether neither the task nor its environment sets a time limit.
    unlimited: bool = field(init=False, default=False)
    #: Between which actions a policy's scores choose; None where actions are real numbers.
    choices: Choices | None = field(init=False, default=None)
    #: Whether its environment is a vector environment, if one was made.
    vector: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or visible(self.name, 500) != self.name:
            raise InputError(
                f"a task is called '{visible(self.name, 60)}'; give a name of up to 500 characters "
                "that are all visible"
            )
        names = self.outcomes
        if names is not None and not callable(names):
            named = not isinstance(names, str) and all(isinstance(name, str) for name in names)
            if not named or self.dynamics is not None:
                raise self._invalid(
                    f"outcomes is {names!r}; give names in a list, such as ['distance'], or a "
                    "function of final states (compiled dynamics have no info)"
                )
        given: Any = self.make
        if isinstance(given, LoopFactory):  # a copy, whose loop is made anew
            self._set(make=given.make, observation_names=given.spec.observation_names)
            self._set(action_names=given.spec.action_names)
        if isinstance(given, VectorEnv) and not isinstance(given, Given):
            self._set(make=Given(given))
        spaces, limit = (self.spaces, None) if self.spaces else self._inspect_environment()
        self._set(observation_space=spaces[0], action_space=spaces[1])
        self._check_names(spaces)
        if not self.horizon and not limit:
            self._set(unlimited=self.spaces is None and self.dynamics is None)
        self._set(horizon=self.horizon or limit or HORIZON)
        names = self.observation_names or tuple(
            f"observation {i}" for i in range(math.prod(spaces[0].shape or ()))
        )
        try:
            found = [
                find_name(one, names, "disturbance, an observation,")
                for one in self.disturbances or ()
            ]
        except InputError as problem:
            raise self._invalid(problem) from None
        self._set(exogenous=tuple(sorted(set(found))))
        self._close_loop(spaces)

    def _close_loop(self, spaces: tuple[Any, Any]) -> None:
        """Put the environment behind a loop, if the task asks for one."""
        if not 0.0 < self.chance < 1.0:
            raise self._invalid(f"chance is {self.chance!r}; give a probability, such as 0.95")
        names = self.observation_names, self.action_names
        asked: dict[str, Any] = {"lags": 0 if self.lags == "auto" else self.lags}
        asked |= {k: getattr(self, k) for k in ("past_actions", "setpoints", "limits")}
        asked |= {"rates": self.rates, "controller": self.controller}
        asked |= {"circles": tuple(map(tuple, self.circles or ()))}
        if self.lags == "auto":  # the kernel has to suit them, too
            self._set(kernel_covariance=None)
        if not any(value for value in asked.values()) and self.controller is None:
            return
        for kind in ("controller", "rates", "past_actions") if self.choices else ():
            if asked[kind]:
                raise self._invalid(
                    f"its actions are {self.choices}, so that {kind} cannot be given: it adds to "
                    "or compares actions that are real numbers"
                )
        try:
            loop, limits = LoopSpec.of(spaces, names, self.rate, **asked)
        except InputError as problem:
            raise self._invalid(problem) from None
        self._set(loop=loop, state_limits=limits)
        if loop is None:
            return
        self._set(exogenous=loop.with_changes(self.exogenous))
        if self.controller is not None and self.reward is not None:
            raise self._invalid(
                "reward is a function of the machine's actions, which a controller hides; leave "
                "one of the two out: rewards are then learned"
            )
        (seen, acting), (observations, actions) = loop.names, loop.spaces
        # Compiled dynamics know no loop.
        self._set(make=LoopFactory(self.make, loop), dynamics=None, kernel_covariance=None)
        self._set(observation_space=observations, action_space=actions)
        self._set(observation_names=seen, action_names=acting)
        q = len(loop.observation_names)
        for kind in ("reward", "terminated"):
            if formula := getattr(self, kind):
                self._set(**{kind: lambda s, a, after, f=formula: f(s[:, :q], a, after[:, :q])})

    def around(self, controller: Any) -> Task:
        """Return the task behind a controller: its actions are corrections of the controller's.

        Parameters
        ----------
        controller : callable, or object with ``reset`` and ``act``
            Such as :class:`~crosslearning.PID`. It is given the environment's observations and
            returns its actions; every environment has a copy of its own.

        Examples
        --------
        >>> from crosslearning import PID, task_set
        >>> task_set("pendulums:1")[0].around(PID(kp=2.0, measured=1)).action_names
        ('correction of torque [N m]',)
        """
        task = replace(self, controller=controller)
        task._set(unlimited=self.unlimited)
        return task

    def with_lags(self, lags: int, circles: Sequence[tuple[int, int]] | None = None) -> Task:
        """Return the task with a number of lags, where they were to be chosen."""
        task = replace(self, lags=lags, circles=self.circles if circles is None else circles)
        task._set(unlimited=self.unlimited)
        return task

    @property
    def machine_space(self) -> gymnasium.spaces.Box:
        """The space of the machine's observations, which come first in what a policy observes."""
        return self.observation_space if self.loop is None else self.loop.observations

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _invalid(self, problem: object) -> InputError:
        return InputError(f"task {self.name!r}: {problem}")

    @property
    def listed_outcomes(self) -> tuple[str, ...]:
        """Names of numbers in infos that are outcomes."""
        return () if self.outcomes is None or callable(self.outcomes) else tuple(self.outcomes)

    def _inspect_environment(self) -> tuple[Any, int | None]:
        """Return the spaces of the environment and its time limit; read its metadata."""
        try:
            environment = self.make()
        except CrossLearningError:
            raise
        except Exception as problem:
            why = describe_exception(problem)
            raise InputError(f"the task {self.name!r} cannot be made: {why}") from problem
        if not isinstance(environment, gymnasium.Env | VectorEnv):
            older = (
                ", a gymnasium.Env. One of the older package gym is converted by shimmy: pip "
                "install 'shimmy[gym-v21]', and shimmy.GymV21CompatibilityV0(env=environment), or "
                "GymV26CompatibilityV0"
            )
            raise self._invalid(
                f"make() returned {environment!r}; expected a new environment"
                f"{older if hasattr(environment, 'step') else ''}"
            )
        try:
            self._set(vector=isinstance(environment, VectorEnv))
            compiled = self.vector and (self.dynamics or self.reset_options)
            require(not compiled, "a vector environment: leave out dynamics and reset_options")
            spaces, limit = describe(environment)
            if isinstance(environment, gymnasium.Env) and any(
                map(needs_flattening, spaces, (False, True))
            ):
                environment = FlatEnvironment(environment)
                spaces = environment.observation_space, environment.action_space
                self._set(make=FlatFactory(self.make))
            if isinstance(environment, FlatEnvironment):
                self._set(choices=environment.choices)
            self._read_metadata(environment, spaces)
            if self.lags and not self.vector and self.circles is None:
                starts = [environment.reset(seed=seed)[0] for seed in range(_STARTS)]
                seen = np.array([np.ravel(one) for one in starts], dtype=np.float64)
                self._set(circles=find_circles(seen))
            return spaces, limit
        except InvalidResult as problem:
            raise self._invalid(problem) from None
        finally:
            environment.close()

    def _check_names(self, spaces: tuple[Any, Any]) -> None:
        for key, space in zip(("observation_names", "action_names"), spaces, strict=True):
            names, size = getattr(self, key), math.prod(space.shape or ())
            if names is not None and len(names):
                fine = isinstance(names, list | tuple) and all(
                    isinstance(name, str) and name for name in names
                )
                if not fine or not len(names) == size == len(set(names)):
                    problem = f"its {key} are {names!r}; give {size} different names"
                    raise self._invalid(problem)
            self._set(**{key: tuple(names or ())})

    def _read_metadata(self, environment: Any, spaces: tuple[Any, Any]) -> None:
        metadata: Mapping[str, Any] = environment.metadata or {}
        flat: dict[str, tuple[str, ...]] = {}
        if isinstance(environment, FlatEnvironment):
            flat = dict(zip(("observation_names", "action_names"), environment.names, strict=True))
        for key, space in zip(("observation_names", "action_names"), spaces, strict=True):
            names = metadata.get(key) or ()
            # A wrapper that changes a space shows the names of what it wraps.
            wrapped = isinstance(environment, gymnasium.Wrapper)
            if wrapped and len(names) != math.prod(space.shape or ()):
                names = flat.get(key, ())
            if not getattr(self, key):
                self._set(**{key: names})
        shown = metadata.get("observation_names") or ()
        if self.disturbances is None and tuple(self.observation_names) == tuple(shown):
            self._set(disturbances=tuple(metadata.get("disturbances") or ()))
        rate = metadata.get("rate")
        if rate is not None:
            number = isinstance(rate, int | float) and not isinstance(rate, bool)
            fine = number and 0 < rate < math.inf
            require(fine, f"the metadata 'rate' is {rate!r}; give the steps a second")
            self._set(rate=float(rate))

    @property
    def observation_size(self) -> int:
        """Length of an observation as a flat vector."""
        return math.prod(self.observation_space.shape)

    @property
    def action_size(self) -> int:
        """Length of an action as a flat vector."""
        return math.prod(self.action_space.shape)


def warn_of_no_limit(tasks: Iterable[Task]) -> None:
    """Warn of tasks whose horizon is a guess."""
    names = [repr(task.name) for task in tasks if task.unlimited]
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        # Always from this line, so that Python shows it once.
        warnings.warn(
            f"no time limit is known of the tasks {', '.join(names[:3])}{more}: {HORIZON} steps "
            "per episode are assumed. Set a limit: Task(..., horizon=200), {'a name': {'make': "
            "make, 'horizon': 200}} in a mapping, horizon = 200 in tasks.toml, "
            "gymnasium.wrappers.TimeLimit(environment, 200), or max_episode_steps=200 in "
            "gymnasium.make",
            stacklevel=1,
        )
