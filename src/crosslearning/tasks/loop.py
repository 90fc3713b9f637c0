"""The loop between a policy and a machine: the controller in use, limits, lags and set-points.

A :class:`Loop` turns what a policy gives, a correction, into the machine's action: it adds the
controller's action, and holds the bounds of actions and of their rates exactly. It turns what the
machine shows into what a policy observes, in this order:

1. the observation;
2. ``lags`` differences of successive observations, the newest first; of a cosine and its sine the
   difference of the angle, in the place of both;
3. the ``past_actions`` last actions, the newest first;
4. for every set-point that is an observation, the error, and for every set-point its integral;
5. the controller's memory.

The same loop runs in training, evaluation, logged data and deployment.
"""

from __future__ import annotations

import itertools
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike, NDArray

from crosslearning.errors import FileFormatError, InputError, describe_exception, unknown_name
from crosslearning.tasks.controllers import (
    KINDS,
    PID,
    Controller,
    Floats,
    KernelController,
    as_controller,
    controller_from_dict,
    plain_if_policy,
)
from crosslearning.tasks.vector import InvalidResult

_WITH_UNIT = re.compile(r"(?P<name>.*\S)\s*(?P<unit>\[[^\[\]]*\])")
#: Ends of a range; None is no end.
Range = tuple[float | None, float | None]


def split_unit(name: str) -> tuple[str, str]:
    """Return a name without its unit, and the unit in brackets, if there is one."""
    match = _WITH_UNIT.fullmatch(name)
    return (match["name"], f" {match['unit']}") if match else (name, "")


