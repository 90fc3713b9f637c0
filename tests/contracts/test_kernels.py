"""Every kernel satisfies one contract."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslearning.errors import InputError
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
    check_kernel,
    formulas,
    kernel_from_dict,
)
from crosslearning.rkhs import program as programs
from tests.rkhs.examples import gradient


def rational_quadratic(x, y):
    return 1.0 / (1.0 + np.sum((x - y) ** 2))


ROUGH, SMOOTH = Laplacian([0.5, 1.0, 0.5]), Gaussian(std=[1.0, 2.0, 1.5])
HALVES = 0.5 * Matern52(std=[1.0, 0.5])
KERNELS = {
    "gaussian": Gaussian(std=[1.0, 2.0, 0.5]),
    "gaussian-full": Gaussian(covariance=[[1.0, 0.4, 0.0], [0.4, 2.0, 0.1], [0.0, 0.1, 0.5]]),
    "gaussian-periodic": Gaussian(std=[1.0, 0.7, 0.5], periodic=[1, 2]),
    "gaussian-period": Gaussian(std=[1.0, 0.7, 0.5], periodic={0: 3.0}),
    "gaussian-logarithmic": Gaussian(std=[1.0, 0.7, 0.5], periodic=[1], logarithmic={0: 0.4}),
    "matern32": Matern32(std=[1.0, 2.0, 0.5]),
    "matern52": Matern52(std=[1.0, 2.0, 0.5]),
    "matern52-periodic": Matern52(covariance=[1.0, 2.0, 0.5], periodic=[0]),
    "laplacian": Laplacian([1.0, 2.0, 0.5]),
    "linear": Linear([1.0, 2.0, 0.5]),
    "affine": Linear([1.0, 2.0, 0.5], bias=0.7),
    "polynomial": Polynomial([1.0, 2.0, 0.5], degree=3),
    "product": Product((Gaussian(std=[1.0, 0.5]), [0, 2]), (Laplacian([0.5]), [1])),
    "product-periodic": Product((Matern32(std=[1.0], periodic=[0]), [2]), (Linear([1, 1]), [0, 1])),
    "pair": PairKernel(rational_quadratic, dimension=3),
    "pair-product": Product((PairKernel(rational_quadratic, 2), [2, 0]), (Matern52(std=[1]), [1])),
    "sum": Sum((Gaussian(std=[1.0, 0.5]), [0, 2]), (Linear([1.0, 2.0]), [1, 2])),
    "sum-scaled": Sum((ROUGH, [0, 1, 2]), (SMOOTH, [0, 1, 2]), scales=[0.3, 1.7]),
    "sum-normalised": 0.25 * ROUGH + 0.75 * SMOOTH,
    "sum-of-products": 2.0 * Product((ROUGH, [0, 1, 2]), (SMOOTH, [2, 1, 0])) + Linear([1, 2, 3]),
    "sum-of-sums": Sum(
        (2.0 * ROUGH + SMOOTH, [2, 0, 1]), (Laplacian([1.0]), [0]), scales=[0.5, 3.0]
    ),
    "product-of-sums": Product((0.25 * ROUGH + 0.5 * SMOOTH, [0, 1, 2]), (HALVES + HALVES, [1, 2])),
    "scaled": 3.0 * Gaussian(std=[1.0, 0.7, 0.5], periodic=[1], logarithmic={0: 0.4}),
    "pair-sum": Product(
        (Sum((PairKernel(rational_quadratic, 2), [1, 0]), (Linear([1.0]), [0])), [0, 2]),
        (Gaussian(std=[1.0]) + 0.1 * Matern32(std=[0.3]), [1]),
    ),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


@every_kernel
def test_contract(kernel):
    check_kernel(kernel)


@every_kernel
def test_between_no_points(kernel):
    none, some = np.empty((0, 3)), np.ones((4, 3))
    assert [kernel(a, b).shape for a, b in ((none, some), (some, none), (none, none))] == [
        (0, 4),
        (4, 0),
        (0, 0),
    ]


@every_kernel
@given(seed=st.integers(0, 2**32 - 1), spread=st.floats(-6, 2))
def test_symmetric_and_positive_on_any_points(kernel, seed, spread):
    points = 10.0**spread * np.random.default_rng(seed).standard_normal((10, 3))
    gram = kernel(points)
    size = np.max(np.abs(gram))
    np.testing.assert_allclose(gram, gram.T, rtol=0, atol=1e-13 * size)
    assert np.linalg.eigvalsh(gram)[0] >= -1e-13 * size


@every_kernel
def test_compiled_equals_interpreted(kernel):
    # The compiled body against its own Python source, but for the exponential's bit tricks.
    generator = np.random.default_rng(1)
    features = kernel.embed(generator.standard_normal((7, 3)))
    point, scratch, out = features[:, 0].copy(), np.empty(7), np.empty(7)
    programs.kernel_column(kernel.program, features, point, scratch, out)
    differences = {
        0: lambda z: math.exp(-0.5 * np.sum(z * z)),
        1: lambda z: (1 + math.sqrt(3 * z @ z)) * math.exp(-math.sqrt(3 * z @ z)),
        2: lambda z: (1 + math.sqrt(5 * z @ z) + 5 * z @ z / 3) * math.exp(-math.sqrt(5 * z @ z)),
        3: lambda z: math.exp(-np.sum(np.abs(z))),
    }
    for m in range(7):
        products = np.ones(kernel.program.factors[-1, 4] + 1)
        for (kind, start, stop, degree, product), bias in zip(
            kernel.program.factors, kernel.program.biases, strict=True
        ):
            x, y = point[start:stop], features[start:stop, m]
            if kind in differences:
                products[product] *= differences[kind](x - y)
            elif kind == formulas.POLYNOMIAL:
                products[product] *= (bias + x @ y) ** degree
            elif kind == formulas.CONSTANT:
                products[product] *= bias
            else:
                products[product] *= rational_quadratic(x, y)
        assert out[m] == pytest.approx(np.sum(products), rel=1e-13)


@every_kernel
def test_normalised_kernels_are_one_on_the_diagonal(kernel):
    points = 3.0 * np.random.default_rng(3).standard_normal((50, 3))
    if kernel.normalised:
        assert np.all(np.diagonal(kernel(points)) == 1.0)
        assert np.all(kernel.diagonal(points) == 1.0)
    else:
        assert not np.all(kernel.diagonal(points) == 1.0) or "pair" in str(kernel.to_dict())


@every_kernel
def test_file_form(kernel):
    data = kernel.to_dict()
    if "pair" in str(data):
        with pytest.raises(InputError, match="rational_quadratic"):
            kernel_from_dict(data)
    else:
        assert kernel_from_dict(data) == kernel


@every_kernel
def test_functions_reproduce(kernel):
    # ⟨f, κ(s, ·)⟩ = f(s): the inner product and the evaluation are of one space.
    generator = np.random.default_rng(2)
    knots = generator.standard_normal((6, 3))
    weights = np.zeros((6, 2, 1))
    weights[:5, 0] = generator.standard_normal((5, 1))
    weights[5, 1] = 1.0
    family = Family(kernel, knots, weights)
    assert family.inner_products()[0, 1] == pytest.approx(family(knots[5])[0, 0], rel=1e-10)


def family_on(kernel, seed, functions=2, outputs=2):
    generator = np.random.default_rng(seed)
    knots = generator.standard_normal((9, 3))
    return Family(kernel, knots, generator.standard_normal((9, functions, outputs)))


@every_kernel
@given(seed=st.integers(0, 2**32 - 1))
def test_gradient_is_that_of_central_differences(kernel, seed):
    generator = np.random.default_rng([seed, 1])
    family = family_on(kernel, seed)
    states, which = generator.standard_normal((4, 3)), generator.integers(2, size=4)
    # Where the Laplacian has no kink within a step.
    states += 1e-4 * np.any(np.abs(states[:, None] - family.knots) < 1e-4, axis=1)
    adjoints = generator.standard_normal((4, 2))
    expected = np.empty((4, 3))
    for d in range(3):
        step = np.zeros(3)
        step[d] = 1e-5
        ends = [family.expansion.each(states + s * step, which) for s in (1, -1)]
        expected[:, d] = np.sum(adjoints * (ends[0] - ends[1]), axis=1) / 2e-5
    cases = zip(states, adjoints, which, strict=True)
    gradients = np.array([gradient(family, *case) for case in cases])
    scale = max(np.max(np.abs(expected)), np.max(np.abs(ends[0])))
    np.testing.assert_allclose(gradients, expected, rtol=0, atol=1e-6 * scale)


@every_kernel
def test_compiled_gradients_equal_interpreted_ones(kernel):
    generator = np.random.default_rng(4)
    features = kernel.embed(generator.standard_normal((7, 3)))
    program, r = kernel.program, len(features)
    state, weights = generator.standard_normal(3), generator.standard_normal((2, 7))
    adjoint, point = generator.standard_normal(2), kernel.embed(state[None])[:, 0].copy()
    compiled_out, readable_out = np.full((2, r), np.nan)
    for f in np.flatnonzero(program.factors[:, 0] != formulas.CONSTANT):
        arguments = (f, features, point, weights[0], np.empty(7))
        formulas.factor_pull_back(program, *arguments, compiled_out)
        # Only compiled code can call a pointer.
        is_pair = program.factors[f, 0] == formulas.PAIR
        readable = program._replace(pair=rational_quadratic) if is_pair else program
        formulas.factor_pull_back.py_func(readable, *arguments, readable_out)
    np.testing.assert_allclose(compiled_out, readable_out, rtol=1e-9, atol=1e-12)

    for body, arguments, shape in (
        (
            programs.partial_pull_back,
            (0, len(program.factors), features, point, weights[0], np.empty((3, 7))),
            r,
        ),
        (programs.embed_pull_back, (state, compiled_out), 3),
        (
            programs.evaluate_pull_back,
            (features, weights, state, adjoint, np.empty(r), np.empty((4, 7)), np.empty(r)),
            3,
        ),
    ):
        fast, slow = np.full((2, shape), np.nan)
        body(program, *arguments, fast)
        body.py_func(program, *arguments, slow)
        np.testing.assert_allclose(fast, slow, rtol=1e-12, atol=1e-14)


@given(x=st.floats(-699.0, 0.0))
def test_exponential_is_exact_to_two_units(x):
    assert formulas.exp_of_negative(x) == pytest.approx(math.exp(x), rel=4.5e-16, abs=0)


def test_exponential_at_its_ends():
    assert formulas.exp_of_negative(0.0) == 1.0
    assert formulas.exp_of_negative(-1e9) < 1e-300
    assert math.isnan(formulas.exp_of_negative(math.nan))


def test_checker_refuses_a_gaussian_of_wrapped_differences():
    def wrapped(x, y):
        d = (x[0] - y[0] + math.pi) % (2 * math.pi) - math.pi
        return math.exp(-0.5 * d * d)

    circle = np.linspace(-math.pi, math.pi, 40, endpoint=False)[:, None]
    with pytest.raises(InputError, match="not positive definite"):
        check_kernel(PairKernel(wrapped, 1), circle)
    check_kernel(Gaussian(std=[1.0], periodic=[0]), circle)


def test_checker_refuses_an_asymmetric_formula():
    def lopsided(x, y):
        return math.exp(-abs(x[0] - y[0])) + 0.01 * x[0]

    with pytest.raises(InputError, match="not symmetric"):
        check_kernel(PairKernel(lopsided, 1))


def test_checker_refuses_infinite_values():
    def singular(x, y):
        return 1.0 / abs(x[0] - y[0])

    with pytest.raises(InputError, match="not finite"):
        check_kernel(PairKernel(singular, 1))
