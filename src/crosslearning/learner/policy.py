"""A policy, from observations to actions, and the specifications of both."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning._base.choices import Choices
from crosslearning._base.files import read_document, write_document
from crosslearning._base.plain_kernels import PlainFamily
from crosslearning.errors import FileFormatError, InputError, MissingFormulaError
from crosslearning.rollouts.data import ActionScale, HasBounds, within

if TYPE_CHECKING:
    from gymnasium.spaces import Box

    from crosslearning.rkhs import Family

Floats = NDArray[np.float64]

FILE_KIND = "policy"
FILE_VERSION = 1
#: Raised for lists of the wrong length, infinite counts and deep nesting.
_BEYOND = (IndexError, OverflowError, RecursionError)
_WITH_UNIT = re.compile(r"(?P<name>.*\S)\s*\[(?P<unit>[^\[\]]*)\]")


@dataclass(frozen=True, eq=False)
class BoxSpec:
    """The components of an observation or of an action; bounds have its type and shape."""

    low: NDArray[Any]
    high: NDArray[Any]
    names: tuple[str, ...]  #: of the components, with units in brackets: ``"speed [rad/s]"``

    @classmethod
    def of(cls, space: HasBounds, what: str, names: Sequence[str] = ()) -> BoxSpec:
        """Return the spec of a box; ``what`` makes default names."""
        if isinstance(space, BoxSpec):
            return space
        return cls(space.low, space.high, cls.named(names, what, space.low.size))

    @staticmethod
    def named(names: Sequence[str], what: str, size: int) -> tuple[str, ...]:
        """Return ``size`` different names, or refuse the given ones."""
        if isinstance(names, str) or not all(isinstance(one, str) and one for one in names):
            raise InputError(f"the names of {what}s are {names!r}; give a list of words")
        names = tuple(names) or tuple(f"{what} {number}" for number in range(size))
        if len(names) != size or len(set(names)) < size:
            raise InputError(
                f"{len(names)} names were given for the {size} numbers of an {what}: {names}; "
                "give each a name of its own"
            )
        return names

    @property
    def shape(self) -> tuple[int, ...]:
        """The environment's shape."""
        return self.low.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The environment's data type."""
        return self.low.dtype

    @property
    def size(self) -> int:
        """The number of components."""
        return self.low.size

    @property
    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The low and the high bounds, flat and in double precision."""
        low, high = (end.ravel().astype(np.float64) for end in (self.low, self.high))
        return low, high

    @property
    def box(self) -> Box:
        """The Gymnasium space."""
        from gymnasium.spaces import Box

        return Box(self.low, self.high, self.shape, self.dtype.type)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, flat; infinite bounds and unknown units are null."""
        low, high = ([v if math.isfinite(v) else None for v in end.tolist()] for end in self.ends)
        parts = [_WITH_UNIT.fullmatch(name) or {"name": name, "unit": None} for name in self.names]
        return {
            "names": [part["name"] for part in parts],
            "units": [part["unit"] for part in parts],
            "low": low,
            "high": high,
            "shape": list(self.shape),
            "dtype": self.dtype.name,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], what: str) -> BoxSpec:
        """Return the spec of :meth:`to_dict`."""
        shape, kind = tuple(int(n) for n in data["shape"]), np.dtype(str(data["dtype"]))
        if kind.kind != "f":
            raise FileFormatError(f"the numbers of an {what} are {kind}, expected floating point")
        low, high = (
            np.array([none if end is None else float(end) for end in data[key]])
            .reshape(shape)
            .astype(kind)
            for key, none in (("low", -math.inf), ("high", math.inf))
        )
        # Comparisons with NaN are false.
        if not np.all((low <= high) & (low < math.inf) & (high > -math.inf)):
            raise FileFormatError(f"an {what} has its low end above its high one, or none at all")
        names = [
            name if unit is None else f"{name} [{unit}]"
            for name, unit in zip(data["names"], data["units"], strict=True)
        ]
        return cls(low, high, cls.named(names, what, low.size))


