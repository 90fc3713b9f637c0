"""The benchmarks of models measure what they say, and keep what they measured."""

import numpy as np
import pytest

from benchmarks import models_adaptation as adaptation
from benchmarks import models_known_reward as known_reward
from crosslearning._base.statistics import student
from crosslearning.tasks import task_set

TINY = {"round_steps": 10, "updates_per_round": 2, "rollouts": 4, "look_ahead": 5, "max_knots": 20}


@pytest.mark.filterwarnings("ignore:the central policy is still zero")
def test_adaptation_is_measured_once(tmp_path, monkeypatch):
    monkeypatch.setattr(adaptation, "TRIALS", 2)
    monkeypatch.setattr(adaptation, "STEPS", 20)
    asked = {"machines": 2, "seeds": 2, "family_steps": 10, **TINY}
    first = adaptation.measure(tmp_path, **asked)
    machines = [one for seed in first for one in seed]
    assert [one["steps"] for one in machines] == [adaptation.STEPS] * 4
    assert [one["steps alone"] for one in machines] == [adaptation.STEPS] * 4
    (row,) = adaptation.rows(first)
    assert row.what.startswith("4 machines never seen")
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert adaptation.measure(tmp_path, **asked) == first
    assert files == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}


def test_the_interval_is_over_seeds_whose_machines_share_a_family():
    # Machines of a seed that agree tell no more than one of them.
    seeds = [-150.0, -170.0, -190.0]
    result = [[dict.fromkeys(adaptation.WAYS, value)] * 5 for value in seeds]
    (row,) = adaptation.rows(result)
    assert f"alone {student(seeds)}" in row.measured


def test_the_formula_is_what_the_pendulum_pays():
    (task,) = task_set("pendulums:1")
    environment = task.make()
    seen, _ = environment.reset(seed=0)
    for push in (0.5, -1.7, 2.0):
        after, reward, *_ = environment.step(np.array([push]))
        text = known_reward.pay(seen[None], np.array([[push]]), after[None])
        assert text[0] == pytest.approx(reward, abs=1e-12)
        seen = after
