"""The benchmark of the paper's world: what it asks for, and how it counts."""

import pytest

from benchmarks import world
from crosslearning._base.statistics import Interval
from crosslearning.runs import make_config
from crosslearning.tasks import task_set

GOOD = {"arrived": 0.98, "crashed": 0.005, "mission": 0.95}


def result(**changes):
    return {name: Interval(v, v, v) for name, v in {**GOOD, **changes}.items()}


def test_the_bounds_themselves_are_enough():
    assert world.mastered(result())


@pytest.mark.parametrize("worse", [{"arrived": 0.979}, {"crashed": 0.006}, {"mission": 0.94}])
def test_every_number_counts(worse):
    assert not world.mastered(result(**worse))


def test_four_of_five_seeds_are_wanted():
    *seeds, verdict = world.rows([result()] * 4 + [result(mission=0.5)])
    assert [row.met for row in seeds] == [True] * 4 + [False]
    assert verdict.met
    assert verdict.measured == "4 of 5 seeds"
    *_, verdict = world.rows([result()] * 3 + [result(crashed=0.1)] * 2)
    assert not verdict.met


def test_the_settings_are_those_of_a_run():
    asked = {"tasks": world.TRAIN, "task_options": world.PRACTICE, "iterations": 1}
    config = make_config({**asked, **world.SETTINGS})
    assert config.settings.method == "trust-region"
    tasks = task_set(world.TRAIN, **world.PRACTICE)
    assert [task.name for task in tasks] == [task.name for task in task_set(world.TRAIN)]
