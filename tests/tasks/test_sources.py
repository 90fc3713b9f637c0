"""Users' tasks: loaded by name, saved as data; code that untrusted files name is not run."""

import json
import sys
import textwrap

import gymnasium
import numpy as np
import pytest

from crosslearning import CrossLearner
from crosslearning.errors import FileFormatError, InputError
from crosslearning.learner.learner_file import tasks_of_file
from crosslearning.runs import RunFolder, make_config, resume, train
from crosslearning.tasks import Task, register_task_set, task_set, tasks_from
from crosslearning.tasks.sources import TaskSource, is_named, load_tasks, read_source

MODULE = """
    import gymnasium
    from crosslearning.tasks import Task

    IMPORTED = True

    def carts(count=2):
        def make(gravity):
            return lambda render_mode=None: gymnasium.make("Pendulum-v1", g=gravity)
        return [Task(f"g={8 + i}", make(8.0 + i)) for i in range(count)]

    def by_name():
        return {"one": lambda render_mode=None: gymnasium.make("Pendulum-v1")}

    number = 3

    def scaled(factor):
        return carts(factor)

    def wrong():
        return carts(2)[5]

    def unmade():
        return {"one": lambda render_mode=None: {}["missing"]}

    def empty():
        return {"one": lambda render_mode=None: None}
"""
FILE = """
    [common]
    horizon = 55

    [[task]]
    id = "Pendulum-v1"
    grid = { g = [8.0, 12.0] }
    set = { m = 1.25, l = 0.9 }
    wrappers = ["FlattenObservation", { wrapper = "TimeLimit", max_episode_steps = 60 }]

    [[task]]
    id = "Pendulum-v1"
    name = "usual"
    wrappers = ["FlattenObservation", { wrapper = "TimeLimit", max_episode_steps = 60 }]
"""
SMALL = {"max_knots": 10, "discount": 0.7, "batch_size": 1, "estimator": "geometric"}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder with a module and a file of tasks, for a user without a history."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_tasks.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "tasks.toml").write_text(textwrap.dedent(FILE))
    sys.modules.pop("my_tasks", None)
    yield tmp_path
    sys.modules.pop("my_tasks", None)


def test_a_function_in_a_module(place):
    assert [task.name for task in tasks_from("my_tasks:carts", count=3)] == ["g=8", "g=9", "g=10"]
    assert [task.name for task in tasks_from("my_tasks:by_name")] == ["one"]
    with pytest.raises(InputError, match="has no function 'cart'"):
        tasks_from("my_tasks:cart")
    with pytest.raises(InputError, match="has no function 'number'"):
        tasks_from("my_tasks:number")
    with pytest.raises(InputError, match="no module 'your_tasks' of Python source"):
        tasks_from("your_tasks:carts")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("my_tasks:scaled", r"with the task_options {}, raised TypeError: .*argument: 'factor'"),
        ("my_tasks:wrong", r"raised IndexError: .*my_tasks.py, line 2\d\)"),
        ("my_tasks:unmade", r"'one' cannot be made: KeyError: 'missing' .*my_tasks.py, line"),
        ("my_tasks:empty", r"'one': make\(\) returned None; expected a new environment"),
        ("os:system", r"os:system, called .* raised TypeError: .*missing"),
        ("torn:tasks", r"the module torn cannot be imported: SyntaxError: .*torn.py, line 1"),
        ("ending:tasks", r"module ending cannot be imported: SystemExit: 2 .*ending.py, line 1"),
        ("lacking:tasks", r"cannot be imported: ModuleNotFoundError: .*lacking.py, line 1"),
    ],
)
def test_errors_in_user_code_name_the_line(place, given, message):
    (place / "torn.py").write_text("def tasks(:\n")
    (place / "ending.py").write_text("raise SystemExit(2)\n")
    (place / "lacking.py").write_text("import a_package_that_is_not_there\n")
    with pytest.raises(InputError, match=message):
        tasks_from(given)


