"""ONNX models do what policies do, in every kernel and both precisions."""

import numpy as np
import pytest

from crosslearning.export.program import TYPES
from crosslearning.export.states import expected_actions, states_for
from crosslearning.rkhs import Gaussian
from tests.export.examples import PLAIN, compare, policy_of

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

from crosslearning.export.onnx_graph import OPSET, onnx_model, run_onnx  # noqa: E402


@pytest.mark.parametrize("precision", ["double", "float"])
@pytest.mark.parametrize("kernel", PLAIN.values(), ids=PLAIN)
def test_every_kernel(kernel, precision):
    policy = policy_of(kernel, spread=0.5)
    content = onnx_model(policy, precision, precision)
    agreement = compare(policy, lambda states: run_onnx(content, states), precision)
    assert agreement.states > 4000
    assert agreement.share <= (1e-12 if precision == "double" else 1e-5)
    states = states_for(policy).astype(TYPES[precision])
    expected = expected_actions(policy, states)
    # The comparison saw actions at each end, and between them.
    for end in (policy.actions.low[0], policy.actions.high[0]):
        assert 50 < np.sum(expected[:, 0] == end) < 3000
    assert len(set(expected[:, 0])) > 100
    # A batch of any size, row by row the same.
    for size in (1, 3):
        rows = run_onnx(content, states[:size])
        assert rows.shape == (size, 2)
        assert rows.dtype == TYPES[precision]
        np.testing.assert_allclose(rows, expected[:size], atol=1e-5)


def test_the_model_says_what_it_is():
    policy = policy_of()
    model = onnx.load_from_string(onnx_model(policy, "double", "double"))
    assert model.opset_import[0].version == OPSET
    (given,), (made,) = model.graph.input, model.graph.output
    assert (given.name, made.name) == ("observation", "action")
    assert [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim] == ["batch", 3]
    assert [d.dim_param or d.dim_value for d in made.type.tensor_type.shape.dim] == ["batch", 2]
    props = {entry.key: entry.value for entry in model.metadata_props}
    assert props["actions"] == "action 0, action 1"
    assert onnx_model(policy, "double", "double") == onnx_model(policy, "double", "double")


def test_edges():
    for policy in (
        policy_of(knots=0),
        policy_of(knots=1),
        policy_of(Gaussian(std=[1.0], periodic=[0]), outputs=1),
    ):
        content = onnx_model(policy, "double", "double")
        compare(policy, lambda states, content=content: run_onnx(content, states), "double")
