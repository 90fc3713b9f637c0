"""Exports of policies with discrete actions: they give the options that scores choose."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from crosslearning import CrossLearner, Policy, Task
from crosslearning._base.choices import Choices
from crosslearning.errors import NumericalError
from crosslearning.export import export_policy
from crosslearning.export.c_compiler import compile_and_run, find_compiler
from crosslearning.export.onnx_graph import run_onnx
from crosslearning.export.structured_text import run_text
from crosslearning.rkhs import Family, Gaussian

SPACES = {
    "two": Discrete(2),
    "three": Discrete(3, start=-1),
    "several": MultiDiscrete([4, 2, 3], start=[1, 5, -7]),
}


class Drift(gymnasium.Env):
    """Two numbers that nothing moves."""

    observation_space = Box(-2.0, 2.0, (2,), np.float64)

    def __init__(self, space):
        self.action_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1.0, 1.0, 2), {}

    def step(self, action):
        return np.zeros(2), 0.0, False, False, {}


def learner_of(kind, **options):
    """Return a learner whose policies choose at random."""
    task = Task(kind, lambda: Drift(SPACES[kind]), horizon=20, **options)
    q, p = task.observation_size, task.action_size
    generator = np.random.default_rng(0)
    knots, weights = generator.uniform(-2, 2, (12, q)), generator.normal(size=(12, 1, p))
    start = Family(Gaussian(std=np.full(q, 0.7)), knots, weights)
    return CrossLearner([task], method="trust-region", start=start, epsilon=np.inf)


def policy_of(kind):
    return learner_of(kind).policy(0)


def options_of(policy, states):
    return np.reshape([policy.predict(state)[0] for state in states], (len(states), -1))


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize(
    ("target", "precision"),
    [("c", "double"), ("c", "float"), ("st", "float"), ("onnx", "double"), ("fmu", "double")],
)
def test_every_target_gives_options(kind, target, precision, tmp_path):
    if target in ("c", "fmu") and find_compiler() is None:
        pytest.skip("there is no C compiler")
    policy = policy_of(kind)
    made = export_policy(policy, target, tmp_path / f"p.{target}", precision)
    assert made.agreement.share <= 1e-5
    contract = json.loads(made.files[-1].read_text())
    low, high = policy.choices.ends
    assert contract["actions"]["low"] == low.tolist()
    assert contract["actions"]["high"] == high.tolist()
    assert contract["choices"] == policy.choices.to_dict()
    states = np.random.default_rng(1).uniform(-2, 2, (300, 2))
    states = states.astype(np.float32 if precision == "float" else np.float64)
    if target == "onnx":
        gave = run_onnx(made.files[0].read_bytes(), states)
        assert gave.dtype == np.int64
    elif target == "st":
        gave = run_text(made.files[0].read_text(), states, has_state=False)
    elif target == "c":
        files = {file.name: file.read_text() for file in made.files[:2]}
        gave = compile_and_run(find_compiler(), files, states).actions
    else:
        return  # the check before writing has run it
    wanted = options_of(policy, states)
    np.testing.assert_array_equal(gave, wanted)
    for column, n in zip(wanted.T, policy.choices.options, strict=True):
        assert len(set(column)) == n


def test_a_controller_with_lags_gives_options(tmp_path):
    controller = learner_of("several", lags=1).controller(0)
    for target in ("c", "st", "json"):
        made = export_policy(controller, target, tmp_path / f"p.{target}")
        assert made.agreement is None or made.agreement.share <= 1e-9
        contract = json.loads(made.files[-1].read_text())
        assert contract["actions"]["low"] == [1.0, 5.0, -7.0]


def test_a_pruned_policy_still_chooses(tmp_path):
    policy = policy_of("three")
    made = export_policy(policy, "json", tmp_path / "p.json", max_knots=8)
    assert Policy.load(made.files[0]).choices == policy.choices


def test_a_wrong_option_is_found_before_anything_is_written(tmp_path, monkeypatch):
    policy = policy_of("three")
    # Off by one: the numbers of the options are taken for their places.
    monkeypatch.setattr(Choices, "listed", lambda self, scores: self.taken(scores))
    with pytest.raises(NumericalError, match="does not do what the policy does"):
        export_policy(policy, "json", tmp_path / "p.json")
    assert not list(tmp_path.iterdir())


def test_options_fall_short_by_their_scores():
    choices = Choices((2, 3), (0, 1), (2,))
    scores = [[-0.5, 1.0, 3.0, 2.0]]
    for action, short in (([0, 2], [0, 0]), ([1, 3], [0.5, 1.0]), ([0.5, 4], [np.inf, np.inf])):
        np.testing.assert_allclose(choices.shortfalls(scores, [action]), [short])
