"""What is special to single kernels, and their bad input."""

import math

import numpy as np
import pytest

from crosslearning.errors import FileFormatError, InputError
from crosslearning.rkhs import (
    Family,
    Gaussian,
    Laplacian,
    Linear,
    Matern32,
    PairKernel,
    Polynomial,
    Product,
    kernel_from_dict,
)


def test_std_and_covariance_say_the_same():
    assert Gaussian(std=[2.0, 3.0]) == Gaussian(covariance=[4.0, 9.0])
    assert Gaussian(std=[2.0, 3.0]) == Gaussian(covariance=[[4.0, 0.0], [0.0, 9.0]])
    assert Gaussian(covariance=[1.0, math.pi / 5])([[0.0, 0.0]], [[1.0, 1.0]])[0, 0] == (
        pytest.approx(math.exp(-0.5 * (1 + 5 / math.pi)))
    )


def test_periodic_dimension_wraps_and_agrees_nearby():
    kernel, plain = Gaussian(std=[0.8], periodic=[0]), Gaussian(std=[0.8])
    assert kernel([[0.1]], [[0.1 + 2 * math.pi]])[0, 0] == pytest.approx(1.0, abs=1e-14)
    assert kernel([[math.pi - 0.1]], [[-math.pi + 0.1]])[0, 0] == pytest.approx(
        kernel([[0.0]], [[0.2]])[0, 0], abs=1e-14
    )
    assert kernel([[0.0]], [[0.01]])[0, 0] == pytest.approx(
        plain([[0.0]], [[0.01]])[0, 0], abs=1e-8
    )
    # exp((cos Δ − 1)/v)
    assert kernel([[0.0]], [[1.0]])[0, 0] == pytest.approx(math.exp((math.cos(1) - 1) / 0.64))


def test_logarithmic_dimension_is_plain_near_zero_and_counts_ratios_far_away():
    kernel, plain = Gaussian(std=[0.3], logarithmic={0: 0.5}), Gaussian(std=[0.3])
    assert kernel([[-0.001]], [[0.002]])[0, 0] == pytest.approx(
        plain([[-0.001]], [[0.002]])[0, 0], rel=1e-8
    )
    # c · asinh(x/c) → c · ln(2x/c)
    ratio = math.exp(-0.5 * (0.5 * math.log(3.0) / 0.3) ** 2)
    for x in (1e4, 1e6):
        assert kernel([[x]], [[3.0 * x]])[0, 0] == pytest.approx(ratio, rel=1e-6)
    assert kernel_from_dict(kernel.to_dict()) == kernel
    assert "logarithmic" not in plain.to_dict()


def test_linear_kernel_makes_linear_functions():
    generator = np.random.default_rng(0)
    knots, weights = generator.standard_normal((5, 3)), generator.standard_normal((5, 1, 2))
    std, bias = np.array([1.0, 2.0, 0.5]), 0.3
    family = Family(Linear(std, bias=bias), knots, weights)
    state = generator.standard_normal(3)
    matrix = weights[:, 0].T @ (knots / std**2)
    expected = matrix @ state + bias * weights[:, 0].sum(axis=0)
    np.testing.assert_allclose(family(state)[0], expected, rtol=1e-12)
    # ‖h‖² = Σ (matrix std)² + bias |Σ w|²
    norm = np.sqrt(np.sum((matrix * std) ** 2) + bias * np.sum(weights[:, 0].sum(axis=0) ** 2))
    assert family.norms()[0] == pytest.approx(norm, rel=1e-12)


def test_diagonal():
    points = np.random.default_rng(0).standard_normal((4, 2))
    for kernel in (Gaussian(std=[1, 2]), Polynomial([1.0, 2.0], 2)):
        np.testing.assert_allclose(kernel.diagonal(points), np.diag(kernel(points)), rtol=1e-15)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(), "neither"),
        (lambda: Gaussian(std=[1.0], covariance=[1.0]), "both"),
        (lambda: Gaussian(std=[1.0, 0.0]), "std must be positive"),
        (lambda: Gaussian(std=[1.0, -2.0]), "std must be positive"),
        (lambda: Gaussian(std=[1.0, math.nan]), "std must be positive"),
        (lambda: Gaussian(std=1.0), "one number per dimension"),
        (lambda: Gaussian(std=["wide"]), "std must be numbers"),
        (lambda: Matern32(covariance=[1.0, 0.0]), "covariance must be positive"),
        (lambda: Gaussian(covariance=[[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda: Gaussian(covariance=[[1.0, 2.0], [0.0, 1.0]]), "not symmetric"),
        (lambda: Gaussian(std=[1.0], periodic=[1]), "periodic dimension 1"),
        (lambda: Gaussian(std=[1.0], periodic={0: 0.0}), "period of dimension 0"),
        (lambda: Gaussian(std=[1.0], periodic=[0, 0]), "twice"),
        (
            lambda: Gaussian(covariance=[[1.0, 0.1], [0.1, 1.0]], periodic=[0]),
            "periodic dimension 0",
        ),
        (lambda: Gaussian(std=[1.0], logarithmic={1: 0.1}), "logarithmic dimension 1"),
        (lambda: Gaussian(std=[1.0], logarithmic={0: 0.0}), "size of dimension 0"),
        (lambda: Gaussian(std=[1.0], logarithmic=[0]), "with its size"),
        (lambda: Gaussian(std=[1.0], periodic=[0], logarithmic={0: 1.0}), "both periodic and"),
        (
            lambda: Gaussian(covariance=[[1.0, 0.1], [0.1, 1.0]], logarithmic={1: 1.0}),
            "logarithmic dimension 1",
        ),
        (lambda: Laplacian([0.0]), "std must be positive"),
        (lambda: Polynomial([1.0], 0), "degree"),
        (lambda: Polynomial([1.0], 2, bias=-1.0), "bias"),
        (lambda: Product(), "at least one part"),
        (lambda: Product((Gaussian(std=[1.0]), [0, 1])), "reads 1 dimensions"),
        (lambda: Product((Gaussian(std=[1.0]), [1])), "every dimension"),
        (lambda: PairKernel("exp", 1), "must be a function"),
        (lambda: PairKernel(max, 0), "dimension"),
        (lambda: Gaussian(std=[1.0])([[1.0, 2.0]]), "shape"),
        (lambda: Gaussian(std=[1.0])([[math.nan]]), "must be finite"),
        (lambda: kernel_from_dict({"kernel": "gausian"}), "did you mean 'gaussian'"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_formula_that_does_not_compile():
    def impossible(x, y):
        return open("kernel.txt").read()  # noqa: PTH123

    with pytest.raises(InputError, match="'impossible' cannot be compiled"):
        PairKernel(impossible, 1)


def test_formula_that_reads_past_its_dimension():
    def three(x, y):
        return x[0] * y[0] + x[2] * y[2]

    with pytest.raises(InputError, match="more than the 2 coordinates"):
        PairKernel(three, 2)


@pytest.mark.parametrize("data", [None, {}, {"kernel": 3}, {"kernel": "gaussian"}])
def test_damaged_description(data):
    with pytest.raises(FileFormatError):
        kernel_from_dict(data)


def test_two_formulas_in_a_product():
    def one(x, y):
        return 1.0

    with pytest.raises(InputError, match="at most one"):
        _ = Product((PairKernel(one, 1), [0]), (PairKernel(one, 1), [1])).program
