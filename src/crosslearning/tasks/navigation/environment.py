"""The navigation task as a Gymnasium environment, registered when this module is imported."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from crosslearning.errors import InputError, unknown_name
from crosslearning.tasks.navigation.description import Navigation
from crosslearning.tasks.navigation.dynamics import (
    OBSERVATION_SIZE,
    RESET_SIZE,
    STATE_SIZE,
    State,
    navigation_dynamics,
)
from crosslearning.tasks.navigation.obstacles import read_numbers
from crosslearning.tasks.simulator import Simulator
from crosslearning.tasks.task import Floats

if TYPE_CHECKING:
    from crosslearning.tasks.navigation.rendering import Painter

ENVIRONMENT_ID = "crosslearning/Navigation-v0"
#: Steps after which the registered environment truncates an episode, unless
#: ``gymnasium.make(..., max_episode_steps=...)`` says otherwise.
HORIZON = 50

_OPTIONS = ("start", "state", "uniforms")


class NavigationEnvironment(gymnasium.Env[Floats, Floats]):
    """A robot that drives to a goal around obstacles.

    Parameters
    ----------
    navigation : Navigation, optional
        The task. Without it, ``parameters`` alone describe it.
    render_mode : {"rgb_array"}, optional
    **parameters
        Parameters of :class:`Navigation`; beside ``navigation``, changes to it.

    Notes
    -----
    An observation is (d_o, φ_o, d_g, φ_g, φ_obs), an action (speed, turn rate).

    ``reset(options=...)`` takes one of: ``{"start": (x, y, heading)}``; ``{"uniforms": u}``
    with the numbers in [0, 1) that would otherwise be drawn; ``{"state": vector}``, to go on
    from a state that was read from :attr:`state`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012

    def __init__(
        self,
        navigation: Navigation | None = None,
        *,
        render_mode: str | None = None,
        **parameters: Any,
    ) -> None:
        modes: list[str] = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise unknown_name("render mode", str(render_mode), modes)
        self.navigation = (navigation or Navigation()).replace(**parameters)
        self.render_mode = render_mode
        # Distances have no bound, and Gymnasium asks for finite ones. Inside an obstacle the
        # distance to its surface is negative, but never below its smaller semi-axis.
        far = float(np.finfo(np.float64).max)
        deepest = max((min(o.semi_axes) for o in self.navigation.obstacles), default=0.0)
        self.observation_space = gymnasium.spaces.Box(
            np.array([-deepest, -math.pi, 0.0, -math.pi, 0.0]),
            np.array([far, math.pi, far, math.pi, math.pi]),
            dtype=np.float64,
        )
        bounds = np.array([self.navigation.speed_bounds, self.navigation.turn_bounds])
        self.action_space = gymnasium.spaces.Box(bounds[:, 0], bounds[:, 1], dtype=np.float64)
        self._running = False
        self._trail: list[tuple[float, float]] = []

    @functools.cached_property
    def _simulator(self) -> Simulator:
        # Made on first use, because it compiles.
        dynamics = navigation_dynamics(self.navigation.parameters)
        return Simulator(dynamics, STATE_SIZE, OBSERVATION_SIZE)

    @functools.cached_property
    def _painter(self) -> Painter:
        # Imported here so that only those who look at pictures load the drawing library.
        from crosslearning.tasks.navigation.rendering import Painter

        return Painter(self.navigation)

    @property
    def state(self) -> Floats:
        """A copy of the state vector; ``reset(options={"state": ...})`` goes back to it."""
        self._require_reset()
        return self._simulator.state.copy()

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Start an episode; the class describes the options."""
        super().reset(seed=seed)
        kind, given = _read_options(options)
        if kind == "start":
            self._simulator.state[:] = _read_start(self.navigation, given)
        elif kind == "state":
            self._simulator.state[:] = _read_state(self.navigation, given)
        else:
            drawn = kind is None
            uniforms = self.np_random.random(RESET_SIZE) if drawn else _read_uniforms(given)
            self._simulator.reset(uniforms)
        self._running = True
        self._trail = [self._position()]
        return self._simulator.observe(), self._information()

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Move one step on; the action is clipped to the bounds of the action space."""
        self._require_reset()
        try:
            numbers = np.ascontiguousarray(action, dtype=np.float64)
        except (TypeError, ValueError):
            numbers = np.empty(0)
        if numbers.shape != (2,) or np.isnan(numbers).any():
            raise InputError(
                f"the action is {action!r}; give two numbers, (speed, turn rate), neither NaN"
            )
        observation, reward, terminated = self._simulator.step(numbers)
        if self.render_mode is not None:
            self._trail.append(self._position())
        return observation, reward, terminated, False, self._information()

    def render(self) -> NDArray[np.uint8] | None:
        """Return a picture of the task, shape (height, width, 3), or None without a mode."""
        if self.render_mode is None:
            return None
        self._require_reset()
        return self._painter.picture(self._simulator.state, np.array(self._trail))

    def __getstate__(self) -> dict[str, Any]:
        # Machine code cannot be copied or sent; the state can, and the rest is made anew.
        kept = self.__dict__.copy()
        kept.pop("_painter", None)
        simulator: Simulator | None = kept.pop("_simulator", None)
        kept["_kept_state"] = None if simulator is None else simulator.state.copy()
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        state = kept.pop("_kept_state")
        self.__dict__.update(kept)
        if state is not None:
            self._simulator.state[:] = state

    def _require_reset(self) -> None:
        if not self._running:
            raise gymnasium.error.ResetNeeded("no episode has begun; call reset() first")

    def _position(self) -> tuple[float, float]:
        state = self._simulator.state
        return float(state[State.X]), float(state[State.Y])

    def _information(self) -> dict[str, Any]:
        state = self._simulator.state
        return {
            "crashed": bool(state[State.CRASHED]),
            "arrived": bool(state[State.ARRIVED]),
            "goal": int(state[State.GOAL]),
            "position": self._position(),
        }


