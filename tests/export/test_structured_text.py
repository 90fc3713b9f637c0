"""Structured Text does what its policy or controller does, as its interpreter runs it."""

import dataclasses
import json
import os
import re
import shutil
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crosslearning.export.structured_text as module
from crosslearning import Constant
from crosslearning._base.files import read_document
from crosslearning.errors import InputError, NumericalError
from crosslearning.export import export_policy
from crosslearning.export.episodes import random_episodes
from crosslearning.export.st_interpreter import RESERVED, Block
from crosslearning.export.states import expected_actions, sensible_ends
from crosslearning.export.structured_text import compile_text, run_text, structured_text
from crosslearning.learner.deployment import LearnedController
from crosslearning.learner.policy import BoxSpec
from crosslearning.rkhs import Gaussian
from tests.export.examples import (
    CONTROLLERS,
    PLAIN,
    SETPOINTS,
    compare,
    controller_of,
    policy_of,
)
from tests.export.test_export import cancelling, schema
from tests.export.test_loop import EVERYTHING, LOOPS

pytestmark = pytest.mark.filterwarnings("ignore:the controller asks for the action")
FEW = {"episodes": 6, "steps": 12}


def agreement(exported, precision, arithmetic=None, **sizes):
    text = structured_text(exported, "policy", precision, arithmetic or precision)
    has_state = hasattr(exported, "loop")
    return compare(exported, lambda rows: run_text(text, rows, has_state), precision, **sizes)


@pytest.mark.parametrize("precision", ["double", "float"])
@pytest.mark.parametrize("kernel", PLAIN.values(), ids=PLAIN)
def test_every_kernel(kernel, precision):
    measured = agreement(policy_of(kernel, spread=0.5), precision)
    assert measured.states > 4000
    assert measured.share <= (1e-12 if precision == "double" else 1e-5)


def test_a_block_is_its_policy_in_ten_thousand_states(tmp_path):
    policy = policy_of()
    written = export_policy(policy, "st", tmp_path / "policy")
    assert [path.name for path in written.files] == ["policy.st", "policy.st.contract.json"]
    states = np.random.default_rng(0).uniform(*sensible_ends(policy), (10_000, 3))
    actions = run_text((tmp_path / "policy.st").read_text(), states, False)
    np.testing.assert_allclose(actions, expected_actions(policy, states), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("name", "options"), LOOPS.values(), ids=LOOPS)
def test_every_loop(name, options):
    controller = controller_of(CONTROLLERS[name], **options)
    assert agreement(controller, "double", **FEW).share <= 1e-12
    assert agreement(controller, "float", **FEW).share <= 1e-5


@settings(max_examples=6, deadline=None)
@given(
    name=st.sampled_from(sorted(CONTROLLERS)),
    lags=st.integers(0, 3),
    past=st.integers(0, 3),
    aims=st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from([0.1, "phase"])),
    rates=st.dictionaries(st.sampled_from(["push", "turn"]), st.floats(0.01, 1.0)),
    circles=st.sampled_from([[], [(0, 1)], [(2, 1)]]),
)
def test_any_loop(name, lags, past, aims, rates, circles):
    options = {"lags": lags, "past_actions": past, "setpoints": aims, "rates": rates}
    agreement(controller_of(CONTROLLERS[name], **options, circles=circles), "double", **FEW)


@pytest.mark.parametrize("precision", ["double", "float"])
def test_a_controller_around_a_learned_one(precision):
    once = controller_of(CONTROLLERS["pid"], **EVERYTHING, circles=[(0, 1)])
    agreement(controller_of(once, lags=1, setpoints=SETPOINTS), precision, **FEW)


def test_a_whole_controller_in_ten_thousand_steps(tmp_path):
    controller = controller_of(CONTROLLERS["pid"], bound=0.2, **EVERYTHING)
    written = export_policy(controller, "st", tmp_path / "policy.st")
    assert written.agreement.states == 10_000
    assert written.agreement.share < 1e-12
    schema("contract").validate(json.loads(written.files[-1].read_text()))
    text = written.files[0].read_text()
    assert "in_x: x [m], from -1 to 1" in text
    assert "out_push: push [N], from -1 to 1.5" in text
    assert "Call it 20 times a second; integrals and derivatives count on it." in text
    assert "differ from what the controller asks for by at most 0.25, 0.19,\n   before the" in text


