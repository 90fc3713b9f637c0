"""The function space: pruning, projection and evaluation against their floors and rivals."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import cvxpy
import numba
import numpy as np
from scipy.linalg import blas

from benchmarks.table import Row
from benchmarks.timing import exponent, human, in_turns
from crosslearning.rkhs import Dictionary, Family, Gaussian, exact_projection, project

#: The paper's kernel over (d_o, φ_o, d_g, φ_g, φ_obs).
KERNEL = Gaussian(covariance=[1.0, math.pi / 5, 1.0, math.pi / 5, math.pi / 10])

#: Solutions of the QCQP, each beside ours.
_ROUNDS = 7


def states(generator: np.random.Generator, n: int) -> np.ndarray:
    """Return states like those of the navigation tasks, shape (n, 5)."""
    low, high = [0, -math.pi, 0, -math.pi, 0], [10, math.pi, 10, math.pi, math.pi]
    return generator.uniform(low, high, (n, 5))


def family(generator: np.random.Generator, knots: int, functions: int, outputs: int = 2) -> Family:
    weights = 0.05 * generator.standard_normal((knots, functions, outputs))
    return Family(KERNEL, states(generator, knots), weights)


def full_dictionary(generator: np.random.Generator, knots: int) -> Dictionary:
    """Return a dictionary of exactly ``knots`` knots with its inverse in place."""
    dictionary = Dictionary.of(family(generator, knots, 4))
    dictionary.prune(0.0, max_knots=knots)
    return dictionary


def pruning_round(generator: np.random.Generator, dictionary: Dictionary, knots: int) -> None:
    """Insert twelve knots and remove twelve."""
    dictionary.extend(states(generator, 12), 0.1 * generator.standard_normal((12, 4, 2)))
    dictionary.prune(0.0, max_knots=knots)


def pruning_products(generator: np.random.Generator, knots: int):
    """Return a call that does the two matrix products of a pruning round, and nothing else."""
    inverse = np.asfortranarray(generator.standard_normal((knots, knots)))
    right = generator.standard_normal((knots, 13))
    update = np.asfortranarray(generator.standard_normal((knots, 24)))

    def products() -> None:
        blas.dgemm(1.0, inverse, right)
        blas.dgemm(1.0, update, update, 1.0, inverse, trans_b=1, overwrite_c=1)
        inverse[:] = 1.0  # keeps the numbers finite; its time is counted too, and is small

    return products


def pruning() -> list[Row]:
    generator = np.random.default_rng(0)
    dictionary = full_dictionary(generator, 400)
    ours, floor = in_turns(
        lambda: pruning_round(generator, dictionary, 400),
        pruning_products(generator, 400),
        rounds=300,
    )
    return [
        Row(
            "insert 12 and remove 12 knots of 400, 4 functions to R²",
            f"{human(ours)} / {human(floor)} for its two matrix products",
            ours / floor,
            "≤ 2.5",
            ours / floor <= 2.5,
        )
    ]


def pruning_exponent() -> list[Row]:
    generator = np.random.default_rng(1)
    sizes = [50, 100, 200, 400, 800, 1600, 3200]
    seconds = []
    for knots in sizes:
        dictionary = full_dictionary(generator, knots)
        rounds = max(5, 40_000 // knots)
        [median] = in_turns(
            lambda d=dictionary, L=knots: pruning_round(generator, d, L), rounds=rounds
        )
        seconds.append(median)
    slope = exponent(sizes, seconds)
    detail = ", ".join(f"{n}: {human(s)}" for n, s in zip(sizes, seconds, strict=True))
    return [Row("exponent of pruning in the number of knots", detail, slope, "≤ 2.1", slope <= 2.1)]


def qcqp(given: Family, epsilon: float) -> Callable[[], object]:
    """Return the paper's QCQP over all weights, to be solved by CVXPY and Clarabel."""
    root = np.linalg.cholesky(given.gram + 1e-9 * np.eye(len(given.gram))).T
    L, functions, p = given.weights.shape
    new = [cvxpy.Variable((L, p)) for _ in range(functions)]
    cost = sum(cvxpy.sum_squares(root @ (new[f] - given.weights[:, f])) for f in range(functions))
    constraints = [cvxpy.norm(root @ (h - new[-1]), "fro") <= epsilon for h in new[:-1]]
    problem = cvxpy.Problem(cvxpy.Minimize(cost), constraints)
    return lambda: problem.solve(solver=cvxpy.CLARABEL)


