"""What commands say of runs around a controller that is plain data."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crosslearning import StateFeedback, cli
from crosslearning.runs import RunFolder, make_config, train

RUN = {"tasks": "linear-quadratic", "method": "trust-region", "max_knots": 20, "iterations": 3}
SHORT = {"episode_steps": 10, "least_steps": 20, "keep": "last"}


@pytest.fixture
def controller(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "calm.json").write_text(json.dumps(StateFeedback([[0.5, 0.5]]).to_dict()))
    return "calm.json"


def said(*arguments):
    result = CliRunner().invoke(cli.app, [str(one) for one in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return " ".join(result.output.split())


def test_a_centre_that_nothing_moves_is_told_the_same_everywhere(controller):
    train("run", make_config({**RUN, **SHORT, "epsilon": 50.0, "around": controller}))
    learner = RunFolder.open("run").load()
    assert learner.family.norms()[-1] == 0.0
    states = np.random.default_rng(0).standard_normal((5, 2))
    mean = learner.family(states)[:, :-1].mean(axis=1)
    assert np.allclose(learner.central.function(states)[:, 0], mean)
    assert np.any(mean != 0.0)
    text = said("evaluate", "run", "--trials", 2)
    assert "it is the controller, and the central policy the mean of the corrections" in text
    assert "still zero" not in text
    text = said("compare", "run", "run", "--trials", 2)
    assert text.count("the central policy the mean of the corrections") == 1
    text = said("certify", "run", "--samples", 4)
    assert "it is the controller, and the policy called central is the mean of the correct" in text


def test_a_centre_that_moved_is_the_central_policy(controller):
    train("run", make_config({**RUN, **SHORT, "epsilon": 0.001, "around": controller,
                              "controller_epsilon": 0.5}))  # fmt: skip
    learner = RunFolder.open("run").load()
    assert learner.family.norms()[-1] > 0.0
    assert "mean of the corrections" not in said("evaluate", "run", "--trials", 2)
    assert "mean of the corrections" not in said("certify", "run", "--samples", 4)


def test_the_radii_of_a_sweep_bound_the_corrections_of_their_stages(controller):
    fields = [f"--{name.replace('_', '-')}={value}" for name, value in {**RUN, **SHORT}.items()]
    few = ("--seeds", 1, "--trials", 2, "--workers", 1, "--epsilons", "0,0.3")
    said("sweep", "--out", "sweep", "--around", controller, *fields, *few)
    stages = sorted((path.parent for path in Path("sweep").rglob("model.safetensors")), key=str)
    learners = [RunFolder.open(stage).load() for stage in stages]
    assert sorted(learner.settings.bound for learner in learners) == [0.0, 0.3]
    widest = max(learners, key=lambda learner: learner.settings.bound)
    assert widest.settings.action_std == (0.03,)  # a tenth
    assert 0.0 < widest.family.norms().max() <= 0.3
