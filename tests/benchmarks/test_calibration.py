"""The benchmark of calibration: what counts as covered, and one tiny question."""

import numpy as np
import pytest

from benchmarks import calibration
from crosslearning import CrossLearner, task_set


def test_bands_hold_the_share_of_ranks_that_they_say():
    every = np.arange(100) / 99.0
    assert calibration.covered(every, 0.9) == pytest.approx(0.9)
    assert calibration.covered(every, 0.5) == pytest.approx(0.5)
    sure = np.array([np.zeros(8), np.full(8, 0.5)])
    np.testing.assert_array_equal(calibration.covered(sure, 0.9), [0.0, 1.0])


def test_ranks_are_of_what_changes_and_of_the_reward(monkeypatch):
    monkeypatch.setattr(calibration, "EPISODES", 1)
    monkeypatch.setattr(calibration, "STRIDE", 20)
    tasks = task_set("hovering-masses:2", seed=0)
    learner = CrossLearner(tasks, method="models", seed=0, updates_per_round=2, round_steps=20)
    learner.learn(1)
    names, ranks = calibration.ranks(learner, 0)[1]
    assert names == ["observation 0", "observation 1", "reward"]
    assert ranks.shape == (3, 4)
    assert np.all((ranks >= 0.0) & (ranks <= 1.0))
    again = calibration.ranks(learner, 0)[1][1]
    np.testing.assert_array_equal(ranks, again)
