"""How many lags pay, by the evidence of models."""

import numpy as np
import pytest

from crosslearning import Task, learn_from
from crosslearning.analysis.lags import LagEvidence, lag_evidence
from crosslearning.errors import InputError
from tests.learner.examples import Drift


def cart(steps=60, seed=0):
    """Return a log of a place whose speed is not measured."""
    push = np.random.default_rng(seed).normal(size=(steps, 1))
    place = np.vstack([[[0.0]], np.cumsum(np.cumsum(push, axis=0), axis=0)])
    return {"observations": place, "actions": push, "rewards": -push[:, 0]}


def test_a_hidden_speed_needs_one_lag():
    found = lag_evidence({"one": [cart()], "two": [cart(seed=1)]}, most=1)
    assert found.evidence[1] > found.evidence[0] + 1.0
    assert found.chosen == 1


def test_what_is_measured_needs_none():
    task = Task("drift", lambda render_mode=None: Drift(), horizon=40)
    assert lag_evidence([task], most=1, steps=40).chosen == 0


def test_the_fewest_lags_with_nearly_the_greatest_evidence_are_chosen():
    assert LagEvidence((-1.0, 2.0, 2.01)).chosen == 1
    assert LagEvidence((2.0, 1.0)).chosen == 0


@pytest.mark.parametrize("most", [0, 21, 1.5, True])
def test_a_wrong_number_of_lags_is_refused(most):
    with pytest.raises(InputError, match="most is"):
        lag_evidence({"one": [cart()]}, most)


def test_too_few_steps_are_refused():
    with pytest.raises(InputError, match="steps are left after the first 3"):
        lag_evidence({"one": [cart(steps=10)]}, most=3)


def test_names_of_a_table_are_those_of_its_columns(tmp_path):
    log, rows = cart(), ["place,push,paid"]
    for x, a, r in zip(log["observations"], log["actions"], log["rewards"], strict=False):
        rows.append(f"{x[0]},{a[0]},{r}")
    (tmp_path / "log.csv").write_text("\n".join(rows))
    columns = {"observations": ["place"], "actions": ["push"], "reward": "paid"}
    task = {"lags": 1, "limits": {"place": (None, 1e6)}}
    learner = learn_from(
        tmp_path / "log.csv", columns=columns, task=task, iterations=2, progress=False
    )
    assert learner.tasks[0].observation_names == ("place", "change 1 of place")
    assert learner.tasks[0].state_limits == {0: (None, 1e6)}
