"""Compiled rollouts: one body for all tasks, over plain arrays.

``dynamics`` are :class:`~crosslearning.tasks.Dynamics` with a row of parameters for each task.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crosslearning._base.compiled import compiled
from crosslearning.rkhs.program import KernelProgram, evaluate
from crosslearning.rollouts.data import Floats, Samples
from crosslearning.rollouts.plan import EpisodePlan, SamplePlan


@compiled
def to_units(scale: Floats, action: Floats, out: Floats) -> Floats:
    """Fill ``out`` with an action in the units of the task, and return it."""
    for a in range(action.shape[0]):
        out[a] = scale[0, a] + scale[1, a] * action[a]
    return out


@compiled
def run_samples(
    program: KernelProgram,
    features: Floats,
    weights: Floats,
    scale: Floats,
    dynamics: Any,
    state_size: int,
    plan: SamplePlan,
    mirrored: bool,
    first: int,
    stop: int,
    result: Samples,
) -> None:
    """Run the samples ``first`` … ``stop``−1 of the flattened (N, B) grid.

    Algorithm 1, lines 2 to 5: run the system for t steps, save the state, take the sampled
    action, and sum the rewards of T more steps. If ``mirrored``, repeat the last part from the
    saved state with the action mirrored at the policy's mean and the same noise afterwards.
    Each sample writes only to its own rows, so any split of the range gives the same result.
    """
    noise, deviations = plan.noise, result.deviations
    B = plan.before.shape[1]
    p = noise.shape[3]
    q = result.observations.shape[2]
    state, saved = np.empty(state_size), np.empty(state_size)
    observation, mean, action = np.empty(q), np.empty(p), np.empty(p)
    given = np.empty(p)
    point, work = np.empty(features.shape[0]), np.empty((2, features.shape[1]))
    for n in range(first, stop):
        i, b = n // B, n % B
        constants, policy = dynamics.parameters[i], weights[i]
        t, T = plan.before[i, b], plan.after[i, b]
        dynamics.reset(constants, plan.uniforms[i, b], state)
        total = 0.0
        count = 0
        while count < t and not dynamics.ended(constants, state):
            dynamics.observe(constants, state, observation)
            evaluate(program, features, policy, observation, point, work, action)
            for a in range(p):
                action[a] += noise[i, b, count, a]
            total += dynamics.step(constants, state, to_units(scale, action, given))
            count += 1
        dynamics.observe(constants, state, observation)
        evaluate(program, features, policy, observation, point, work, mean)
        for d in range(q):
            result.observations[i, b, d] = observation[d]
        for a in range(p):
            deviations[i, b, a] = noise[i, b, t, a]
        saved[:] = state
        for branch in range(2 if mirrored else 1):
            if branch == 1:
                state[:] = saved
            for a in range(p):
                deviation = deviations[i, b, a]
                action[a] = mean[a] + deviation if branch == 0 else mean[a] - deviation
            value = 0.0
            for k in range(t, t + 1 + T):
                if dynamics.ended(constants, state):
                    break
                if k > t:
                    dynamics.observe(constants, state, observation)
                    evaluate(program, features, policy, observation, point, work, action)
                    for a in range(p):
                        action[a] += noise[i, b, k, a]
                value += dynamics.step(constants, state, to_units(scale, action, given))
                count += 1
                if k == t and branch == 0:
                    total += value
            result.values[i, b, branch] = value
        result.returns[i, b] = total
        result.steps[i, b] = count


@compiled
def run_episodes(
    program: KernelProgram,
    features: Floats,
    weights: Floats,
    scale: Floats,
    dynamics: Any,
    state_size: int,
    plan: EpisodePlan,
    first: int,
    stop: int,
    result: Any,
) -> None:
    """Run the episodes ``first`` … ``stop``−1 of the flattened (N, n) grid."""
    noise, states = plan.noise, result.states
    episodes, horizon, p = noise.shape[1], noise.shape[2], noise.shape[3]
    state, action = np.empty(state_size), np.empty(p)
    point, work = np.empty(features.shape[0]), np.empty((2, features.shape[1]))
    for n in range(first, stop):
        i, e = n // episodes, n % episodes
        constants, policy, path = dynamics.parameters[i], weights[i], result.observations[i, e]
        dynamics.reset(constants, plan.uniforms[i, e], state)
        dynamics.observe(constants, state, path[0])
        states[i, e, 0, :state_size] = state
        length = 0
        for k in range(horizon):
            if dynamics.ended(constants, state):
                states[i, e, k + 1, :state_size] = state
                path[k + 1] = path[k]
                continue
            evaluate(program, features, policy, path[k], point, work, action)
            for a in range(p):
                action[a] += noise[i, e, k, a]
            given = to_units(scale, action, result.actions[i, e, k])
            result.rewards[i, e, k] = dynamics.step(constants, state, given)
            dynamics.observe(constants, state, path[k + 1])
            states[i, e, k + 1, :state_size] = state
            length += 1
        result.lengths[i, e] = length
        result.terminated[i, e] = dynamics.ended(constants, state)