def test_single_precision_is_told_and_left_where_weights_cancel(tmp_path):
    written = export_policy(cancelling(), "st", tmp_path / "policy", "float")
    assert (written.arithmetic, written.agreement.share < 1e-6) == ("double", True)
    contract = read_document(written.files[-1], "contract", 1)
    assert 0.0 < contract["largest_difference"] < 1e-5
    text = written.files[0].read_text()
    assert "in_observation_0 : REAL;" in text
    assert "total : ARRAY[0..1] OF LREAL;" in text
    # A policy without a loop needs no LREAL where floats are enough.
    export_policy(policy_of(), "st", tmp_path / "plain", "float")
    assert "LREAL" not in (tmp_path / "plain.st").read_text()


@pytest.mark.parametrize("precision", ["double", "float"])
def test_limits_and_rates_hold_exactly(precision):
    controller = controller_of(
        CONTROLLERS["pid-of-two"], rates={"push": 0.05, "turn": 0.2}, dtype=np.float64
    )
    spec, ends = controller.loop.spec, sensible_ends(controller.policy)
    rows = random_episodes(controller, ends, episodes=8, steps=40)
    actions = run_text(structured_text(controller, "policy", precision, precision), rows, True)
    assert np.all((actions >= spec.low) & (actions <= spec.high))
    changes = np.abs(np.diff(actions.reshape(8, 40, 2), axis=1))
    assert np.all(changes <= spec.rates)
    assert np.all(changes.max(axis=(0, 1)) > 0.99 * spec.rates)


@pytest.mark.parametrize("whole", [False, True])
def test_limits_that_rounding_would_pass_hold_exactly(whole):
    low, high = -0.1, 0.3  # the nearest floats are beyond both
    assert float(np.float32(low)) < low < high < float(np.float32(high))
    if whole:
        exported = controller_of(Constant([0.0, 0.2]), past_actions=1)
        spec = dataclasses.replace(exported.loop.spec, low=np.full(2, low), high=np.full(2, high))
        exported = LearnedController(exported.policy, spec)
        rows = random_episodes(exported, sensible_ends(exported.policy), episodes=4, steps=50)
    else:
        exported = policy_of()
        names = exported.actions.names
        exported.actions = BoxSpec(np.full(2, low), np.full(2, high), names)
        rows = np.random.default_rng(0).uniform(-1.0, 1.0, (300, 3))
    actions = run_text(structured_text(exported, "policy", "float", "float"), rows, whole)
    assert np.all((actions >= low) & (actions <= high))
    for end in (low, high):
        assert np.any(np.abs(actions - end) < 1e-7)


def test_what_is_no_number_is_refused_and_changes_nothing():
    controller = controller_of(CONTROLLERS["pid"], **EVERYTHING)
    text = structured_text(controller, "policy", "double", "double")
    block, other = Block(text), Block(text)
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (6, 3))
    names = block.names("VAR_INPUT")
    for number, state in enumerate(states):
        outputs = block(dict(zip(names, [number == 3, *state], strict=True)))
        assert outputs["valid"][0]
        if number in (1, 4):
            kept = other.numbers["out_push"].copy()
            for bad in (np.nan, np.inf, -np.inf):
                refused = other(dict(zip(names, [False, state[0], bad, 0.0], strict=True)))
                assert not refused["valid"][0]
                assert refused["out_push"] == kept
        if number == 3:  # a reset is none the less one
            assert not other(dict(zip(names, [True, np.nan, 0.0, 0.0], strict=True)))["valid"][0]
        again = other(dict(zip(names, [False, *state], strict=True)))
        assert all(np.array_equal(outputs[name], again[name]) for name in outputs)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("wanted := asked[i] + correction[i];", "wanted := asked[i];"),
        ("pid_error[i] := new_pid_error[i];", "pid_error[i] := 0.0;"),
        ("changes[i] := changes[i - 3];", "changes[i] := changes[i];"),
        ("past[i] := result[i];", "past[i] := asked[i];"),
        ("limited := new_limited;", "limited := FALSE;"),
        ("    begun := FALSE;", "    begun := begun;"),
        ("dist := dist + apart * apart;", "dist := dist + ABS(apart);"),
        ("turns := TRUNC((change[2] + 3.1", "turns := TRUNC((change[2] + 0.1"),
        ("IF result[0] > past[0] + largest THEN", "IF result[0] > 9.0 THEN"),
    ],
)
def test_a_wrong_line_is_noticed(line, wrong, tmp_path, monkeypatch):
    def spoilt(*arguments):
        text = structured_text(*arguments)
        assert text.count(line) == 1, line
        return text.replace(line, wrong)

    monkeypatch.setattr(module, "structured_text", spoilt)
    monkeypatch.setattr(random_episodes, "__defaults__", (20, 50, 0))
    pid = dataclasses.replace(CONTROLLERS["pid"], kd=0.3)
    controller = controller_of(pid, **{**EVERYTHING, "lags": 3})
    with pytest.raises(NumericalError, match="does not do what the policy does"):
        export_policy(controller, "st", tmp_path / "policy")
    assert list(tmp_path.iterdir()) == []


