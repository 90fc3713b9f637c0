"""Configurations and files of tasks, as people and programs get them wrong."""

import json

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from crosslearning.runs import make_config, read_config
from crosslearning.runs.config import describe_fields
from crosslearning.tasks.sources import load_tasks, read_source
from tests.fuzz.examples import STRANGE, cases, changed, damaged, safely, set_trap

CONFIG = {
    "tasks": "linear-quadratic",
    "method": "policy-gradient",
    "epsilon": 3.0,
    "iterations": 300,
    "max_knots": 60,
    "action_variance": [0.05],
    "kernel": {"kernel": "gaussian", "std": [1.0, 0.8]},
    "task_options": {"R": [[0.1]]},
}
TASKS = {
    "common": {"horizon": 20, "outcomes": ["speed"]},
    "task": [
        {"id": "Pendulum-v1", "grid": {"g": [8.0, 12.0]}, "set": {"m": 1.2, "l": 0.9}},
        {
            "id": "MountainCarContinuous-v0",
            "name": "car",
            "goal_velocity": 0.1,
            "wrappers": ["FlattenObservation", {"wrapper": "TimeLimit", "max_episode_steps": 9}],
        },
    ],
}
FIELDS = sorted({field.name for field in describe_fields()})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    set_trap(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


def written(path, table):
    """Write a table as TOML; return whether TOML can hold it, and it names no code.

    Whoever gives a configuration or a file of tasks that names a module means it to be imported,
    as with --tasks. That a run or a model never does is asked elsewhere.
    """
    if "trap" in json.dumps(table, default=str):
        return False
    try:
        path.write_text(tomli_w.dumps(table), encoding="utf-8")
    except (TypeError, ValueError, AttributeError, RecursionError):
        return False
    return True


def learn(path):
    """Read a configuration, check it, and begin to learn as it asks for."""
    config = make_config(read_config(path), source=str(path))
    if config.tasks == "linear-quadratic":
        config.learner().close()


def make_all(path):
    for task in load_tasks(read_source(str(path)), {}):
        task.make().close()


of_both_kinds = pytest.mark.parametrize(
    ("table", "take"), [(CONFIG, learn), (TASKS, make_all)], ids=["configuration", "tasks"]
)


@of_both_kinds
@cases(share=0.06, few=50)
@given(data=st.data())
def test_a_changed_file_is_refused_or_taken(place, table, take, data):
    path = place / "changed.toml"
    if written(path, data.draw(changed(table))):
        with safely(path):
            take(path)


@of_both_kinds
@cases(share=0.025, few=30)
@given(data=st.data())
def test_a_damaged_file_is_refused_or_taken(place, table, take, data):
    path = place / "damaged.toml"
    path.write_bytes(data.draw(damaged(tomli_w.dumps(table).encode())))
    with safely(path):
        take(path)


@cases(share=0.04, few=40)
@given(values=st.dictionaries(st.sampled_from(FIELDS), STRANGE, max_size=4))
def test_any_value_of_any_field_is_refused_or_taken(place, values):
    path = place / "fields.toml"
    if written(path, {"tasks": "linear-quadratic", **values}):
        with safely(path):
            learn(path)
