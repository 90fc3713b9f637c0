"""Runs of the last version are read, evaluated and gone on with by this one."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.rkhs import Family
from crosslearning.runs import RunFolder, resume

OLD = Path(__file__).parents[1] / "files" / "version-1"


@pytest.fixture(params=["finished", "interrupted"])
def old(request, tmp_path):
    shutil.copytree(OLD / request.param, tmp_path / "run")
    return tmp_path / "run"


def test_an_old_run_is_loaded_and_gone_on_with(old):
    begun = RunFolder.open(old).load()
    assert begun.iteration in (13, 20)
    outcome = resume(old)
    assert outcome.finished
    assert outcome.learner.iteration == 20
    lines = RunFolder.open(old).read_metrics()
    assert [line["iteration"] for line in lines][-1] == 20
    # What was written anew is of this version, and loads too.
    model = CrossLearner.load(old / "model.safetensors")
    np.testing.assert_array_equal(model.family.weights, outcome.learner.family.weights)


def test_an_old_checkpoint_leads_to_the_old_model():
    old = OLD / "finished"
    half = CrossLearner.load(old / "checkpoints" / "iteration-00000010.safetensors")
    assert half.settings.step_rule == "adam"
    whole = CrossLearner.load(old / "model.safetensors")
    # Another machine may round otherwise.
    again = half.learn(10).family
    np.testing.assert_allclose(again.weights, whole.family.weights, rtol=1e-6, atol=1e-9)
    snapshot = Family.load(old / "snapshots" / "iteration-00000020.safetensors")
    np.testing.assert_array_equal(snapshot.weights, whole.family.weights)