def find_name(given: str | int, names: Sequence[str], what: str) -> int:
    """Return the number of a coordinate from its number or name, with or without its unit."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < len(names):
        return given
    plain = [split_unit(name)[0] for name in names]
    for known in (list(names), plain):
        if given in known:
            return known.index(str(given))
    raise unknown_name(what, str(given), plain)


class KnownChange(NamedTuple):
    """The change of a coordinate in a step: gain · (change of source) + slope · (1, s, a)."""

    coordinate: int
    source: int  #: −1 for none
    gain: float
    slope: Floats  #: shape (1 + q + p,)


@dataclass(frozen=True, eq=False)
class LoopSpec:
    """What a loop does, for a machine with q observations and p actions, all flat."""

    observations: Box
    actions: Box
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    lags: int = 0
    past_actions: int = 0
    #: Of each: the coordinate, and its number or the coordinate that holds it.
    setpoints: tuple[tuple[int, float | None, int | None], ...] = ()
    low: Floats = field(default_factory=lambda: np.empty(0))  #: of the actions, shape (p,)
    high: Floats = field(default_factory=lambda: np.empty(0))
    rates: Floats | None = None  #: the largest change of each action in a step, shape (p,)
    controller: Any = None
    rate: float | None = None  #: steps a second
    circles: tuple[tuple[int, int], ...] = ()  #: coordinates that are a cosine and its sine
    _warned: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        spaces: tuple[Box, Box],
        names: tuple[Sequence[str], Sequence[str]],
        rate: float | None,
        *,
        lags: int = 0,
        past_actions: int = 0,
        setpoints: Mapping[str, float | str] | None = None,
        limits: Mapping[str, Range] | None = None,
        rates: Mapping[str, float] | None = None,
        controller: Any = None,
        circles: Sequence[tuple[int, int]] = (),
    ) -> tuple[LoopSpec | None, dict[int, Range]]:
        """Return the loop of a task's fields, or None, and limits of observations by number."""
        seen, acting = (
            tuple(given) or tuple(f"{what} {i}" for i in range(int(np.prod(space.shape))))
            for what, given, space in zip(("observation", "action"), names, spaces, strict=True)
        )
        for name, value in (("lags", lags), ("past_actions", past_actions)):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
                raise InputError(f"{name} is {value!r}; give a whole number up to 100")
        low, high = (np.ravel(end).astype(np.float64) for end in (spaces[1].low, spaces[1].high))
        bounds: dict[int, Range] = {}
        for name, given in (limits or {}).items():
            least, most = _range(name, given)
            if isinstance(name, str) and name in (*acting, *(split_unit(a)[0] for a in acting)):
                i = find_name(name, acting, "action")
                low[i] = low[i] if least is None else max(low[i], least)
                high[i] = high[i] if most is None else min(high[i], most)
            else:
                known = (*seen, *acting)
                i = find_name(name, known, "limit, an observation or an action,")
                bounds[i] = least, most
        aims: list[tuple[int, float | None, int | None]] = []
        for name, aim in (setpoints or {}).items():
            i = find_name(name, seen, "set-point, an observation,")
            if isinstance(aim, str):
                aims.append((i, None, find_name(aim, seen, "value of a set-point")))
            else:
                aims.append((i, float(aim), None))
        steps = np.full(len(acting), np.inf)
        for name, most in (rates or {}).items():
            if not most > 0.0:
                raise InputError(f"the rate of {name!r} is {most!r}; give a change per step")
            steps[find_name(name, acting, "rate, an action,")] = most
        tight = not np.array_equal([low, high], [np.ravel(spaces[1].low), np.ravel(spaces[1].high)])
        if not (lags or past_actions or aims or rates or controller is not None or tight):
            return None, bounds
        if controller is not None:
            controller = plain_if_policy(controller)
            if isinstance(controller, PID) and controller.is_named:
                what = "measurement of the PID, an observation,"
                numbers = [find_name(str(one), seen, what) for one in controller.measured]
                controller = replace(controller, measured=numbers)
            as_controller(controller)  # refuse what is none
        return cls(
            *spaces,
            seen,
            acting,
            lags,
            # A limited rate depends on the last action, which a policy has to know.
            max(past_actions, 1 if rates else 0),
            tuple(aims),
            low,
            high,
            steps if rates else None,
            controller,
            rate,
            tuple(circles),
        ), bounds

    @classmethod
    def whole(cls, observations: Box, actions: Box) -> LoopSpec:
        """Return a loop that changes nothing."""
        sizes = (int(np.prod(space.shape)) for space in (observations, actions))
        seen, acting = (tuple(map(str, range(size))) for size in sizes)
        low, high = (np.ravel(end).astype(np.float64) for end in (actions.low, actions.high))
        return cls(observations, actions, seen, acting, low=low, high=high)

    @property
    def spaces(self) -> tuple[Box, Box]:
        """The spaces that a policy has: of what it observes, and of its corrections."""
        low, high = (
            np.ravel(end).astype(np.float64)
            for end in (self.observations.low, self.observations.high)
        )
        with np.errstate(invalid="ignore", over="ignore"):
            wide = np.nan_to_num(high - low, nan=np.inf, posinf=np.inf)
        changing = self.changing
        wide[[c for c, _ in self.circles]] = 2.0 * np.pi
        wide = wide[changing]
        free = np.full(self._size - self._first - len(self.low) * self.past_actions, np.inf)
        ends = [
            np.concatenate([end, *[sign * wide] * self.lags, *[bound] * self.past_actions, free])
            for end, sign, bound, free in (
                (low, -1.0, self.low, -free),
                (high, 1.0, self.high, free),
            )
        ]
        actions = Box(self.low, self.high, dtype=np.float64)
        if self.controller is not None:
            with np.errstate(invalid="ignore"):
                half = 0.5 * (self.high - self.low)
            actions = Box(-half, half, dtype=np.float64)
        return Box(ends[0], ends[1], dtype=np.float64), actions

    @property
    def changing(self) -> list[int]:
        """The coordinates whose differences are shown: of a circle one stands for the angle."""
        sines = [sine for _, sine in self.circles]
        return [d for d in range(len(self.observation_names)) if d not in sines]

    @property
    def _first(self) -> int:
        """Where past actions begin."""
        return len(self.observation_names) + self.lags * len(self.changing)

    @property
    def _size(self) -> int:
        errors = sum(1 + (held is not None) for _, _, held in self.setpoints)
        return self._first + len(self.low) * self.past_actions + errors + len(self._memory)

    @property
    def _memory(self) -> Floats:
        return memory_of(None if self.controller is None else as_controller(self.controller))

    def known_changes(self, centre: Floats, half: Floats) -> list[KnownChange]:
        """Return the coordinates of what a policy observes whose changes need not be learned.

        ``centre`` and ``half`` map a policy's actions to those of the task.
        """
        q, p = len(self.observation_names), len(self.low)
        size, step, changes = self._size, 1.0 / (self.rate or 1.0), []

        def shift(first: int, count: int, width: int) -> None:
            """Add rows of a memory that moves on by one row a step."""
            for j in range(first + width, first + count * width):
                slope = np.zeros(1 + size + p)
                slope[1 + j - width], slope[1 + j] = 1.0, -1.0
                changes.append(KnownChange(j, -1, 0.0, slope))

        cosines, changing = [cosine for cosine, _ in self.circles], self.changing
        for k, c in enumerate(changing if self.lags else []):
            if c not in cosines:  # the change of an angle is not one of a coordinate
                slope = np.zeros(1 + size + p)
                slope[1 + q + k] = -1.0  # the newest difference becomes the change of c
                changes.append(KnownChange(q + k, c, 1.0, slope))
        shift(q, self.lags, len(changing))
        first = self._first
        # A controller or a rate make an action a nonlinear function of the policy's.
        if self.controller is None and self.rates is None and self.past_actions:
            for a in range(p):
                slope = np.zeros(1 + size + p)
                slope[0], slope[1 + first + a], slope[1 + size + a] = centre[a], -1.0, half[a]
                changes.append(KnownChange(first + a, -1, 0.0, slope))
            shift(first, self.past_actions, p)
        first += p * self.past_actions + sum(at is not None for _, _, at in self.setpoints)
        for k, (i, aim, _) in enumerate(self.setpoints):
            if aim is not None:  # but for anti-windup
                slope = np.zeros(1 + size + p)
                slope[0], slope[1 + i] = step * aim, -step
                changes.append(KnownChange(first + k, i, -step, slope))
        return sorted(changes, key=lambda change: change.coordinate)

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of what a policy observes, and of its corrections; units follow."""
        seen = [split_unit(name) for name in self.observation_names]
        acting = [split_unit(name) for name in self.action_names]
        names = list(self.observation_names)
        angles = {c: (f"the angle of {seen[c][0]}", " [rad]") for c, _ in self.circles}
        for k in range(1, self.lags + 1):
            changes = [angles.get(c, seen[c]) for c in self.changing]
            names += [f"change {k} of {name}{unit}" for name, unit in changes]
        for k in range(1, self.past_actions + 1):
            names += [f"{name} {k} steps ago{unit}" for name, unit in acting]
        held = [i for i, _, other in self.setpoints if other is not None]
        names += [f"error of {seen[i][0]}{seen[i][1]}" for i in held]
        names += [f"integral of the error of {seen[i][0]}" for i, _, _ in self.setpoints]
        names += [f"memory {j} of the controller" for j in range(len(self._memory))]
        corrections = self.action_names
        if self.controller is not None:
            corrections = tuple(f"correction of {name}{unit}" for name, unit in acting)
        return tuple(names), corrections

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; a controller that is code is only mentioned."""
        controller = self.controller
        if controller is not None:
            is_plain = isinstance(controller, Controller) and controller.is_plain
            controller = controller.to_dict() if is_plain else "code"
        return {
            **{name: getattr(self, name) for name in _PARTS},
            "circles": self.circles,
            "spaces": [space_to_plain(space) for space in (self.observations, self.actions)],
            "ends": space_to_plain(Box(self.low, self.high, dtype=np.float64)),
            "rates": None if self.rates is None else [str(rate) for rate in self.rates.tolist()],
            "controller": controller,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], controller: Any = None) -> LoopSpec:
        """Return the loop of :meth:`to_dict`; ``controller`` is that which is code."""
        given = data["controller"]
        if given == "code" and controller is None:
            raise InputError("its controller is code, which files never carry; pass the controller")
        if given != "code":
            controller = None if given is None else controller_from_dict(given)
        observations, actions = map(space_from_plain, data["spaces"])
        ends, rates = space_from_plain(data["ends"]), data["rates"]
        seen, acting, lags, past, setpoints, rate = (data[name] for name in _PARTS)
        spec = cls(
            observations,
            actions,
            tuple(map(str, seen)),
            tuple(map(str, acting)),
            int(lags),
            int(past),
            tuple((int(i), aim, at) for i, aim, at in setpoints),
            ends.low.astype(np.float64),
            ends.high.astype(np.float64),
            None if rates is None else np.array([float(rate) for rate in rates]),
            controller,
            None if rate is None else float(rate),
            tuple((int(cosine), int(sine)) for cosine, sine in data.get("circles", ())),
        )
        q, p = len(spec.observation_names), len(spec.action_names)
        steps = np.ones(p) if spec.rates is None else spec.rates
        sizes = [math.prod(observations.shape), math.prod(actions.shape), len(spec.low), len(steps)]
        fine = sizes == [q, p, p, p] and max(spec.lags, spec.past_actions) <= 100
        fine &= min(spec.lags, spec.past_actions) >= 0 and bool(np.all(steps > 0.0))
        fine &= spec.rate is None or 0.0 < spec.rate < math.inf
        fine &= all(0 <= i < q for pair in spec.circles for i in pair)
        for i, aim, at in spec.setpoints:
            number = at is None and isinstance(aim, int | float) and math.isfinite(aim)
            fine &= 0 <= i < q and (number or (isinstance(at, int) and 0 <= at < q))
        if not fine:
            raise FileFormatError("the parts of a loop do not fit")
        return spec


