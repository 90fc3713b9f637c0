"""Kernels in plain NumPy give what compiled ones give."""

import numpy as np
import pytest

from crosslearning._base.plain_kernels import PlainFamily, kernel_matrix, products_of
from crosslearning.errors import CrossLearningError, FileFormatError, MissingFormulaError
from crosslearning.export.c_source import c_files
from crosslearning.export.onnx_graph import onnx_model
from crosslearning.rkhs import Family
from tests.contracts.test_kernels import KERNELS
from tests.export.examples import policy_of

PLAIN = {name: kernel for name, kernel in KERNELS.items() if "pair" not in name}
ROUGH = {"kernel": "laplacian", "std": [1.0]}


@pytest.mark.parametrize("kernel", PLAIN.values(), ids=PLAIN)
def test_functions_are_those_of_compiled_code(kernel):
    generator = np.random.default_rng(0)
    knots, weights = generator.normal(size=(30, 3)), generator.normal(size=(30, 2, 4))
    states = 3.0 * generator.normal(size=(1500, 3))
    states[0] = knots[0]
    plain = PlainFamily(kernel.to_dict(), knots, weights)
    values, expected = plain.expansion(states), Family(kernel, knots, weights)(states)
    assert values.shape == (1500, 2, 4)
    np.testing.assert_allclose(values, expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(plain.expansion(states[7:8])[0], values[7], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", [name for name in KERNELS if "pair" in name])
def test_a_formula_of_the_users_is_not_data(name):
    with pytest.raises(MissingFormulaError, match="'rational_quadratic' is a formula of its auth"):
        PlainFamily(KERNELS[name].to_dict(), np.zeros((1, 3)), np.zeros((1, 1, 1)))


def test_a_family_without_knots_is_zero():
    plain = PlainFamily(KERNELS["sum"].to_dict(), np.zeros((0, 3)), np.zeros((0, 1, 2)))
    np.testing.assert_array_equal(plain.expansion(np.ones((4, 3))), np.zeros((4, 1, 2)))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ({"kernel": "gausian", "std": [1.0]}, "kernel 'gausian' is not known"),
        ({"kernel": "gaussian", "std": [1.0, 2.0]}, "do not fit its points"),
        ({"kernel": "laplacian", "std": [0.0]}, "do not fit its points"),
        ({"kernel": "gaussian", "covariance": [[-1.0]]}, "is no good"),
        ({"kernel": "polynomial", "std": [1.0], "bias": -1.0, "degree": 2}, "the bias -1.0"),
        (
            {
                "kernel": "sum",
                "parts": [[{"kernel": "laplacian", "std": [1.0]}, [0]]],
                "scales": [],
            },
            "do not fit its parts",
        ),
    ],
)
def test_bad_descriptions_are_refused(kernel, message):
    with pytest.raises(FileFormatError, match=message):
        products_of(kernel, [0])


def test_points_that_are_too_far_apart_to_be_squared_have_nothing_in_common():
    kernel = {"kernel": "gaussian", "covariance": [[1.0]], "periodic": []}
    values, _ = kernel_matrix(kernel, np.array([[1e308], [0.0]]))
    assert values.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_widths_that_cannot_be_multiplied_are_taken():
    kernel = {"kernel": "gaussian", "covariance": [[1e154, 0.0], [0.0, 1e155]], "periodic": []}
    values, _ = kernel_matrix(kernel, np.array([[0.0, 0.0], [1e77, 0.0]]))
    np.testing.assert_allclose(values[0, 1], np.exp(-0.5))


@pytest.mark.parametrize(
    "evaluate",
    [
        lambda policy: policy.plain.expansion(np.zeros((1, 3))),
        lambda policy: c_files(policy, "policy", "double", "double"),
        lambda policy: onnx_model(policy, "double", "double"),
    ],
    ids=["plain", "C", "ONNX"],
)
def test_a_formula_without_an_implementation_is_refused(evaluate):
    policy = policy_of()
    for product in policy.plain.products:
        for factor in product.factors:
            object.__setattr__(factor, "formula", "rational")
    with pytest.raises(CrossLearningError, match="kernel formula 'rational'"):
        evaluate(policy)
