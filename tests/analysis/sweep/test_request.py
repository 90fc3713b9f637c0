"""What a sweep may be asked for."""

import math

import numpy as np
import pytest

from crosslearning.analysis.sweep import EpsilonPath, held_out_tasks, read_epsilons
from crosslearning.analysis.sweep.stages import epsilon_name
from crosslearning.analysis.sweep.study import check_held_out
from crosslearning.errors import InputError
from crosslearning.learner import make_settings
from crosslearning.learner.policy_gradient import StepRule
from crosslearning.runs import make_config
from crosslearning.tasks import task_set
from tests.analysis.sweep.examples import small_request


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
        ("0,1,1.0", "each be given once; got 1 after 1"),
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


def path_of(origin="previous", first=100, radii=5):
    return EpsilonPath(tuple(range(radii)), first, 50, origin)


def test_a_later_stage_goes_on_with_the_decay_of_the_first():
    settings = make_settings({"step_size": 2.0, "step_decay": 100.0, "second_moment": 0.0})
    changes = path_of(first=300).stages(settings, seed=0)[2].changes
    later = make_settings({"second_moment": 0.0, **changes, "seed": 0})
    assert later.step_size < settings.step_size
    ones = np.ones(1)
    for iteration in (0, 1, 50, 700):
        whole = StepRule(settings, ones).step(300 + iteration, ones)[0]
        stage = StepRule(later, ones).step(iteration, ones)[0]
        np.testing.assert_allclose(stage, whole, rtol=1e-12)


def test_other_step_rules_are_left_alone_and_stages_from_zero_too():
    adam = make_settings({"step_rule": "adam"})
    assert set(path_of().stages(adam, 0)[1].changes) == {"seed"}
    assert path_of("zero").stages(make_settings({}).resolved(False, 50), 7)[3].changes == {
        "seed": 7
    }


def test_every_stage_draws_numbers_of_its_own():
    seeds = [
        stage.changes["seed"]
        for seed in range(5)
        for stage in path_of().stages(make_settings({}).resolved(False, 50), seed)
    ]
    assert len(set(seeds)) == 25
    assert seeds[::5] == [0, 1, 2, 3, 4]  # the first stage is the run that the seed gives


def test_where_stages_start():
    names = ["epsilon-0", "epsilon-1", "epsilon-2"]
    for origin, expected in (
        ("previous", [None, *names[:2]]),
        ("zero", [None] * 3),
        ("common", ["start"] * 3),
    ):
        stages = path_of(origin, radii=3).stages(make_settings({}).resolved(False, 50), 0)
        if origin == "common":
            start, *stages = stages
            assert (start.name, start.start, start.measured) == ("start", None, False)
        assert [stage.name for stage in stages] == names
        assert [stage.start for stage in stages] == expected
        assert all(stage.measured for stage in stages)


def test_stages_of_a_request():
    request = small_request()
    configs = [config for _, config in request.stages(1)]
    assert [config.settings.epsilon for config in configs] == [0.0, 0.2, 0.5]
    assert [config.iterations for config in configs] == [24, 12, 12]
    assert (
        configs[1].settings.step_size
        == configs[2].settings.step_size
        < configs[0].settings.step_size
    )
    assert [request.path.learned(stage) for stage in range(3)] == [24, 36, 48]
    cold = small_request(origin="zero")
    assert [config.iterations for _, config in cold.stages(1)] == [24, 24, 24]
    assert [cold.path.learned(stage) for stage in range(3)] == [24, 24, 24]
    fan = small_request(origin="common")
    (_, start), *branches = fan.stages(1)
    assert [config.iterations for _, config in branches] == [12, 12, 12]
    assert [fan.path.learned(stage) for stage in range(3)] == [36, 36, 36]
    # They differ in their radius alone, random numbers included.
    assert len({(config.settings.seed, config.settings.step_size) for _, config in branches}) == 1
    assert (start.iterations, start.settings.seed, start.settings.epsilon) == (24, 1, 0.0)
    with pytest.raises(InputError, match="did you mean 'common'"):
        small_request(origin="comon")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stage_iterations": 0}, "stage_iterations must be at least 1"),
        ({"trials": 0}, "trials must be at least 1"),
        ({"horizon": 0}, "horizon must be at least 1"),
        ({"held_out": "linear-quadratic"}, "are those trained on"),
        ({"epsilons": (2.0, 1.0)}, "must ascend"),
    ],
)
def test_a_request_without_meaning_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        small_request(**changes)


def test_held_out_tasks():
    config = make_config(
        {"method": "policy-gradient", "task_options": {"crash": "terminate", "count": 4}}
    )
    maps = held_out_tasks("random:unseen:3", config)
    assert len(maps) == 3
    assert {task.make().navigation.crash for task in maps} == {"terminate"}
    again = held_out_tasks("random:unseen:2", config)
    assert [task.name for task in again] == [task.name for task in maps[:2]]
    # random:n are the maps that every command means by it; no training draws the unseen ones.
    assert [task.name for task in held_out_tasks("random:2", config)] == [
        "random-0-0",
        "random-0-1",
    ]
    assert not {task.name for task in maps} & {t.name for t in held_out_tasks("random:3", config)}
    assert held_out_tasks(None, config) == ()
    assert len(held_out_tasks("paper-radii", config)) == 3
    for wrong in ("random:", "random:x", "random:0", "random:-2", "random:unseen:0"):
        with pytest.raises(InputError, match="such as random:50"):
            held_out_tasks(wrong, config)
    with pytest.raises(InputError, match="did you mean 'mission'"):
        held_out_tasks("misson", config)


def test_a_task_that_is_trained_on_is_not_held_out():
    trained = task_set("random:3")
    check_held_out(trained, held_out_tasks("random:unseen:3", make_config({})))
    with pytest.raises(InputError, match="'random-0-0' is one of those trained on"):
        check_held_out(trained, task_set("random:5"))
    # A name alone does not make two tasks one.
    check_held_out(task_set("paper:r=2"), task_set("paper-radii"))