_NAMES = ("observation_names", "action_names")
_PARTS = (*_NAMES, "lags", "past_actions", "setpoints", "rate")


def space_to_plain(space: Box) -> dict[str, Any]:
    """Return a box for JSON: infinite bounds are strings."""
    low, high = (
        [v if math.isfinite(v) else str(v) for v in end.ravel().tolist()]
        for end in (space.low, space.high)
    )
    shape, kind = list(space.shape), np.dtype(space.dtype).name
    return {"low": low, "high": high, "shape": shape, "dtype": kind}


def space_from_plain(data: Mapping[str, Any]) -> Box:
    """Return the box of :func:`space_to_plain`."""
    shape, kind = tuple(int(n) for n in data["shape"]), np.dtype(data["dtype"])
    low, high = (np.array([*map(float, data[end])], kind).reshape(shape) for end in ("low", "high"))
    return Box(low, high, shape, kind.type)


def find_circles(observations: Floats) -> list[tuple[int, int]]:
    """Return pairs of coordinates (n, q) that are a cosine and its sine: their squares add to 1."""
    squares, pairs, taken = observations**2, [], set[int]()
    varied = np.flatnonzero(observations.std(axis=0) > 0.0)
    for i, j in itertools.combinations(varied.tolist(), 2):
        if not {i, j} & taken and np.allclose(squares[:, i] + squares[:, j], 1.0):
            pairs.append((i, j))
            taken |= {i, j}
    return pairs


