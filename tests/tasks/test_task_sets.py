"""The named task sets: the paper's numbers, a solvable mission, reproducible random maps."""

import itertools
import math

import numpy as np
import pytest

from crosslearning.errors import InputError
from crosslearning.tasks import (
    Circle,
    Ellipse,
    Navigation,
    linear_quadratic_set,
    navigation_set,
    random_maps,
    register_task_set,
    task_set,
    task_set_names,
    task_sets,
)
from crosslearning.tasks.families import FAMILIES
from crosslearning.tasks.navigation.dynamics import Slot, State
from crosslearning.tasks.navigation.obstacles import clearances, outline

#: Sets of descriptions; the families are tested in test_families.py.
DESCRIBED = [name for name in task_set_names() if name not in FAMILIES]


def pilot(observation, side, safety=0.35):
    """Turn towards the goal, or past the obstacle's rim if that is in the way; then go."""
    distance, obstacle, to_goal, goal, opening = observation
    shield = 0.5 * opening + math.asin(min(1.0, safety / max(distance + safety, 1e-9)))
    aim = goal
    if distance < to_goal and abs(math.remainder(goal - obstacle, 2 * math.pi)) < shield:
        aim = obstacle + side * shield
    aim = math.remainder(aim, 2 * math.pi)
    if abs(aim) > 0.1:
        return np.array([0.0, aim / 0.5])
    return np.array([min(2.0, to_goal / 0.5, max(distance, 0.2)), aim / 0.5])


def fly(task, side, steps, start):
    environment = task.make()
    observation, _ = environment.reset(options={"start": start})
    for _ in range(steps):
        observation, *_ = environment.step(pilot(observation, side))
    return {key: value[0] for key, value in task.outcomes(environment.state[None]).items()}


def test_the_paper_set_has_the_numbers_of_the_paper():
    scenes = navigation_set("paper")
    assert list(scenes) == ["r=0.5", "r=1", "r=2"]
    expected = [Circle((7, 2), 0.5), Circle((2, 2), 1.0), Circle((7, 7), 2.0)]
    assert [scene.obstacles for scene in scenes.values()] == [(circle,) for circle in expected]
    for scene in scenes.values():
        assert scene.goals == ((5.0, 6.0),)
        assert scene.time_step == 0.5
        assert scene.start is None
        assert scene.start_area == ((0.0, 10.0), (0.0, 10.0))
        rewards = scene.parameters[[Slot.CRASH_REWARD, Slot.GOAL_REWARD, Slot.DISTANCE_COST]]
        assert rewards.tolist() == [-100.0, 10.0, 10.0]


def test_the_evaluation_scenes_of_the_paper():
    radii = navigation_set("paper-radii")
    assert [scene.obstacles for scene in radii.values()] == [
        (Circle((2, 2), radius),) for radius in (0.5, 1.0, 2.0)
    ]
    circle, ellipse = navigation_set("paper-circle"), navigation_set("paper-ellipse")
    assert circle["circle"].obstacles == (Circle((2.5, 3.5), 0.5),)
    assert ellipse["ellipse"].obstacles == (Ellipse((2.5, 3.5), (0.5, 2.0)),)
    for scene in (circle["circle"], ellipse["ellipse"]):
        assert (scene.start, scene.goals) == ((0.5, 1.5), ((5.0, 6.0),))
    mission = navigation_set("mission")["mission"]
    assert (mission.start, mission.goals) == ((0.5, 1.5), ((5, 6), (5.5, 1.5), (11, 5)))


@pytest.mark.parametrize("name", DESCRIBED)
def test_every_set_makes_usable_tasks(name):
    tasks = task_set(name)
    assert len({task.name for task in tasks}) == len(tasks)
    for task in tasks:
        environment = task.make()
        uniforms = np.random.default_rng(0).random(task.reset_size)
        observation, _ = environment.reset(options=task.reset_options(uniforms))
        assert task.observation_space.contains(observation)
        assert environment.state.shape == (task.state_size,)


NAVIGATION = [name for name in DESCRIBED if name != "linear-quadratic"]


@pytest.mark.parametrize("name", NAVIGATION)
def test_descriptions_make_the_tasks_of_the_same_set(name):
    tasks = task_set(name)
    scenes = navigation_set(name)
    assert [task.name for task in tasks] == list(scenes)
    for task, scene in zip(tasks, scenes.values(), strict=True):
        np.testing.assert_array_equal(task.dynamics.parameters, scene.parameters)
        assert scene.parameters[Slot.GOALS] == len(task.make().navigation.goals)


