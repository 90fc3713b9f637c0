"""Policies as files: what is kept, what is refused, and what loading does not need."""

import json
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from crosslearning import CrossLearner, Policy
from crosslearning.errors import CrossLearningError, FileFormatError, InputError
from crosslearning.learner.evaluation import evaluate
from crosslearning.rkhs import Family, PairKernel
from tests.contracts.test_kernels import KERNELS, rational_quadratic
from tests.learner.examples import drift

PLAIN = {name: kernel for name, kernel in KERNELS.items() if "pair" not in name}


def policy_of(kernel=KERNELS["gaussian-periodic"]):
    generator = np.random.default_rng(1)
    function = Family(kernel, generator.normal(size=(6, 3)), generator.normal(size=(6, 1, 2)))
    space = gymnasium.spaces.Box(np.float32([-1.0, -np.inf]), np.float32([0.7, 2.0]))
    return Policy("some", function, np.array([0.5, 0.1]), space, discount=0.9)


@pytest.mark.parametrize("kernel", PLAIN.values(), ids=PLAIN)
def test_a_saved_policy_acts_as_before(kernel, tmp_path):
    policy = policy_of(kernel)
    policy.save(tmp_path / "some.json")
    loaded = Policy.load(tmp_path / "some.json")
    assert loaded.to_dict() == policy.to_dict()
    states = np.random.default_rng(2).normal(size=(500, 3))
    actions, _ = loaded.predict(states)
    assert actions.dtype == np.float32
    np.testing.assert_allclose(actions, policy.predict(states)[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(loaded.mean(states), policy.mean(states), rtol=1e-11, atol=1e-12)
    # The compiled function is there for whoever asks: the same knots and weights, so the same bits.
    np.testing.assert_array_equal(loaded.function(states)[:, 0], policy.mean(states))
    noisy = [one.seed(3).predict(states, deterministic=False)[0] for one in (policy, loaded)]
    np.testing.assert_allclose(*noisy, rtol=1e-5, atol=1e-6)
    assert loaded.action_space == policy.action_space


def test_policies_of_a_learner_keep_scale_shape_and_discount(tmp_path):
    learner = CrossLearner([drift("one", bound=3.0), drift("two", bound=3.0)]).learn(1)
    for policy in (learner.policy(0), learner.policy("two"), learner.central):
        policy.save(tmp_path / "policy.json")
        loaded = Policy.load(tmp_path / "policy.json")
        assert (loaded.name, loaded.discount) == (policy.name, learner.settings.gamma)
        np.testing.assert_array_equal(loaded.scale.half, [3.0, 3.0])
        observation = np.array([0.3, -0.2])
        np.testing.assert_allclose(
            loaded.predict(observation)[0], policy.predict(observation)[0], rtol=1e-6
        )
    before, after = evaluate([learner.central, loaded], learner.tasks[:1], trials=3, horizon=5)
    assert before.total_return == after.total_return


def test_a_policy_that_has_learned_nothing_can_be_kept(tmp_path):
    learner = CrossLearner("paper")
    learner.central.save(tmp_path / "zero.json")
    loaded = Policy.load(tmp_path / "zero.json")
    np.testing.assert_array_equal(loaded.predict([2.0, 0.1, 4.0, -0.2, 0.5])[0], [0.0, 0.0])
    assert len(loaded.function.knots) == 0


def test_loading_needs_numpy_alone(tmp_path):
    policy_of().save(tmp_path / "some.json")
    # As if nothing but NumPy and this package were installed.
    code = f"""
import sys
class Bare:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {{*sys.stdlib_module_names, "numpy", "crosslearning"}}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Bare())
from crosslearning import Policy
action, _ = Policy.load({str(tmp_path / "some.json")!r}).predict([0.1, 0.2, 0.3])
assert action.shape == (2,)
print([name for name in ("numba", "gymnasium", "safetensors") if name in sys.modules])
"""
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == "[]"


def test_a_kernel_of_the_users_formula_is_refused(tmp_path):
    policy = policy_of(PairKernel(rational_quadratic, dimension=3))
    with pytest.raises(InputError, match="files never carry code"):
        policy.save(tmp_path / "own.json")
    assert not (tmp_path / "own.json").exists()


def change(data, path, value):
    *outer, last = path
    for key in outer:
        data = data[key]
    if value is None:
        del data[last]
    else:
        data[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["knots"], [[1.0, 2.0]], r"knots must be finite numbers of shape \(None, 3\)"),
        (["weights"], [[1.0, 2.0]], r"weights must be finite numbers of shape \(6, 2\)"),
        (["weights", 0, 0], "much", "do not fit"),
        (["weights", 0, 0], float("inf"), "weights must be finite"),
        (["kernel", "kernel"], "gausian", "'gausian' is not known"),
        (["kernel"], None, "lacks 'kernel'"),
        (["kernel"], 3, "do not fit"),
        (["scale", "half"], [1.0], "half must be finite numbers"),
        (["actions", "dtype"], "int8", "expected floating point"),
        (["actions", "low"], [3.0, 3.0], "low end above its high one"),
        (["actions", "shape"], [float("inf")], "do not fit"),
        (["actions", "low"], [float("nan"), -1.0], "or none at all"),
        (["actions", "low"], [float("inf"), -1.0], "low end above its high one"),
        (["actions", "names"], ["a", "a"], "a name of its own"),
        (["version"], 2, "install a newer crosslearning"),
        (["kind"], "learner", "holds a learner, expected a policy"),
    ],
)
def test_damaged_files_are_refused_by_name(path, value, message, tmp_path):
    file = tmp_path / "some.json"
    policy_of().save(file)
    data = json.loads(file.read_text())
    change(data, path, value)
    file.write_text(json.dumps(data))
    # What was edited no longer fits its checksum; who takes that off is told what is wrong.
    if path[0] not in ("version", "kind"):
        with pytest.raises(FileFormatError, match="its checksum does not match"):
            Policy.load(file)
    del data["sha256"]
    file.write_text(json.dumps(data))
    with pytest.raises(CrossLearningError, match=message):
        Policy.load(file)


def test_what_is_no_policy_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        Policy.load(tmp_path / "none.json")
    file = tmp_path / "some.json"
    for content, message in (
        (b"", "damaged, cut short, or no JSON"),
        (b"[" * 100_000, "damaged, cut short, or no JSON"),
        (b"[1]", "is not a crosslearning file"),
        (b"{}", "is not a crosslearning file"),
        (b"\xff\xfe", "damaged"),
    ):
        file.write_bytes(content)
        with pytest.raises(FileFormatError, match=message):
            Policy.load(file)