def test_a_file_of_tasks(place):
    tasks = tasks_from("tasks.toml")
    assert [task.name for task in tasks] == ["Pendulum-v1 g=8", "Pendulum-v1 g=12", "usual"]
    assert {task.horizon for task in tasks} == {55}
    pendulum = tasks[1].make().unwrapped
    assert (pendulum.g, pendulum.m, pendulum.l) == (12.0, 1.25, 0.9)
    assert tasks[1].context == {"g": 12.0}
    assert isinstance(tasks[0].make(), gymnasium.wrappers.TimeLimit)


def test_a_file_may_redraw_the_goals_of_navigation(place):
    content = """
    [[task]]
    id = "crosslearning/Navigation-v0"
    name = "{}"
    goals = "grid"
    goal_choice = "{}"
    """
    both = content.format("redrawn", "redrawn") + content.format("ordered", "ordered")
    (place / "goals.toml").write_text(textwrap.dedent(both))
    redrawn, ordered = (task.make() for task in tasks_from("goals.toml"))
    assert len({redrawn.reset(seed=seed)[1]["goal"] for seed in range(20)}) > 10
    assert {ordered.reset(seed=seed)[1]["goal"] for seed in range(20)} == {0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[[task]", "is not a TOML file"),
        ("", "holds no tasks"),
        ("[[tusk]]\nid = 'Pendulum-v1'", "did you mean 'task'"),
        ("[[task]]\ng = 8", "has no id"),
        ("[[task]]\nid = 'Pendulum-v1'\nset = 3", "set is 3; give a table"),
        ("[[task]]\nid = 'Pendulum-v1'\ngrid = { g = 8.0 }", "grid.g is 8.0; give a list"),
        ("[[task]]\nid = 'Pendulum-v1'\nset = { mass = 1.0 }", "no such attribute .* 'mass'"),
        ("[[task]]\nid = 'Pendulum-v9'", "cannot be made"),
        ("[[task]]\nid = 'Pendulum-v1'\ngravity = 3", "cannot be made"),
        ("[[task]]\nid = 'Pendulum-v1'\nwrapers = []", "Did you mean 'wrappers'.* id, name, set,"),
        ("[[task]]\nid = 'Pendulum-v1'\nnmae = 'a'", "Did you mean 'name'"),
        ("[[task]]\nid = 'Pendulum-v1'\ngrid = { gg = [1] }", "argument 'gg'.*keys id, name, "),
        ("[[task]]\nid = 'Pendulum-v1'\nwrappers = ['Flaten']", "no such wrapper 'Flaten'"),
        ("[[task]]\nid = 'Pendulum-v1'\nwrappers = [3]", "a wrapper is 3"),
    ],
)
def test_wrong_files_are_refused(place, content, message):
    (place / "wrong.toml").write_text(content)
    with pytest.raises(InputError, match=message):
        tasks_from("wrong.toml")


def test_names_registered_in_python():
    register_task_set("mine", lambda count=2: task_set("linear-quadratic")[:count])
    assert len(CrossLearner("mine:1").tasks) == 1


@pytest.mark.parametrize("given", ["my_tasks:carts", "tasks.toml"])
def test_a_run_goes_on_with_nothing_more(place, given):
    config = make_config({"tasks": given, "iterations": 3, "checkpoint_every": 2, **SMALL})
    assert train("run", config).finished
    assert resume("run").finished
    expected = RunFolder.open("run").load().family
    if given == "tasks.toml":
        (place / given).unlink()  # the folder has what was in it
    longer = resume("run", iterations=5)
    assert (longer.finished, longer.learner.iteration) == (True, 5)
    again = CrossLearner(given if given != "tasks.toml" else longer.learner.source, **SMALL)
    np.testing.assert_array_equal(again.learn(3).family.weights, expected.weights)