HOSTILE = ("*) END_FUNCTION_BLOCK (* \n", "IF", "if [*)]", "ε", "valid", "x__y_ [(*]")


def test_names_are_identifiers_and_cannot_break_out_of_a_comment():
    policy = policy_of(Gaussian(std=np.ones(6)), name="*) FUNCTION_BLOCK evil (*\n{{ 7 }}")
    ends = np.ones(6)
    policy.observations = BoxSpec(-ends, ends, HOSTILE)
    policy.actions = BoxSpec(-ends[:2], ends[:2], ("in x", "x" * 200))
    text = structured_text(policy, "policy", "double", "double")
    assert text.isascii()
    assert text.count("(*") == text.count("*)") == 1
    assert text.count("END_FUNCTION_BLOCK") == 2  # one of them in the comment
    block = Block(text)
    names = block.names("VAR_INPUT") + block.names("VAR_OUTPUT")
    assert names[:4] == ["in_end_function_block", "in_if", "in_2_if", "in_3"]
    assert len(set(names)) == len(names) == 9
    assert all(len(name) <= 32 and name.upper() not in RESERVED for name in names)
    assert max(map(len, text.splitlines())) <= 120
    agreement(policy, "double")


def test_lines_are_short_and_identifiers_plain():
    controller = controller_of(CONTROLLERS["policy"], **EVERYTHING)
    text = structured_text(controller, "policy", "double", "double")
    assert max(map(len, text.splitlines())) <= 100
    words = set(re.findall(r"[A-Za-z_]\w*", text[text.index("FUNCTION_BLOCK") :]))
    assert all("__" not in word and not word.endswith("_") for word in words)


@pytest.mark.parametrize("name", ["3d", "a__b", "a_", "my policy", "ε", "a" * 25])
def test_names_that_no_block_can_have_are_refused(name, tmp_path):
    with pytest.raises(InputError, match="cannot be in the name of a function block"):
        export_policy(policy_of(), "st", tmp_path / f"{name}.st")
    assert list(tmp_path.iterdir()) == []


def test_the_compiler_of_matiec_is_asked_if_it_is_there(tmp_path, monkeypatch):
    tool = tmp_path / "iec2c"
    tool.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no such type')\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(NumericalError, match="refuses the Structured Text, and nothing was"):
        export_policy(policy_of(), "st", tmp_path / "policy.st")
    assert [path.name for path in tmp_path.iterdir()] == ["iec2c"]


@pytest.mark.skipif(shutil.which("iec2c") is None, reason="MATIEC's iec2c is not installed")
@pytest.mark.parametrize("precision", ["double", "float"])
def test_matiec_compiles_it(precision):
    for name in ("all-around-pid-of-two", "circle-and-all", "all-around-policy"):
        around, options = LOOPS[name]
        controller = controller_of(CONTROLLERS[around], **options)
        compile_text(structured_text(controller, "policy", precision, precision))
    for kernel in PLAIN.values():
        compile_text(structured_text(policy_of(kernel), "policy", precision, precision))


# The interpreter --------------------------------------------------------------------------


