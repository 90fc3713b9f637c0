"""The free-centre projection: against a solver, by its optimality conditions, in its limits."""

import math
import warnings

import cvxpy
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crosslearning.errors import InputError
from crosslearning.rkhs import (
    Dictionary,
    Family,
    Linear,
    Status,
    free_projection,
    project,
    relaxed_projection,
)
from crosslearning.rkhs.enclosing_ball import smallest_ball
from crosslearning.rkhs.primal_newton import newton
from tests.rkhs.examples import random_family


def lengths(points):
    return np.linalg.norm(points, axis=-1)


def projected(points, epsilon):
    """Project vectors (N, D), as they are meant to be handed over: about their mean."""
    apart = points - points.mean(axis=0)
    outcome = free_projection(apart @ apart.T, epsilon)
    mixed = outcome.mixing[:, :-1] @ apart + points.mean(axis=0)
    return mixed[:-1], mixed[-1], outcome


def reference(points, epsilon, rounds=20_000):
    """Return h and g by gradient descent on ½ Σ (‖h̄_i − g‖ − ε)₊², whose curvature is at most N.

    h_i is h̄_i pulled onto the ball around g: h_i = a_i g + (1 − a_i) h̄_i, a_i = (1 − ε/‖h̄_i − g‖)₊.
    """
    g = points.mean(axis=0)
    for _ in range(rounds):
        pulls = np.maximum(0.0, 1.0 - epsilon / np.maximum(lengths(points - g), epsilon))
        g = g + pulls @ (points - g) / len(points)
    return pulls[:, None] * g + (1.0 - pulls)[:, None] * points, g


def solver_projection(points, epsilon):
    """The problem as it is stated, by CVXPY and Clarabel."""
    h, g = cvxpy.Variable(points.shape), cvxpy.Variable(points.shape[1])
    near = [cvxpy.norm(row - g) <= epsilon for row in h]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(h - points)), near)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return h.value, problem.value


def radius_around(points):
    apart = points - points.mean(axis=0)
    return smallest_ball(apart @ apart.T)[1]


SHAPES = ("general", "identical", "duplicates", "on a line", "grid", "unequal", "far offset")


