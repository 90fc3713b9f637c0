"""Exports: files, contracts, schemas, and what is refused."""

import copy
import dataclasses
import hashlib
import json
import sys
from importlib.resources import files

import gymnasium
import numpy as np
import pytest

from crosslearning import CrossLearner, Policy
from crosslearning._base.files import read_document
from crosslearning.errors import InputError, MissingExtraError, NumericalError
from crosslearning.export import export_policy, open_policy
from crosslearning.export.sources import rename
from crosslearning.export.states import expected_actions, states_for
from crosslearning.rkhs import PairKernel
from crosslearning.runs import make_config, train
from tests.contracts.test_kernels import rational_quadratic
from tests.export.examples import PLAIN, compare, policy_of

jsonschema = pytest.importorskip("jsonschema", reason="the extra dev is not installed")


def schema(name):
    text = files("crosslearning.export").joinpath(f"{name}.schema.json").read_text("utf-8")
    validator = jsonschema.Draft202012Validator(json.loads(text))
    validator.check_schema(validator.schema)
    return validator


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "pendulums"
    options = {"method": "trust-region", "tasks": "pendulums:2", "steps": 3000, "epsilon": 2.0}
    train(path, make_config(options))
    return path


@pytest.mark.parametrize("kernel", PLAIN.values(), ids=PLAIN)
def test_json_is_of_its_schema_and_is_the_policy(kernel, tmp_path):
    policy = policy_of(kernel)
    made = export_policy(policy, "json", tmp_path / "policy")
    assert [file.name for file in made.files] == ["policy.json", "policy.json.contract.json"]
    data = json.loads(made.files[0].read_text())
    schema("policy").validate(data)
    assert made.agreement.share < 1e-13
    assert Policy.load(made.files[0]).to_dict() == policy.to_dict()
    policy.save(tmp_path / "saved.json")
    assert (tmp_path / "saved.json").read_bytes() == made.files[0].read_bytes()


@pytest.mark.parametrize(
    "change", [{"knots": "none"}, {"kernel": {"kernel": "pair"}}, {"extra": 1}, {"rate": 0}]
)
def test_the_schema_refuses_what_is_no_policy(change):
    data = {"kind": "policy", "version": 1, **policy_of().to_dict()}
    schema("policy").validate(data)
    with pytest.raises(jsonschema.ValidationError):
        schema("policy").validate({**data, **change})


@pytest.mark.parametrize("target", ["json", "c"])
def test_the_contract_says_what_goes_in_and_out_and_where_it_comes_from(run, target, tmp_path):
    source = open_policy(run, "1")
    made = export_policy(source.policy, target, tmp_path / "new" / "policy", run=source.run)
    contract = read_document(made.files[-1], "contract", 1)
    schema("contract").validate(json.loads(made.files[-1].read_text()))
    assert contract["observations"]["names"][2] == "speed"
    assert contract["observations"]["units"] == [None, None, "rad/s"]
    assert contract["actions"]["low"] == [-2.0]
    assert contract["rate"] == 20.0
    source.policy.save(tmp_path / "policy.json")
    saved = json.loads((tmp_path / "policy.json").read_text())
    assert contract["policy_sha256"] == saved["sha256"]
    assert contract["policy"] == source.policy.name == contract["run"]["tasks"][1]
    digest = hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()
    assert contract["run"]["sha256"] == digest
    assert set(contract["files"]) == {file.name for file in made.files[:-1]}
    for file in made.files[:-1]:
        assert contract["files"][file.name] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_policies_of_a_run_are_opened_by_word_name_and_number(run):
    learner = CrossLearner.load(run / "model.safetensors")
    name = learner.tasks[0].name
    state = np.array([0.2, 0.1, 1.0])
    for which, policy in (
        (None, learner.central),
        ("central", learner.central),
        (name, learner.policy(0)),
        ("1", learner.policy(1)),
        ("average", learner.average),
    ):
        opened = open_policy(run, which).policy
        assert opened.name == policy.name
        np.testing.assert_array_equal(opened.mean(state), policy.mean(state))
        again = open_policy(run / "model.safetensors", which).policy
        np.testing.assert_array_equal(again.mean(state), policy.mean(state))
    both = [learner.policy(i).mean(state) for i in range(2)]
    np.testing.assert_allclose(learner.average.mean(state), np.mean(both, axis=0), rtol=1e-12)
    assert not np.allclose(learner.average.mean(state), both[0])


