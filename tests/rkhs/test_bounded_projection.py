"""The projection with a bound: against a solver, by its optimality conditions, in its limits."""

import math
import warnings

import cvxpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslearning.errors import InputError
from crosslearning.rkhs import (
    Dictionary,
    Family,
    Gaussian,
    Linear,
    Status,
    bounded_projection,
    exact_projection,
    project,
)
from crosslearning.rkhs.dual_newton import bounded_multipliers, coordinates
from tests.rkhs.examples import random_family


def projected(points, epsilon, bound):
    """Project vectors (N+1, D), the centre last; also return the outcome."""
    outcome = bounded_projection(points @ points.T, epsilon, bound)
    return outcome.mixing @ points, outcome


def lengths(points):
    return np.linalg.norm(points, axis=-1)


def solver_projection(points, epsilon, bound):
    """The problem as it is stated, by CVXPY and Clarabel."""
    h, g = cvxpy.Variable(points[:-1].shape), cvxpy.Variable(points.shape[1])
    cost = cvxpy.sum_squares(h - points[:-1]) + cvxpy.sum_squares(g - points[-1])
    near = [cvxpy.norm(row - g) <= epsilon for row in h]
    short = [cvxpy.norm(row) <= bound for row in h] + [cvxpy.norm(g) <= bound]
    problem = cvxpy.Problem(cvxpy.Minimize(cost), near + short)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return np.vstack([h.value, g.value[None]]), problem.value


def case(seed):
    """Points of every kind of difficulty, the largest of length 1, with both radii."""
    generator = np.random.default_rng(seed)
    N, D = int(generator.choice([1, 2, 3, 5, 10])), int(generator.choice([1, 1, 2, 3, 8]))
    points = generator.standard_normal((N + 1, D))
    kind = generator.integers(8)
    if kind == 1:
        points[:] = points[0]
    elif kind == 2:
        points[generator.random(N + 1) < 0.5] = 0.0
    elif kind == 3:
        points = np.round(2.0 * points)  # ties
    elif kind == 4:
        points += 10.0 * generator.standard_normal(D)
    elif kind == 5:
        points *= 10.0 ** generator.uniform(-4.0, 0.0, (N + 1, 1))
    elif kind == 6:
        points = points[:1] * generator.integers(-2, 3, (N + 1, 1))  # on a line
    points /= max(float(np.max(lengths(points))), 1e-300)
    least = -8.0 if kind == 7 else -3.0
    epsilon, bound = 10.0 ** generator.uniform(least, 0.2, 2)
    if generator.random() < 0.3:
        epsilon, bound = generator.choice([0.125, 0.25, 0.5, 0.75], 2)
    return points, float(epsilon), float(bound)


def assert_optimal(points, epsilon, bound, tolerance=1e-9):
    """Feasibility, stationarity, complementarity and signs: sufficient for the nearest point."""
    result, outcome = projected(points, epsilon, bound)
    assert outcome.status in (Status.SOLVED, Status.INSIDE), (outcome, epsilon, bound)
    h, g, h_bar, g_bar = result[:-1], result[-1], points[:-1], points[-1]
    unit = min(bound, float(np.max(lengths(points))))
    assert np.max(lengths(h - g)) <= epsilon + 1e-12 * unit
    assert np.max(lengths(result)) <= bound * (1 + 1e-12)
    mu, nu = outcome.multipliers, outcome.bound_multipliers
    assert np.all(mu >= 0.0)
    assert np.all(nu >= 0.0)
    a = 1.0 + mu + nu[:-1]
    assert np.max(lengths(h - (h_bar + mu[:, None] * g) / a[:, None])) <= tolerance * unit
    # (1 + ν_0 + Σ μ_i) g = ḡ + Σ μ_i h_i, with h_i put in: μ_i may be as large as 1/ε.
    share = mu / a
    total = 1.0 + nu[-1] + share @ (1.0 + nu[:-1])
    assert lengths(g - (g_bar + share @ h_bar) / total) <= tolerance * unit
    assert np.max(np.minimum(mu, epsilon - lengths(h - g))) <= tolerance * unit
    assert np.max(np.minimum(nu, bound - lengths(result))) <= tolerance * unit
    # Through a Gram matrix small distances have half of the digits.
    size = float(np.max(lengths(points)))
    np.testing.assert_allclose(outcome.distances, lengths(h - g), atol=1e-7 * size)
    return result, outcome