def test_one_task_is_taken_out_of_a_set():
    (task,) = task_set("paper:r=1", crash="terminate")
    assert task.name == "r=1"
    assert task.make().navigation == navigation_set("paper", crash="terminate")["r=1"]
    with pytest.raises(InputError, match="no such task of the set 'paper' 'r=3'; did you mean 'r="):
        task_set("paper:r=3")


def test_the_linear_systems_are_three_and_take_options():
    assert list(linear_quadratic_set()) == ["m=0.5", "m=1", "m=2"]
    names = [task.name for task in task_set("linear-quadratic")]
    assert names == list(linear_quadratic_set())
    for system in linear_quadratic_set(start_low=(0.5, 0.5)).values():
        assert system.start_low == (0.5, 0.5)


def test_options_change_every_task():
    for scene in navigation_set("paper", crash="terminate", goals=((1, 9),)).values():
        assert (scene.crash, scene.goals) == ("terminate", ((1.0, 9.0),))
    assert navigation_set("paper-circle", heading=0.5)["circle"].heading == 0.5


def test_the_mission_can_be_flown_and_needs_the_detours():
    (task,) = task_set("mission")
    # The obstacles stand in the way: straight lines between the goals crash.
    scene = navigation_set("mission")["mission"]
    stops = [scene.start, *scene.goals]
    shares = np.linspace(0.0, 1.0, 400)[:, None]
    for index, (begin, end) in enumerate(itertools.pairwise(stops)):
        line = (1.0 - shares) * np.array(begin) + shares * np.array(end)
        hit = clearances(line, [scene.obstacles[index]]).min()
        assert hit < 0.0
    outcome = fly(task, side=1.0, steps=300, start=(0.5, 1.5, 0.0))
    assert not outcome["crashed"]
    assert outcome["arrived"]
    assert outcome["goals_reached"] == 3
    assert outcome["path_length"] < 30.0


@pytest.mark.parametrize("name", ["paper", "paper-circle", "paper-ellipse", "paper-radii"])
def test_the_scenes_of_the_paper_can_be_solved(name):
    for task in task_set(name):
        start = (9.5, 9.5, 0.0) if name == "paper" else (0.5, 1.5, 0.0)
        if name == "paper-radii":
            start = (0.2, 0.2, 0.0) if task.name != "r=2" else (0.2, 0.1, 0.0)
        outcome = fly(task, side=-1.0, steps=120, start=start)
        assert outcome["arrived"]
        assert not outcome["crashed"]
        assert 1 <= outcome["arrival_time"] <= 120


def test_random_maps_depend_on_the_seed_and_their_number_only():
    three, five = random_maps(4, 3), random_maps(4, 5)
    assert list(three.items()) == list(five.items())[:3]
    assert len({scene.obstacles for scene in five.values()}) == 5
    assert random_maps(5, 3).values() != three.values()
    assert not set(random_maps(5, 3)) & set(three)
    for other in random_maps(5, 3).values():
        assert other.obstacles not in [scene.obstacles for scene in three.values()]


def test_random_maps_are_mixed_and_free():
    maps = random_maps(0, 40, obstacle_count=(1, 4)).values()
    kinds = {type(obstacle) for scene in maps for obstacle in scene.obstacles}
    assert kinds == {Circle, Ellipse}
    assert {len(scene.obstacles) for scene in maps} == {1, 2, 3, 4}
    for scene in maps:
        assert clearances(np.array(scene.goals), scene.obstacles).min() >= 1.0
        places = np.random.default_rng(0).uniform(0.0, 10.0, size=(2_000, 2))
        assert np.mean(clearances(places, scene.obstacles) > 0.0) > 0.55
        for index, one in enumerate(scene.obstacles):
            for other in scene.obstacles[index + 1 :]:
                assert clearances(outline(one, 500), [other]).min() > 0.98


def test_random_maps_take_options():
    maps = random_maps(
        1, 4, obstacle_count=(2, 2), ellipse_share=0.0, sizes=(0.5, 0.6), crash="continue"
    )
    for scene in maps.values():
        assert scene.crash == "continue"
        assert all(type(o) is Circle and 0.5 <= o.radius <= 0.6 for o in scene.obstacles)
        assert len(scene.obstacles) == 2
    fixed = random_maps(1, 2, goals=((5, 6),), start=(0.5, 1.5))
    for scene in fixed.values():
        assert scene.goals == ((5.0, 6.0),)
        assert clearances(np.array([[0.5, 1.5]]), scene.obstacles)[0] >= 0.5