def _range(name: object, given: Any) -> Range:
    try:
        low, high = given
        low, high = (None if end is None else float(end) for end in (low, high))
    except (TypeError, ValueError):
        low = high = None
    if (low, high) == (None, None) or (None not in (low, high) and not low < high):
        raise InputError(
            f"the limits of {name!r} are {given!r}; give a pair (low, high), with None for no end"
        )
    return low, high


def _copied(observation: ArrayLike) -> Floats:
    # A machine may write its next observation to the same place.
    return np.array(observation, dtype=np.float64).ravel()


def memory_of(controller: Any) -> Floats:
    """Return the memory that a controller shows, flat; empty if it shows none."""
    return np.ravel(np.asarray(getattr(controller, "memory", ()), dtype=np.float64))


class Loop:
    """A loop at work: it remembers what it needs of the episode."""

    def __init__(self, spec: LoopSpec) -> None:
        self.spec = spec
        self.controller = None
        if spec.controller is not None:
            self.controller = as_controller(spec.controller, spec.rate, spec.low, spec.high)
        low, high = (np.ravel(end) for end in (spec.observations.low, spec.observations.high))
        turn = np.isclose(high - low, 2.0 * np.pi, rtol=1e-6) & np.isclose(np.abs(low), np.pi)
        self.is_angle = turn | (np.isclose(high, 2.0 * np.pi, rtol=1e-6) & (low == 0.0))
        self.is_angle[[cosine for cosine, _ in spec.circles]] = True
        self.steps = 0

    def reset(self, observation: ArrayLike) -> Floats:
        """Begin an episode at an observation; return what a policy observes."""
        spec, seen = self.spec, _copied(observation)
        if self.controller is not None:
            self.controller.reset()
        self.observation, self.steps, self._clipped = seen, 0, False
        self.action: Floats | None = None
        self._changes = np.zeros((spec.lags, len(spec.changing)))
        # Before the first action of an episode there is none: the middle of what is allowed.
        with np.errstate(invalid="ignore"):
            middle = np.nan_to_num(0.5 * (spec.low + spec.high), nan=0.0, posinf=0.0, neginf=0.0)
        self._past = np.tile(middle, (spec.past_actions, 1))
        self._integrals = np.zeros(len(spec.setpoints))
        return self._seen()

    def act(self, correction: ArrayLike) -> Floats:
        """Return the machine's action for a policy's correction; shape (p,)."""
        return self._apply(np.ravel(np.asarray(correction, dtype=np.float64)) + self._asked())

    def _apply(self, wanted: Floats) -> Floats:
        spec = self.spec
        action = np.minimum(np.maximum(wanted, spec.low), spec.high)
        if spec.rates is not None and self.action is not None:
            # The difference of two actions, as the machine rounds them, is at most the rate.
            slack = 4.0 * float(np.finfo(str(spec.actions.dtype)).eps) * np.abs(self.action)
            step = np.maximum(spec.rates - slack, 0.0)
            action = np.minimum(np.maximum(action, self.action - step), self.action + step)
        self._clipped = not np.array_equal(action, wanted)
        self._remember(action)
        return action

    def _remember(self, action: Floats) -> None:
        self.action = action
        if len(self._past):
            self._past = np.concatenate([action[None], self._past[:-1]])

    def gave(self, action: ArrayLike) -> None:
        """Remember that the machine was given this action instead of the last one."""
        self.action = np.ravel(np.asarray(action, dtype=np.float64))
        self._past[:1] = self.action

    def observe(self, observation: ArrayLike) -> Floats:
        """Take in the observation after an action; return what a policy observes."""
        seen = _copied(observation)
        if len(self._changes):
            change, turning = seen - self.observation, self.is_angle
            for cosine, sine in self.spec.circles:
                now, before = (math.atan2(o[sine], o[cosine]) for o in (seen, self.observation))
                change[cosine] = now - before
            wrapped = (change + np.pi) % (2.0 * np.pi) - np.pi
            change = np.where(turning, wrapped, change)[self.spec.changing]
            self._changes = np.concatenate([change[None], self._changes[:-1]])
        self.observation, self.steps = seen, self.steps + 1
        if not self._clipped:  # anti-windup
            self._integrals = self._integrals + self._errors() / (self.spec.rate or 1.0)
        return self._seen()

    def replay(self, observations: Floats, actions: Floats) -> tuple[Floats, Floats]:
        """Return what a policy would have observed, and its corrections, in a logged episode.

        ``observations`` have shape (T + 1, q) and ``actions`` (T, p); so do the results.
        """
        seen, corrections = [self.reset(observations[0])], []
        for k, action in enumerate(np.asarray(actions, dtype=np.float64)):
            corrections.append(action - self._asked())
            self._clipped = bool(np.any((action <= self.spec.low) | (action >= self.spec.high)))
            self._remember(action)
            seen.append(self.observe(observations[k + 1]))
        return np.array(seen), np.array(corrections).reshape(np.shape(actions))

    def _errors(self) -> Floats:
        """Return the errors of the set-points."""
        o = self.observation
        aims = self.spec.setpoints
        return np.array([(aim if at is None else o[at]) - o[i] for i, aim, at in aims])

    def _seen(self) -> Floats:
        held = [at is not None for _, _, at in self.spec.setpoints]
        parts = [self.observation, self._changes.ravel(), self._past.ravel()]
        return np.concatenate(
            [*parts, self._errors()[held], self._integrals, memory_of(self.controller)]
        )

    @property
    def memory(self) -> Floats:
        """What the next action depends on beside the observation."""
        parts = [self._changes.ravel(), self._past.ravel(), self._integrals]
        return np.concatenate([*parts, memory_of(self.controller)])

    def _asked(self) -> Floats:
        """Return the controller's action, within the bounds of actions; zeros without one."""
        spec, o = self.spec, self.observation
        if self.controller is None:
            return np.zeros(len(spec.low))
        where = f"for the observation {np.array2string(o, precision=6)} at step {self.steps}"
        try:
            flat = isinstance(self.controller, Controller)
            given = o if flat else o.reshape(spec.observations.shape)
            answer = np.asarray(self.controller.act(given), dtype=np.float64)
        except Exception as problem:
            raise InvalidResult(
                f"its controller raised {describe_exception(problem)} {where}"
            ) from problem
        if answer.size != len(spec.low) or not np.all(np.isfinite(answer)):
            raise InvalidResult(
                f"its controller returned {answer} {where}; it must return {len(spec.low)} finite "
                "numbers, in the units of the actions"
            )
        action = answer.ravel()
        clipped = np.minimum(np.maximum(action, spec.low), spec.high)
        if not np.array_equal(clipped, action) and not spec._warned:
            spec._warned.append(where)
            warnings.warn(
                f"the controller asks for the action {action} {where}, beyond the bounds from "
                f"{spec.low} to {spec.high}; it is clipped, here and from now on",
                stacklevel=2,
            )
        return clipped