def test_an_export_takes_what_predict_takes_and_gives_what_it_gives(run):
    policy = open_policy(run).policy
    states = states_for(policy)
    np.testing.assert_array_equal(expected_actions(policy, states), policy.predict(states)[0])
    # Scaled to torques, though this policy, hardly trained, asks for none that is clipped.
    np.testing.assert_array_equal(expected_actions(policy, states), 2.0 * policy.mean(states))


def test_states_lie_inside_and_at_the_ends():
    policy = policy_of()
    low, high = policy.observations.ends
    states = states_for(policy)[: -len(policy.plain.knots)]
    assert np.all((low <= states) & (states <= high))
    for end in (low, high):
        assert np.all(np.sum(states == end, axis=0) > 200)
    endless = Policy("some", policy.function, np.ones(2), policy.action_space)
    knots = policy.plain.knots
    assert np.all(states_for(endless).min(axis=0) < knots.min(axis=0))
    assert np.all(np.isfinite(states_for(endless)))


@pytest.mark.parametrize("wrong", [1.001, 1.000001, np.nan])
def test_an_export_that_does_something_else_is_not_written(wrong, tmp_path, monkeypatch):
    policy = policy_of()
    with pytest.raises(NumericalError, match="does not do what the policy does"):
        compare(policy, lambda states: wrong * expected_actions(policy, states), "double")
    other = copy.copy(policy)
    other.mean = lambda states: wrong * policy.mean(states)
    monkeypatch.setattr(Policy, "from_dict", lambda _: other)
    with pytest.raises(NumericalError, match="Nothing was written"):
        export_policy(policy, "json", tmp_path / "policy.json")
    assert list(tmp_path.iterdir()) == []


def cancelling():
    """Return a policy whose actions are small differences of large weights."""
    data = policy_of().to_dict()
    knots, weights = np.array(data["knots"]), np.array(data["weights"])
    knots = np.concatenate([knots, knots + 1e-4])
    weights = np.concatenate([weights + 3e3, np.full_like(weights, -3e3)])
    return Policy.from_dict({**data, "knots": knots.tolist(), "weights": weights.tolist()})


@pytest.mark.parametrize("target", ["c", "onnx"])
def test_weights_that_cancel_in_floats_are_computed_in_doubles(target, tmp_path):
    if target == "onnx":
        pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    policy = cancelling()
    made = export_policy(policy, target, tmp_path / "policy", "float")
    if made.agreement is None:
        pytest.skip("this machine has no C compiler")
    assert made.arithmetic == "double"
    assert made.agreement.share <= 1e-6
    contract = read_document(made.files[-1], "contract", 1)
    assert (contract["precision"], contract["arithmetic"]) == ("float", "double")
    schema("contract").validate(json.loads(made.files[-1].read_text()))
    if target == "c":
        assert "typedef float policy_real;" in made.files[0].read_text()
    # Where floats are enough, it stays with them.
    assert export_policy(policy_of(), target, tmp_path / "plain", "float").arithmetic == "float"


def test_too_much_for_single_precision_is_refused():
    policy = policy_of()
    shaken = np.random.default_rng(0).normal(size=(4022, 2))
    with pytest.raises(NumericalError, match="export it with --precision double"):
        compare(policy, lambda states: expected_actions(policy, states) + 1e-3 * shaken, "float")


@pytest.mark.parametrize("theirs", ["main.c", "main.h"])
def test_only_exports_are_written_over(theirs, tmp_path):
    (tmp_path / theirs).write_text("mine")
    with pytest.raises(InputError, match=f"{theirs} is there and is no export of a policy"):
        export_policy(policy_of(), "c", tmp_path / "main.c")
    assert [path.name for path in tmp_path.iterdir()] == [theirs]
    for _ in range(2):
        export_policy(policy_of(), "json", tmp_path / "policy.json")


def test_without_a_compiler_c_is_written_and_not_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "")
    monkeypatch.setenv("PATH", "")
    made = export_policy(policy_of(), "c", tmp_path / "policy.c")
    assert (made.agreement, made.size, made.seconds) == (None, None, None)
    assert read_document(made.files[-1], "contract", 1)["largest_difference"] is None


