"""Linear-quadratic tasks as Gymnasium environments, registered when this module is imported."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from crosslearning.errors import InputError, unknown_name
from crosslearning.tasks.linear_quadratic import ACTION_BOUND, LinearQuadratic, cart, read_array
from crosslearning.tasks.simulator import Simulator
from crosslearning.tasks.task import Floats

LINEAR_QUADRATIC_ID = "crosslearning/LinearQuadratic-v0"
#: Steps after which the registered environment truncates an episode.
LINEAR_QUADRATIC_HORIZON = 50
#: The observation space ends here. A stable system stays far inside.
OBSERVATION_BOUND = 1e12

_OPTIONS = ("state", "uniforms")


class LinearQuadraticEnvironment(gymnasium.Env[Floats, Floats]):
    """A linear system with a quadratic cost as a Gymnasium environment.

    Parameters
    ----------
    system : LinearQuadratic, optional
        The task; by default the cart of unit mass of the set ``"linear-quadratic"``.
    render_mode : None
        There is nothing to see.
    **parameters
        Parameters of :class:`LinearQuadratic`: changes to the system.

    Notes
    -----
    ``reset(options=...)`` takes ``{"uniforms": u}`` with the numbers in [0, 1) that would
    otherwise be drawn, or ``{"state": x}``.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        system: LinearQuadratic | None = None,
        *,
        render_mode: str | None = None,
        **parameters: Any,
    ) -> None:
        if render_mode is not None:
            raise InputError(f"render_mode is {render_mode!r}; these tasks have no picture")
        self.system = (cart(1.0) if system is None else system).replace(**parameters)
        self.render_mode = None
        q, p = self.system.state_size, self.system.outputs
        far = OBSERVATION_BOUND
        self.observation_space = gymnasium.spaces.Box(-far, far, (q,), dtype=np.float64)
        self.action_space = gymnasium.spaces.Box(
            -ACTION_BOUND, ACTION_BOUND, (p,), dtype=np.float64
        )
        self._running = False

    @functools.cached_property
    def _simulator(self) -> Simulator:
        # Made on first use, because it compiles.
        q = self.system.state_size
        return Simulator(self.system.dynamics, q, q)

    @property
    def state(self) -> Floats:
        """A copy of x; ``reset(options={"state": ...})`` goes back to it."""
        self._require_reset()
        return self._simulator.state.copy()

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Start an episode; the class describes the options."""
        super().reset(seed=seed)
        given = dict(options or {})
        for name in given:
            if name not in _OPTIONS:
                raise unknown_name("reset option", str(name), _OPTIONS)
        if len(given) > 1:
            raise InputError("the reset options 'state' and 'uniforms' exclude one another")
        q = (self.system.state_size,)
        if "state" in given:
            self._simulator.state[:] = read_array("the option 'state'", given["state"], q)
        elif "uniforms" in given:
            uniforms = read_array("the option 'uniforms'", given["uniforms"], q)
            if uniforms.min() < 0.0 or uniforms.max() >= 1.0:
                raise InputError(f"the option 'uniforms' is {uniforms}; give numbers in [0, 1)")
            self._simulator.reset(uniforms)
        else:
            self._simulator.reset(self.np_random.random(q))
        self._running = True
        return self._simulator.observe(), {}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Move one step on; the action is clipped to the bounds of the action space."""
        self._require_reset()
        numbers = read_array("the action", action, (self.system.outputs,))
        observation, reward, terminated = self._simulator.step(numbers)
        return observation, reward, terminated, False, {}

    def __getstate__(self) -> dict[str, Any]:
        # Machine code cannot be copied or sent; the state can, and the rest is made anew.
        kept = self.__dict__.copy()
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


if LINEAR_QUADRATIC_ID not in gymnasium.registry:
    gymnasium.register(
        id=LINEAR_QUADRATIC_ID,
        entry_point="crosslearning.tasks.linear_quadratic_environment:LinearQuadraticEnvironment",
        max_episode_steps=LINEAR_QUADRATIC_HORIZON,
    )
