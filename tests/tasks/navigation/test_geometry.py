"""Distances, tangents and contacts against brute force and closed forms."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning.tasks.navigation import obstacles as geometry
from crosslearning.tasks.navigation.obstacles import (
    Circle,
    Ellipse,
    bounding_box,
    obstacle_rows,
    outline,
)

coordinate = st.floats(-8.0, 8.0)
semi_axis = st.floats(0.05, 5.0)


def boundary(a, b, points=400_001):
    turn = np.linspace(0.0, 2.0 * np.pi, points)
    return a * np.cos(turn), b * np.sin(turn)


def brute_distance(x, y, a, b):
    """The distance by sampling the boundary ever more finely around its nearest point."""
    turn = np.linspace(0.0, 2.0 * np.pi, 20_001)
    for _ in range(8):
        away = np.hypot(a * np.cos(turn) - x, b * np.sin(turn) - y)
        best, step = turn[away.argmin()], turn[1] - turn[0]
        turn = np.linspace(best - step, best + step, 2_001)
    return math.copysign(away.min(), (x / a) ** 2 + (y / b) ** 2 - 1.0)


def exact_distance(x, y, a, b):
    """The distance with 60 digits, by bisection for the multiplier of the projection."""
    with mpmath.workdps(60):
        x, y, a, b = (mpmath.mpf(float(value)) for value in (abs(x), abs(y), a, b))
        if a < b:
            x, y, a, b = y, x, b, a
        # The foot is (a²x/(t + a²), b²y/(t + b²)), where t > −b² puts it on the ellipse.
        low, high = -b * b + b * y, -b * b + mpmath.hypot(a * x, b * y)
        for _ in range(190):
            middle = (low + high) / 2
            on = (a * x / (middle + a * a)) ** 2 + (b * y / (middle + b * b)) ** 2
            low, high = (middle, high) if on > 1 else (low, middle)
        foot_x, foot_y = a * a * x / (low + a * a), b * b * y / (low + b * b)
        return float(mpmath.hypot(foot_x - x, foot_y - y) * mpmath.sign(low))


def hard_points(generator, count):
    """Points inside, outside, on axes, near axes and near the surface of flat ellipses."""
    for index in range(count):
        a = 10.0 ** generator.uniform(-1.0, 1.0)
        b = a * 10.0 ** generator.uniform(-3.0, 3.0)
        scale = 10.0 ** generator.uniform(-6.0, 1.0)
        x, y = generator.normal(size=2) * scale * np.array([a, b])
        kind = index % 6
        if kind == 0:
            x = 0.0
        elif kind == 1:
            y = 0.0
        elif kind == 2:
            x *= 1e-12
        elif kind == 3:
            y *= 1e-12
        elif kind == 4:
            turn = generator.uniform(0.0, 2.0 * np.pi)
            near = 1.0 + 1e-9 * generator.normal()
            x, y = a * math.cos(turn) * near, b * math.sin(turn) * near
        yield float(x), float(y), a, b


def test_distance_agrees_with_brute_force():
    for x, y, a, b in hard_points(np.random.default_rng(0), 300):
        scale = max(a, b, abs(x), abs(y))
        assert geometry.surface_distance(x, y, a, b) == pytest.approx(
            brute_distance(x, y, a, b), abs=4e-15 * scale
        )


def test_distance_keeps_all_digits_in_very_flat_ellipses():
    generator = np.random.default_rng(1)
    for index in range(150):
        a = 10.0 ** generator.uniform(-1.0, 1.0)
        b = a * 10.0 ** generator.uniform(-6.0, 6.0)
        x, y = generator.normal(size=2) * 10.0 ** generator.uniform(-9.0, 2.0, size=2) * (a, b)
        if index % 3 == 0:
            turn = generator.uniform(0.0, 2.0 * np.pi)
            x, y = a * math.cos(turn) * (1.0 + 1e-9), b * math.sin(turn) * (1.0 + 1e-9)
        scale = max(a, b, abs(x), abs(y))
        assert geometry.surface_distance(x, y, a, b) == pytest.approx(
            exact_distance(x, y, a, b), rel=0.0, abs=2e-15 * scale
        )


@pytest.mark.parametrize(
    ("point", "axes", "expected"),
    [
        ((0.0, 0.0), (0.5, 2.0), -0.5),  # the centre: the smaller semi-axis
        ((0.0, 0.0), (1.5, 1.5), -1.5),
        ((0.0, 2.3e-311), (2.0, 1.75), -1.75),  # a number with few digits
        ((3.0, 0.0), (0.5, 2.0), 2.5),  # on the axes, outside
        ((0.0, -5.0), (0.5, 2.0), 3.0),
        ((0.0, 1.9), (0.5, 2.0), -0.1),  # on the long axis, beyond the cusp of the evolute
        ((0.5, 0.0), (0.5, 2.0), 0.0),
        ((3.0, 4.0), (2.0, 2.0), 3.0),
    ],
)
def test_distance_in_closed_form(point, axes, expected):
    assert geometry.surface_distance(*point, *axes) == pytest.approx(expected, abs=1e-15)


@settings(deadline=None)
@given(coordinate, coordinate, semi_axis, semi_axis)
def test_distance_is_symmetric_and_one_lipschitz(x, y, a, b):
    distance = geometry.surface_distance(x, y, a, b)
    assert distance == geometry.surface_distance(-x, y, a, b)
    assert distance == pytest.approx(geometry.surface_distance(y, x, b, a), abs=1e-14)
    moved = geometry.surface_distance(x + 0.03, y - 0.04, a, b)
    assert abs(moved - distance) <= 0.05 * (1.0 + 1e-12)
    assert distance >= -min(a, b) * (1.0 + 1e-15)


def test_tangents_agree_with_brute_force():
    generator = np.random.default_rng(2)
    for _ in range(60):
        a, b = generator.uniform(0.2, 3.0, size=2)
        turned = generator.uniform(-np.pi, np.pi)
        x, y = generator.uniform(-6.0, 6.0, size=2)
        if (x / a) ** 2 + (y / b) ** 2 < 1.05:
            continue
        cosine, sine = math.cos(turned), math.sin(turned)
        middle, opening = geometry.tangent_cone(x, y, a, b, cosine, sine)
        edge_x, edge_y = boundary(a, b)
        towards = math.atan2(-y, -x)  # the centre lies within the cone
        seen = np.arctan2(edge_y - y, edge_x - x) - towards
        seen = (seen + np.pi) % (2.0 * np.pi) - np.pi
        assert opening == pytest.approx(seen.max() - seen.min(), abs=1e-8)
        expected = towards + 0.5 * (seen.max() + seen.min()) + turned
        assert geometry.wrap_angle(middle - expected) == pytest.approx(0.0, abs=1e-8)


def test_the_cone_of_a_circle_points_to_its_centre():
    for x, y in [(3.0, 1.0), (-0.6, 0.9), (0.0, -40.0)]:
        middle, opening = geometry.tangent_cone(x, y, 1.0, 1.0, 1.0, 0.0)
        assert geometry.wrap_angle(middle - math.atan2(-y, -x)) == pytest.approx(0.0, abs=1e-12)
        assert opening == pytest.approx(2.0 * math.asin(1.0 / math.hypot(x, y)), rel=1e-12)


@pytest.mark.parametrize("turn", np.linspace(0.1, 6.2, 7))
def test_the_cone_opens_to_a_half_plane_at_the_surface(turn):
    a, b = 0.5, 2.0
    x, y = a * math.cos(turn), b * math.sin(turn)
    normal = math.atan2(-math.sin(turn) / b, -math.cos(turn) / a)
    for factor in (1.0 + 1e-12, 1.0 + 1e-9, 1.0, 1.0 - 1e-9):
        middle, opening = geometry.tangent_cone(factor * x, factor * y, a, b, 1.0, 0.0)
        assert opening == pytest.approx(math.pi, abs=1e-3)
        assert geometry.wrap_angle(middle - normal) == pytest.approx(0.0, abs=1e-3)
    assert geometry.tangent_cone(0.5 * x, 0.5 * y, a, b, 1.0, 0.0)[1] == math.pi
    assert geometry.tangent_cone(0.0, 0.0, a, b, 1.0, 0.0)[1] == math.pi


def test_contact_agrees_with_dense_sampling():
    generator = np.random.default_rng(3)
    shares = np.linspace(0.0, 1.0, 20_001)
    hits = 0
    for _ in range(400):
        a, b = generator.uniform(0.1, 2.0, size=2)
        begin, end = generator.uniform(-3.0, 3.0, size=(2, 2))
        path = begin + shares[:, None] * (end - begin)
        inside = (path[:, 0] / a) ** 2 + (path[:, 1] / b) ** 2 <= 1.0
        touch = geometry.contact(*begin, *end, a, b)
        if inside.any():
            hits += 1
            assert touch == pytest.approx(shares[inside.argmax()], abs=1.1e-4)
        elif touch <= 1.0:
            # Grazed between two samples.
            least = ((path[:, 0] / a) ** 2 + (path[:, 1] / b) ** 2).min()
            assert least == pytest.approx(1.0, abs=1e-6)
    assert 100 < hits < 400


def test_contact_at_the_ends():
    assert geometry.contact(3.0, 0.0, 1.0, 0.0, 1.0, 0.5) == 1.0  # up to the surface
    assert geometry.contact(3.0, 0.0, 1.0 + 1e-9, 0.0, 1.0, 0.5) == math.inf  # just before it
    assert geometry.contact(1.0, 0.0, 3.0, 0.0, 1.0, 0.5) == 0.0  # from it
    assert geometry.contact(0.1, 0.0, 3.0, 0.0, 1.0, 0.5) == 0.0  # from inside
    assert geometry.contact(3.0, 0.0, 3.0, 0.0, 1.0, 0.5) == math.inf  # standing outside
    assert geometry.contact(3.0, 0.0, 9.0, 0.0, 1.0, 0.5) == math.inf  # away


@settings(deadline=None)
@given(st.floats(-1e6, 1e6))
def test_wrapped_angles_point_the_same_way(angle):
    wrapped = geometry.wrap_angle(angle)
    assert -math.pi <= wrapped < math.pi
    assert math.cos(wrapped) == pytest.approx(math.cos(angle), abs=1e-9)
    assert math.sin(wrapped) == pytest.approx(math.sin(angle), abs=1e-9)


def test_wrapped_angles_stay_below_pi_at_every_rounding():
    for turns in range(-50, 50):
        angle = (2 * turns + 1) * math.pi
        for neighbour in (angle, math.nextafter(angle, -1e9), math.nextafter(angle, 1e9)):
            assert -math.pi <= geometry.wrap_angle(neighbour) < math.pi


def test_the_nearest_obstacle_is_nearest_by_surface():
    small, large = Circle((3.0, 0.0), 0.2), Ellipse((0.0, 6.0), (1.0, 4.5), 0.0)
    rows = obstacle_rows([small, large])
    row, distance = geometry.nearest_obstacle(rows, 0, 2, 0.0, 0.0)
    assert (row, distance) == (geometry.ROW, pytest.approx(1.5))
    generator = np.random.default_rng(4)
    for point in generator.uniform(-3.0, 10.0, size=(200, 2)):
        single = [geometry.clearances(point, [one])[0] for one in (small, large)]
        row, distance = geometry.nearest_obstacle(rows, 0, 2, *point)
        assert (row // geometry.ROW, distance) == (int(np.argmin(single)), min(single))


def test_without_obstacles_everything_is_free():
    rows = obstacle_rows([])
    assert geometry.nearest_obstacle(rows, 0, 0, 1.0, 2.0) == (-1, math.inf)
    assert geometry.first_contact(rows, 0, 0, 0.0, 0.0, 1.0, 1.0) == math.inf


def test_turned_obstacles_lie_where_their_outline_is():
    obstacle = Ellipse((1.0, -2.0), (0.4, 2.5), 0.7)
    assert np.abs(geometry.clearances(outline(obstacle), [obstacle])).max() < 1e-14
    # The long axis runs 0.7 beyond the y-axis.
    tip = np.array([[1.0 - 2.5 * math.sin(0.7), -2.0 + 2.5 * math.cos(0.7)]])
    assert geometry.clearances(tip, [obstacle])[0] == pytest.approx(0.0, abs=1e-14)


def test_the_bounding_box_of_a_turned_obstacle_is_tight():
    obstacle = Ellipse((1.0, -2.0), (0.4, 2.5), 0.7)
    edge = outline(obstacle, 20_000)
    expected = [*edge.min(axis=0), *edge.max(axis=0)]
    np.testing.assert_allclose(bounding_box(obstacle), expected, atol=1e-6)


def test_first_contact_is_the_nearest_of_all():
    far, near = Circle((4.0, 0.0), 1.0), Circle((2.0, 0.0), 0.5)
    for order in ((far, near), (near, far)):
        rows = obstacle_rows(order)
        assert geometry.first_contact(rows, 0, 2, 0.0, 0.0, 10.0, 0.0) == pytest.approx(0.15)
    assert geometry.first_contact(rows, 6, 1, 0.0, 0.0, 10.0, 0.0) == pytest.approx(0.3)


def test_compiled_functions_agree_with_their_python_bodies():
    for x, y, a, b in hard_points(np.random.default_rng(5), 120):
        to_x, to_y = x - 2.0 * a, y + b
        for function, arguments in [
            (geometry.surface_distance, (x, y, a, b)),
            (geometry.tangent_cone, (x, y, a, b, 0.6, 0.8)),
            (geometry.contact, (x, y, to_x, to_y, a, b)),
            (geometry.wrap_angle, (x,)),
        ]:
            scale = max(a, b, abs(x), abs(y), 1.0)
            # At the surface the opening angle magnifies the last digit to its square root.
            digits = 1e-7 if function is geometry.tangent_cone else 1e-13 * scale
            np.testing.assert_allclose(
                function(*arguments), function.py_func(*arguments), rtol=1e-9, atol=digits
            )


@given(coordinate, coordinate, semi_axis, semi_axis, st.floats(0.0, 7.0), st.floats(0.0, 3.0))
def test_a_place_beside_an_obstacle_is_as_far_away_as_asked(x, y, a, b, turn, away):
    rows = obstacle_rows([Ellipse((x, y), (a, b), 0.4)])
    place = geometry.beside(rows, 0, turn, away)
    distance = geometry.surface_distance(*geometry.to_frame(rows, 0, *place), a, b)
    assert distance == pytest.approx(away, abs=1e-9)
