"""Imagined rollouts: steps in dynamics models, and the gradients propagated back along them.

An imagined step is s' = s + f(s, a), with the model's expansion f and the policy's action
a = h(s) + noise. Everything is differentiable, so ∂Q/∂a at every imagined state follows by
backpropagation along the path, bootstrapped with a critic at its end. λ mixes the two: the adjoint
of a state is (1 − λ) ∇V(s) + λ times the one that is propagated back.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crosslearning._base.compiled import FastEntry, compiled
from crosslearning.learner.limits import Penalties, penalty, penalty_slope
from crosslearning.rkhs import Family, Gaussian, Linear, Sum
from crosslearning.rkhs.checks import Floats, Integers
from crosslearning.rkhs.program import (
    Expansion,
    KernelProgram,
    embed,
    embed_pull_back,
    evaluate,
    evaluate_pull_back,
    inner,
    partial_column,
    partial_pull_back,
)

#: Knots that compiled loops take at once: four lanes, four times unrolled.
_BLOCK = 16
#: Log odds are clipped to this.
_SURE = 40.0


class Outputs(NamedTuple):
    """Functions of several outputs, each with a kernel and knots of its own.

    The kernels are of one kind. The linear part of a sum is summed over the knots, so that a
    function is an expansion in the rest of its kernel plus an affine function of (s, a). Arrays
    over knots are concatenated output by output, L in all.
    """

    #: Of all outputs: their embeddings concatenated, r features each, and their factors.
    program: KernelProgram
    #: Where the factors of each output begin, shape (outputs + 1,); they count from 0.
    factors: Integers
    #: Embedded knots: for each output an array (r, its knots), flat.
    features: Floats
    #: Weights, shape (functions, L).
    rows: Floats
    #: A constant and the slope in every coordinate, shape (functions, outputs, 1 + q + p).
    affine: Floats
    #: Where the knots of each output begin, shape (outputs + 1,).
    edges: Integers

    @classmethod
    def of(cls, families: Sequence[Family], slopes: Sequence[Floats | None] = ()) -> Outputs:
        """Concatenate functions of one output each; ``slopes`` are added to their affine parts."""
        parts = [_parted(family) for family in families]
        for (_, affine), slope in zip(parts, slopes, strict=False):
            affine += 0.0 if slope is None else slope
        expansions = [_filled(expansion) for expansion, _ in parts]
        programs = [one.program for one in expansions]
        r = expansions[0].features.shape[0]
        terms = [one.terms + np.array([0, 0, o * r]) for o, one in enumerate(programs)]
        program = KernelProgram(
            np.concatenate(terms),
            np.concatenate([one.term_values for one in programs]),
            np.concatenate([one.factors for one in programs]),
            np.concatenate([one.biases for one in programs]),
            programs[0].pair,
        )
        return cls(
            program,
            _edges([len(one.factors) for one in programs]),
            np.concatenate([one.features.ravel() for one in expansions]),
            np.concatenate([one.rows[:, 0] for one in expansions], axis=1),
            np.stack([affine for _, affine in parts], axis=1),
            _edges([one.features.shape[1] for one in expansions]),
        )


def _edges(sizes: Sequence[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _filled(expansion: Expansion) -> Expansion:
    """Return the same functions with a whole number of SIMD blocks of knots; padding has no weight.

    The rest beside whole blocks is computed knot by knot, which takes longer than fifty knots.
    """
    more = -expansion.features.shape[1] % _BLOCK
    features = np.pad(expansion.features, ((0, 0), (0, more)), mode="edge")
    rows = np.pad(expansion.rows, ((0, 0), (0, 0), (0, more)))
    return Expansion(expansion.program, features, rows)


def _parted(family: Family) -> tuple[Expansion, Floats]:
    """Return functions as an expansion plus an affine part, shape (functions, 1 + q)."""
    kernel, knots, weights = family.kernel, family.knots, family.weights
    affine = np.zeros((weights.shape[1], 1 + kernel.dimension))
    if not isinstance(kernel, Sum):
        return family.expansion, affine
    rest = []
    for part, scale in zip(kernel.parts, kernel.scales, strict=True):
        part_kernel, dimensions = part
        if isinstance(part_kernel, Linear):
            total = scale * weights[:, :, 0]
            affine[:, 0] += part_kernel.bias * total.sum(axis=0)
            slopes = total.T @ (knots[:, dimensions] / np.square(part_kernel.std))
            affine[:, 1 + np.array(dimensions)] += slopes
        else:
            rest.append((part, scale))
    whole = tuple(range(kernel.dimension))
    if len(rest) == 1 and rest[0][0][1] == whole:
        (part_kernel, _), scale = rest[0]
        return Family(part_kernel, knots, scale * weights).expansion, affine
    if not rest:
        return family.expansion, np.zeros_like(affine)
    curved = Sum(*(part for part, _ in rest), scales=[scale for _, scale in rest])
    return Family(curved, knots, weights).expansion, affine


class Controlled(NamedTuple):
    """The controllers that policies correct, for compiled code: clip(k(s) + clip(a)) acts."""

    #: From s to the controller's action in the policies' units; every function is of one task.
    functions: Outputs
    #: Bounds of the machines' actions, shape (2, p), in the same units.
    limits: Floats
    #: 0 if the models are functions of the policies' own actions.
    used: int
    #: Anti-windup: where an action j is clipped, a coordinate d of the memory stands still whose
    #: change times this sign (p, q) drives it outward. Shape (p, 0) without integrals.
    windup: Floats


@functools.cache
def uncontrolled() -> Controlled:
    """Return no controllers, and with them functions that nothing reads."""
    nothing = Family(Gaussian(std=[1.0]), np.zeros((1, 1)), np.zeros((1, 1, 1)))
    return Controlled(Outputs.of([nothing]), np.zeros((2, 1)), 0, np.zeros((1, 0)))


class World(NamedTuple):
    """The models, for compiled code."""

    #: From (s, a) to the change of s and the reward of a step that does not end the episode.
    functions: Outputs
    #: Added to the functions' values, shape (outputs,).
    offsets: Floats
    #: Imagined observations and both rewards are clipped to these, shape (2, q + 1 + ends).
    limits: Floats
    #: Bounds of the action space, shape (2, p), in the policies' units.
    actions: Floats
    #: 1 for coordinates that are angles, shape (q,).
    is_angle: Integers
    #: 1 if episodes may end.
    ends: int
    #: The limits of observations, by policy.
    penalties: Penalties
    #: The controllers whose actions are added to the policies'.
    controlled: Controlled
    #: If ``ends``: from (s + change, a) to the log odds of an end and the reward at an end.
    ending: Outputs


class Values(NamedTuple):
    """Critics: V_i(s) = offsets[i] + f_i(s)."""

    functions: Expansion
    offsets: Floats


class Imagined(NamedTuple):
    """Imagined rollouts, n of H steps."""

    states: Floats  #: shape (n, H + 1, q)
    actions: Floats  #: shape (n, H, p), not yet clipped
    #: Shape (n, H), expected over whether the step ends; less the penalties of limits in
    #: ``returns`` alone.
    rewards: Floats
    bootstrap_mask: Floats  #: shape (n, H): the probability that the step did not terminate
    gradients: Floats  #: shape (n, H, p): ∂Q/∂a; at a bound only the part that points inward
    returns: Floats  #: shape (n, H): λ-returns
    outcomes: Floats  #: shape (n, H, 2): the reward without an end, and at an end
    moved: Floats  #: shape (n, H, q): the next state before it is clipped; empty if nothing ends


@compiled
def _predict(
    outputs: Outputs, function: int, both: Floats, point: Floats, work: Floats, values: Floats
) -> None:
    """Fill ``values`` with a function's outputs at (s, a); ``work`` holds 2 columns."""
    r = point.shape[0] // values.shape[0]
    embed(outputs.program, both, point)
    for o in range(values.shape[0]):
        first, last = outputs.edges[o], outputs.edges[o + 1]
        m = last - first
        column, here = work[:m], point[o * r : (o + 1) * r]
        begin, end = outputs.factors[o], outputs.factors[o + 1]
        features = outputs.features[r * first : r * last].reshape((r, m))
        partial_column(outputs.program, begin, end, features, here, work[m : 2 * m], column)
        values[o] = inner(column, outputs.rows[function, first:last])
        values[o] += outputs.affine[function, o, 0]
        for d in range(both.shape[0]):
            values[o] += outputs.affine[function, o, 1 + d] * both[d]


