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
    Matern52,
    PairKernel,
    Polynomial,
    Product,
    Sum,
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
        (lambda: Gaussian(std=[1.0, math.nan]), "std, one number per dimension, must be finite"),
        (lambda: Gaussian(std=1.0), "one number per dimension"),
        (lambda: Gaussian(std=["wide"]), "std, one number per dimension, must be an array of num"),
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
        (lambda: Product(Gaussian(std=[1.0])), "a part of a product must be a kernel with"),
        (lambda: Sum(), "a sum needs at least one part"),
        (lambda: Sum((Gaussian(std=[1.0]), [1])), "every dimension"),
        (lambda: Sum((Gaussian(std=[1.0]), [0]), scales=[1.0, 2.0]), "scales"),
        (lambda: Sum((Gaussian(std=[1.0]), [0]), scales=[math.inf]), "scales must be finite"),
        (lambda: -1.0 * Gaussian(std=[1.0]), "scales must be at least 0"),
        (lambda: 0.0 * Gaussian(std=[1.0]), "not all 0"),
        (lambda: Gaussian(std=[1.0]) + Gaussian(std=[1.0, 1.0]), "read the same state"),
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
    with pytest.raises(InputError, match="at most one"):
        _ = (PairKernel(one, 1) + PairKernel(one, 1)).program


def test_arithmetic_of_kernels():
    smooth, rough = Gaussian(std=[1.0, 2.0]), Matern52(std=[1.0, 0.5])
    both = [0, 1]
    assert smooth + rough == Sum((smooth, both), (rough, both))
    assert 2 * smooth == smooth * 2.0 == Sum((smooth, both), scales=[2.0])
    expected = Sum((smooth, both), (rough, both), (smooth, both), scales=[1.5, 3.0, 1.0])
    assert 3.0 * (0.5 * smooth + rough) + smooth == expected
    assert np.float64(2.0) * smooth == np.int64(2) * smooth == 2.0 * smooth
    for other in (1.0, "smooth"):
        with pytest.raises(TypeError):
            _ = smooth + other
    with pytest.raises(TypeError):
        _ = smooth * rough


def test_a_sum_adds_and_a_product_of_sums_multiplies():
    points = np.random.default_rng(0).standard_normal((6, 3))
    a, b, c = Gaussian(std=[1.0, 2.0]), Laplacian([0.5, 0.7]), Linear([1.0])
    first, last = points[:, [0, 2]], points[:, [1]]
    total = Sum((a, [0, 2]), (c, [1]), scales=[0.3, 2.0])
    np.testing.assert_allclose(total(points), 0.3 * a(first) + 2.0 * c(last), rtol=1e-14)
    product = Product((a + 0.1 * b, [0, 2]), (2.0 * c + Gaussian(std=[1.0]), [1]))
    expected = (a(first) + 0.1 * b(first)) * (2.0 * c(last) + Gaussian(std=[1.0])(last))
    np.testing.assert_allclose(product(points), expected, rtol=1e-14)
    np.testing.assert_allclose(product.diagonal(points), np.diag(expected), rtol=1e-14)


def test_functions_of_a_sum_add_up():
    # With κ = κ₁ + κ₂ on separate coordinates, h(s) = h₁(s₁) + h₂(s₂) and the squared norms add up.
    generator = np.random.default_rng(1)
    knots, weights = generator.standard_normal((5, 2)), generator.standard_normal((5, 1, 1))
    first, second = Gaussian(std=[0.7]), Matern32(std=[1.3])
    whole = Family(Sum((first, [0]), (second, [1])), knots, weights)
    parts = [Family(first, knots[:, :1], weights), Family(second, knots[:, 1:], weights)]
    state = generator.standard_normal(2)
    assert whole(state) == pytest.approx(parts[0](state[:1]) + parts[1](state[1:]), rel=1e-13)
    squares = [family.norms()[0] ** 2 for family in parts]
    assert whole.norms()[0] ** 2 == pytest.approx(sum(squares), rel=1e-12)


def test_scales_that_miss_one_by_rounding_are_not_called_normalised():
    gaussian = Gaussian(std=[1.0])
    assert (0.25 * gaussian + 0.75 * gaussian).normalised
    tenths = Sum(*[(gaussian, [0])] * 10, scales=[0.1] * 10)
    assert not tenths.normalised
    assert tenths.diagonal([[0.3]])[0] == pytest.approx(1.0, rel=1e-15)
    thirds = Sum(*[(gaussian, [0])] * 3, scales=[1 / 3] * 3)
    squared = Product((thirds, [0]), (thirds, [0]))
    assert thirds.normalised == (thirds([[2.0]])[0, 0] == 1.0)
    assert squared.normalised == (squared([[2.0]])[0, 0] == 1.0)
    assert not (gaussian + Linear([1.0])).normalised
    assert not (2.0 * gaussian).normalised


def test_a_sum_may_be_written_without_scales():
    gaussian = Gaussian(std=[1.0])
    data = {"kernel": "sum", "parts": [[gaussian.to_dict(), [0]], [Linear([1.0]).to_dict(), [0]]]}
    assert kernel_from_dict(data) == gaussian + Linear([1.0])
    with pytest.raises(InputError, match="field of a sum kernel"):
        kernel_from_dict({**data, "scale": [1.0, 2.0]})
    with pytest.raises(FileFormatError, match="damaged"):
        kernel_from_dict({**data, "scales": [1.0, -2.0]})