class CorrectedController(Controller):
    """A correction and the loop that it stands in, of a policy's plain data with a ``loop``."""

    kind = "corrected"

    def __init__(self, policy: Mapping[str, Any]) -> None:
        self._plain = {**policy, "name": str(policy["name"])}
        function = KernelController.of_policy(policy)
        self._stand(function.act, LoopSpec.from_dict(policy["loop"]), function.function.dimension)

    def _stand(self, correct: Callable[[Floats], ArrayLike], spec: LoopSpec, reads: int) -> None:
        """Begin with a function from what a policy observes, ``reads`` numbers, to corrections."""
        self._correct, self.loop = correct, Loop(spec)
        self.reset()
        shown = len(self.loop.reset(np.zeros(len(spec.observation_names))))
        if shown != reads and self.is_plain:  # what code remembers may not be known here
            raise InputError(f"the policy reads {reads} numbers, but its loop shows {shown}")

    @property
    def is_plain(self) -> bool:
        """Whether the controller that it corrects is plain, too."""
        return bool(self.loop.spec.to_dict()["controller"] != "code")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"controller": self.kind, "policy": self.document()}

    def document(self) -> dict[str, Any]:
        """Return the plain data of the policy with its ``loop``."""
        return self._plain

    def reset(self) -> None:
        """Begin an episode."""
        self._begun = False

    @property
    def memory(self) -> Floats:
        """What the next action depends on beside the observation, for learning around it."""
        if not self._begun:
            self.loop.reset(np.zeros(len(self.loop.spec.observation_names)))
        return self.loop.memory

    def act(self, observation: ArrayLike) -> NDArray[Any]:
        """Return the machine's action for its observation, in the shape of its space."""
        loop, space = self.loop, self.loop.spec.actions
        names, given = loop.spec.observation_names, np.asarray(observation, dtype=np.float64)
        # Refused before anything is remembered: the next observation finds all as it was.
        if given.size != len(names) or not np.all(np.isfinite(given)):
            raise InputError(
                f"the observation is {observation!r}; give {len(names)} finite numbers: "
                f"{', '.join(names)}"
            )
        seen = loop.observe(observation) if self._begun else loop.reset(observation)
        self._begun = True
        return loop.act(self._correct(seen)).reshape(space.shape).astype(space.dtype)


