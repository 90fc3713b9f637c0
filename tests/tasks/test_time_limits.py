"""Time limits of environments, and horizons in the mapping form."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import ClipAction, TimeLimit

from crosslearning.errors import InputError
from crosslearning.tasks import Task
from crosslearning.tasks.task import warn_of_no_limit
from crosslearning.tasks.task_sets import as_tasks


class Still(gymnasium.Env):
    observation_space = Box(-1.0, 1.0, (1,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)


@pytest.mark.parametrize(
    ("make", "horizon"),
    [
        (lambda: TimeLimit(Still(), 70), 70),
        (lambda: ClipAction(TimeLimit(Still(), 70)), 70),
        (lambda: TimeLimit(TimeLimit(Still(), 70), 300), 70),
        (lambda: TimeLimit(gymnasium.make("Pendulum-v1"), 300), 200),
        (lambda: TimeLimit(gymnasium.make("Pendulum-v1"), 30), 30),
        (lambda: gymnasium.make("Pendulum-v1", max_episode_steps=90), 90),
        (lambda: SyncVectorEnv([lambda: TimeLimit(Still(), 70)] * 2), 70),
    ],
)
def test_a_time_limit_is_seen_however_it_is_set(make, horizon):
    task = Task("limited", lambda render_mode=None: make())
    assert task.horizon == horizon
    assert not task.unlimited
    assert Task("stated", task.make, horizon=5).horizon == 5


def test_a_mapping_states_fields_of_tasks():
    made = {"short": {"make": Still, "horizon": 7, "outcomes": ["x"]}, "plain": Still}
    short, plain = as_tasks(made, "my_tasks:make")
    assert (short.name, short.horizon, short.listed_outcomes) == ("short", 7, ("x",))
    assert plain.unlimited
    with pytest.raises(InputError, match="field of the task 'a' 'horizn'; did you mean 'horizon'"):
        as_tasks({"a": {"make": Still, "horizn": 7}}, "my_tasks:make")
    with pytest.raises(InputError, match=r"an environment itself.*give what makes it"):
        as_tasks({"a": Still()}, "my_tasks:make")


def test_the_warning_names_every_way_to_set_a_limit():
    with pytest.warns(UserWarning, match="no time limit is known of the tasks 'still'") as caught:
        warn_of_no_limit([Task("still", Still)])
    said = str(caught[0].message)
    ways = ("Task(..., horizon=200)", "'horizon': 200", "tasks.toml", "TimeLimit", "gymnasium.make")
    assert all(way in said for way in ways)


def test_an_environment_of_gym_gets_the_package_that_converts_it():
    class OldEnvironment:
        def step(self, action):
            pass

    with pytest.raises(InputError, match=r"expected a new environment, a gymnasium.Env.*shimmy"):
        Task("old", OldEnvironment)
