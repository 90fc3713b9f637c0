"""Where policies drive: paths and endings that are known by hand."""

import numpy as np
import pytest

from crosslearning.analysis.trajectories import trajectories
from crosslearning.errors import InputError
from crosslearning.learner import Policy
from crosslearning.rkhs import Family, Gaussian
from crosslearning.tasks import Navigation, task_set


def steady(task, speed, turn=0.0):
    """Return a policy that acts the same everywhere: one knot under a very wide kernel."""
    function = Family(Gaussian(std=[1e9] * 5), np.zeros((1, 5)), np.array([[[speed, turn]]]))
    return Policy("steady", function, np.ones(2), task.action_space)


def test_a_robot_that_stands_still_is_out_of_time():
    task = Navigation().task("still")
    (result,) = trajectories(steady(task, 0.0), [task], trials=3)
    assert result.task == "still"
    assert result.navigation == Navigation()
    assert result.paths.shape == (3, task.horizon + 1, 2)
    np.testing.assert_array_equal(result.paths[:, 0], result.paths[:, -1])
    np.testing.assert_array_equal(result.out_of_time, ~result.arrived)


def test_a_robot_that_drives_into_an_obstacle_crashes():
    navigation = Navigation(start=(1.0, 2.0), heading=0.0)  # the obstacle is at (7, 2)
    task = navigation.task("wall")
    (result,) = trajectories(steady(task, 2.0), [task], trials=2, seed=5)
    assert np.all(result.crashed)
    assert not np.any(result.out_of_time)
    np.testing.assert_allclose(result.paths[:, -1], [[6.5, 2.0]] * 2)


def test_the_same_seed_gives_the_same_starts():
    tasks = task_set("paper")
    policy = steady(tasks[0], 0.0)
    first, again, other = (trajectories(policy, tasks, 4, seed) for seed in (1, 1, 2))
    assert [one.task for one in first] == [task.name for task in tasks]
    np.testing.assert_array_equal(first[1].paths, again[1].paths)
    assert not np.array_equal(first[1].paths, other[1].paths)


def test_a_task_without_a_map_is_refused():
    (task, *_) = task_set("linear-quadratic")
    with pytest.raises(InputError, match="not a navigation task and has no map"):
        trajectories(steady(Navigation().task("x"), 0.0), [task])