def test_random_maps_by_their_number():
    assert [t.name for t in task_set("random:5")] == list(random_maps(0, 5))
    assert [t.name for t in task_set("random:2", seed=7)] == list(random_maps(7, 2))
    (one,) = task_set("random:random-0-1")
    np.testing.assert_array_equal(one.dynamics.parameters, random_maps()["random-0-1"].parameters)


def test_unseen_maps_are_of_a_seed_of_their_own():
    unseen = task_set("random:unseen:4", crash="terminate")
    expected = random_maps(30_000, 4, crash="terminate")
    assert [task.name for task in unseen] == list(expected)
    for task, scene in zip(unseen, expected.values(), strict=True):
        np.testing.assert_array_equal(task.dynamics.parameters, scene.parameters)
    assert [task.name for task in task_set("random:unseen")] == list(random_maps(30_000))


def test_a_set_gives_its_tasks_a_horizon():
    horizons = {name: {task.horizon for task in task_set(name)} for name in DESCRIBED}
    assert horizons.pop("mission") == {120}
    assert all(horizon == {50} for horizon in horizons.values())


@pytest.fixture
def own_set(monkeypatch):
    monkeypatch.setattr(task_sets, "_SETS", dict(task_sets._SETS))

    def squares(count=2, unseen=False, crash="absorbing"):
        shift = 0.25 if unseen else 0.0
        return {
            f"x={k + shift:g}": Navigation(start=(k + shift, 0.0), crash=crash)
            for k in range(count)
        }

    register_task_set("squares", squares, horizon=33)


@pytest.mark.usefixtures("own_set")
def test_a_registered_set():
    assert "squares" in task_set_names()
    assert [task.name for task in task_set("squares")] == ["x=0", "x=1"]
    assert [task.name for task in task_set("squares:3")] == ["x=0", "x=1", "x=2"]
    (task,) = task_set("squares:unseen:1", crash="terminate")
    assert (task.name, task.horizon) == ("x=0.25", 33)
    assert task.make().navigation.crash == "terminate"
    with pytest.raises(InputError, match="'squares' cannot be made"):
        task_set("squares", crahs="terminate")
    # Tasks themselves will do, and a name may be given anew.
    tasks = [Navigation().task("a"), Navigation().task("b")]
    register_task_set("squares", lambda: tasks)
    assert [(t.name, t.horizon) for t in task_set("squares")] == [("a", 50), ("b", 50)]
    assert [t.name for t in task_set("squares:b")] == ["b"]
    with pytest.raises(InputError, match="no such task of the set 'squares' '3'"):
        task_set("squares:3")
    with pytest.raises(InputError, match="'a:b'; give one without a colon"):
        register_task_set("a:b", lambda: tasks)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("random:0", {}, "random:0 names no tasks; give how many, such as random:50"),
        ("random:many", {}, "one of the names random-0-0, random-0-1"),
        ("random:unseen:x", {}, "such as random:50"),
        ("random:unseen:5", {"seed": 3}, "unseen maps have seed 30000, but seed is 3"),
        ("paper", {"self": 1}, "no such navigation parameter 'self'"),
        ("paper", {"name": "x"}, "no such navigation parameter 'name'"),
        ("papr", {}, "no such task set 'papr'; did you mean 'paper'"),
        ("linear-quadratics", {}, "did you mean 'linear-quadratic'"),
        ("linear-quadratic", {"crash": "continue"}, "no such linear-quadratic parameter"),
        ("paper", {"crashes": "continue"}, "did you mean 'crash'"),
        ("random", {"seed": -1}, "seed is -1"),
        ("random", {"count": 0}, "count 0"),
        ("random", {"obstacle_count": (3, 1)}, "fewest ≤ most"),
        ("random", {"sizes": (0.0, 1.0)}, "0 < smallest"),
        ("random", {"ellipse_share": 2.0}, "give a probability"),
        ("random", {"obstacles": [(1, 1, 1)]}, "draw their own obstacles"),
        ("random", {"obstacle_count": (30, 30), "sizes": (1.5, 1.6)}, "no room for 30"),
        ("random", {"obstacle_counts": (1, 1)}, "no such navigation parameter"),
    ],
)
def test_bad_names_and_options_are_refused(name, options, message):
    with pytest.raises(InputError, match=message):
        task_set(name, **options)


def test_only_navigation_sets_can_be_drawn():
    with pytest.raises(InputError, match="no such navigation task set 'linear-quadratic'"):
        navigation_set("linear-quadratic")


def test_state_layout_is_what_the_documentation_says():
    assert [slot.name for slot in State] == [
        "X",
        "Y",
        "HEADING",
        "GOAL",
        "CRASHED",
        "ARRIVED",
        "ARRIVAL_STEP",
        "PATH_LENGTH",
        "STEPS",
    ]
