"""Linear systems and linear policies that the tests of several rooms share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium.spaces import Box

from crosslearning.rkhs import Family, Linear
from crosslearning.tasks import CompiledEnvironment, LinearQuadratic, Parameters, Physics, Task

#: Two coordinates, two actions, nothing symmetric about it and a start that is not centred.
LOPSIDED = LinearQuadratic(
    A=((0.8, 0.3), (-0.2, 0.7)),
    B=((0.5, 0.1), (-0.2, 0.6)),
    Q=((1.0, 0.2), (0.2, 0.5)),
    R=((0.3, 0.1), (0.1, 0.5)),
    start_low=(0.4, -1.0),
    start_high=(1.4, 0.2),
)


def wide_system(seed: int) -> LinearQuadratic:
    """Return a stable system with the sizes of a navigation task: q = 5 and p = 2."""
    generator = np.random.default_rng(seed)
    A = generator.standard_normal((5, 5))
    return LinearQuadratic(
        A=0.7 * A / np.max(np.abs(np.linalg.eigvals(A))),
        B=0.3 * generator.standard_normal((5, 2)),
        Q=np.eye(5),
        R=0.1 * np.eye(2),
        start_low=-np.ones(5),
        start_high=2.0 * np.ones(5),
    )


def linear_family(gains: Sequence[np.ndarray], std: Sequence[float]) -> Family:
    """Return the functions h_f(s) = M_f s, shape of each M (p, q), in the linear kernel's RKHS.

    The knot std_d e_d gives κ(std_d e_d, s) = s_d / std_d.
    """
    stacked = np.array(gains)  # (functions, p, q)
    weights = stacked.transpose(2, 0, 1) * np.array(std)[:, None, None]
    return Family(Linear(std), np.diag(std), weights)


def gain_of(family: Family, function: int) -> np.ndarray:
    """Return the matrix M, shape (p, q), of a function that is linear."""
    return family(np.eye(family.kernel.dimension))[:, function].T


#: One coordinate, one action.
SCALAR = LinearQuadratic([[0.9]], [[0.5]], [[2.0]], [[0.3]], [-1.0], [3.0])

#: A scalar system whose episodes end, for what linear systems cannot show.
ROPE = {"pull": 1.05, "push": 0.6, "variance": 0.25, "cost": 0.2}


class Rope(Parameters):
    LIMIT = 8.0
    PULL = ROPE["pull"]
    PUSH = ROPE["push"]
    COST = ROPE["cost"]


def rope_reset(parameters, uniforms, state):
    state[0] = -0.5 + 1.1 * uniforms[0]


def rope_observe(parameters, state, observation):
    observation[0] = state[0]


def rope_step(parameters, state, action):
    x = state[0]
    state[0] = parameters[Rope.PULL] * x + parameters[Rope.PUSH] * action[0]
    return 2.0 - x * x - parameters[Rope.COST] * action[0] * action[0]


def rope_ended(parameters, state):
    return abs(state[0]) > parameters[Rope.LIMIT]


class RopeEnvironment(CompiledEnvironment):
    """A scalar system whose episodes end beyond ±limit; alive, it is paid about 2 a step."""

    physics = Physics(
        rope_reset,
        rope_observe,
        rope_step,
        rope_ended,
        state_size=1,
        reset_size=1,
        parameters=Rope,
    )
    observation_space = Box(-1e12, 1e12, (1,), np.float64)
    action_space = Box(-1e6, 1e6, (1,), np.float64)


def rope_task(limit: float) -> Task:
    """Return the rope with a limit as a task."""
    return RopeEnvironment(limit=limit).task("rope")
