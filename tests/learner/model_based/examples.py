"""A small world with everything in it, and imagined rollouts as plain NumPy reads them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crosslearning.learner.limits import NO_PENALTIES, Penalties
from crosslearning.learner.model_based.imagination import (
    Controlled,
    Outputs,
    Values,
    World,
    uncontrolled,
)
from crosslearning.rkhs import Family, Gaussian, Linear, Sum

#: Observations are two numbers and an angle.
Q, P = 3, 2


class Example(NamedTuple):
    """Policies, models and critics, as families and in the form that compiled code takes."""

    policies: Family
    outputs: list[Family]
    world: World
    critic: Family
    values: Values
    controllers: list[Family]


#: Limits of observations, by policy: an upper end of the first and a lower one of the second.
PENALTIES = Penalties(
    np.array([0, 1]),
    np.array([1.0, -1.0]),
    np.array([[0.2, -0.1], [0.4, -0.3]]),
    np.array([0.5, 0.3]),
    np.array([[2.0, 1.0], [0.5, 3.0]]),
)


def example(
    ends: int = 1,
    room: float = 10.0,
    bound: float = 10.0,
    size: float = 0.3,
    penalties: Penalties = NO_PENALTIES,
    machine: float = 0.0,
    windup: bool = False,
) -> Example:
    """Return a world with limits ``room`` on observations and ``bound`` on actions.

    With bounds ``machine`` of the machines' actions the policies correct three controllers; with
    ``windup`` the second observation is an integral of theirs.
    """
    draw = np.random.default_rng(3)
    own = Gaussian(std=[1.0, 1.5, 0.8], periodic=[2])
    policies = Family(own, draw.normal(size=(5, Q)), draw.normal(size=(5, 2, P)))
    critic = Family(own, draw.normal(size=(4, Q)), draw.normal(size=(4, 2, 1)))
    outputs = []
    for o in range(Q + 1 + 2 * ends):
        # Each output has widths and knots of its own.
        curved = Gaussian(std=draw.uniform(0.7, 1.6, Q + P), periodic=[2])
        straight = Linear(std=[1.0] * (Q + P - 1), bias=1.0)
        parts = (curved, range(Q + P)), (straight, [0, 1, 3, 4])
        kernel = Sum(*parts, scales=[1.0, 0.02])
        knots, weights = draw.normal(size=(4 + o, Q + P)), size * draw.normal(size=(4 + o, 3, 1))
        outputs.append(Family(kernel, knots, weights))
    low = np.array([-room, -room, -np.pi, -0.4 * room, -0.5 * room])[: Q + 1 + ends]
    controllers = [
        Family(own, draw.normal(size=(6 + j, Q)), draw.normal(size=(6 + j, 3, 1))) for j in range(P)
    ]
    slopes = [np.array([0.2, 0.1 + j, -0.3, 0.0]) * np.ones((3, 1)) for j in range(P)]
    ends_of_machine = machine * np.array([[-1.0, -1.1], [0.9, 1.0]])
    controlled = Controlled(Outputs.of(controllers, slopes), ends_of_machine, 1, np.zeros((P, 0)))
    if windup:
        controlled = controlled._replace(windup=np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]]))
    world = World(
        Outputs.of(outputs[: Q + 1]),
        offsets=np.array([0.1, -0.1, 0.6, 0.2, -0.3, 0.4])[: Q + 1 + 2 * ends],
        limits=np.array([low, -low]),
        actions=bound * np.array([[-1.0, -1.5], [1.2, 0.9]]),
        is_angle=np.array([0, 0, 1]),
        ends=ends,
        penalties=penalties,
        controlled=controlled if machine else uncontrolled(),
        ending=Outputs.of(outputs[Q + 1 :]) if ends else uncontrolled().functions,
    )
    values = Values(critic.expansion, np.array([0.5, -1.0]))
    return Example(policies, outputs, world, critic, values, controllers)


def plain_step(one: Example, model: int, state: np.ndarray, action: np.ndarray) -> tuple:
    """Return the next state, the reward and the chance to go on."""
    world = one.world
    action, excess = np.clip(action, *world.actions), np.zeros(P)
    if world.controlled.used:
        ends = world.controlled.limits
        asked = [family(state[None])[0, model, 0] for family in one.controllers]
        asked += 0.2 + np.array([[0.1, -0.3, 0.0], [1.1, -0.3, 0.0]]) @ state
        action = np.clip(np.clip(asked, *ends) + action, *ends)
        excess = asked - np.clip(asked, *ends)
    both = np.concatenate([state, action])[None]
    plain = [family(both)[0, model, 0] for family in one.outputs[: Q + 1]]
    result = np.array(plain) + world.offsets[: Q + 1]
    if world.controlled.windup.size:
        result[:Q][np.any(world.controlled.windup * result[:Q] * excess[:, None] > 0, axis=0)] = 0.0
    low, high = world.limits
    after = state + result[:Q]
    reached = np.concatenate([after, action])[None]
    after[2] = (after[2] + np.pi) % (2.0 * np.pi) - np.pi
    reward, going = np.clip(result[Q], low[Q], high[Q]), 1.0
    if world.ends:
        odds, final = (family(reached)[0, model, 0] for family in one.outputs[Q + 1 :])
        going = 1.0 / (1.0 + np.exp(odds + world.offsets[Q + 1]))
        final = np.clip(final + world.offsets[Q + 2], low[Q + 1], high[Q + 1])
        reward = going * reward + (1.0 - going) * final
    return np.clip(after, low[:Q], high[:Q]), reward, going


def plain_penalties(table: Penalties, policy: int, states: np.ndarray) -> np.ndarray:
    """Return Σ_l λ_l c(z_l) with c(z) = 0, ½ (1 + z)², ½ + z below −1, up to 0 and above."""
    if not len(table.sign):
        return np.zeros(len(states))
    beyond = table.sign * (states[:, table.coordinate] - table.end[policy])
    z = beyond / table.width
    charge = np.where(z > 0.0, 0.5 + z, 0.5 * np.maximum(1.0 + z, 0.0) ** 2)
    return charge @ table.weight[policy]


def plain_returns(
    one: Example,
    policy: int,
    states: np.ndarray,
    rewards,
    bootstrap_mask,
    discount: float,
    trace: float,
) -> np.ndarray:
    """Return λ-returns: G_t = r_t + γ c_t ((1 − λ) V(s_{t+1}) + λ G_{t+1}), V alone at the end.

    Rewards are less the penalties of the limits.
    """
    rewards = rewards - plain_penalties(one.world.penalties, policy, states[1:])
    worth = one.critic(states[1:])[:, policy, 0] + one.values.offsets[policy]
    result, later = np.zeros(len(rewards)), worth[-1]
    for t in reversed(range(len(rewards))):
        share = trace if t < len(rewards) - 1 else 0.0
        later = rewards[t] + discount * bootstrap_mask[t] * ((1 - share) * worth[t] + share * later)
        result[t] = later
    return result