@pytest.mark.parametrize("block", range(6))
def test_every_random_case_is_solved(block):
    kinds = set()
    for seed in range(1000 * block, 1000 * block + 250):
        points, epsilon, bound = case(seed)
        # Through a Gram matrix, distances have half of the digits: here the coordinates decide.
        if epsilon > 1e-5 and bound > 1e-5:
            _, outcome = assert_optimal(points, epsilon, bound, 1e-7)
            nu = outcome.bound_multipliers
            kinds.add((outcome.active.any(), (nu[:-1] > 0).any(), bool(nu[-1] > 0)))
        m = np.empty(2 * len(points) - 1)
        steps, residual = bounded_multipliers(points / bound, epsilon / bound, m)
        assert residual <= 1e-10, (seed, steps)
    # Of all combinations only a bound on g alone needs luck.
    assert len(kinds) >= 7


@pytest.mark.parametrize("seed", range(25))
def test_it_is_the_solution_of_a_cone_solver(seed):
    generator = np.random.default_rng(seed)
    points = generator.standard_normal(
        (int(generator.integers(2, 7)), int(generator.integers(1, 4)))
    )
    epsilon, bound = generator.uniform(0.1, 1.2, 2)
    ours, outcome = assert_optimal(points, epsilon, bound)
    theirs, objective = solver_projection(points, epsilon, bound)
    assert np.max(np.abs(ours - theirs)) <= 1e-5
    assert np.sum((ours - points) ** 2) <= objective * (1 + 1e-7)
    assert outcome.residual <= 1e-12


radii = st.one_of(st.sampled_from([0.0, math.inf]), st.floats(-3, 0.5).map(lambda e: 10.0**e))


@given(seed=st.integers(0, 10**6), epsilon=radii, bound=radii)
def test_projection_properties(seed, epsilon, bound):
    points, _, _ = case(seed)
    generator = np.random.default_rng(seed)
    others = points + 0.3 * generator.standard_normal(points.shape)
    a, outcome = projected(points, epsilon, bound)
    b, _ = projected(others, epsilon, bound)
    assert outcome.status is not Status.INACCURATE
    assert np.max(lengths(a[:-1] - a[-1])) <= epsilon + 1e-12
    assert np.max(lengths(a)) <= bound * (1 + 1e-12)
    assert np.linalg.norm(a - b) <= np.linalg.norm(points - others) + 1e-7
    again, _ = projected(a, epsilon, bound)
    np.testing.assert_allclose(again, a, atol=1e-7)
    rotation = np.linalg.qr(generator.standard_normal((points.shape[1],) * 2))[0]
    turned, _ = projected(points @ rotation, epsilon, bound)
    np.testing.assert_allclose(turned, a @ rotation, atol=1e-7)


@pytest.mark.parametrize("scale", [1e-140, 1e-20, 1e20, 1e140])
def test_a_common_scale_changes_nothing(scale):
    for seed in range(30):
        points, _, _ = case(seed)
        plain, _ = projected(points, 0.2, 0.3)
        scaled, outcome = projected(scale * points, scale * 0.2, scale * 0.3)
        assert outcome.status is not Status.INACCURATE
        np.testing.assert_allclose(scaled / scale, plain, atol=1e-7)


@pytest.mark.parametrize("ratio", [1e-3, 1e-10, 1e-60])
def test_a_bound_far_below_the_functions(ratio):
    points = np.random.default_rng(0).standard_normal((5, 3))
    near, _ = assert_optimal(points, 0.5e-3, 1e-3)
    far, outcome = assert_optimal(points, 0.5 * ratio, ratio)
    # From far away only directions count.
    np.testing.assert_allclose(far / ratio, near / 1e-3, atol=1e-3)
    assert np.max(lengths(far)) == pytest.approx(ratio, rel=1e-12)
    assert outcome.status is Status.SOLVED


