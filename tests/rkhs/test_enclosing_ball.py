"""The smallest ball: textbook answers, its optimality conditions, a solver."""

import itertools

import cvxpy
import numpy as np
import pytest
from benchmarks.enclosing_ball import fault_of, points_of, solved_radius
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
    computed, reach = ball(points)
    np.testing.assert_allclose(computed, centre, atol=1e-9)
    assert reach == pytest.approx(radius, abs=1e-12)


def test_every_six_numbers_of_a_small_grid():
    # The order and the number of duplicates decide where the search begins and what it meets.
    for numbers in itertools.product(range(-2, 3), repeat=6):
        centre, radius = ball(np.array(numbers)[:, None])
        low, high = min(numbers), max(numbers)
        assert abs(radius - (high - low) / 2) <= 1e-12, numbers
        assert abs(centre[0] - (high + low) / 2) <= 1e-9, numbers


def test_seven_points_at_two_places_far_apart():
    for ends in itertools.product((0.0, 1e6), repeat=7):
        _, radius = ball(np.array(ends)[:, None])
        assert radius == pytest.approx(np.ptp(ends) / 2, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_any_scale(scale):
    centre, radius = ball(scale * np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0], [1.0, 1.0]]))
    np.testing.assert_allclose(centre, [2.0 * scale, 1.5 * scale], rtol=1e-9)
    assert radius == pytest.approx(2.5 * scale, rel=1e-12)


def test_random_points_of_every_kind():
    for seed in range(900):
        kind, points = points_of(seed)
        assert fault_of(points) == "", (seed, kind)


POINTS = st.integers(1, 3).flatmap(
    lambda q: st.lists(
        st.lists(st.one_of(st.floats(-10, 10), st.integers(-2, 2)), min_size=q, max_size=q),
        min_size=1,
        max_size=12,
    )
)


@given(POINTS)
def test_points_as_strange_as_they_come(points):
    # One point or many, equal, collinear, or nearly so; those below 1e-100 square to nothing.
    points = np.array(points, dtype=float)
    points[np.abs(points) < 1e-100] = 0.0
    assert fault_of(points, reference=False) == ""


def test_the_references_notice_a_wrong_ball(monkeypatch):
    points = np.array([[0.0], [1.0], [4.0]])
    for wrong, fault in (
        (([1.0, 0.0, 0.0], 2.0), "a point is outside"),
        (([0.4, 0.0, 0.6], 2.4), "not the smallest"),
        (([-0.5, 0.0, 1.5], 2.0), "not a convex combination"),
    ):
        answer = np.array(wrong[0]), wrong[1]
        monkeypatch.setattr("benchmarks.enclosing_ball.smallest_ball", lambda _, a=answer: a)
        assert fault_of(points) == fault
    assert solved_radius(points) == pytest.approx(2.0, abs=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_a_solver_finds(seed):
    points = np.random.default_rng(seed).normal(size=(12, 5))
    centre = cvxpy.Variable(5)
    farthest = cvxpy.max(cvxpy.norm(points - cvxpy.reshape(centre, (1, 5), order="C"), 2, axis=1))
    solved = cvxpy.Problem(cvxpy.Minimize(farthest)).solve(solver=cvxpy.CLARABEL)
    computed, radius = ball(points)
    assert radius == pytest.approx(solved, rel=1e-7)
    np.testing.assert_allclose(computed, centre.value, atol=1e-3)