@compiled
def _predict_back(
    outputs: Outputs,
    function: int,
    both: Floats,
    pull: Floats,
    point: Floats,
    work: Floats,
    back: Floats,
) -> None:
    """Fill ``back`` with Σ_o pull[o] ∂f_o/∂(s, a); ``work`` holds 4 columns."""
    r = point.shape[1] // pull.shape[0]
    embed(outputs.program, both, point[0])
    gradient = point[1]
    gradient[:] = 0.0
    for o in range(pull.shape[0]):
        if pull[o] == 0.0:
            continue
        first, last = outputs.edges[o], outputs.edges[o + 1]
        m = last - first
        weights, row = work[:m], outputs.rows[function, first:last]
        for k in range(m):
            weights[k] = pull[o] * row[k]
        begin, end = outputs.factors[o], outputs.factors[o + 1]
        features = outputs.features[r * first : r * last].reshape((r, m))
        here, slope = point[0, o * r : (o + 1) * r], gradient[o * r : (o + 1) * r]
        space = work[m : 4 * m].reshape((3, m))
        partial_pull_back(outputs.program, begin, end, features, here, weights, space, slope)
    embed_pull_back(outputs.program, both, gradient, back)
    for o in range(pull.shape[0]):
        for d in range(back.shape[0]):
            back[d] += pull[o] * outputs.affine[function, o, 1 + d]


