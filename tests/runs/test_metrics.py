"""Lines of metrics: means of what is known, and nothing where nothing is."""

import dataclasses
import json

import numpy as np
import pytest

from crosslearning import Constant, CrossLearner
from crosslearning.runs.metrics import Averages, late_multipliers
from tests.learner.examples import recorded_reports

NAN = np.nan


@pytest.fixture(scope="module")
def reports():
    learner = CrossLearner("linear-quadratic", max_knots=10, batch_size=2, step_size=0.1)
    return recorded_reports(learner, 3)


def line_of(reports, numbers, returns=None):
    """Return the line of iterations that reported these numbers."""
    averages = Averages(["a", "b", "c"])
    for k, (report, changes) in enumerate(zip(reports, numbers, strict=True)):
        changed = {"numbers": {name: np.array(values) for name, values in changes.items()}}
        if returns is not None:
            changed["returns"] = np.array(returns[k])
        averages.add(dataclasses.replace(report, **changed))
    return json.loads(json.dumps(averages.line(7)))


def test_what_is_known_is_averaged(reports):
    numbers = [
        {"lengths": [10.0, 20.0, 30.0], "crashed": [0.0, NAN, NAN]},
        {"lengths": [20.0, 20.0, 60.0], "crashed": [1.0, 0.5, NAN]},
        {"lengths": [30.0, 20.0, 30.0]},  # nobody could crash in this one
    ]
    line = line_of(reports, numbers)
    assert line["lengths"] == {"a": 20.0, "b": 20.0, "c": 40.0}
    assert line["crashed"] == {"a": 0.5, "b": 0.5, "c": None}


def test_a_name_that_came_and_went_stays_in_the_line(reports):
    line = line_of(reports, [{}, {"arrived": [1.0, NAN, 0.0]}, {}])
    assert line["arrived"] == {"a": 1.0, "b": None, "c": 0.0}


def test_returns_may_be_unknown_and_bounds_infinite(reports):
    returns = [[1.0, NAN, NAN], [3.0, -2.0, NAN], [5.0, NAN, NAN]]
    line = line_of(reports, [{"gap": [1.0, np.inf, 2.0]}] * 3, returns)
    assert line["return"] == {"a": 3.0, "b": -2.0, "c": None}
    assert line["gap"] == {"a": 1.0, "b": None, "c": 2.0}


def test_what_is_always_known_is_the_plain_mean_to_the_last_bit(reports):
    averages = Averages(["a", "b", "c"])
    for report in reports:
        averages.add(report)
    line = averages.line(0)
    expected = np.mean([report.returns for report in reports], axis=0)
    assert list(line["return"].values()) == expected.tolist()


def test_a_bound_on_the_distance_from_the_controller_has_multipliers_of_its_own(reports):
    learner = CrossLearner(
        "linear-quadratic", around=Constant([0.0]), epsilon=0.01, max_knots=10, batch_size=2,
        step_size=0.5,
    )  # fmt: skip
    around = recorded_reports(learner, 3)
    line = line_of(around, [{}] * 3)
    expected = np.mean([report.projection.bound_multipliers[:-1] for report in around], axis=0)
    np.testing.assert_allclose(list(line["controller_multiplier"].values()), expected)
    # Both radii are ε: a policy at its distance from the controller is held back by that one.
    late = late_multipliers([line], "abc", "controller_multiplier")
    assert np.all(late > 0.0)
    assert np.all(around[-1].distances >= 0.999 * 0.01)
    free = line_of(reports, [{}] * 3)
    assert "controller_multiplier" not in free
    assert late_multipliers([free], "abc", "controller_multiplier") is None