def test_one_function_on_a_line_in_closed_form():
    # h = ε₀ = 3 and g = 2 touch both balls: (1 + μ) 2 = 3 μ and (1 + μ + ν) 3 = 10 + 2 μ.
    result, outcome = projected(np.array([[10.0], [0.0]]), 1.0, 3.0)
    np.testing.assert_allclose(result, [[3.0], [2.0]], rtol=1e-12)
    np.testing.assert_allclose(outcome.multipliers, [2.0], rtol=1e-9)
    np.testing.assert_allclose(outcome.bound_multipliers, [5.0 / 3.0, 0.0], rtol=1e-9)


def test_multipliers_that_are_not_unique():
    # All five h_i = 3 and g = 2: only the sum of the μ_i is determined.
    points = np.array([[10.0]] * 5 + [[0.0]])
    result, outcome = assert_optimal(points, 1.0, 3.0)
    np.testing.assert_allclose(result, [[3.0]] * 5 + [[2.0]], rtol=1e-12)
    assert np.sum(outcome.multipliers) == pytest.approx(2.0)


def test_consensus_is_the_mean_within_the_bound():
    points = np.random.default_rng(1).standard_normal((5, 3)) + 2.0
    mean = points.mean(axis=0)
    for bound in (0.5, 10.0):
        result, outcome = projected(points, 0.0, bound)
        expected = mean * min(1.0, bound / lengths(mean))
        np.testing.assert_allclose(result, [expected] * 5, rtol=1e-12)
        assert np.all(np.isinf(outcome.multipliers))
    nearly, _ = projected(points, 1e-9, 0.5)
    np.testing.assert_allclose(nearly, projected(points, 0.0, 0.5)[0], atol=1e-7)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, math.inf])
def test_the_bound_zero_leaves_nothing(epsilon):
    family, outcome = project(random_family(0, 4, 2), epsilon, bound=0.0)
    assert np.all(family.weights == 0.0)
    assert outcome.status is Status.SOLVED
    dictionary = Dictionary.of(random_family(0, 4, 2))
    dictionary.project(epsilon, bound=0.0)
    assert np.all(dictionary.weights == 0.0)


def test_without_coupling_each_function_is_shortened():
    points = np.array([[3.0, 4.0], [0.1, 0.0], [0.0, 2.0]])
    result, outcome = projected(points, math.inf, 1.0)
    np.testing.assert_allclose(result, [[0.6, 0.8], [0.1, 0.0], [0.0, 1.0]], rtol=1e-12)
    np.testing.assert_allclose(outcome.bound_multipliers, [4.0, 0.0, 1.0], rtol=1e-12)


def test_a_bound_that_does_not_bind_changes_nothing():
    family = random_family(4, 4, 2)
    epsilon = 0.5 * float(np.max(family.distances()))
    plain, exact = project(family, epsilon)
    for bound in (math.inf, 1e3, 1.001 * float(np.max(plain.norms()))):
        bounded, outcome = project(family, epsilon, bound=bound)
        np.testing.assert_allclose(bounded.weights, plain.weights, atol=1e-12)
        np.testing.assert_allclose(outcome.multipliers, exact.multipliers, rtol=1e-9)
        assert not np.any(outcome.bound_multipliers)
    gram = family.inner_products()
    differences = gram[:-1, :-1] - gram[:-1, -1:] - gram[-1:, :-1] + gram[-1, -1]
    unbounded = bounded_projection(gram, epsilon, math.inf)
    np.testing.assert_allclose(unbounded.mixing, exact_projection(differences, epsilon).mixing)


def test_zero_functions_and_those_inside_stay():
    zeros = Family(Gaussian(std=[1.0]), [[0.0], [1.0]], np.zeros((2, 3, 1)))
    for bound in (0.0, 1.0):
        assert project(zeros, 0.5, bound=bound)[1].status is Status.INSIDE
    small = random_family(0, 3, 1, scale=1e-3)
    kept, outcome = project(small, 1.0, bound=1.0)
    assert kept is small
    assert outcome.status is Status.INSIDE


