"""Metadata of environments: names, units and rate."""

import gymnasium
import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.errors import InputError
from crosslearning.tasks import Task, task_set
from tests.learner.examples import Drift


class Named(Drift):
    """The point in the plane, with names."""

    metadata = {  # noqa: RUF012
        "observation_names": ["x [m]", "y [m]"],
        "action_names": ["east", "north"],
        "rate": 10,
    }


def task_of(wrap=lambda environment: environment, **metadata):
    def make(render_mode=None):
        environment = Named()
        environment.metadata = {**Named.metadata, **metadata}
        return wrap(environment)

    return Task("named", make, horizon=20)


def test_metadata_reach_the_policy_also_through_wrappers():
    for wrap in (lambda env: env, lambda env: gymnasium.wrappers.TimeLimit(env, 20)):
        task = task_of(wrap)
        assert task.observation_names == ("x [m]", "y [m]")
        policy = CrossLearner([task]).policy(0)
        assert policy.observations.names == task.observation_names
        assert policy.actions.names == ("east", "north")
        assert policy.rate == 10.0


def test_without_metadata_numbers_are_counted():
    task = task_of(observation_names=None, action_names=None, rate=None)
    policy = CrossLearner([task]).central
    assert policy.observations.names == ("observation 0", "observation 1")
    assert policy.actions.names == ("action 0", "action 1")
    assert policy.rate is None


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"observation_names": ["x"]}, "give 2 different names"),
        ({"observation_names": ["x", "x"]}, "give 2 different names"),
        ({"action_names": "ab"}, "give 2 different names"),
        ({"action_names": [1, 2]}, "give 2 different names"),
        ({"rate": 0}, "give the steps a second"),
        ({"rate": "fast"}, "give the steps a second"),
        ({"rate": float("nan")}, "give the steps a second"),
        ({"rate": float("inf")}, "give the steps a second"),
    ],
)
def test_wrong_metadata_are_refused(metadata, message):
    with pytest.raises(InputError, match=f"task 'named': .* .* {message}"):
        task_of(**metadata)


@pytest.mark.parametrize("name", ["paper", "pendulums:2", "cart-poles:2"])
def test_tasks_that_ship_have_names(name):
    task = task_set(name)[0]
    assert len(task.observation_names) == task.observation_size
    assert len(task.action_names) == task.action_size
    assert np.all([bool(one.strip()) for one in task.observation_names])