def shaped(seed, tasks, dimension, shape):
    """Return vectors (tasks, dimension) of a kind of difficulty."""
    draw = np.random.default_rng(seed)
    points = draw.standard_normal((tasks, dimension))
    if shape == "identical":
        points[:] = points[0]
    elif shape == "duplicates":
        points = points[draw.integers(max(tasks // 2, 1), size=tasks)]
    elif shape == "on a line":
        points = points[:1] + draw.integers(-2, 3, (tasks, 1)) * points[-1:]
    elif shape == "grid":
        points = np.round(2.0 * points)
    elif shape == "unequal":
        points *= 10.0 ** draw.uniform(-4.0, 0.0, (tasks, 1))
    elif shape == "far offset":
        points += 1e3
    return points


def assert_optimal(points, epsilon):
    """Feasibility, stationarity, complementarity and signs: sufficient for the nearest point."""
    h, g, outcome = projected(points, epsilon)
    assert outcome.status in (Status.SOLVED, Status.CENTRED)
    spread = np.max(lengths(points - points.mean(axis=0)))
    size = spread + 1e-4 * np.max(lengths(points))
    mu, distances = outcome.multipliers, lengths(h - g)
    assert np.all(mu >= 0.0)
    assert np.max(distances) <= epsilon + 1e-12 * size
    # Stationarity in the form that also holds for μ = ∞: (h − h̄)/(1+μ) + μ/(1+μ) (h − g) = 0.
    share = np.where(np.isinf(mu), 1.0, mu / (1.0 + np.where(np.isinf(mu), 0.0, mu)))[:, None]
    assert np.max(lengths((1.0 - share) * (h - points) + share * (h - g))) <= 1e-11 * size
    # In g: Σ μ_i (h_i − g) = 0, which is Σ (h̄_i − h_i) = 0. So the mean stays.
    assert lengths(np.sum(points - h, axis=0)) <= 1e-10 * size
    if math.isfinite(epsilon):
        assert np.max(share[:, 0] * np.abs(distances - epsilon)) <= 1e-11 * size
        assert lengths(g - points.mean(axis=0)) <= max(1 - 2 / len(points), 0) * epsilon + (
            1e-7 * size
        )
    np.testing.assert_allclose(outcome.distances, distances, atol=1e-7 * size)
    return h, g, outcome


RADII = st.one_of(
    st.just(0.0),
    st.just(math.inf),
    st.floats(-4, 0.2).map(lambda e: 10**e),  # of the spread
    # Of the smallest ball: where functions begin to move, and the centre is determined.
    st.floats(-14, -1).flatmap(lambda e: st.sampled_from([-1 - 10**e, -1 + 10**e])),
)
CASES = {
    "seed": st.integers(0, 2**32 - 1),
    "tasks": st.integers(1, 12),
    "dimension": st.integers(1, 5),
    "shape": st.sampled_from(SHAPES),
    "scale": st.sampled_from([1e-8, 1.0, 1e8]),
    "tightness": RADII,
}


def case(seed, tasks, dimension, shape, scale, tightness):
    points = shaped(seed, tasks, dimension, shape)
    apart = points - points.mean(axis=0)
    unit = radius_around(points) if tightness < 0.0 else np.max(lengths(apart))
    epsilon = abs(tightness) * float(unit) if math.isfinite(tightness) else math.inf
    return scale * points, scale * epsilon


@given(**CASES)
@example(seed=0, tasks=7, dimension=3, shape="far offset", scale=1e-8, tightness=1e-4)
@example(seed=2, tasks=2, dimension=2, shape="on a line", scale=1e8, tightness=-0.9856698742976304)
@example(seed=3, tasks=5, dimension=1, shape="duplicates", scale=1.0, tightness=-1 + 1e-9)
@example(seed=3, tasks=3, dimension=1, shape="general", scale=1.0, tightness=-1 - 1e-12)
def test_the_optimality_conditions_hold(seed, tasks, dimension, shape, scale, tightness):
    points, epsilon = case(seed, tasks, dimension, shape, scale, tightness)
    h, g, outcome = assert_optimal(points, epsilon)
    size = np.max(lengths(points - points.mean(axis=0))) + 1e-4 * np.max(lengths(points))
    again, centre, _ = projected(h, epsilon)
    assert np.max(lengths(again - h)) <= 1e-8 * size
    # Of functions that touch a ball, the centre is known to the root of rounding.
    assert lengths(centre - g) <= 1e-4 * size
    if outcome.status is Status.CENTRED:
        np.testing.assert_array_equal(outcome.mixing[:-1, :-1], np.eye(tasks))


@pytest.mark.parametrize("shape", ["general", "duplicates", "on a line", "grid", "unequal"])
@pytest.mark.parametrize("tightness", [0.02, 0.4, 0.9])
def test_it_is_what_a_solver_and_gradient_descent_find(shape, tightness):
    for seed, (tasks, dimension) in enumerate([(2, 1), (3, 2), (6, 3), (9, 5)]):
        points = shaped(seed, tasks, dimension, shape)
        epsilon = tightness * max(radius_around(points), 1e-3)
        h, g, _ = projected(points, epsilon)
        descended, centre = reference(points, epsilon)
        np.testing.assert_allclose(h, descended, atol=1e-9)
        np.testing.assert_allclose(g, centre, atol=1e-8)
        solved, objective = solver_projection(points, epsilon)
        np.testing.assert_allclose(h, solved, atol=1e-4)
        assert np.sum((h - points) ** 2) <= objective * (1 + 1e-6) + 1e-9


@given(seed=st.integers(0, 10_000), tasks=st.integers(2, 8), shape=st.sampled_from(SHAPES))
def test_the_functions_move_no_more_than_what_they_are_projected_from(seed, tasks, shape):
    draw = np.random.default_rng(seed)
    first = shaped(seed, tasks, 3, shape)
    second = first + 10.0 ** draw.uniform(-6, 0) * draw.standard_normal(first.shape)
    epsilon = 10.0 ** draw.uniform(-2, 0.5)
    (h, *_), (other, *_) = projected(first, epsilon), projected(second, epsilon)
    moved, allowed = np.linalg.norm(h - other), np.linalg.norm(first - second)
    assert moved <= allowed * (1 + 1e-9) + 1e-9 * np.max(lengths(first))


@pytest.mark.parametrize("seed", range(10))
def test_the_centre_is_continuous(seed):
    """In ε, from the mean through the centre of the smallest ball to moved functions."""
    points = shaped(seed, 5, 3, "general")
    least, spread = radius_around(points), np.max(lengths(points - points.mean(axis=0)))
    epsilons = np.concatenate(
        [
            np.linspace(0.5 * least, 1.05 * spread, 300),
            least + spread * np.array([-1e-6, -1e-9, 0.0, 1e-9, 1e-6]),
        ]
    )
    epsilons.sort()
    centres = np.array([projected(points, epsilon)[1] for epsilon in epsilons])
    steps, moves = np.diff(epsilons), lengths(np.diff(centres, axis=0))
    # With r² = ‖x_i − c‖², centres within ε are at most √(ε² − r²) from c.
    assert np.all(moves <= 2.0 * np.sqrt(2.0 * spread * steps) + 1e-6)
    np.testing.assert_allclose(centres[-1], points.mean(axis=0), atol=1e-12)


def test_a_centre_that_is_not_the_mean_is_as_near_to_it_as_it_has_to_be():
    # The mean, 1.5, is 3.5 from the last; the smallest ball has the centre 2.5 and radius 2.5.
    points = np.array([[0.0], [0.0], [1.0], [5.0]])
    for epsilon, centre in ((4.0, 1.5), (3.5, 1.5), (3.0, 2.0), (2.5, 2.5)):
        h, g, outcome = projected(points, epsilon)
        assert outcome.status is Status.CENTRED
        assert g[0] == pytest.approx(centre, abs=1e-9)
        np.testing.assert_array_equal(h, points)


def test_functions_on_a_line_in_closed_form():
    # h = (g − 1, 0, 0, g + 1): a_0 d_0 = g − 1, a_3 d_3 = 4 − g, so g = 2.5 and h = 1.5, 3.5.
    h, g, outcome = projected(np.array([[0.0], [2.0], [3.0], [5.0]]), 1.0)
    np.testing.assert_allclose(h[:, 0], [1.5, 2.0, 3.0, 3.5], atol=1e-12)
    assert g[0] == pytest.approx(2.5)
    np.testing.assert_allclose(outcome.multipliers, [1.5, 0.0, 0.0, 1.5], atol=1e-12)


def test_the_ends():
    points = shaped(1, 4, 3, "general")
    consensus, g, outcome = projected(points, 0.0)
    np.testing.assert_allclose(consensus, np.tile(points.mean(axis=0), (4, 1)), atol=1e-15)
    np.testing.assert_allclose(g, points.mean(axis=0), atol=1e-15)
    assert np.all(np.isinf(outcome.multipliers))
    apart, g, outcome = projected(points, math.inf)
    np.testing.assert_allclose(apart, points, atol=1e-15)
    np.testing.assert_allclose(g, points.mean(axis=0), atol=1e-15)
    assert not np.any(outcome.active)
    for epsilon in (0.0, 0.5, math.inf):
        one, g, _ = projected(points[:1], epsilon)
        np.testing.assert_allclose([one[0], g], [points[0], points[0]], atol=1e-15)


def test_two_functions_have_their_mean_as_centre():
    for seed in range(50):
        points = shaped(seed, 2, 3, "general")
        for epsilon in (1e-3, 0.3, 3.0):
            np.testing.assert_allclose(
                projected(points, epsilon)[1], points.mean(axis=0), atol=1e-12
            )


@pytest.mark.parametrize("epsilon", [0.01, 5.0, 20.0, 40.0])
def test_a_thousand_functions(epsilon):
    draw = np.random.default_rng(0)
    points = draw.standard_normal((1000, 50)) * draw.lognormal(size=(1000, 1))
    assert_optimal(points, epsilon)


def test_the_old_centre_does_not_matter():
    family = random_family(2, 5, 2)
    far = family.weights.copy()
    far[:, -1] += 1e6
    near, _ = project(family, 1.0, "free")
    other, _ = project(family._with_weights(far), 1.0, "free")
    np.testing.assert_allclose(other.weights, near.weights, atol=1e-12)
    # From any origin, with as many digits as it leaves.
    points = shaped(0, 4, 3, "general")
    expected = projected(points, 0.7)[2]
    np.testing.assert_allclose(
        free_projection(points @ points.T, 0.7).mixing[:, :-1], expected.mixing[:, :-1], atol=1e-9
    )


@pytest.mark.parametrize("epsilon", [3.0, 0.1, 1e-6, 1e-12])
@pytest.mark.parametrize("shared", [0.0, 1e6])
def test_distances_are_within_epsilon_to_the_last_bit(epsilon, shared):
    for seed in range(20):
        family = random_family(seed, 5, 2)
        weights = family.weights + shared * family.weights[:, :1]
        after, _ = project(family._with_weights(weights), epsilon, "free")
        assert np.all(after.distances() <= epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 2.0, 6.0, math.inf])
def test_a_dictionary_keeps_every_bound_through_pruning(epsilon):
    dictionary = Dictionary.of(random_family(4, 6, 2, knots=40))
    mean = dictionary.family().weights[:, :-1].mean(axis=1)
    outcome = dictionary.project(epsilon, "free")
    after = dictionary.family()
    np.testing.assert_allclose(after.weights[:, :-1].mean(axis=1), mean, atol=1e-11)
    assert np.max(outcome.distances) <= epsilon * (1 + 1e-9)
    dictionary.prune(0.05)
    assert np.max(dictionary.family().distances()) <= epsilon * (1 + 1e-9)


def test_it_keeps_a_bound_that_the_relaxed_one_breaks():
    points = np.array([[10.0, 0.0], [-1.0, 0.0], [-1.0, 0.5]])
    relaxed = relaxed_projection(points @ points.T, 1.0)
    assert np.max(relaxed.distances) > 1.2
    assert np.max(projected(points, 1.0)[2].distances) <= 1.0 + 1e-12


def test_it_has_no_bound_around_a_controller():
    family = random_family(0, 3, 1)
    with pytest.raises(InputError, match="the free projection has no bound"):
        project(family, 1.0, method="free", bound=1.0)
    with pytest.raises(InputError, match="the free projection has no bound"):
        Dictionary.of(family).project(1.0, "free", bound=1.0)


@given(seed=st.integers(0, 500), tasks=st.integers(3, 12), tightness=st.floats(0.01, 0.95))
def test_compiled_newton_equals_its_source(seed, tasks, tightness):
    points = shaped(seed, tasks, 3, "general")
    apart = points - points.mean(axis=0)
    unit = np.max(lengths(apart))
    D, epsilon = apart @ apart.T / unit**2, tightness * radius_around(points) / unit
    compiled, source = np.empty((3, tasks)), np.empty((3, tasks))
    newton(D, 0.0, epsilon, *compiled)
    newton.py_func(D, 0.0, epsilon, *source)
    # The coefficients of dependent functions are not unique.
    np.testing.assert_allclose(compiled[1:], source[1:], atol=1e-9)


# What the centre is after many steps ----------------------------------------------------------


def plane(points):
    """Return vectors as functions of the linear kernel, the centre last."""
    return Family(Linear(np.ones(points.shape[1])), np.eye(points.shape[1]), points.T[:, :, None])


@given(
    seed=st.integers(0, 10_000),
    tasks=st.integers(1, 6),
    epsilon=st.sampled_from([0.0, 0.1, 1.0, 10.0]),
)
def test_the_sum_of_all_functions_is_the_sum_of_the_steps(seed, tasks, epsilon):
    """Exact: (N+1) g + Σ (h_i − g) = Σ G; free: the mean of the h_i is Σ G / N."""
    draw = np.random.default_rng(seed)
    exact = free = np.zeros((tasks + 1, 3))
    total, common = np.zeros(3), draw.standard_normal(3)
    for _ in range(30):
        step = np.vstack([common + draw.standard_normal((tasks, 3)), np.zeros((1, 3))])
        total = total + step.sum(axis=0)
        exact = moved(exact + step, epsilon, "exact")
        free = moved(free + step, epsilon, "free")
        lag = total / (tasks + 1) - exact[-1]
        np.testing.assert_allclose(
            lag, np.sum(exact[:-1] - exact[-1], axis=0) / (tasks + 1), atol=1e-9
        )
        assert lengths(lag) <= tasks * epsilon / (tasks + 1) + 1e-9
        np.testing.assert_allclose(free[:-1].mean(axis=0), total / tasks, atol=1e-9)
        behind = lengths(free[-1] - total / tasks)
        assert behind <= max(1 - 2 / tasks, 0.0) * epsilon + 1e-6


def moved(points, epsilon, method):
    projected, _ = project(plane(points), epsilon, method)
    return projected.weights[:, :, 0].T


@pytest.mark.parametrize("tasks", [1, 3, 8])
def test_the_largest_lag_is_reached_in_a_common_direction(tasks):
    epsilon, direction, total = 2.0, np.array([0.6, 0.8]), 0.0
    exact = np.zeros((tasks + 1, 2))
    for _ in range(40):
        exact = exact + np.append(np.full(tasks, 0.5), 0.0)[:, None] * direction
        total += 0.5
        exact = moved(exact, epsilon, "exact")
        free = moved(np.vstack([np.tile(total * direction, (tasks, 1)), [[0, 0]]]), epsilon, "free")
    # N ε / (N+1) behind Σ G / (N+1), to rounding; the free centre has no lag.
    lag = tasks * total / (tasks + 1) - exact[-1] @ direction
    assert lag == pytest.approx(tasks * epsilon / (tasks + 1), rel=1e-12)
    np.testing.assert_allclose(free[-1], total * direction, rtol=1e-12)