class Policy:
    """One function of a family, as a Gaussian policy with bounds on its actions.

    Parameters
    ----------
    name : str
        Such as ``"central"`` or a task's name.
    function : Family or PlainFamily
        A family of one function: the mean action.
    noise_std : array, shape (p,)
        Standard deviation of the exploration noise.
    action_space : Box
        Actions are clipped to it.
    discount : float, optional
        γ of its learning, and the default of an evaluation.
    observation_space : Box, optional
        By default an unbounded vector of the function's inputs.
    rate : float, optional
        Actions a second during learning.

    Examples
    --------
    >>> from crosslearning import CrossLearner
    >>> policy = CrossLearner("paper").learn(2).central
    >>> action, _ = policy.predict([2.0, 0.0, 5.0, 0.3, 0.5])
    >>> action.shape
    (2,)
    """

    def __init__(
        self,
        name: str,
        function: Family | PlainFamily,
        noise_std: Floats,
        action_space: HasBounds,
        discount: float | None = None,
        observation_space: HasBounds | None = None,
        rate: float | None = None,
    ) -> None:
        self.name = name
        self._given = function
        self.noise_std = noise_std
        self.discount = discount
        if observation_space is None:
            ends = np.full(function.knots.shape[1], np.inf)
            observation_space = BoxSpec(-ends, ends, BoxSpec.named((), "observation", ends.size))
        self.observations = BoxSpec.of(observation_space, "observation")
        self.actions = BoxSpec.of(action_space, "action")
        self.rate = rate
        #: From the function's values to the task's units.
        self.scale = ActionScale.none(function.outputs)
        #: Between what its actions choose, if they are scores.
        self.choices: Choices | None = None
        #: Whether its actions are corrections of a controller's.
        self.corrects = False
        #: The most that its function's RKHS norm can be, with a kernel of at most 1, if known.
        self.bound: float | None = None
        self.seed(0)

    def __repr__(self) -> str:
        given = self._given
        kernel = given.kernel["kernel"] if isinstance(given, PlainFamily) else given.kernel.name
        knots, q = given.knots.shape
        return (
            f"Policy({self.name!r}, R^{q} to R^{given.outputs} on {knots} knots, {kernel} kernel)"
        )

    @cached_property
    def function(self) -> Family:
        """The mean action as a family of one function, evaluated by compiled code."""
        given = self._given
        if not isinstance(given, PlainFamily):
            return given
        from crosslearning.rkhs import Family, kernel_from_dict

        kernel = kernel_from_dict(given.kernel)
        if len(given.knots) == 0:
            return Family.zeros(kernel, 1, given.outputs)
        return Family(kernel, given.knots, given.weights)

    @cached_property
    def plain(self) -> PlainFamily:
        """The mean action as data, evaluated by NumPy alone."""
        given = self._given
        if isinstance(given, PlainFamily):
            return given
        return PlainFamily(given.kernel.to_dict(), given.knots, given.weights)

    @property
    def outputs(self) -> BoxSpec:
        """What is sent to the machine: actions, or the numbers of the options that are chosen."""
        if self.choices is None:
            return self.actions
        low, high = self.choices.ends
        return BoxSpec(low, high, BoxSpec.named((), "action", low.size))

    @property
    def action_space(self) -> Box:
        """Actions are clipped to this box."""
        return self.actions.box

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return self.observations.shape

    def seed(self, seed: int) -> Policy:
        """Seed the noise of stochastic actions; return the policy itself."""
        self._seed = seed
        # Made when needed: importing NumPy's generators takes longer than loading a policy.
        vars(self).pop("_generator", None)
        return self

    @cached_property
    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(self._seed)

    def mean(self, observation: ArrayLike) -> Floats:
        """Return the function's value: shape (p,), or (n, p) for a batch; not scaled or clipped."""
        shape = self.observation_shape
        try:
            given = np.asarray(observation, dtype=np.float64)
        except (TypeError, ValueError):
            given = np.empty((0, 0, 0))
        single = given.shape == shape
        if not single and (given.ndim != len(shape) + 1 or given.shape[1:] != shape):
            raise InputError(
                f"observation must be numbers of shape {shape}, or (n, {str(shape)[1:-1]}) for a "
                f"batch, got {observation!r}"
            )
        flat = np.ascontiguousarray(given.reshape(-1, self.observations.size))
        if not np.isfinite(flat).all():
            raise InputError(f"observation must be finite, got {observation!r}")
        values = self._given.expansion(flat)[:, 0]
        return values[0] if single else values

    def predict(
        self,
        observation: ArrayLike,
        deterministic: bool = True,
        *,
        state: object = None,
        episode_start: object = None,
    ) -> tuple[NDArray[np.generic], None]:
        """Return the action for an observation, or for a batch, and None, as Stable-Baselines3.

        Discrete actions are whole numbers: those with the greatest scores.

        Parameters
        ----------
        observation : array_like, shape of an observation, or (n, …) for a batch
        deterministic : bool
            Whether to act without exploration noise.
        state, episode_start
            Not used: the policy has no memory.
        """
        vector = self.vector(observation, deterministic)
        return vector if self.choices is None else self.choices.choose(vector), None

    def vector(self, observation: ArrayLike, deterministic: bool = True) -> NDArray[np.generic]:
        """Return the numbers of an action, scaled and clipped; of discrete actions the scores."""
        action = self.mean(observation)
        if not deterministic:
            action = action + self.noise_std * self._generator.standard_normal(action.shape)
        given = within(self.actions, self.scale(action))
        return given if action.ndim == 2 else np.asarray(given[0])

    # Files -----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as plain data for JSON.

        With κ the kernel, the action for an observation s, both flat, is
        clip(centre + half · Σ_m κ(s, knot m) weights m, low, high). If there are ``choices``,
        these are scores.
        """
        plain = self.plain
        more: dict[str, Any] = {}
        if self.corrects:
            more["corrects"] = True
        if self.choices is not None:
            more["choices"] = self.choices.to_dict()
        if self.bound is not None:
            more["bound"] = self.bound
        return {
            "name": self.name,
            "observations": self.observations.to_dict(),
            "actions": self.actions.to_dict(),
            "rate": self.rate,
            "discount": self.discount,
            "noise_std": np.asarray(self.noise_std).tolist(),
            "scale": {"centre": self.scale.centre.tolist(), "half": self.scale.half.tolist()},
            "kernel": dict(plain.kernel),
            "knots": plain.knots.tolist(),
            "weights": plain.weights[:, 0].tolist(),
            **more,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Policy:
        """Return the policy of :meth:`to_dict`; it needs NumPy alone."""
        try:
            observations = BoxSpec.from_dict(data["observations"], "observation")
            actions = BoxSpec.from_dict(data["actions"], "action")
            q, p = observations.size, actions.size
            knots = _numbers("knots", data["knots"], (None, q))
            weights = _numbers("weights", data["weights"], (len(knots), p))
            function = PlainFamily(dict(data["kernel"]), knots, weights[:, None, :])
            noise = _numbers("noise_std", data["noise_std"], (p,))
            discount, rate = (
                None if data[key] is None else float(data[key]) for key in ("discount", "rate")
            )
            policy = cls(str(data["name"]), function, noise, actions, discount, observations, rate)
            policy.scale = ActionScale(
                *(_numbers(key, data["scale"][key], (p,)) for key in ("centre", "half"))
            )
            policy.corrects = bool(data.get("corrects", False))
            if data.get("choices") is not None:
                policy.choices = Choices.from_dict(data["choices"])
                if policy.choices.size != p:
                    raise FileFormatError(f"{p} scores do not choose {policy.choices}")
            if data.get("bound") is not None:
                policy.bound = float(_numbers("bound", [data["bound"]], (1,))[0])
        except (FileFormatError, MissingFormulaError):
            raise
        except KeyError as problem:
            raise FileFormatError(f"a policy lacks {problem}") from problem
        except (TypeError, ValueError, AttributeError, *_BEYOND) as problem:
            raise FileFormatError(f"the parts of a policy do not fit: {problem}") from problem
        return policy

    def save(self, path: str | Path) -> None:
        """Write the policy to a JSON file, atomically."""
        write_document(path, FILE_KIND, FILE_VERSION, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy; it needs NumPy alone, and acts as the saved one, up to rounding."""
        data = read_document(path, FILE_KIND, FILE_VERSION)
        try:
            return cls.from_dict(data)
        except FileFormatError as problem:
            raise FileFormatError(f"{path}: {problem}") from problem


def _numbers(what: str, given: Any, shape: tuple[int | None, ...]) -> Floats:
    """Return finite numbers of a shape, None being any length, or refuse them."""
    numbers = np.asarray(given, dtype=np.float64)
    if numbers.size == 0 and shape[0] in (None, 0):
        numbers = numbers.reshape(0, *(n or 0 for n in shape[1:]))
    fits = len(numbers.shape) == len(shape) and all(
        wanted in (None, n) for n, wanted in zip(numbers.shape, shape, strict=True)
    )
    if not fits or not np.all(np.isfinite(numbers)):
        raise FileFormatError(
            f"{what} must be finite numbers of shape {shape}, got shape {numbers.shape}"
        )
    return numbers