def test_a_compiler_that_fails_is_reported_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", sys.executable)
    with pytest.raises(NumericalError, match="Set the variable CC to a C compiler that works"):
        export_policy(policy_of(), "c", tmp_path / "policy.c")
    assert list(tmp_path.iterdir()) == []


def test_without_onnx_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "crosslearning.export.onnx_graph", raising=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'crosslearning\[onnx\]'"):
        export_policy(policy_of(), "onnx", tmp_path / "policy")


@pytest.mark.parametrize(
    ("target", "out", "precision", "message"),
    [
        ("rust", "policy", "double", "no such target 'rust'"),
        ("c", "policy", "half", "no such precision 'half'"),
        ("c", "policy.h", "double", r"does not end in \.c"),
        ("json", "policy", "float", "JSON holds double precision"),
        ("json", ".", "double", "is a folder"),
    ],
)
def test_what_cannot_be_asked_is_refused(target, out, precision, message, tmp_path):
    with pytest.raises(InputError, match=message):
        export_policy(policy_of(), target, tmp_path / out, precision)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["json", "c", "onnx"])
def test_a_formula_of_the_users_is_refused_in_a_sentence(target, tmp_path):
    policy = policy_of(PairKernel(rational_quadratic, 3))
    with pytest.raises(InputError, match="'rational_quadratic' is a formula of its author's"):
        export_policy(policy, target, tmp_path / "policy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["c", "onnx"])
def test_a_formula_that_exports_do_not_know_is_refused(target, tmp_path):
    if target == "onnx":
        pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    policy = policy_of()
    (product,) = policy.plain.products
    factor = dataclasses.replace(product.factors[0], formula="cauchy")
    policy.plain.products = [dataclasses.replace(product, factors=(factor,))]
    with pytest.raises(InputError, match="cannot compute the kernel formula 'cauchy'; they know"):
        export_policy(policy, target, tmp_path / "policy")
    assert list(tmp_path.iterdir()) == []


def test_sources_that_are_none_are_refused(run, tmp_path):
    file = tmp_path / "policy.json"
    policy_of().save(file)
    for arguments, message in (
        ((tmp_path / "none",), "there is no"),
        ((tmp_path,), "holds no run"),
        ((file, "central"), "leave out --policy"),
        ((file, None, "pendulums:2"), "leave out --tasks"),
        ((run, "pendulum"), "no such policy 'pendulum'; known"),
        ((run, "7"), "no task 7"),
        ((run, None, None, True), "keeps no best evaluation"),
        ((run / "model.safetensors", None, None, True), "are those of a run"),
        ((run, None, "pendulums:3"), "was learned on"),
    ):
        with pytest.raises(InputError, match=message):
            open_policy(*arguments)


def test_tasks_can_be_given(run):
    named = open_policy(run, tasks="pendulums:2").policy
    assert named.observations.names[2] == "speed [rad/s]"


def test_numbers_can_be_named():
    policy = policy_of()
    rename(policy, ["a [m]", "b", "c [m/s]"], None, 50.0)
    assert policy.to_dict()["observations"]["units"] == ["m", None, "m/s"]
    assert (policy.rate, policy.actions.names) == (50.0, ("action 0", "action 1"))
    with pytest.raises(InputError, match="3 names were given for the 2 numbers of an action"):
        rename(policy, None, ["a", "b", "c"])
    with pytest.raises(InputError, match="give each a name of its own"):
        rename(policy, ["a", "a", "b"])
    with pytest.raises(InputError, match="give actions a second, more than 0"):
        rename(policy, rate=0.0)


def test_observations_and_actions_of_any_shape_are_flat(tmp_path):
    spaces = [gymnasium.spaces.Box(-1.0, 1.0, shape) for shape in ((2, 1), (1, 3))]
    function = policy_of().function
    policy = Policy("shaped", function, np.ones(2), spaces[0], observation_space=spaces[1])
    assert policy.predict(np.zeros((1, 3)))[0].shape == (2, 1)
    made = export_policy(policy, "c", tmp_path / "shaped")
    assert made.agreement is None or made.agreement.share < 1e-12
    assert "#define SHAPED_OBSERVATIONS 3" in made.files[0].read_text()