def projection() -> list[Row]:
    generator = np.random.default_rng(2)
    given = family(generator, 400, 4)
    epsilon = 0.5 * float(np.max(given.distances()))
    differences = given.differences()
    solve = qcqp(given, epsilon)
    solve()  # CVXPY keeps what it compiled, so that the solver alone is timed from here on
    times = []
    for _ in range(_ROUNDS):
        mine = in_turns(
            lambda: exact_projection(differences, epsilon),
            lambda: project(given, epsilon),
            rounds=300,
            clock=time.process_time,
        )
        start = time.process_time()
        solve()
        times.append([*mine, time.process_time() - start])
    seconds = np.array(times).T
    rows = []
    for what, mine, wanted in (
        ("exact projection, N = 3, against the QCQP at 400 knots", seconds[0], 1e5),
        ("the same, from the weights and back to weights", seconds[1], None),
    ):
        ratios = seconds[2] / mine
        ratio = float(np.median(ratios))
        theirs, ours = (human(float(np.median(one))) for one in (seconds[2], mine))
        measured = (
            f"{theirs} / {ours} of processor, ratio from {ratios.min():.2g} to {ratios.max():.2g} "
            f"in {_ROUNDS} rounds"
        )
        met = None if wanted is None else ratio >= wanted
        rows.append(Row(what, measured, ratio, f"≥ {wanted:.0e}" if wanted else "", met))
    sizes, medians = [3, 10, 30, 100, 300, 1000], list[float]()
    for N in sizes:
        points = generator.standard_normal((N, 800)) * generator.lognormal(size=(N, 1))
        D = points @ points.T
        radius = 0.5 * math.sqrt(np.mean(np.diag(D)))
        [median] = in_turns(
            lambda D=D, r=radius: exact_projection(D, r), rounds=20, clock=time.process_time
        )
        medians.append(median)
    detail = ", ".join(f"{n}: {human(s)}" for n, s in zip(sizes, medians, strict=True))
    rows += [
        Row(
            "exact projection, N = 1000, in ms",
            human(medians[-1]),
            medians[-1] * 1e3,
            "≤ 50",
            medians[-1] <= 0.05,
        ),
        Row("exponent of the exact projection in N", detail, exponent(sizes, medians), "", None),
    ]
    return rows


@numba.njit
def _libm_loop(features, weights, points, out):
    for i in range(points.shape[0]):
        for p in range(weights.shape[0]):
            out[i, p] = 0.0
        for m in range(features.shape[1]):
            squares = 0.0
            for d in range(features.shape[0]):
                difference = features[d, m] - points[i, d]
                squares += difference * difference
            value = math.exp(-0.5 * squares)
            for p in range(weights.shape[0]):
                out[i, p] += value * weights[p, m]


def evaluation() -> list[Row]:
    generator = np.random.default_rng(3)
    given = family(generator, 400, 1)
    batch = states(generator, 1000)
    features, rows = (
        KERNEL.embed(given.knots),
        np.ascontiguousarray(given.weights.transpose(1, 2, 0)),
    )
    points = np.ascontiguousarray(KERNEL.embed(batch).T)
    expansion, theirs_out = given.expansion, np.empty((1000, 2))
    ours, theirs = in_turns(
        lambda: expansion(batch),
        lambda: _libm_loop(features, rows[0], points, theirs_out),
        rounds=200,
    )
    np.testing.assert_allclose(expansion(batch)[:, 0], theirs_out, atol=1e-12)
    return [
        Row(
            "evaluation of a state, 400 knots in R⁵ to R², against a loop with libm's exp",
            f"{human(theirs / 1000)} / {human(ours / 1000)}",
            theirs / ours,
            "≥ 4",
            theirs / ours >= 4,
        )
    ]


BENCHMARKS = [evaluation, pruning, pruning_exponent, projection]
