"""Imagined rollouts: steps in learned models, and the gradients that come back along them.

An imagined step is s' = s + f(s, a), f being the model's expansion and a = h(s) + noise the
policy's action.
Everything is differentiable, so that ∂Q/∂a at every imagined state follows by going back along the
path, with a critic in the place of what comes after its end. λ mixes the two: the adjoint of a
state is (1 − λ) ∇V(s) + λ times the one that comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning._base.compiled import FastEntry, compiled
from crosslearning.rkhs import Family, Linear, Sum
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

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Knots that compiled loops take at once: four lanes, four times unrolled.
_BLOCK = 16


class Outputs(NamedTuple):
    """Functions of several outputs, each with a kernel and knots of its own.

    The kernels are of one kind; the linear part of a sum is carried out over the knots, so that a
    function is an expansion in the rest of its kernel plus an affine function of (s, a). Whatever
    belongs to the knots lies output after output.

    Attributes
    ----------
    program : KernelProgram
        Of all outputs: their embeddings one after the other, r features each, and their factors.
    own : array of int, shape (outputs + 1,)
        Where the factors of each output begin; they count its own features, from 0.
    features : array, shape (r · L,)
        Embedded knots: for each output an array (r, its knots), flat.
    rows : array, shape (functions, L)
        Weights.
    affine : array, shape (functions, outputs, 1 + q + p)
        A constant, and the slope in every coordinate.
    edges : array of int, shape (outputs + 1,)
        Where the knots of each output begin.
    """

    program: KernelProgram
    own: Integers
    features: Floats
    rows: Floats
    affine: Floats
    edges: Integers

    @classmethod
    def of(cls, families: Sequence[Family]) -> Outputs:
        """Lay functions of one output each side by side."""
        parts = [_parted(family) for family in families]
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
    """Return the same functions with a whole number of SIMD blocks of knots.

    What is left over beside whole blocks is computed knot by knot, which takes longer than all
    the blocks of some fifty knots. Filling has no weight.
    """
    more = -expansion.features.shape[1] % _BLOCK
    features = np.pad(expansion.features, ((0, 0), (0, more)), mode="edge")
    rows = np.pad(expansion.rows, ((0, 0), (0, 0), (0, more)))
    return Expansion(expansion.program, features, rows)


def _parted(family: Family) -> tuple[Expansion, Floats]:
    """Return functions as an expansion, and what is affine in them, shape (functions, 1 + q)."""
    kernel, knots, weights = family.kernel, family.knots, family.weights
    affine = np.zeros((weights.shape[1], 1 + kernel.dimension))
    if not isinstance(kernel, Sum):
        return family.expansion, affine
    rest = []
    for part, scale in zip(kernel.parts, kernel.scales, strict=True):
        own, dimensions = part
        if isinstance(own, Linear):
            total = scale * weights[:, :, 0]
            affine[:, 0] += own.bias * total.sum(axis=0)
            slopes = total.T @ (knots[:, dimensions] / np.square(own.std))
            affine[:, 1 + np.array(dimensions)] += slopes
        else:
            rest.append((part, scale))
    whole = tuple(range(kernel.dimension))
    if len(rest) == 1 and rest[0][0][1] == whole:
        (own, _), scale = rest[0]
        return Family(own, knots, scale * weights).expansion, affine
    if not rest:
        return family.expansion, np.zeros_like(affine)
    curved = Sum(*(part for part, _ in rest), scales=[scale for _, scale in rest])
    return Family(curved, knots, weights).expansion, affine


class World(NamedTuple):
    """What compiled code needs to know of the models.

    Attributes
    ----------
    functions : Outputs
        From (s, a) to the change of s, the reward and, if ``ends``, the chance that all is over.
    offsets : array, shape (outputs,)
        Added to the functions' values.
    limits : array, shape (2, q + 1)
        Between these every imagined observation and reward is kept.
    actions : array, shape (2, p)
        Ends of the action space, in the policies' units.
    is_angle : array of int, shape (q,)
        1 for coordinates that are angles.
    ends : int
        1 if the functions tell whether an episode is over.
    """

    functions: Outputs
    offsets: Floats
    limits: Floats
    actions: Floats
    is_angle: Integers
    ends: int


class Values(NamedTuple):
    """Critics: V_i(s) = offsets[i] + f_i(s)."""

    functions: Expansion
    offsets: Floats


class Imagined(NamedTuple):
    """Imagined rollouts, n of H steps.

    Attributes
    ----------
    states : array, shape (n, H + 1, q)
    actions : array, shape (n, H, p)
        Not yet clipped.
    rewards : array, shape (n, H)
    bootstrap_mask : array, shape (n, H)
        The chance that the step was not the last.
    gradients : array, shape (n, H, p)
        ∂Q/∂a; at a bound of the actions only what points inward.
    returns : array, shape (n, H)
        λ-returns.
    """

    states: Floats
    actions: Floats
    rewards: Floats
    bootstrap_mask: Floats
    gradients: Floats
    returns: Floats


@compiled
def _predict(
    outputs: Outputs, function: int, both: Floats, point: Floats, work: Floats, found: Floats
) -> None:
    """Fill ``found`` with a function's outputs at (s, a).

    ``point``, shape (outputs · r,), is work space, and ``work`` with room for 2 columns.
    """
    r = point.shape[0] // found.shape[0]
    embed(outputs.program, both, point)
    for o in range(found.shape[0]):
        first, last = outputs.edges[o], outputs.edges[o + 1]
        m = last - first
        column = work[:m]
        partial_column(
            outputs.program,
            outputs.own[o],
            outputs.own[o + 1],
            outputs.features[r * first : r * last].reshape((r, m)),
            point[o * r : (o + 1) * r],
            work[m : 2 * m],
            column,
        )
        found[o] = inner(column, outputs.rows[function, first:last])
        found[o] += outputs.affine[function, o, 0]
        for d in range(both.shape[0]):
            found[o] += outputs.affine[function, o, 1 + d] * both[d]


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
    """Fill ``back`` with Σ_o pull[o] ∂f_o/∂(s, a).

    ``point``, shape (2, outputs · r), is work space, and ``work`` with room for 4 columns.
    """
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
        partial_pull_back(
            outputs.program,
            outputs.own[o],
            outputs.own[o + 1],
            outputs.features[r * first : r * last].reshape((r, m)),
            point[0, o * r : (o + 1) * r],
            weights,
            work[m : 4 * m].reshape((3, m)),
            gradient[o * r : (o + 1) * r],
        )
    embed_pull_back(outputs.program, both, gradient, back)
    for o in range(pull.shape[0]):
        for d in range(back.shape[0]):
            back[d] += pull[o] * outputs.affine[function, o, 1 + d]


@compiled
def _advance(
    world_offsets: Floats,
    limits: Floats,
    is_angle: Integers,
    ends: int,
    state: Floats,
    found: Floats,
    after: Floats,
) -> tuple[float, float]:
    """Fill ``after`` with the next state; return the reward and the chance to go on."""
    q = state.shape[0]
    for d in range(found.shape[0]):
        found[d] += world_offsets[d]
    for d in range(q):
        value = state[d] + found[d]
        if is_angle[d] == 1:
            width = limits[1, d] - limits[0, d]
            value = limits[0, d] + (value - limits[0, d]) % width
        after[d] = min(max(value, limits[0, d]), limits[1, d])
    reward = min(max(found[q], limits[0, q]), limits[1, q])
    going = 1.0
    if ends == 1:
        going = 1.0 - min(max(found[q + 1], 0.0), 1.0)
    return reward, going


@compiled
def _imagine(
    policy_program: KernelProgram,
    policy_features: Floats,
    policy_rows: Floats,
    models: Outputs,
    offsets: Floats,
    limits: Floats,
    bounds: Floats,
    is_angle: Integers,
    ends: int,
    starts: Floats,
    policy: Integers,
    model: Integers,
    noise: Floats,
    states: Floats,
    actions: Floats,
    rewards: Floats,
    bootstrap_mask: Floats,
) -> None:
    n, H, p = noise.shape
    q = starts.shape[1]
    width = models.edges[-1]
    policy_point = np.empty(policy_features.shape[0])
    model_point = np.empty(models.features.shape[0] // width * (models.edges.shape[0] - 1))
    policy_work, model_work = np.empty((2, policy_features.shape[1])), np.empty(2 * width)
    action, both, found = np.empty(p), np.empty(q + p), np.empty(models.edges.shape[0] - 1)
    for k in range(n):
        states[k, 0] = starts[k]
        for t in range(H):
            state = states[k, t]
            evaluate(
                policy_program,
                policy_features,
                policy_rows[policy[k]],
                state,
                policy_point,
                policy_work,
                action,
            )
            both[:q] = state
            for j in range(p):
                actions[k, t, j] = action[j] + noise[k, t, j]
                both[q + j] = min(max(actions[k, t, j], bounds[0, j]), bounds[1, j])
            _predict(models, model[k], both, model_point, model_work, found)
            rewards[k, t], bootstrap_mask[k, t] = _advance(
                offsets, limits, is_angle, ends, state, found, states[k, t + 1]
            )


@compiled
def _look_back(
    policy_program: KernelProgram,
    policy_features: Floats,
    policy_rows: Floats,
    models: Outputs,
    limits: Floats,
    bounds: Floats,
    is_angle: Integers,
    ends: int,
    critic_program: KernelProgram,
    critic_features: Floats,
    critic_rows: Floats,
    critic_offsets: Floats,
    discount: float,
    trace: float,
    policy: Integers,
    model: Integers,
    states: Floats,
    actions: Floats,
    rewards: Floats,
    bootstrap_mask: Floats,
    gradients: Floats,
    returns: Floats,
) -> None:
    n, H, p = actions.shape
    q, outputs, width = states.shape[2], models.edges.shape[0] - 1, models.edges[-1]
    policy_point = np.empty((2, policy_features.shape[0]))
    model_point = np.empty((2, models.features.shape[0] // width * outputs))
    critic_point = np.empty((2, critic_features.shape[0]))
    policy_work = np.empty((4, policy_features.shape[1]))
    model_work = np.empty(4 * width)
    critic_work = np.empty((4, critic_features.shape[1]))
    one, value = np.ones(1), np.empty(1)
    slope, adjoint, back = np.empty(q), np.empty(q), np.empty(q)
    both, both_back = np.empty(q + p), np.empty(q + p)
    pull, wanted = np.empty(outputs), np.empty(p)
    for k in range(n):
        later = 0.0
        for t in range(H - 1, -1, -1):
            after = states[k, t + 1]
            evaluate(
                critic_program,
                critic_features,
                critic_rows[policy[k]],
                after,
                critic_point[0],
                critic_work[:2],
                value,
            )
            evaluate_pull_back(
                critic_program,
                critic_features,
                critic_rows[policy[k]],
                after,
                one,
                critic_point[0],
                critic_work,
                critic_point[1],
                slope,
            )
            worth = value[0] + critic_offsets[policy[k]]
            share = trace if t < H - 1 else 0.0
            worth = (1.0 - share) * worth + share * later
            for d in range(q):
                adjoint[d] = (1.0 - share) * slope[d] + (share * back[d] if t < H - 1 else 0.0)
                # Where the next observation was kept within its limits, nothing moves it.
                if is_angle[d] == 0 and (after[d] <= limits[0, d] or after[d] >= limits[1, d]):
                    adjoint[d] = 0.0
                pull[d] = discount * bootstrap_mask[k, t] * adjoint[d]
            pull[q] = 1.0
            if rewards[k, t] <= limits[0, q] or rewards[k, t] >= limits[1, q]:
                pull[q] = 0.0
            if ends == 1:
                inside = bootstrap_mask[k, t] > 0.0 and bootstrap_mask[k, t] < 1.0
                pull[q + 1] = -discount * worth if inside else 0.0
            both[:q] = states[k, t]
            for j in range(p):
                both[q + j] = min(max(actions[k, t, j], bounds[0, j]), bounds[1, j])
            _predict_back(models, model[k], both, pull, model_point, model_work, both_back)
            for j in range(p):
                wish = both_back[q + j]
                action = actions[k, t, j]
                outward = (action >= bounds[1, j] and wish > 0.0) or (
                    action <= bounds[0, j] and wish < 0.0
                )
                gradients[k, t, j] = 0.0 if outward else wish
                clipped = action >= bounds[1, j] or action <= bounds[0, j]
                wanted[j] = 0.0 if clipped else wish
            evaluate_pull_back(
                policy_program,
                policy_features,
                policy_rows[policy[k]],
                states[k, t],
                wanted,
                policy_point[0],
                policy_work,
                policy_point[1],
                back,
            )
            for d in range(q):
                back[d] += both_back[d] + pull[d]
            later = rewards[k, t] + discount * bootstrap_mask[k, t] * worth
            returns[k, t] = later


_imagined = FastEntry(_imagine)
_looked_back = FastEntry(_look_back)


def imagine(
    policies: Expansion,
    world: World,
    starts: Floats,
    policy: Integers,
    model: Integers,
    noise: Floats,
) -> Imagined:
    """Run imagined rollouts, without gradients.

    Parameters
    ----------
    policies : Expansion
    world : World
    starts : array, shape (n, q)
    policy, model : arrays of int, shape (n,)
        Which functions of the policies and of the world.
    noise : array, shape (n, H, p)
    """
    # Compiled code is called without a look at its arguments, which must be of these types.
    starts, noise = (np.ascontiguousarray(one, dtype=np.float64) for one in (starts, noise))
    policy, model = (np.ascontiguousarray(one, dtype=np.int64) for one in (policy, model))
    n, H, p = noise.shape
    found = Imagined(
        states=np.empty((n, H + 1, starts.shape[1])),
        actions=np.empty((n, H, p)),
        rewards=np.empty((n, H)),
        bootstrap_mask=np.empty((n, H)),
        gradients=np.zeros((n, H, p)),
        returns=np.zeros((n, H)),
    )
    _imagined(
        *policies,
        *world,
        starts,
        policy,
        model,
        noise,
        *found[:4],
    )
    return found


def backpropagate(
    found: Imagined,
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
    _looked_back(
        *policies,
        world.functions,
        *world[2:],
        *critic.functions,
        critic.offsets,
        discount,
        trace,
        policy,
        model,
        *found,
    )
