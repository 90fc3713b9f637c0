"""A policy as an ONNX model: observations (batch, q) to actions (batch, p), scaled and clipped.

Discrete actions are whole numbers, the options with the greatest scores.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, checker, helper, numpy_helper

from crosslearning._base.choices import Choices
from crosslearning.export import Precision
from crosslearning.export.program import TYPES, Part, Program
from crosslearning.learner import Policy

#: Read by every ONNX Runtime since 1.20.
OPSET, IR_VERSION = 21, 10


_KINDS: dict[Precision, Any] = {"double": TensorProto.DOUBLE, "float": TensorProto.FLOAT}


def run_onnx(content: bytes, states: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the actions (n, p) of a model in states (n, q)."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    (actions,) = session.run(["action"], {"observation": states})
    return np.asarray(actions)


def onnx_model(policy: Policy, precision: Precision, arithmetic: Precision) -> bytes:
    """Return the policy as the bytes of an ONNX model.

    The precision is that of observations and actions, the arithmetic that of all other numbers.
    """
    program, graph = Program.of(policy), _Graph(arithmetic)
    kind, mixed = _KINDS[precision], precision != arithmetic
    out = kind if policy.choices is None else TensorProto.INT64
    if mixed:
        graph.given = graph.add("Cast", "observation", to=graph.kind)
    values = [_values(graph, part, program.knots) for part in program.parts]
    products = []
    for scale, numbers in program.products:
        value = values[numbers[0]]
        for number in numbers[1:]:
            value = graph.add("Mul", value, values[number])
        products.append(value if scale == 1.0 else graph.add("Mul", value, graph.constant(scale)))
    kernel = products[0]
    for product in products[1:]:
        kernel = graph.add("Add", kernel, product)
    mean = graph.add("MatMul", kernel, graph.constant(program.weights))
    half, centre = graph.constant(program.scale.half), graph.constant(program.scale.centre)
    action = graph.add("Add", centre, graph.add("Mul", half, mean))
    if policy.choices is not None:
        _choose(graph, action, policy.choices)
    else:
        action = graph.add("Max", action, graph.constant(program.low))
        high = graph.constant(program.high)
        action = graph.add("Min", action, high, name="" if mixed else "action")
        if mixed:
            graph.add("Cast", action, name="action", to=kind)
    q, p = policy.observations.size, policy.outputs.size
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "policy",
            [helper.make_tensor_value_info("observation", kind, ["batch", q])],
            [helper.make_tensor_value_info("action", out, ["batch", p])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="crosslearning",
    )
    names = {"observations": policy.observations.names, "actions": policy.outputs.names}
    props = {key: ", ".join(one) for key, one in names.items()}
    if policy.corrects:
        props["part"] = "the correction of a controller's action, which is not inside"
    helper.set_model_props(model, props)
    checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _choose(graph: _Graph, scores: str, choices: Choices) -> None:
    """Add the options that scores choose, whole numbers of shape (batch, decisions)."""
    options, axis = [], graph.constant([1], np.int64)
    for n, part in zip(choices.options, choices.parts, strict=True):
        ends = (graph.constant([end], np.int64) for end in (part.start, part.stop))
        mine = graph.add("Slice", scores, *ends, axis)
        if n == 2:
            second = graph.add("Greater", mine, graph.constant(0.0))
            options.append(graph.add("Cast", second, to=TensorProto.INT64))
        else:
            options.append(graph.add("ArgMax", mine, axis=1))
    taken = graph.add("Concat", *options, axis=1)
    graph.add("Add", taken, graph.constant(choices.first, np.int64), name="action")


class _Graph:
    """Nodes and constants of one precision, each with a unique name."""

    #: The observations.
    given = "observation"

    def __init__(self, precision: Precision) -> None:
        self.type, self.kind = TYPES[precision], _KINDS[precision]
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        name = name or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, value: Any, kind: Any = None) -> str:
        """Add numbers; return their name."""
        name = f"constant_{len(self.constants)}"
        array = np.array(value, dtype=kind or self.type)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def columns(self, numbers: list[int]) -> str:
        """Return some coordinates of the observations, shape (batch, len(numbers))."""
        return self.add("Gather", self.given, self.constant(numbers, np.int64), axis=1)


def _features(graph: _Graph, part: Part) -> str:
    """Return the observations as a factor's features, shape (batch, features)."""
    factor, rows = part.factor, []
    if factor.reads:
        plain = graph.columns(list(factor.reads))
        if factor.logarithmic:
            plain = _bent(graph, plain, [dict(factor.logarithmic).get(d) for d in factor.reads])
        rows.append(graph.add("MatMul", plain, graph.constant(factor.whitening.T)))
    for d, frequency, radius in factor.circles:
        angle = graph.add("Mul", graph.columns([d]), graph.constant(frequency))
        for wave in ("Cos", "Sin"):
            rows.append(graph.add("Mul", graph.add(wave, angle), graph.constant(radius)))
    return rows[0] if len(rows) == 1 else graph.add("Concat", *rows, axis=1)


def _bent(graph: _Graph, plain: str, sizes: list[float | None]) -> str:
    """Return c·asinh(x/c) for the coordinates x that have a size c."""
    size = graph.constant([1.0 if c is None else c for c in sizes])
    scaled = graph.add("Div", plain, size)
    # By the logarithm: some runtimes have asinh in single precision only.
    length, one = graph.add("Abs", scaled), graph.constant(1.0)
    root = graph.add("Sqrt", graph.add("Add", graph.add("Mul", length, length), one))
    logarithm = graph.add("Log", graph.add("Add", length, root))
    bent = graph.add("Mul", graph.add("Mul", graph.add("Sign", scaled), logarithm), size)
    return graph.add("Where", graph.constant([c is not None for c in sizes], bool), bent, plain)


def _values(graph: _Graph, part: Part, knots: NDArray[np.float64]) -> str:
    """Return a factor between the observations and all knots, shape (batch, L)."""
    factor, centres = part.factor, knots[:, part.start : part.stop]
    features = _features(graph, part)
    if factor.formula == "polynomial":
        product = graph.add("MatMul", features, graph.constant(centres.T))
        base = power = graph.add("Add", product, graph.constant(factor.bias))
        for _ in range(factor.degree - 1):
            power = graph.add("Mul", power, base)
        return power
    # By differences: products of large coordinates would cancel digits.
    one = graph.add("Unsqueeze", features, graph.constant([1], np.int64))
    apart = graph.add("Sub", one, graph.constant(centres[None]))
    last = graph.constant([2], np.int64)
    if factor.formula == "laplacian":
        total = graph.add("ReduceSum", graph.add("Abs", apart), last, keepdims=0)
        return graph.add("Exp", graph.add("Neg", total))
    square = graph.add("ReduceSum", graph.add("Mul", apart, apart), last, keepdims=0)
    if factor.formula == "gaussian":
        return graph.add("Exp", graph.add("Mul", square, graph.constant(-0.5)))
    rough = factor.formula == "matern32"
    r = graph.add("Mul", graph.add("Sqrt", square), graph.constant(math.sqrt(3 if rough else 5)))
    sum_ = graph.add("Add", r, graph.constant(1.0))
    if not rough:
        third = graph.add("Mul", graph.add("Mul", r, r), graph.constant(1.0 / 3.0))
        sum_ = graph.add("Add", sum_, third)
    return graph.add("Mul", sum_, graph.add("Exp", graph.add("Neg", r)))
