"""The length of learning, in iterations or in environment steps."""

import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.errors import InputError
from tests.learner.examples import assert_same_bits

SMALL = {"max_knots": 20, "batch_size": 2, "step_size": 0.1, "seed": 2}


def small():
    return CrossLearner("linear-quadratic", **SMALL)


def test_steps_are_taken_from_here_on_while_there_are_enough():
    taken = []
    learner = small().learn(3)
    before = learner.steps
    learner.learn(steps=700, callback=lambda report: taken.append(report.steps))
    assert learner.steps == before + sum(taken) <= before + 700
    needed = learner.method.steps_needed(learner._core.iterate)
    assert sum(taken) + needed > 700
    assert_same_bits(learner.family, small().learn(3 + len(taken)).family)
    # One more iteration needs that many, and no more.
    assert learner.learn(steps=before + 700 - learner.steps).iteration == 3 + len(taken)
    assert learner.learn(steps=needed).iteration == 4 + len(taken)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "iterations is None and steps is None; give one of the two"),
        ({"iterations": 3, "steps": 4}, "iterations is 3 and steps is 4; give one of the two"),
        ({"steps": -1}, "steps must be a whole number of at least 0, got -1"),
        ({"steps": 1.5}, "steps must be a whole number"),
        ({"iterations": "many"}, "iterations must be a whole number of at least 0, got 'many'"),
        ({"iterations": np.inf}, "iterations must be a whole number"),
        ({"steps": 10**30}, "steps is 10+, which no run comes to; give at most 10+$"),
    ],
)
def test_a_wrong_length_is_refused(given, message):
    learner = small()
    with pytest.raises(InputError, match=message):
        learner.learn(**given)
    assert learner.iteration == 0


@pytest.mark.parametrize("length", [{"iterations": np.int64(2)}, {"iterations": 2.0}])
def test_whole_numbers_of_any_type_will_do(length):
    assert small().learn(**length).iteration == 2
    assert small().learn(steps=0).iteration == 0


def test_every_callback_sees_every_iteration_and_any_may_stop():
    seen = {"first": [], "second": []}

    def first(report):
        seen["first"].append(report.iteration)
        return report.iteration == 3

    learner = small().learn(9, [first, lambda report: seen["second"].append(report.iteration)])
    assert learner.iteration == 3
    assert seen == {"first": [1, 2, 3], "second": [1, 2, 3]}
    assert learner.learn(1, None).iteration == 4


def test_looking_at_a_learner_decides_nothing():
    learner, other = (CrossLearner("pendulums:2", max_knots=30) for _ in range(2))
    assert "method=None" in repr(learner)
    assert (learner.iteration, learner.steps) == (0, 0)
    for one in (learner, other):
        one.learn(steps=40, progress=False)
    assert learner.settings.method == "models"
    assert_same_bits(learner.family, other.family)


def test_settings_of_two_methods_leave_the_choice_to_the_steps():
    few = CrossLearner("pendulums:2", trace=0.9, max_knots=30).learn(steps=40, progress=False)
    assert few.settings.method == "models"
    assert CrossLearner("paper", trace=0.9).settings.method == "trust-region"
    assert CrossLearner("pendulums:2", step_rule="adam").settings.method == "policy-gradient"


def test_steps_that_are_too_few_are_refused_before_any_is_taken():
    learner = CrossLearner("pendulums:2", method="trust-region", max_knots=30)
    with pytest.raises(
        InputError, match=r"steps is 100, but the first iteration of trust-region needs 427"
    ):
        learner.learn(steps=100, progress=False)
    assert learner.steps == 0
    assert 320 < learner.learn(steps=427, progress=False).steps <= 427
    assert learner.iteration == 1
