"""Gradients of functions in the state: closed forms, linearity, and where there is no slope."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslearning.rkhs import (
    Family,
    Gaussian,
    Laplacian,
    Linear,
    Matern32,
    PairKernel,
    Polynomial,
    Product,
)
from tests.rkhs.examples import gradient

WIDTHS = np.array([1.0, 2.0, 0.5])


def test_a_linear_function_has_its_matrix():
    generator = np.random.default_rng(0)
    knots, weights = generator.standard_normal((5, 3)), generator.standard_normal((5, 1, 2))
    family = Family(Linear(WIDTHS, bias=0.3), knots, weights)
    matrix = weights[:, 0].T @ (knots / WIDTHS**2)
    for p, adjoint in enumerate(np.eye(2)):
        slope = gradient(family, generator.standard_normal(3), adjoint)
        np.testing.assert_allclose(slope, matrix[p], rtol=1e-12)


def test_one_gaussian_bump():
    family = Family(Gaussian(std=WIDTHS), [[0.2, -1.0, 0.4]], [[[3.0]]])
    state = np.array([0.5, 0.5, 0.1])
    difference = state - family.knots[0]
    expected = -difference / WIDTHS**2 * family(state)[0, 0]
    np.testing.assert_allclose(gradient(family, state), expected, rtol=1e-13)


@pytest.mark.parametrize("kernel", [Gaussian(std=WIDTHS), Matern32(std=WIDTHS), Laplacian(WIDTHS)])
def test_no_slope_at_the_top(kernel):
    knot = [0.3, -0.7, 1.9]
    assert np.all(gradient(Family(kernel, [knot], [[[2.0]]]), knot) == 0.0)


def test_a_product_in_which_one_factor_is_zero():
    # κ = (x₀y₀)(x₁y₁): at x₀ = 0 the slope is y₀x₁y₁, which no division by a factor would give.
    family = Family(Product((Linear([1.0]), [0]), (Linear([1.0]), [1])), [[2.0, 3.0]], [[[1.0]]])
    np.testing.assert_array_equal(gradient(family, [0.0, 5.0]), [30.0, 0.0])


def test_periodic_slopes_repeat():
    family = Family(Gaussian(std=[0.8, 1.0], periodic={0: 3.0}), [[0.1, 0.0]], [[[1.0]]])
    np.testing.assert_allclose(
        gradient(family, [0.9, 0.4]), gradient(family, [0.9 + 6.0, 0.4]), rtol=1e-12
    )


def test_logarithmic_slopes_far_away():
    # c·asinh(x/c) has the slope c/x far away, also where x² is no longer a number.
    kernel = Gaussian(std=[0.3], logarithmic={0: 0.5})
    family = Family(kernel, [[1e6]], [[[1.0]]])
    x = 1.1e6
    expected = -0.5 * math.log(1.1) / 0.3**2 * family([x])[0, 0] * 0.5 / x
    assert gradient(family, [x])[0] == pytest.approx(expected, rel=1e-9)
    assert gradient(family, [1e200])[0] == 0.0


def test_a_formula_of_the_users_by_differences():
    def rational_quadratic(x, y):
        return 1.0 / (1.0 + np.sum((x - y) ** 2))

    family = Family(PairKernel(rational_quadratic, 2), [[100.0, 0.5]], [[[1.0]]])
    state = np.array([101.0, 0.2])
    expected = -2.0 * (state - family.knots[0]) * family(state)[0, 0] ** 2
    np.testing.assert_allclose(gradient(family, state), expected, rtol=1e-6)


@given(seed=st.integers(0, 2**32 - 1), factor=st.floats(-1e3, 1e3))
def test_linear_in_the_adjoint_and_in_the_function(seed, factor):
    generator = np.random.default_rng(seed)
    knots, weights = generator.standard_normal((8, 3)), generator.standard_normal((8, 2, 2))
    family = Family(Gaussian(std=WIDTHS), knots, weights)
    state, a, b = generator.standard_normal((3, 3))
    a, b = a[:2], b[:2]
    both = gradient(family, state, a + factor * b)
    parts = gradient(family, state, a) + factor * gradient(family, state, b)
    np.testing.assert_allclose(both, parts, rtol=0, atol=1e-11 * (1.0 + abs(factor)))
    mixed = family.mix([[1.0, factor]])
    parts = gradient(family, state, a) + factor * gradient(family, state, a, function=1)
    np.testing.assert_allclose(gradient(mixed, state, a), parts, atol=1e-11 * (1.0 + abs(factor)))


@pytest.mark.parametrize("kernel", [Gaussian(std=[1.0]), Laplacian([1.0]), Polynomial([1.0], 2)])
def test_a_bad_number_is_seen(kernel):
    assert math.isnan(gradient(Family(kernel, [[0.5]], [[[1.0]]]), [math.nan])[0])


def test_without_knots_there_is_no_slope():
    assert np.all(gradient(Family.zeros(Gaussian(std=WIDTHS), 1, 1), np.zeros(3)) == 0.0)
