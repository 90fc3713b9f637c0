"""Pointers to compiled functions: their rule, their copies, and how they are sent."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

from crosslearning._base.compiled import FunctionPointer, _package_stamp, compiled, pointer_to
from crosslearning.errors import InputError
from crosslearning.rkhs import formulas
from crosslearning.tasks.task import STEP


def plain_flow(parameters, state, action):
    return parameters[0] * state[0] + action[0]


@compiled
def named_flow(parameters, state, action):
    return parameters[0] * state[0] + action[0]


nameless_flow = compiled(lambda parameters, state, action: parameters[0] * state[0] + action[0])


@compiled
def call(step, parameters, state, action):
    return step(parameters, state, action)


def test_cached_code_depends_on_every_file_with_compiled_code():
    _, size = _package_stamp()
    assert size > 2 * Path(formulas.__file__).stat().st_size


def test_a_pointer_keeps_the_rule_of_its_function():
    # x·x − fl(x·x) is the rounding error if the two operations are fused, and else 0.
    x = np.array([1.0 + 2.0**-30])
    arguments = x, x, -x * x
    assert call(FunctionPointer(plain_flow, STEP), *arguments) == 0.0
    fused = call(FunctionPointer(named_flow, STEP), *arguments)
    assert fused == named_flow(*arguments)
    assert fused in (0.0, 2.0**-60)


def test_a_pointer_is_sent_by_name_and_copied_as_it_is():
    for function in (named_flow, plain_flow):
        pointer = pointer_to(function, STEP)
        assert pickle.loads(pickle.dumps(pointer)) is pointer
        assert copy.deepcopy(pointer) is pointer
        assert function.__name__.encode() in pickle.dumps(pointer)
    local = FunctionPointer(nameless_flow, STEP)
    assert copy.deepcopy(local) is local
    with pytest.raises(InputError, match="cannot be sent to another process"):
        pickle.dumps(local)