@compiled
def _advance(world: World, state: Floats, values: Floats, after: Floats) -> float:
    """Fill ``after`` with the next state; return the reward without an end."""
    q, limits = state.shape[0], world.limits
    for d in range(values.shape[0]):
        values[d] += world.offsets[d]
    for d in range(q):
        value = state[d] + values[d]
        if world.is_angle[d] == 1:
            width = limits[1, d] - limits[0, d]
            value = limits[0, d] + (value - limits[0, d]) % width
        after[d] = min(max(value, limits[0, d]), limits[1, d])
    return float(min(max(values[q], limits[0, q]), limits[1, q]))


@compiled
def _end(world: World, values: Floats, outcomes: Floats) -> tuple[float, float]:
    """Fill in the reward at an end; return the expected reward and the bootstrap mask."""
    q, limits = world.is_angle.shape[0], world.limits
    odds = min(max(values[0] + world.offsets[q + 1], -_SURE), _SURE)
    final = values[1] + world.offsets[q + 2]
    outcomes[1] = min(max(final, limits[0, q + 1]), limits[1, q + 1])
    going = 1.0 / (1.0 + math.exp(odds))
    return going * outcomes[0] + (1.0 - going) * outcomes[1], going


@compiled
def _room(functions: Outputs) -> tuple[Floats, Floats]:
    """Return space for the embeddings and columns of functions."""
    width = functions.edges[-1]
    size = functions.features.shape[0] // width * (functions.edges.shape[0] - 1)
    return np.empty((2, size)), np.empty(4 * width)


@compiled
def _ask(
    controlled: Controlled,
    model: int,
    state: Floats,
    point: Floats,
    work: Floats,
    asked: Floats,
    free: Floats,
    excess: Floats,
) -> None:
    """Fill ``asked`` with the controller's action, and ``free`` with 1 where no bound cuts it.

    ``excess`` is what a bound cuts off.
    """
    if controlled.used == 0:
        return
    _predict(
        controlled.functions,
        model % controlled.functions.rows.shape[0],
        state,
        point,
        work,
        asked,
    )
    for j in range(asked.shape[0]):
        low, high = controlled.limits[0, j], controlled.limits[1, j]
        free[j] = 1.0 if low < asked[j] < high else 0.0
        wanted = asked[j]
        asked[j] = min(max(wanted, low), high)
        excess[j] = wanted - asked[j]


@compiled
def _stand_still(controlled: Controlled, excess: Floats, offsets: Floats, values: Floats) -> None:
    """Let integrals stand still that would drive a clipped action farther outward."""
    windup = controlled.windup
    for d in range(windup.shape[1]):
        for j in range(windup.shape[0]):
            if windup[j, d] * (values[d] + offsets[d]) * excess[j] > 0.0:
                values[d] = -offsets[d]


@compiled
def _add(controlled: Controlled, j: int, asked: Floats, action: float) -> float:
    """Return the machine's action for a policy's."""
    if controlled.used == 0:
        return action
    return float(min(max(asked[j] + action, controlled.limits[0, j]), controlled.limits[1, j]))


