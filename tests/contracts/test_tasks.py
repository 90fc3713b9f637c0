"""Every task that comes with the library satisfies one contract."""

import copy
import pickle
import warnings
from functools import partial
from itertools import product

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from crosslearning.tasks import Circle, Ellipse, Navigation, check_task, task_set, task_set_names
from tests.rollouts.examples import LOPSIDED, rope_task, wide_system


def member(name, place):
    """Return the first or the last task of a set."""
    return task_set(name)[0 if place == "first" else -1]


#: Families without compiled dynamics are tested in tests/tasks/test_families.py.
UNCOMPILED = {
    "gymnasium-pendulums",
    "inverted-pendulums",
    "lunar-landers",
    "mountain-cars",
    "reachers",
}
MAP = Navigation(
    obstacles=(Ellipse((4.0, 4.0), (0.5, 2.0), 0.6), Circle((7.0, 2.0), 1.5)),
    goals=((3.0, 7.0), (8.0, 8.0)),
)
#: Every rule of the physics, and episodes that end.
RULES = (
    {"crash": "terminate"},
    {"crash": "continue", "arrival": "terminate", "arrival_radius": 3.0},
    {"start_in_obstacle": "crash", "obstacle_distance": "centre", "swept": False},
    {"near_share": 0.5, "near_distance": 0.3},
)
MEMBERS = product(sorted(set(task_set_names()) - UNCOMPILED), ("first", "last"))
#: How each task is made; to make one compiles it, so none is made before its test.
TASKS = {f"{name}/{place}": partial(member, name, place) for name, place in MEMBERS}
for choices in RULES:
    TASKS["-".join(map(str, choices.values()))] = partial(MAP.replace(**choices).task, "map")
TASKS |= {"rope": partial(rope_task, 0.75), "lopsided": partial(LOPSIDED.task, "lopsided")}
TASKS["wide"] = partial(wide_system(0).task, "wide")


@pytest.fixture(scope="module", params=TASKS)
def task(request):
    return TASKS[request.param]()


def test_contract(task):
    check_task(task)


def test_gymnasium_finds_nothing_wrong(task):
    with warnings.catch_warnings():
        # Actions keep their units; this one recommendation does not apply.
        warnings.filterwarnings("ignore", message=".*symmetric and normalized space.*")
        check_env(task.make(), skip_render_check=True)


def episode(environment, actions):
    """Return what the environment shows and pays until its end."""
    seen = []
    for action in actions:
        observation, reward, terminated, *_ = environment.step(action)
        seen.append([*observation, reward, terminated])
        if terminated:
            break
    return np.array(seen)


def test_an_environment_can_be_put_back(task):
    # By its state, by a copy, and in another process.
    generator = np.random.default_rng(4)
    before, after = generator.uniform(-0.3, 0.6, (2, 12, *task.action_space.shape))
    environment, other = task.make(), task.make()
    environment.reset(options=task.reset_options(generator.random(task.reset_size)))
    episode(environment, before[:3])
    other.reset(options={"state": environment.state})
    twins = (copy.deepcopy(environment), pickle.loads(pickle.dumps(environment)), other)
    ahead = episode(environment, after)
    for twin in twins:
        np.testing.assert_array_equal(episode(twin, after), ahead)


def test_a_task_can_be_sent(task):
    sent = pickle.loads(pickle.dumps(task))
    assert sent.horizon == task.horizon
    # The same functions, so that tasks of one kind still run as one group.
    assert sent.dynamics[1:] == task.dynamics[1:]
    np.testing.assert_array_equal(sent.dynamics.parameters, task.dynamics.parameters)
    uniforms = np.random.default_rng(6).random(task.reset_size)
    starts = [t.make().reset(options=t.reset_options(uniforms))[0] for t in (task, sent)]
    np.testing.assert_array_equal(*starts)


def test_starts_differ_with_the_numbers_alone(task):
    environment = task.make()
    generator = np.random.default_rng(5)
    options = [task.reset_options(generator.random(task.reset_size)) for _ in range(2)]
    first, again, other = (environment.reset(options=o)[0] for o in (*options[:1] * 2, options[1]))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
