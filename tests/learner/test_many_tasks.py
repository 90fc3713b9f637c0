"""Learning very many tasks: new knots are folded, and everything promised of a learner holds."""

import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.rkhs import dictionary as dictionaries

SMALL = {"max_knots": 16, "batch_size": 1, "seed": 2}


@pytest.fixture(autouse=True)
def many(monkeypatch):
    """Let so few tasks count as many."""
    monkeypatch.setattr(dictionaries, "MANY_WEIGHTS", 0)


@pytest.mark.parametrize("rule", ["decaying", "adam"])
@pytest.mark.parametrize("projection", ["exact", "relaxed", "free"])
def test_the_constraint_and_the_cap_hold(rule, projection):
    learner = CrossLearner("random:24", 1.0, step_rule=rule, projection=projection, **SMALL)
    reports = []
    learner.learn(6, reports.append, progress=False)
    for report in reports:
        assert report.pruning.knots <= 16
        assert report.pruning.errors.shape == (49 if rule == "adam" else 25,)
    assert reports[-1].pruning.removed >= 24 - 16
    squares = learner.family.distances() ** 2
    assert (np.max(squares) if projection == "exact" else np.mean(squares)) <= 1.0 + 1e-9


def test_a_saved_learner_goes_on_to_the_same_bits(tmp_path):
    half = CrossLearner("random:24", 1.0, **SMALL).learn(3, progress=False)
    half.save(tmp_path / "half.safetensors")
    half.learn(3, progress=False)
    other = CrossLearner.load(tmp_path / "half.safetensors").learn(3, progress=False)
    np.testing.assert_array_equal(half.family.knots, other.family.knots)
    np.testing.assert_array_equal(half.family.weights, other.family.weights)


def test_many_samples_a_task_are_taken_in_parts():
    learner = CrossLearner("random:24", 1.0, **{**SMALL, "batch_size": 4})
    learner.learn(3, progress=False)
    assert len(learner.family.knots) <= 16
    assert np.max(learner.family.distances()) <= 1.0 + 1e-9
