"""Compiled rollouts: one body for all tasks, over plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.compiled import FunctionPointer, compiled
from crosslearning.rkhs.program import KernelProgram, evaluate
from crosslearning.rollouts.data import Floats, Integers


@compiled
def to_units(scale: Floats, action: Floats, out: Floats) -> Floats:
    """Fill ``out`` with an action in the units of the task, and return it."""
    for a in range(action.shape[0]):
        out[a] = scale[0, a] + scale[1, a] * action[a]
    return out


@compiled
def run_samples(
    terms: Integers,
    term_values: Floats,
    factors: Integers,
    biases: Floats,
    pair: FunctionPointer,
    reset: Any,
    observe: Any,
    step: Any,
    ended: Any,
    parameters: Floats,
    features: Floats,
    weights: Floats,
    scale: Floats,
    seeds: Integers,
    uniforms: Floats,
    before: Integers,
    after: Integers,
    noise: Floats,
    state_size: int,
    mirrored: bool,
    first: int,
    stop: int,
    observations: Floats,
    deviations: Floats,
    values: Floats,
    returns: Floats,
    steps: Integers,
) -> None:
    """Run the samples ``first`` … ``stop``−1 of the flattened (N, B) grid.

    Algorithm 1, lines 2 to 5: run the system for t steps, save the state, take the sampled
    action, and sum the rewards of T more steps. If ``mirrored``, repeat the last part from the
    saved state with the action mirrored at the policy's mean and the same noise afterwards.
    Each sample writes only to its own rows, so any split of the range gives the same result.
    """
    program = KernelProgram(terms, term_values, factors, biases, pair)
    B = before.shape[1]
    p = noise.shape[3]
    q = observations.shape[2]
    state, saved = np.empty(state_size), np.empty(state_size)
    observation, mean, action = np.empty(q), np.empty(p), np.empty(p)
    given = np.empty(p)
    point, work = np.empty(features.shape[0]), np.empty((2, features.shape[1]))
    for n in range(first, stop):
        i, b = n // B, n % B
        constants, policy = parameters[i], weights[i]
        t, T = before[i, b], after[i, b]
        reset(constants, uniforms[i, b], state)
        total = 0.0
        count = 0
        while count < t and not ended(constants, state):
            observe(constants, state, observation)
            evaluate(program, features, policy, observation, point, work, action)
            for a in range(p):
                action[a] += noise[i, b, count, a]
            total += step(constants, state, to_units(scale, action, given))
            count += 1
        observe(constants, state, observation)
        evaluate(program, features, policy, observation, point, work, mean)
        for d in range(q):
            observations[i, b, d] = observation[d]
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
                if ended(constants, state):
                    break
                if k > t:
                    observe(constants, state, observation)
                    evaluate(program, features, policy, observation, point, work, action)
                    for a in range(p):
                        action[a] += noise[i, b, k, a]
                value += step(constants, state, to_units(scale, action, given))
                count += 1
                if k == t and branch == 0:
                    total += value
            values[i, b, branch] = value
        returns[i, b] = total
        steps[i, b] = count


@compiled
def run_episodes(
    terms: Integers,
    term_values: Floats,
    factors: Integers,
    biases: Floats,
    pair: FunctionPointer,
    reset: Any,
    observe: Any,
    step: Any,
    ended: Any,
    parameters: Floats,
    features: Floats,
    weights: Floats,
    scale: Floats,
    seeds: Integers,
    uniforms: Floats,
    noise: Floats,
    state_size: int,
    first: int,
    stop: int,
    rewards: Floats,
    lengths: Integers,
    terminated: NDArray[np.bool_],
    observations: Floats,
    actions: Floats,
    states: Floats,
) -> None:
    """Run the episodes ``first`` … ``stop``−1 of the flattened (N, n) grid."""
    program = KernelProgram(terms, term_values, factors, biases, pair)
    episodes, horizon, p = noise.shape[1], noise.shape[2], noise.shape[3]
    state, action = np.empty(state_size), np.empty(p)
    point, work = np.empty(features.shape[0]), np.empty((2, features.shape[1]))
    for n in range(first, stop):
        i, e = n // episodes, n % episodes
        constants, policy, seen = parameters[i], weights[i], observations[i, e]
        reset(constants, uniforms[i, e], state)
        observe(constants, state, seen[0])
        states[i, e, 0, :state_size] = state
        length = 0
        for k in range(horizon):
            if ended(constants, state):
                states[i, e, k + 1, :state_size] = state
                seen[k + 1] = seen[k]
                continue
            evaluate(program, features, policy, seen[k], point, work, action)
            for a in range(p):
                action[a] += noise[i, e, k, a]
            to_units(scale, action, actions[i, e, k])
            rewards[i, e, k] = step(constants, state, actions[i, e, k])
            observe(constants, state, seen[k + 1])
            states[i, e, k + 1, :state_size] = state
            length += 1
        lengths[i, e] = length
        terminated[i, e] = ended(constants, state)
