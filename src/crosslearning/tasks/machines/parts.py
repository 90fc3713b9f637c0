"""What the machines share: their spaces and names, an integrator, and the LQR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.linalg
from gymnasium.spaces import Box
from numpy.typing import ArrayLike

from crosslearning._base.compiled import compiled
from crosslearning.tasks.environment import CompiledEnvironment
from crosslearning.tasks.task import Floats

Context = Mapping[str, Any]
GRAVITY = 9.81
#: Stages of :func:`advance` that make one step of fourth order.
STAGES = 5
# The coefficients of Carpenter and Kennedy (1994), "Fourth-order 2N-storage Runge-Kutta schemes",
# NASA TM 109112.
_KEEP = (
    0.0,
    -567301805773 / 1357537059087,
    -2404267990393 / 2016746695238,
    -3550918686646 / 2091501179385,
    -1275806237668 / 842570457699,
)
_MOVE = (
    1432997174477 / 9575080441755,
    5161836677717 / 13612068292357,
    1720146321549 / 2090206949498,
    3134564353537 / 4481467310338,
    2277821191437 / 14882151754819,
)


def box(low: ArrayLike, high: ArrayLike) -> Box:
    """Return a box of float64."""
    return Box(np.array(low, dtype=np.float64), np.array(high, dtype=np.float64), dtype=np.float64)


def metadata(
    observations: list[str], actions: list[str], rate: float, disturbances: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the names, with units, and the steps a second, as metadata of an environment.

    ``disturbances`` are observations that no action changes.
    """
    names = {"observation_names": observations, "action_names": actions}
    return {"render_modes": [], **names, "rate": rate, "disturbances": tuple(disturbances)}


@compiled
def see_state(parameters: Floats, state: Floats, observation: Floats) -> None:
    """Observe the first numbers of the state."""
    for i in range(len(observation)):
        observation[i] = state[i]


@compiled
def advance(stage: int, h: float, slope: Floats, drift: Floats, state: Floats) -> None:
    """Do one of the five stages of a Runge-Kutta step of length ``h``.

    A scheme with two registers takes no function as an argument, which would not be cached: the
    caller fills ``slope`` with the derivative at ``state``, for each stage in turn. ``drift`` is
    the second register. States beyond the length of the slope are constants.
    """
    for i in range(len(slope)):
        drift[i] = _KEEP[stage] * drift[i] + h * slope[i]
        state[i] += _MOVE[stage] * drift[i]


def lqr(
    environment: CompiledEnvironment,
    state: ArrayLike,
    action: ArrayLike,
    costs: tuple[ArrayLike, ArrayLike],
) -> Floats:
    """Return the gain of the LQR about a state and an action that holds it, shape (p, n).

    The environment is linearised by central differences. ``costs`` are the weights of the squares
    of the first n coordinates of the state, and of the actions.
    """
    here, held = np.array(state, dtype=np.float64), np.atleast_1d(np.array(action, dtype=float))
    n, size = len(np.atleast_1d(costs[0])), 1e-5

    def after(change: Floats) -> Floats:
        environment.reset(options={"state": here + np.append(change[:n], np.zeros(len(here) - n))})
        environment.step(held + change[n:])
        return environment.state[:n]

    both = [after(size * one) - after(-size * one) for one in np.eye(n + len(held))]
    A, B = np.split(np.transpose(both) / (2.0 * size), [n], axis=1)
    Q, R = np.diag(costs[0]), np.diag(np.broadcast_to(costs[1], len(held)))
    P = scipy.linalg.solve_discrete_are(A, B, Q, R)
    return np.asarray(np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A))