def block_of(body, variables="", before=""):
    return (
        f"{before}FUNCTION_BLOCK FB_x VAR_INPUT a : LREAL; END_VAR VAR_OUTPUT b : LREAL; END_VAR\n"
        "VAR CONSTANT c : ARRAY[0..2] OF LREAL := [1.0, -2.5, 3.0E-2]; END_VAR\n"
        f"VAR i : DINT; n : DINT; s : REAL; t : BOOL; {variables} END_VAR\n"
        f"{body} END_FUNCTION_BLOCK"
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("b := a + 2.0 * 3.0 - -1.0;", lambda a: a + 7.0),
        ("b := 1.0 - 2.0 - 3.0 + 8.0 / 4.0 / 2.0 + a * 0.0;", lambda a: -3.0 + 0.0 * a),
        ("b := 1.0; IF a > 0.0 THEN b := 2.0; ELSE b := 3.0; END_IF;", lambda a: 3.0 - (a > 0)),
        ("b := 1.0; IF a < 0.0 THEN RETURN; END_IF; b := 2.0;", lambda a: 1.0 + (a >= 0)),
        ("b := 0.0; FOR i := 2 TO 0 BY -1 DO b := 10.0 * b + c[i]; END_FOR;", lambda _: -21.0),
        ("b := a; FOR i := 1 TO 0 DO b := 9.0; END_FOR;", lambda a: a),
        ("n := TRUNC(a); b := DINT_TO_LREAL(n);", np.trunc),
        ("s := LREAL_TO_REAL(a); b := REAL_TO_LREAL(s);", lambda a: a.astype(np.float32)),
        ("b := EXP(a) + SQRT(ABS(a));", lambda a: np.exp(a) + abs(a) ** 0.5),
        ("b := ATAN(a) * COS(a) - SIN(a);", lambda a: np.arctan(a) * np.cos(a) - np.sin(a)),
        ("t := a > 0.0 AND NOT (a > 1.0) OR a = -2.7; b := 0.0; IF t THEN b := 1.0; END_IF;",
         lambda a: ((a > 0) & (a <= 1) | (a == -2.7)) * 1.0),
    ],
)  # fmt: skip
def test_the_interpreter_computes(body, expected):
    given = np.array([-2.7, -0.1, 0.0, 0.4, 1.9])
    block = Block(block_of(body), 5)
    np.testing.assert_allclose(block({"A": given})["b"], expected(given), rtol=1e-15)


def test_the_interpreter_keeps_variables_from_call_to_call_and_runs_functions():
    function = (
        "FUNCTION twice : LREAL VAR_INPUT x : LREAL; END_VAR\nVAR y : LREAL; END_VAR\n"
        "y := y + 2.0 * x; IF x > 1.0 THEN y := 0.0; END_IF; twice := y; END_FUNCTION\n"
    )
    block = Block(block_of("u := u + twice(a); b := u;", "u : LREAL;", function), 2)
    for number in (1, 2, 3):
        given = block({"a": [0.5, 2.0]})["b"]
        np.testing.assert_array_equal(given, [float(number), 0.0])


@pytest.mark.parametrize(
    ("body", "variables", "message"),
    [
        ("b := s;", "", "LREAL and REAL are mixed|REAL and LREAL are mixed"),
        ("b := i;", "", "are mixed without a conversion"),
        ("b := a + n;", "", "are mixed without a conversion"),
        ("b := 1;", "", "are mixed without a conversion"),
        ("IF a THEN b := 1.0; END_IF;", "", "are mixed without a conversion"),
        ("b := u;", "", "u is not declared"),
        ("a := 1.0;", "", "a cannot be assigned"),
        ("c[0] := 1.0;", "", "c cannot be assigned"),
        ("b := c[3];", "", "beyond its 3 numbers"),
        ("b := c[0 - 1];", "", "beyond its 3 numbers"),
        ("b := c[a];", "", "are mixed without a conversion"),
        ("", "step : LREAL;", "step is reserved"),
        ("", "A : LREAL;", "a is declared twice"),
        ("", "u__v : LREAL;", "not of the subset"),
        ("", "u : WORD;", "there is no type WORD"),
        ("", "u : ARRAY[0..1] OF REAL := [1.0];", "has 1 numbers for 2"),
        ("b := a ** 2.0;", "", "expected"),
        ("b := FOO(a);", "", "there is no function FOO"),
        ("WHILE TRUE DO b := 1.0; END_WHILE;", "", "is reserved"),
        ("FOR s := 0 TO 1 DO b := 1.0; END_FOR;", "", "counts, but is no variable"),
        ("b := 1.0", "", "; was expected"),
        ("b := .5;", "", "not of the subset"),
        ("b := 1.0; END_FUNCTION_BLOCK b", "", "nothing more was expected"),
    ],
)
def test_the_interpreter_refuses_what_is_outside(body, variables, message):
    with pytest.raises(NumericalError, match=message):
        Block(block_of(body, variables))({"a": [1.0]})