def test_code_that_has_changed_is_not_imported(place):
    train("run", make_config({"tasks": "my_tasks:carts", "iterations": 2, **SMALL}))
    sys.modules.pop("my_tasks")
    (place / "my_tasks.py").write_text("raise SystemExit('run')")
    learner = RunFolder.open("run").load()  # the policies are there
    assert learner.predict([1.0, 0.0, 0.0])[0].shape == (1,)
    with pytest.raises(InputError, match="is not the one that they were trained with"):
        learner.learn(1)
    assert "my_tasks" not in sys.modules


def test_a_strangers_folder_runs_nothing(place, monkeypatch):
    train("run", make_config({"tasks": "my_tasks:carts", "iterations": 2, **SMALL}))
    sys.modules.pop("my_tasks")
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "someone else"))
    learner = RunFolder.open("run").load()
    assert learner.predict([1.0, 0.0, 0.0])[0].shape == (1,)
    with pytest.raises(InputError, match="are not a run of yours"):
        learner.learn(1)
    with pytest.raises(InputError, match="are not a run of yours"):
        resume("run", iterations=9)
    assert RunFolder.open("run").config().iterations == 2
    assert RunFolder.open("run").model.exists()
    assert "my_tasks" not in sys.modules
    # Who trusts it says so once.
    assert resume("run", tasks="my_tasks:carts").finished


def test_an_edited_folder_cannot_name_a_function_to_call(place):
    train("run", make_config({"tasks": "linear-quadratic", "iterations": 2, **SMALL}))
    (place / "run" / "model.safetensors").unlink()
    about = json.loads((place / "run" / "run.json").read_text())
    source = read_source("my_tasks:carts").to_plain()
    (place / "run" / "run.json").write_text(json.dumps({**about, "tasks": source}))
    for checkpoint in (place / "run").glob("checkpoints/*"):
        checkpoint.unlink()
    with pytest.raises(InputError, match="are not a run of yours"):
        resume("run")
    assert "my_tasks" not in sys.modules


def test_a_source_survives_json(place):
    source = read_source("tasks.toml")
    again = TaskSource.from_plain(json.loads(json.dumps(source.to_plain())))
    assert again == source
    assert len(load_tasks(again, {})) == 3


def test_a_learner_without_its_tasks_is_still_a_policy(tmp_path):
    tasks = [Task(task.name, task.make, horizon=200) for task in task_set("pendulums:2")]
    learner = CrossLearner(tasks, **SMALL).learn(3)
    learner.save(tmp_path / "saved")
    alone = CrossLearner.load(tmp_path / "saved")
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (5, 3))
    np.testing.assert_array_equal(alone.predict(states)[0], learner.predict(states)[0])
    with pytest.raises(InputError, match="tasks of its author's"):
        alone.learn(1)
    whole = CrossLearner.load(tmp_path / "saved", tasks=tasks)
    np.testing.assert_array_equal(whole.learn(2).family.weights, learner.learn(2).family.weights)


@pytest.mark.parametrize("shape", [[float("inf")], [2], ["x"], None])
def test_spaces_that_do_not_fit_are_refused(place, shape):
    space = {"low": [-1.0], "high": [1.0], "shape": shape, "dtype": "float64"}
    source = {"given": "my_tasks:carts", "content": "", "code": {"my_tasks": "0"}}
    described = {
        "tasks": ["one"],
        "task_options": {},
        "task_source": source,
        "spaces": [space, space],
    }
    with pytest.raises(FileFormatError, match="lacks the spaces"):
        tasks_of_file("some file", described)
    whole = {**space, "shape": [1]}
    (absent,), _ = tasks_of_file("some file", {**described, "spaces": [whole, whole]})
    assert absent.name == "one"


def test_a_named_set_around_code_is_not_a_name_alone():
    assert is_named(TaskSource("pendulums:2"))
    assert not is_named(TaskSource("pendulums:2", around="evil:calm"))
    assert is_named(TaskSource("pendulums:2", around="calm.json", around_content="{}"))
