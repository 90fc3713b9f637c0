"""The smallest ball: textbook answers, its optimality conditions, a solver."""

import cvxpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslearning.rkhs.enclosing_ball import smallest_ball


def ball(points):
    points = np.asarray(points, dtype=float)
    coefficients, radius = smallest_ball(points @ points.T)
    assert np.all(coefficients >= 0.0)
    assert np.sum(coefficients) == pytest.approx(1.0)
    return coefficients @ points, radius


@pytest.mark.parametrize(
    ("points", "centre", "radius"),
    [
        ([[3.0, 1.0]], [3.0, 1.0], 0.0),
        ([[1.0, 1.0], [1.0, 1.0]], [1.0, 1.0], 0.0),
        ([[0.0, 0.0], [2.0, 0.0]], [1.0, 0.0], 1.0),
        ([[0.0, 0.0], [2.0, 0.0], [1.0, 0.3]], [1.0, 0.0], 1.0),
        ([[0.0, 0.0], [2.0, 0.0], [1.0, 1.0], [1.0, -1.0]], [1.0, 0.0], 1.0),
        ([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]], [2.0, 1.5], 2.5),
        (np.eye(3), np.full(3, 1 / 3), np.sqrt(2 / 3)),
    ],
)
def test_balls_that_are_known(points, centre, radius):
    found, reach = ball(points)
    np.testing.assert_allclose(found, centre, atol=1e-9)
    assert reach == pytest.approx(radius, abs=1e-12)


@given(
    st.integers(1, 30),
    st.integers(1, 8),
    st.integers(0, 10**6),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.booleans(),
)
def test_it_holds_all_points_and_touches_those_that_carry_it(count, dimension, seed, scale, grid):
    points = scale * np.random.default_rng(seed).normal(size=(count, dimension))
    if grid:  # many points at the same distance
        points = scale * np.round(points / scale)
    coefficients, radius = smallest_ball(points @ points.T)
    distances = np.linalg.norm(points - coefficients @ points, axis=1)
    spread = np.max(np.abs(points)) + 1e-300
    assert np.max(distances) <= radius + 1e-9 * spread
    # Centre in the hull of the points that it is farthest from: no ball is smaller.
    carrying = coefficients > 1e-9
    np.testing.assert_allclose(distances[carrying], radius, atol=1e-6 * spread)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_a_solver_finds(seed):
    points = np.random.default_rng(seed).normal(size=(12, 5))
    centre = cvxpy.Variable(5)
    farthest = cvxpy.max(cvxpy.norm(points - cvxpy.reshape(centre, (1, 5), order="C"), 2, axis=1))
    solved = cvxpy.Problem(cvxpy.Minimize(farthest)).solve(solver=cvxpy.CLARABEL)
    found, radius = ball(points)
    assert radius == pytest.approx(solved, rel=1e-7)
    np.testing.assert_allclose(found, centre.value, atol=1e-3)