def _read_options(options: Mapping[str, Any] | None) -> tuple[str | None, Any]:
    """Return which option was given, and its value; (None, None) if none was."""
    if not options:
        return None, None
    for name in options:
        if name not in _OPTIONS:
            raise unknown_name("reset option", str(name), _OPTIONS)
    if len(options) > 1:
        raise InputError(
            f"the reset options {sorted(options)} exclude one another; give only one of them"
        )
    return next(iter(options.items()))


def _read_start(navigation: Navigation, given: Any) -> Floats:
    x, y, heading = read_numbers("the option 'start', (x, y, heading),", given, 3)
    if navigation.start_in_obstacle == "redraw" and not navigation.is_free(x, y):
        raise InputError(
            f"the start ({x}, {y}) lies in an obstacle; choose another place, or make the task "
            "with start_in_obstacle='crash'"
        )
    state = np.zeros(STATE_SIZE)
    state[[State.X, State.Y, State.HEADING]] = x, y, heading
    state[State.ARRIVAL_STEP] = -1.0
    return state


def _read_state(navigation: Navigation, given: Any) -> Floats:
    state = np.array(read_numbers("the option 'state'", given, STATE_SIZE))
    goal = state[State.GOAL]
    if not 0 <= goal < len(navigation.goals) or goal != int(goal):
        raise InputError(
            f"the option 'state' is at goal {goal}, but the task has {len(navigation.goals)} "
            "(counted from 0); use a state that was read from an environment of the same task"
        )
    flags = state[[State.CRASHED, State.ARRIVED]]
    if not np.isin(flags, (0.0, 1.0)).all():
        raise InputError(
            f"the option 'state' has crashed and arrived {flags.tolist()}; each must be 0 or 1"
        )
    return state


def _read_uniforms(given: Any) -> Floats:
    uniforms = np.array(read_numbers("the option 'uniforms'", given, RESET_SIZE))
    if uniforms.min() < 0.0 or uniforms.max() >= 1.0:
        raise InputError(
            f"the option 'uniforms' ranges from {uniforms.min()} to {uniforms.max()}; give "
            "numbers in [0, 1), such as generator.random(...)"
        )
    return uniforms


if ENVIRONMENT_ID not in gymnasium.registry:
    gymnasium.register(
        id=ENVIRONMENT_ID,
        entry_point="crosslearning.tasks.navigation.environment:NavigationEnvironment",
        max_episode_steps=HORIZON,
    )
