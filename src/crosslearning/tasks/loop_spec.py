"""What stands between a policy and a machine, as data: controller, limits, lags and set-points.

A policy observes, in this order:

1. the machine's observation;
2. ``lags`` differences of successive observations, the newest first; of a cosine and its sine the
   difference of the angle, in the place of both;
3. the ``past_actions`` last actions, the newest first;
4. for every set-point that is an observation, the error, and for every set-point its integral;
5. the controller's memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from crosslearning.errors import FileFormatError, InputError
from crosslearning.tasks.controllers import (
    PID,
    Controller,
    Floats,
    as_controller,
    controller_from_dict,
    plain_if_policy,
)
from crosslearning.tasks.signals import (
    ends_of,
    find_name,
    space_from_plain,
    space_to_plain,
    split_unit,
)

#: Ends of a range; None is no end.
Range = tuple[float | None, float | None]
#: What files hold of a loop as it is.
_PARTS = ("observation_names", "action_names", "lags", "past_actions", "setpoints", "rate")


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
                also = ", or 'auto'" if name == "lags" else ""
                raise InputError(f"{name} is {value!r}; give a whole number up to 100{also}")
        low, high = ends_of(spaces[1])
        bounds: dict[int, Range] = {}
        for name, given in (limits or {}).items():
            least, most = _range(name, given)
            if isinstance(name, str) and name in (*acting, *(split_unit(a)[0] for a in acting)):
                i = find_name(name, acting, "action")
                low[i] = low[i] if least is None else max(low[i], least)
                high[i] = high[i] if most is None else min(high[i], most)
            else:
                i = find_name(name, (*seen, *acting), "limit, an observation or an action,")
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
        tight = not np.array_equal([low, high], ends_of(spaces[1]))
        if not (lags or past_actions or aims or rates or controller is not None or tight):
            return None, bounds
        if controller is not None:
            controller = plain_if_policy(controller)
            if isinstance(controller, PID) and controller.is_named:
                what = "measurement of the PID, an observation,"
                numbers = [find_name(str(one), seen, what) for one in controller.measured]
                controller = replace(controller, measured=numbers)
            as_controller(controller)  # refuse what is none
        # A limited rate depends on the last action, which a policy has to know.
        past, largest = max(past_actions, int(bool(rates))), steps if rates else None
        held, pairs = tuple(aims), tuple(circles)
        spec = cls(
            *spaces, seen, acting, lags, past, held, low, high, largest, controller, rate, pairs
        )
        return spec, bounds

    @classmethod
    def whole(cls, observations: Box, actions: Box) -> LoopSpec:
        """Return a loop that changes nothing."""
        sizes = (int(np.prod(space.shape)) for space in (observations, actions))
        seen, acting = (tuple(map(str, range(size))) for size in sizes)
        low, high = ends_of(actions)
        return cls(observations, actions, seen, acting, low=low, high=high)

    @property
    def spaces(self) -> tuple[Box, Box]:
        """The spaces that a policy has: of what it observes, and of its corrections."""
        low, high = ends_of(self.observations)
        with np.errstate(invalid="ignore", over="ignore"):
            wide = np.nan_to_num(high - low, nan=np.inf, posinf=np.inf)
        wide[[c for c, _ in self.circles]] = 2.0 * np.pi
        wide = wide[self.changing]
        free = np.full(self._size - self._first - len(self.low) * self.past_actions, np.inf)
        ends = [
            np.concatenate(
                [end, *[sign * wide] * self.lags, *[bound] * self.past_actions, sign * free]
            )
            for end, bound, sign in ((low, self.low, -1.0), (high, self.high, 1.0))
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

    def with_changes(self, coordinates: Sequence[int]) -> tuple[int, ...]:
        """Return coordinates of the machine's observation, and those of their lags."""
        q, changing = len(self.observation_names), self.changing
        lags = [
            q + k * len(changing) + j
            for k in range(self.lags)
            for j, coordinate in enumerate(changing)
            if coordinate in coordinates
        ]
        return (*coordinates, *lags)

    @property
    def _first(self) -> int:
        """Where past actions begin."""
        return len(self.observation_names) + self.lags * len(self.changing)

    @property
    def delayed_actions(self) -> list[int]:
        """The coordinates of past actions; none if rates are limited, which start from the last."""
        count = len(self.low) * self.past_actions if self.rates is None else 0
        return list(range(self._first, self._first + count))

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

        def know(j: int, slopes: Mapping[int, float], source: int = -1, gain: float = 0.0) -> None:
            slope = np.zeros(1 + size + p)
            slope[list(slopes)] = list(slopes.values())
            changes.append(KnownChange(j, source, gain, slope))

        def shift(first: int, count: int, width: int) -> None:
            """Add rows of a memory that moves on by one row a step."""
            for j in range(first + width, first + count * width):
                know(j, {1 + j - width: 1.0, 1 + j: -1.0})

        cosines, changing = [cosine for cosine, _ in self.circles], self.changing
        for k, c in enumerate(changing if self.lags else []):
            if c not in cosines:  # the change of an angle is not one of a coordinate
                # The newest difference becomes the change of c.
                know(q + k, {1 + q + k: -1.0}, source=c, gain=1.0)
        shift(q, self.lags, len(changing))
        first = self._first
        # A controller or a rate make an action a nonlinear function of the policy's.
        if self.controller is None and self.rates is None and self.past_actions:
            for a in range(p):
                know(first + a, {0: centre[a], 1 + first + a: -1.0, 1 + size + a: half[a]})
            shift(first, self.past_actions, p)
        first += p * self.past_actions + sum(at is not None for _, _, at in self.setpoints)
        for k, (i, aim, _) in enumerate(self.setpoints):
            if aim is not None:  # but for anti-windup
                know(first + k, {0: step * aim, 1 + i: -step}, source=i, gain=-step)
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
        low, high = ends_of(space_from_plain(data["ends"]))
        rates, circles = data["rates"], data.get("circles", ())
        seen, acting, lags, past, setpoints, rate = (data[name] for name in _PARTS)
        spec = cls(
            observations,
            actions,
            tuple(map(str, seen)),
            tuple(map(str, acting)),
            int(lags),
            int(past),
            tuple((int(i), aim, at) for i, aim, at in setpoints),
            low,
            high,
            None if rates is None else np.array([float(rate) for rate in rates]),
            controller,
            None if rate is None else float(rate),
            tuple((int(cosine), int(sine)) for cosine, sine in circles),
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


def memory_of(controller: Any) -> Floats:
    """Return the memory that a controller shows, flat; empty if it shows none."""
    return np.ravel(np.asarray(getattr(controller, "memory", ()), dtype=np.float64))