KINDS[CorrectedController.kind] = CorrectedController


class LoopEnvironment(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment behind a loop: actions are corrections, observations what a policy sees."""

    def __init__(self, environment: gymnasium.Env[Any, Any], spec: LoopSpec) -> None:
        super().__init__(environment)
        self.observation_space, self.action_space = spec.spaces
        self.loop = Loop(spec)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Reset the environment and the loop."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.loop.reset(observation), info

    def step(self, action: ArrayLike) -> tuple[Floats, Any, Any, Any, dict[str, Any]]:
        """Step with the action that the loop makes of a correction."""
        space = self.loop.spec.actions
        given = self.loop.act(action).reshape(space.shape).astype(space.dtype)
        observation, reward, terminated, truncated, info = self.env.step(given)
        return self.loop.observe(observation), reward, terminated, truncated, info


@dataclass(frozen=True, eq=False)
class LoopFactory:
    """Makes environments behind a loop."""

    make: Any
    spec: LoopSpec

    def __call__(self, render_mode: str | None = None) -> LoopEnvironment:
        """Return a new environment behind a new loop."""
        environment = self.make() if render_mode is None else self.make(render_mode=render_mode)
        if isinstance(environment, VectorEnv):
            raise InputError(
                "a vector environment has no lags, past_actions, setpoints, rates or controller; "
                "give a function that makes one environment"
            )
        return LoopEnvironment(environment, self.spec)
