"""The plan names the machine of which least is known, and says when data change nothing."""

import dataclasses

import numpy as np
import pytest

from crosslearning import CrossLearner, learn_from
from crosslearning.analysis.plan import Plan, PlannedMachine, plan
from crosslearning.errors import InputError

SETTINGS = {"iterations": 5, "rollouts": 4, "look_ahead": 10, "progress": False}


def drive(gain, steps, seed):
    """A cart whose response is bent, so that few steps do not tell all of it."""
    draw = np.random.default_rng(seed)
    x, pushes = [draw.uniform(-1.0, 1.0, 1)], draw.uniform(-1.0, 1.0, (steps, 1))
    for push in pushes:
        x.append(0.9 * x[-1] + gain * np.sin(3.0 * push) + 0.01 * draw.standard_normal(1))
    return {"observations": np.array(x), "actions": pushes, "rewards": -np.square(x[1:])[:, 0]}


@pytest.fixture(scope="module")
def learner():
    log = {"known": [drive(0.2, 60, 0)], "little known": [drive(0.4, 6, 1)]}
    return learn_from(log, model_epsilon=np.inf, **SETTINGS)


@pytest.mark.filterwarnings("ignore:policies leave the data")
def test_the_least_known_machine_teaches_most(learner):
    found = plan(learner, round_steps=20)
    first, second = found.machines
    assert (first.task, first.steps) == ("little known", 6)
    assert first.spread > second.spread
    assert first.teaches > second.teaches
    # Apart (ε_m = ∞) a machine teaches itself alone.
    assert first.teaches == pytest.approx(first.teaches_itself / 2.0, abs=0.1 * first.spread)
    assert found.more_data_helps
    assert str(found).startswith("Next: little known. A round of 20 steps")
    assert plan(learner, round_steps=20) == found


def test_it_says_when_more_data_change_nothing(learner):
    known = PlannedMachine("a", 50, -10.0, 0.01, 0.005, 0.004)
    assert str(Plan((known,), 20, 10.0)).startswith("More data change nothing")
    unsure = dataclasses.replace(known, spread=1.0)
    assert Plan((unsure,), 20, 10.0).more_data_helps
    # What no round would reduce does not ask for one.
    assert not Plan((dataclasses.replace(unsure, teaches=-0.1),), 20, 10.0).more_data_helps


def test_it_needs_models(learner):
    with pytest.raises(InputError, match="method 'models'"):
        plan(CrossLearner("paper"))
    with pytest.raises(InputError, match="samples is 1"):
        plan(learner, samples=1)