@compiled
def _imagine(
    policies: Expansion,
    world: World,
    starts: Floats,
    policy: Integers,
    model: Integers,
    noise: Floats,
    disturbances: Floats,
    out: Imagined,
) -> None:
    program, features, rows = policies
    models, bounds = world.functions, world.actions
    states, actions, rewards, bootstrap_mask, _, _, outcomes, moved = out
    n, H, p = noise.shape
    q = starts.shape[1]
    width = models.edges[-1]
    point = np.empty(features.shape[0])
    model_point = np.empty(models.features.shape[0] // width * (models.edges.shape[0] - 1))
    work, model_work = np.empty((2, features.shape[1])), np.empty(2 * width)
    action, both, values = np.empty(p), np.empty(q + p), np.empty(models.edges.shape[0] - 1)
    controlled, asked, free, excess = world.controlled, np.zeros(p), np.ones(p), np.zeros(p)
    place, space = _room(controlled.functions)
    end_place, end_space = _room(world.ending)
    ending, reached = np.empty(2), np.empty(q + p)
    for k in range(n):
        states[k, 0] = starts[k]
        for t in range(H):
            state = states[k, t]
            evaluate(program, features, rows[policy[k]], state, point, work, action)
            _ask(controlled, model[k], state, place[0], space, asked, free, excess)
            np.positive(state, both[:q])
            for j in range(p):
                actions[k, t, j] = action[j] + noise[k, t, j]
                given = min(max(actions[k, t, j], bounds[0, j]), bounds[1, j])
                both[q + j] = _add(controlled, j, asked, given)
            _predict(models, model[k], both, model_point, model_work, values)
            if disturbances.shape[1] > 0:
                for d in range(q + 1):
                    values[d] += disturbances[k, t, d]
            _stand_still(controlled, excess, world.offsets, values)
            rewards[k, t], bootstrap_mask[k, t] = (
                _advance(world, state, values, states[k, t + 1]),
                1.0,
            )
            outcomes[k, t, 0] = rewards[k, t]
            if world.ends == 1:
                for d in range(q):
                    moved[k, t, d] = state[d] + values[d]
                reached[:q], reached[q:] = moved[k, t], both[q:]
                _predict(world.ending, model[k], reached, end_place[0], end_space, ending)
                rewards[k, t], bootstrap_mask[k, t] = _end(world, ending, outcomes[k, t])


@compiled
def _look_back(
    policies: Expansion,
    world: World,
    critic: Values,
    discount: float,
    trace: float,
    policy: Integers,
    model: Integers,
    out: Imagined,
) -> None:
    program, features, rows = policies
    states, actions, rewards, bootstrap_mask, gradients, returns, outcomes, moved = out
    kernel, knots, weights = critic.functions
    models, limits, bounds = world.functions, world.limits, world.actions
    n, H, p = actions.shape
    q, outputs, width = states.shape[2], models.edges.shape[0] - 1, models.edges[-1]
    point, work = np.empty((2, features.shape[0])), np.empty((4, features.shape[1]))
    model_point = np.empty((2, models.features.shape[0] // width * outputs))
    model_work = np.empty(4 * width)
    place, space = np.empty((2, knots.shape[0])), np.empty((4, knots.shape[1]))
    one, value = np.ones(1), np.empty(1)
    slope, adjoint, back, slope_of_limits = np.empty(q), np.empty(q), np.empty(q), np.empty(q)
    both, both_back = np.empty(q + p), np.empty(q + p)
    pull, wanted = np.empty(outputs), np.empty(p)
    controlled, asked, free, excess = world.controlled, np.zeros(p), np.ones(p), np.zeros(p)
    still = np.zeros(q)
    seat, columns = _room(controlled.functions)
    end_place, end_space = _room(world.ending)
    end_pull, reached, end_back = np.empty(2), np.empty(q + p), np.zeros(q + p)
    asked_back, asking = np.empty(q), np.empty(p)
    for k in range(n):
        later, row = 0.0, weights[policy[k]]
        for t in range(H - 1, -1, -1):
            after = states[k, t + 1]
            evaluate(kernel, knots, row, after, place[0], space[:2], value)
            evaluate_pull_back(kernel, knots, row, after, one, place[0], space, place[1], slope)
            slope_of_limits[:] = 0.0
            penalty_slope(world.penalties, policy[k], after, slope_of_limits)
            worth = value[0] + critic.offsets[policy[k]]
            share = trace if t < H - 1 else 0.0
            worth = (1.0 - share) * worth + share * later
            for d in range(q):
                adjoint[d] = (1.0 - share) * slope[d] + (share * back[d] if t < H - 1 else 0.0)
                # A clipped observation has no gradient.
                clipped = after[d] <= limits[0, d] or after[d] >= limits[1, d]
                if world.is_angle[d] == 0 and clipped:
                    adjoint[d] = 0.0
                pull[d] = discount * bootstrap_mask[k, t] * adjoint[d]
                pull[d] -= slope_of_limits[d]
            pull[q] = 1.0
            plain, final = outcomes[k, t, 0], outcomes[k, t, 1]
            if plain <= limits[0, q] or plain >= limits[1, q]:
                pull[q] = 0.0
            np.positive(states[k, t], both[:q])
            _ask(controlled, model[k], states[k, t], seat[0], columns, asked, free, excess)
            for j in range(p):
                given = min(max(actions[k, t, j], bounds[0, j]), bounds[1, j])
                both[q + j] = _add(controlled, j, asked, given)
            if world.ends == 1:
                going = bootstrap_mask[k, t]
                pull[q] *= going
                end_pull[0] = going * (1.0 - going) * (final - plain - discount * worth)
                inside = final > limits[0, q + 1] and final < limits[1, q + 1]
                end_pull[1] = 1.0 - going if inside else 0.0
                reached[:q], reached[q:] = moved[k, t], both[q:]
                ending = world.ending
                _predict_back(ending, model[k], reached, end_pull, end_place, end_space, end_back)
                for d in range(q):
                    pull[d] += end_back[d]
            for d in range(controlled.windup.shape[1]):
                # An integral that stood still did not depend on the step.
                stood = np.any(controlled.windup[:, d] != 0.0) and after[d] == states[k, t, d]
                still[d] = pull[d] if stood else 0.0
                pull[d] -= still[d]
            _predict_back(models, model[k], both, pull, model_point, model_work, both_back)
            for j in range(p):
                both_back[q + j] += end_back[q + j]
                wish, action = both_back[q + j], actions[k, t, j]
                high, low = action >= bounds[1, j], action <= bounds[0, j]
                if controlled.used == 1:
                    most = both[q + j] >= controlled.limits[1, j]
                    least = both[q + j] <= controlled.limits[0, j]
                    asking[j] = 0.0 if most or least else free[j] * wish
                    high, low = high or most, low or least
                outward = (high and wish > 0.0) or (low and wish < 0.0)
                gradients[k, t, j] = 0.0 if outward else wish
                wanted[j] = 0.0 if high or low else wish
            state = states[k, t]
            evaluate_pull_back(
                program, features, rows[policy[k]], state, wanted, point[0], work, point[1], back
            )
            for d in range(q):
                back[d] += both_back[d] + pull[d] + still[d]
            if controlled.used == 1:
                task = model[k] % controlled.functions.rows.shape[0]
                _predict_back(controlled.functions, task, state, asking, seat, columns, asked_back)
                for d in range(q):
                    back[d] += asked_back[d]
            later = rewards[k, t] + discount * bootstrap_mask[k, t] * worth
            later -= penalty(world.penalties, policy[k], after)
            returns[k, t] = later


_fill_rollouts = FastEntry(_imagine)
_fill_gradients = FastEntry(_look_back)


def imagine(
    policies: Expansion,
    world: World,
    starts: Floats,
    policy: Integers,
    model: Integers,
    noise: Floats,
    disturbances: Floats | None = None,
) -> Imagined:
    """Run imagined rollouts, without gradients, from ``starts`` (n, q) with ``noise`` (n, H, p).

    ``policy`` and ``model``, shape (n,), number the functions of the policies and of the world.
    ``disturbances``, shape (n, H, q + 1), are added to the next observations and the rewards.
    """
    # Compiled code is called without a check of its arguments, which must be of these types.
    starts, noise = (np.ascontiguousarray(one, dtype=np.float64) for one in (starts, noise))
    policy, model = (np.ascontiguousarray(one, dtype=np.int64) for one in (policy, model))
    n, H, p = noise.shape
    if disturbances is None:
        disturbances = np.empty((n, 0, starts.shape[1] + 1))
    rewards, mask, returns = (np.zeros((n, H)) for _ in range(3))
    actions, gradients = np.zeros((n, H, p)), np.zeros((n, H, p))
    states = np.empty((n, H + 1, starts.shape[1]))
    outcomes, moved = np.zeros((n, H, 2)), np.empty((n, H * world.ends, starts.shape[1]))
    imagined = Imagined(states, actions, rewards, mask, gradients, returns, outcomes, moved)
    _fill_rollouts(policies, world, starts, policy, model, noise, disturbances, imagined)
    return imagined


def backpropagate(
    imagined: Imagined,
    policies: Expansion,
    world: World,
    critic: Values,
    policy: Integers,
    model: Integers,
    discount: float,
    trace: float,
) -> None:
    """Fill in the gradients and returns of imagined rollouts."""
    policy, model = (np.ascontiguousarray(one, dtype=np.int64) for one in (policy, model))
    _fill_gradients(policies, world, critic, discount, trace, policy, model, imagined)
