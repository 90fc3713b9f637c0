"""What a sweep may be asked for."""

import math

import numpy as np
import pytest

from crosslearning.errors import InputError
from crosslearning.learner import LearnerSettings
from crosslearning.learner.steps import StepRule
from crosslearning.runs import make_config
from crosslearning.sweep import held_out_tasks, read_epsilons
from crosslearning.sweep.request import epsilon_name, stage_settings
from tests.sweep.examples import small_request


def test_epsilons_are_read():
    assert read_epsilons("0, 0.5,1,inf") == (0.0, 0.5, 1.0, math.inf)
    assert read_epsilons(np.array([1, 2])) == (1.0, 2.0)
    assert str(read_epsilons("-0.0")[0]) == "0.0"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("0,1,0.5", "must ascend.*got 0.5 after 1"),
        ("0,-1", "at least 0.*got -1"),
        ("nan", "at least 0"),
        ("0,1,1.0", "epsilon 1 is given twice"),
        ("0,some", "numbers with commas"),
        ("", "numbers with commas"),
        ([], "no epsilons were given"),
        ([None], "numbers with commas"),
    ],
)
def test_epsilons_that_make_no_path_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        read_epsilons(given)


def test_every_radius_has_a_name_of_its_own():
    for epsilon in (0.0, 0.5, 1 / 3, math.nextafter(1 / 3, 1), 1e-7, math.inf):
        assert float(epsilon_name(epsilon)) == epsilon
    assert epsilon_name(2.0) == "2"


def test_a_later_stage_goes_on_with_the_decay_of_the_first():
    settings = LearnerSettings(step_size=2.0, step_decay=100.0, second_moment=0.0)
    changes = stage_settings(settings, first_iterations=300, seed=0, stage=2)
    changes.pop("seed")
    later = LearnerSettings(second_moment=0.0, **changes)
    ones = np.ones(1)
    for iteration in (0, 1, 50, 700):
        whole = StepRule(settings, ones).lengths(300 + iteration, ones)
        stage = StepRule(later, ones).lengths(iteration, ones)
        np.testing.assert_allclose(stage, whole, rtol=1e-12)


def test_other_step_rules_are_left_alone_and_stages_from_zero_too():
    adam = LearnerSettings(step_rule="adam")
    assert set(stage_settings(adam, 100, 0, 1)) == {"seed"}
    assert stage_settings(LearnerSettings(), 100, 7, 3, "zero") == {"seed": 7}


def test_every_stage_draws_numbers_of_its_own():
    seeds = [
        stage_settings(LearnerSettings(), 100, seed, stage)["seed"]
        for seed in range(5)
        for stage in range(5)
    ]
    assert len(set(seeds)) == 25
    assert seeds[::5] == [0, 1, 2, 3, 4]  # the first stage is the run that the seed gives


def test_stages_of_a_request():
    request = small_request()
    configs = [request.stage_config(1, stage) for stage in range(3)]
    assert [config.epsilon for config in configs] == [0.0, 0.2, 0.5]
    assert [config.iterations for config in configs] == [24, 12, 12]
    assert configs[1].step_size == configs[2].step_size < configs[0].step_size
    assert [request.learned(stage) for stage in range(3)] == [24, 36, 48]
    cold = small_request(origin="zero")
    assert [cold.stage_config(1, stage).iterations for stage in range(3)] == [24, 24, 24]
    assert [cold.learned(stage) for stage in range(3)] == [24, 24, 24]
    fan = small_request(origin="common")
    branches = [fan.stage_config(1, stage) for stage in range(3)]
    assert [config.iterations for config in branches] == [12, 12, 12]
    assert [fan.learned(stage) for stage in range(3)] == [36, 36, 36]
    # They differ in their radius alone, random numbers included.
    assert len({(config.seed, config.step_size) for config in branches}) == 1
    assert (fan.start_config(1).iterations, fan.start_config(1).seed) == (24, 1)
    with pytest.raises(InputError, match="did you mean 'common'"):
        small_request(origin="comon")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stage_iterations": 0}, "stage_iterations must be at least 1"),
        ({"trials": 0}, "trials must be at least 1"),
        ({"held_out": "linear-quadratic"}, "are those trained on"),
        ({"epsilons": (2.0, 1.0)}, "must ascend"),
    ],
)
def test_a_request_without_meaning_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        small_request(**changes)


def test_held_out_tasks():
    config = make_config({"task_options": {"crash": "terminate", "count": 4}})
    maps = held_out_tasks("random:3", config)
    assert len(maps) == 3
    assert {task.make().navigation.crash for task in maps} == {"terminate"}
    again = held_out_tasks("random:2", config)
    assert [task.name for task in again] == [task.name for task in maps[:2]]
    assert held_out_tasks(None, config) == ()
    assert len(held_out_tasks("paper-radii", config)) == 3
    for wrong in ("random", "random:", "random:x", "random:0", "random:-2"):
        with pytest.raises(InputError, match="such as random:50"):
            held_out_tasks(wrong, config)
    with pytest.raises(InputError, match="did you mean 'mission'"):
        held_out_tasks("misson", config)