def test_coordinates_have_the_inner_products():
    for seed in range(50):
        points, _, _ = case(seed)
        gram = points @ points.T
        vectors = coordinates(gram)
        np.testing.assert_allclose(vectors @ vectors.T, gram, atol=1e-13)
        np.testing.assert_allclose(lengths(vectors), lengths(points), rtol=1e-12)


@given(seed=st.integers(0, 500))
def test_compiled_method_equals_its_source(seed):
    points, epsilon, bound = case(seed)
    m = np.empty(2 * len(points) - 1)
    _, residual = bounded_multipliers.py_func(points / bound, epsilon / bound, m)
    assert residual <= 1e-10


@pytest.mark.parametrize("bound", [3.0, 0.1, 1e-9])
@pytest.mark.parametrize("epsilon", [2.0, 0.1, 1e-6, 0.0])
def test_constraints_hold_to_the_last_bit(epsilon, bound):
    for seed in range(20):
        family, outcome = project(random_family(seed, 5, 2), epsilon, bound=bound)
        assert np.all(family.distances() <= epsilon)
        assert np.all(family.norms() <= bound)
        if np.any(outcome.bound_multipliers):  # and not by giving up what may be kept
            assert np.max(family.norms()) >= bound * (1.0 - 1e-6)


@pytest.mark.parametrize("kind", ["random", "clustered", "duplicated"])
@pytest.mark.parametrize("kernel", [Gaussian(std=[1.0, 1.3, 0.7]), Linear([1.0, 1.0, 1.0])])
def test_the_dictionary_keeps_the_bound_when_it_prunes(kind, kernel):
    for seed in range(10):
        given_family = random_family(seed, 5, 2, knots=60, kind=kind)
        family = Family(kernel, given_family.knots, given_family.weights)
        dictionary = Dictionary.of(family)
        outcome = dictionary.project(0.4, bound=1.5)
        assert outcome.status is Status.SOLVED
        inside = dictionary._ridged_products(dictionary._slots.rows.copy())
        assert np.all(np.sqrt(np.diag(inside)) <= 1.5)
        assert np.max(np.sqrt(np.diag(inside))) >= 1.5 * (1 - 1e-6)
        for max_knots in (60, 20, 5):
            dictionary.prune(0.01, max_knots=max_knots)
            assert np.all(dictionary.family().norms() <= 1.5)
            assert np.all(dictionary.family().distances() <= 0.4 * (1 + 1e-9))


def test_a_thousand_functions():
    generator = np.random.default_rng(0)
    points = generator.standard_normal((1001, 20)) * generator.lognormal(size=(1001, 1))
    assert_optimal(points, 2.0, 4.0)


@pytest.mark.parametrize(
    ("gram", "epsilon", "bound", "message"),
    [
        (np.eye(2), 1.0, -1.0, "bound must be"),
        (np.eye(2), math.nan, 1.0, "epsilon must be"),
        (np.eye(1), 1.0, 1.0, "at least two functions"),
        (np.ones((2, 3)), 1.0, 1.0, "square"),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), 1.0, 1.0, "gram must be finite"),
        (np.array([[1.0, 0.5], [0.2, 1.0]]), 1.0, 1.0, "Gram matrix"),
    ],
)
def test_bad_input_is_named(gram, epsilon, bound, message):
    with pytest.raises(InputError, match=message):
        bounded_projection(gram, epsilon, bound)


def test_the_relaxed_projection_has_no_bound():
    family = random_family(0, 3, 1)
    with pytest.raises(InputError, match="the relaxed projection has no bound"):
        project(family, 1.0, method="relaxed", bound=1.0)
    with pytest.raises(InputError, match="the relaxed projection has no bound"):
        Dictionary.of(family).project(1.0, "relaxed", bound=1.0)
    project(family, 1.0, method="relaxed", bound=math.inf)
