"""Controllers: what runs a machine today, and what learning may start from.

A controller is a function from an observation to an action, or an object with ``reset()`` and
``act(observation)`` that keeps a memory, such as a PID's integral. An object may show its memory as
an array ``memory``, which policies then observe.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning._base.files import MALFORMED
from crosslearning._base.plain_kernels import PlainFamily
from crosslearning.errors import (
    CrossLearningError,
    FileFormatError,
    InputError,
    MissingFormulaError,
    unknown_name,
)

Floats = NDArray[np.float64]
_NO_MEMORY = np.empty(0)
#: Observations before and after a step.
_STEPS = slice(None, -1), slice(1, None)


@dataclass(eq=False)
class Controller:
    """A controller whose parameters are plain numbers, so that files and exports can hold it.

    A subclass defines ``act(observation)``. ``reset`` is called before every episode, and
    ``memory`` is what the next action depends on beside the observation.
    """

    kind: ClassVar[str]

    @property
    def memory(self) -> Floats:
        """What the next action depends on beside the observation; by default nothing."""
        return _NO_MEMORY

    def reset(self) -> None:
        """Begin an episode."""

    def act(self, observation: Floats) -> Floats:
        """Return the action for an observation, both flat and in the machine's units."""
        raise NotImplementedError

    @property
    def is_plain(self) -> bool:
        """Whether :meth:`to_dict` says all of it; what a subclass of yours adds is code."""
        return KINDS.get(self.kind) is type(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        plain = {k: np.asarray(v).tolist() if v is not None else None for k, v in values.items()}
        return {"controller": self.kind, **plain}


def controller_from_dict(data: Mapping[str, Any]) -> Controller:
    """Return the controller of :meth:`Controller.to_dict`."""
    values = dict(data)
    kind = values.pop("controller", None)
    if kind not in KINDS:
        raise FileFormatError(str(unknown_name("controller", str(kind), KINDS)))
    try:
        return KINDS[kind](**values)
    except (TypeError, ValueError, LookupError, InputError) as problem:
        raise FileFormatError(f"the parts of a controller do not fit: {problem}") from problem


def _matrix(name: str, given: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return finite numbers of a shape; one number fills it."""
    try:
        array = np.broadcast_to(np.asarray(given, dtype=np.float64), shape).copy()
    except ValueError:
        raise InputError(
            f"{name} is {given!r}; give one number, or an array of shape {shape}"
        ) from None
    if not np.all(np.isfinite(array)):
        raise InputError(f"{name} is {given!r}; give finite numbers")
    return array


@dataclass(eq=False)
class Constant(Controller):
    """A constant action, such as a valve that is left where it is.

    Examples
    --------
    >>> from crosslearning import Constant
    >>> Constant([0.5]).act([20.0])
    array([0.5])
    """

    kind = "constant"
    action: Any

    def __post_init__(self) -> None:
        self.action = np.atleast_1d(_matrix("action", self.action, np.shape(self.action)))

    def act(self, observation: ArrayLike) -> Floats:
        """Return the action."""
        return np.array(self.action)


@dataclass(eq=False)
class StateFeedback(Controller):
    """A linear state feedback, u = bias − gain · (observation − target), as LQR gives it.

    Parameters
    ----------
    gain : array_like, shape (p, q)
    target : array_like, shape (q,)
        The observation to hold.
    bias : array_like, shape (p,)
        The action that holds it.

    Examples
    --------
    >>> from crosslearning import StateFeedback
    >>> StateFeedback([[2.0, 1.0]], target=[1.0, 0.0]).act([0.5, 0.1])
    array([0.9])
    """

    kind = "state-feedback"
    gain: Any
    target: Any = 0.0
    bias: Any = 0.0

    def __post_init__(self) -> None:
        shape = np.atleast_2d(self.gain).shape
        self.gain = _matrix("gain", np.atleast_2d(self.gain), shape)
        self.target = _matrix("target", self.target, shape[1:])
        self.bias = _matrix("bias", self.bias, shape[:1])

    def act(self, observation: ArrayLike) -> Floats:
        """Return the action for an observation."""
        error = np.asarray(observation, dtype=np.float64) - self.target
        return np.asarray(self.bias - self.gain @ error)

    @classmethod
    def from_data(
        cls,
        episodes: Mapping[str, Any] | Sequence[Mapping[str, ArrayLike]],
        state_cost: ArrayLike,
        action_cost: ArrayLike,
        target: ArrayLike = 0.0,
    ) -> StateFeedback:
        """Return the LQR of a linear model that is fitted to logged episodes by least squares.

        The model is s' = A s + B u + c; the bias holds ``target`` as nearly as the model can.

        Parameters
        ----------
        episodes : sequence of mappings, or a mapping of machines to such sequences
            Each with ``observations`` (T+1, q) and ``actions`` (T, p); those of several machines
            are pooled.
        state_cost, action_cost : array_like, shapes (q,) and (p,), or (q, q) and (p, p)
            Of (s − target)ᵀ Q (s − target) + (u − bias)ᵀ R (u − bias), summed over steps.

        Examples
        --------
        >>> import numpy as np
        >>> from crosslearning import StateFeedback
        >>> draw, s = np.random.default_rng(0), [np.zeros(1)]
        >>> pushes = draw.uniform(-1.0, 1.0, (20, 1))
        >>> for push in pushes:
        ...     s.append(1.1 * s[-1] + 0.5 * push)
        >>> log = [{"observations": s, "actions": pushes}]
        >>> float(abs(1.1 - 0.5 * StateFeedback.from_data(log, [1.0], [0.1]).gain[0, 0])) < 1.0
        True
        """
        from scipy.linalg import LinAlgError, solve_discrete_are

        logs: Any = episodes
        if isinstance(episodes, Mapping):
            logs = [log for machine in episodes.values() for log in machine]
        seen = [np.atleast_2d(np.asarray(log["observations"], dtype=np.float64)) for log in logs]
        given = [np.atleast_2d(np.asarray(log["actions"], dtype=np.float64)) for log in logs]
        before, after = (np.concatenate([s[part] for s in seen]) for part in _STEPS)
        actions = np.concatenate(given)
        q, p = before.shape[1], actions.shape[1]
        inputs = np.hstack([before, actions, np.ones((len(before), 1))])
        if np.linalg.matrix_rank(inputs) < q + p + 1:
            raise InputError(
                f"{len(before)} steps do not determine a linear model of {q} observations and {p} "
                "actions; log more steps, with actions that are not a function of the observation"
            )
        model = np.linalg.lstsq(inputs, after, rcond=None)[0].T
        A, B, c = model[:, :q], model[:, q : q + p], model[:, -1]
        Q, R = _square("state_cost", state_cost, q), _square("action_cost", action_cost, p)
        try:
            P = solve_discrete_are(A, B, Q, R)
        except (LinAlgError, ValueError) as problem:
            raise InputError(
                f"the linear model of these data has no LQR: {problem}; its actions may not reach "
                "every observation (leave those out), or a cost may be negative"
            ) from problem
        aim = _matrix("target", target, (q,))
        bias = np.linalg.lstsq(B, aim - A @ aim - c, rcond=None)[0]
        return cls(np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A), aim, bias)


def _square(name: str, given: ArrayLike, size: int) -> Floats:
    array = np.asarray(given, dtype=np.float64)
    if array.ndim == 2:
        return _matrix(name, array, (size, size))
    return np.diag(_matrix(name, array, (size,)))


@dataclass(eq=False)
class PID(Controller):
    """A PID controller with anti-windup, for one action or for several.

    With the error e = setpoint − observation, its integral I and its derivative,
    u = bias + kp·e + ki·I + kd·ė, clipped to [low, high]. The integral of an error stands still
    while an action that it drives is clipped and it drives it farther.

    Parameters
    ----------
    kp, ki, kd : float or array_like, shape (p, m)
        Gains of p actions on m measurements.
    setpoint : float or array_like, shape (m,)
    measured : int or str, or a sequence of m of them
        The coordinates of the observation that are measured, by number, or by name for tasks whose
        observations have names.
    bias : float or array_like, shape (p,)
        The action without an error.
    low, high : float or array_like, shape (p,), optional
        The range of the actuators.
    rate : float, optional
        Steps a second, which the integral and the derivative count in; by default the task's, else
        1.

    Examples
    --------
    >>> from crosslearning import PID
    >>> pid = PID(kp=2.0, ki=1.0, setpoint=1.0, rate=10.0)
    >>> [float(pid.act([0.5])[0].round(3)) for _ in range(2)]
    [1.05, 1.1]
    """

    kind = "pid"
    kp: Any
    ki: Any = 0.0
    kd: Any = 0.0
    setpoint: Any = 0.0
    measured: Any = 0
    bias: Any = 0.0
    low: Any = None
    high: Any = None
    rate: float | None = None
    integral: Floats = field(init=False, repr=False)
    last: Floats | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        self.measured = np.atleast_1d(np.asarray(self.measured))
        if not (np.issubdtype(self.measured.dtype, np.integer) or self.is_named):
            raise InputError(
                f"measured is {self.measured.tolist()}; give numbers of observations, from 0, or "
                "their names"
            )
        m = len(self.measured)
        p = max(np.atleast_2d(gain).shape[0] for gain in (self.kp, self.ki, self.kd))
        self.kp, self.ki, self.kd = (
            _matrix(name, getattr(self, name), (p, m)) for name in ("kp", "ki", "kd")
        )
        self.setpoint = _matrix("setpoint", self.setpoint, (m,))
        self.bias = _matrix("bias", self.bias, (p,))
        if self.rate is not None and not 0.0 < self.rate < np.inf:
            raise InputError(f"rate is {self.rate!r}; give the steps a second")
        for name in ("low", "high"):
            if getattr(self, name) is not None:
                setattr(self, name, _matrix(name, getattr(self, name), (p,)))
        self.reset()

    @property
    def is_named(self) -> bool:
        """Whether its measurements are names, which a task turns into numbers."""
        return bool(np.issubdtype(self.measured.dtype, np.str_))

    def reset(self) -> None:
        """Forget the integral and the last error."""
        self.integral, self.last = np.zeros(len(self.measured)), None

    @property
    def memory(self) -> Floats:
        """The integrals that are used, then the last errors if there is a derivative."""
        integral = self.integral[np.any(self.ki != 0.0, axis=0)]
        if not np.any(self.kd):
            return integral
        last = np.zeros(len(self.measured)) if self.last is None else self.last
        return np.concatenate([integral, last[np.any(self.kd != 0.0, axis=0)]])

    def act(self, observation: ArrayLike) -> Floats:
        """Return the action for an observation, and remember its errors."""
        if self.is_named:
            raise InputError(
                f"measured is {self.measured.tolist()}, and only a task knows the numbers of its "
                "observations; take this PID around one, or give the numbers"
            )
        step = 1.0 / (self.rate or 1.0)
        error = self.setpoint - np.asarray(observation, dtype=np.float64)[self.measured]
        slope = np.zeros_like(error) if self.last is None else (error - self.last) / step
        integral = self.integral + step * error
        action = self.bias + self.kp @ error + self.ki @ integral + self.kd @ slope
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        clipped = np.minimum(np.maximum(action, low), high)
        # Outward: the integral's share of the change has the sign of what was clipped.
        outward = self.ki * error * np.sign(action - clipped)[:, None] > 0.0
        still = np.any(outward, axis=0)
        self.integral, self.last = np.where(still, self.integral, integral), error
        return np.asarray(clipped)


@dataclass(eq=False)
class KernelController(Controller):
    """A policy of a file: clip(centre + half · Σ_m κ(s, knot m) weights m, low, high)."""

    kind = "policy"
    kernel: Mapping[str, Any]
    knots: Any
    weights: Any
    centre: Any
    half: Any
    low: Any  #: None is no end
    high: Any

    def __post_init__(self) -> None:
        for name, none in (("low", -np.inf), ("high", np.inf)):
            ends = [none if end is None else float(end) for end in getattr(self, name)]
            setattr(self, name, np.array(ends))
        weights = np.asarray(self.weights, dtype=np.float64)
        knots = np.asarray(self.knots, dtype=np.float64).reshape(len(weights), -1)
        self._function = PlainFamily(dict(self.kernel), knots, weights[:, None, :])

    @classmethod
    def of_policy(cls, data: Mapping[str, Any]) -> KernelController:
        """Return the controller of a policy's plain data."""
        kernel, knots, weights = (data[key] for key in ("kernel", "knots", "weights"))
        ends = {key: data["actions"][key] for key in ("low", "high")}
        if not len(knots):  # a knot without weight tells how many numbers it reads
            sizes = (len(data[signals]["low"]) for signals in ("observations", "actions"))
            knots, weights = ([[0.0] * size] for size in sizes)
        return cls(kernel, knots, weights, **data["scale"], **ends)

    @property
    def function(self) -> PlainFamily:
        """The expansion as a family of one function."""
        return self._function

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        ends = {
            key: [end if np.isfinite(end) else None for end in getattr(self, key).tolist()]
            for key in ("low", "high")
        }
        return {**super().to_dict(), "kernel": dict(self.kernel), **ends}

    def act(self, observation: Floats) -> Floats:
        """Return the action for an observation."""
        seen = np.asarray(observation, dtype=np.float64)[None]
        values: Floats = self._function.expansion(seen)[0, 0]
        action = np.asarray(self.centre) + np.asarray(self.half) * values
        return np.asarray(np.minimum(np.maximum(action, self.low), self.high))


def read_controller(text: str, source: str) -> Controller:
    """Return the controller of a JSON text: a policy's, or that of :meth:`Controller.to_dict`."""
    try:
        data = json.loads(text)
        if data.get("kind") != "policy":
            return controller_from_dict(data)
        if "loop" in data:
            return controller_from_dict({"controller": "corrected", "policy": data})
        if data.get("corrects"):
            raise FileFormatError(
                "it is the correction of a controller alone; export the whole controller"
            )
        return KernelController.of_policy(data)
    except (*MALFORMED, CrossLearningError) as problem:
        raise InputError(
            f"{source} holds no controller: {problem}; give a policy's file (crosslearning export "
            "--to json), or package.module:name"
        ) from problem


def plain_if_policy(given: Any) -> Any:
    """Return a learned policy as plain data, which files can hold; all else as it is."""
    # What a subclass of yours adds is code, as is a kernel of yours. A correction is no controller.
    ours = type(given).__module__ == "crosslearning.learner.policy"
    if not ours or getattr(given, "corrects", True):
        return given
    try:
        return KernelController.of_policy(given.to_dict())
    except MissingFormulaError:
        return given


#: By the names that files have for them; ``tasks/loop.py`` adds one.
KINDS: dict[str, type[Controller]] = {
    kind.kind: kind for kind in (Constant, StateFeedback, PID, KernelController)
}


class _Acting:
    """A controller made of a function, or of an object with ``predict``."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def reset(self) -> None:
        reset = getattr(self.function, "reset", None)
        if callable(reset):
            reset()

    def act(self, observation: Any) -> Any:
        if hasattr(self.function, "predict"):
            answer = self.function.predict(observation)
            return answer[0] if isinstance(answer, tuple) else answer
        return self.function(observation)


def is_memoryless(given: Any) -> bool:
    """Whether actions depend on the observation alone: of a function, or of a kind known here."""
    if isinstance(given, Controller):
        return type(given) in (Constant, StateFeedback, KernelController)
    return given is not None and callable(given) and not hasattr(given, "reset")


def as_controller(given: Any, rate: float | None = None, *bounds: Floats) -> Any:
    """Return a new controller with ``reset`` and ``act`` and a memory of its own.

    ``rate`` and ``bounds`` of the actions are those of a PID which states none.
    """
    if isinstance(given, type):
        name = given.__name__
        raise InputError(f"the controller is the class {name}; give an object of it: {name}(...)")
    if isinstance(given, PID):
        ends = [end if np.all(np.isfinite(end)) else None for end in bounds] or [None, None]
        low = ends[0] if given.low is None else given.low
        high = ends[1] if given.high is None else given.high
        return replace(given, rate=given.rate or rate, low=low, high=high)
    if callable(getattr(given, "act", None)) and callable(getattr(given, "reset", None)):
        return copy.deepcopy(given)
    if callable(given) or hasattr(given, "predict"):
        return _Acting(copy.deepcopy(given) if hasattr(given, "reset") else given)
    raise InputError(
        f"the controller is {given!r}; give a function from an observation to an action, or an "
        "object with reset() and act(observation), such as PID(...) or StateFeedback(...)"
    )
