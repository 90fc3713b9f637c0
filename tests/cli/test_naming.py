"""Runs on tasks and around a controller of the user's own code, after they were moved or edited."""

import re
import shutil
import sys

import pytest
from typer.testing import CliRunner

from crosslearning import CrossLearner, cli, evaluate
from crosslearning.errors import InputError
from crosslearning.learner.deployment import LearnedController
from crosslearning.runs import RunFolder, make_config, train

MODULE = '''
import numpy as np

from crosslearning import task_set


def machines():
    return task_set("hovering-masses:2")


class Remembering:
    """A PI controller of code."""

    def __init__(self):
        self.reset()

    @property
    def memory(self):
        return self.total

    def reset(self):
        self.total = np.zeros(1)

    def act(self, observation):
        self.total = self.total + 0.1 * observation[0]
        return np.array([9.81]) - 4.0 * observation[0] - 3.9 * observation[1] - 0.1 * self.total


mine = Remembering()


def forgetful(observation):
    return [9.81 - 4.0 * observation[0] - 3.9 * observation[1]]
'''
NAMED = ("--tasks", "own_plant:machines", "--around", "own_plant:mine")
QUICK = {"method": "models", "round_steps": 15, "updates_per_round": 2, "rollouts": 4}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("made")
    (place / "own_plant.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.syspath_prepend(place)
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        fields = {"tasks": "own_plant:machines", "around": "own_plant:mine", "epsilon": 0.3}
        train("run", make_config({**fields, **QUICK, "steps": 60, "max_knots": 20}))
        fields |= {"tasks": "hovering-masses:2"}
        train("ships", make_config({**fields, **QUICK, "steps": 60, "max_knots": 20}))
    sys.modules.pop("own_plant")
    return place


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """A folder with the module, the signing key, and copies of the runs, which are not signed."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield tmp_path
    sys.modules.pop("own_plant", None)


def invoke(*arguments):
    """Run a command; return what it printed and the message of its error."""
    result = CliRunner().invoke(cli.app, [str(one) for one in arguments])
    problem = result.exception if isinstance(result.exception, InputError) else ""
    assert problem or result.exit_code == 0, (result.output, result.exception)
    return " ".join(result.output.split()), str(problem)


@pytest.mark.parametrize(
    "command",
    [
        ("departure", "run", "--trials", 2),
        ("evaluate", "run", "--trials", 2),
        ("models", "run", "--episodes", 1, "--horizon", 5, "--steps", 2),
    ],
    ids=lambda command: command[0],
)
def test_a_copied_run_asks_for_its_code_and_takes_it(place, command):
    _, problem = invoke(*command)
    assert "not a run of yours" in problem
    assert " ".join(NAMED) in problem
    assert "own_plant" not in sys.modules
    text, problem = invoke(*command, *NAMED)
    assert not problem
    assert "95 % intervals" in text


def test_certificates_reports_and_exports_take_the_names(place):
    text, problem = invoke("certify", "run", "--samples", 4, *NAMED)
    assert not problem
    assert "not a run of yours" not in text
    assert "gap" in text
    assert re.search(r"multiplier of ε +of ε₀", text)
    _, problem = invoke("report", "run", "--trials", 2, "--samples", 4, "--no-open", *NAMED)
    assert not problem
    assert "not a run of yours" not in (place / "run" / "report.html").read_text()
    _, problem = invoke("export", "run", "--to", "json", "--out", "some.json", *NAMED)
    assert not problem
    _, problem = invoke("identify", "run", *NAMED, "--run-tasks", NAMED[1], "--episodes", 2)
    assert not problem
    _, problem = invoke("plot", "run", *NAMED)
    assert not problem


@pytest.mark.parametrize("command", ["departure", "certify", "evaluate", "resume", "report"])
def test_half_a_name_is_completed_by_the_message(place, command):
    text, problem = invoke(command, "run", "--around", "own_plant:mine")
    assert "name them too: --tasks own_plant:machines" in problem + text
    if command != "evaluate":  # its tasks may be others
        text, problem = invoke(command, "run", "--tasks", "own_plant:machines")
        assert "name it too: --around own_plant:mine" in problem + text
    assert "own_plant" not in sys.modules


def test_tasks_that_ship_need_the_controller_alone(place):
    text, problem = invoke("departure", "ships", "--trials", 2, "--around", "own_plant:mine")
    assert not problem
    assert "hovering-mass" in text
    _, problem = invoke("evaluate", "ships", "--trials", 2, "--around", "own_plant:mine")
    assert not problem
    learner = CrossLearner.load("ships/model.safetensors", around="own_plant:mine")
    assert learner.tasks[0].observation_size == 3


def test_naming_wrong_tasks_is_refused_at_once(place):
    _, problem = invoke(
        "export", "run", "--to", "json", "--out", "some.json", "--around", NAMED[3],
        "--tasks", "hovering-masses:3",
    )  # fmt: skip
    assert re.search(r"was learned on .*, but hovering-masses:3 gives", problem)


def test_resuming_a_finished_run_adopts_edited_code(place):
    invoke("resume", "run", *NAMED)
    sys.modules.pop("own_plant")
    assert RunFolder.open("run").is_own()
    with (place / "own_plant.py").open("a") as stream:
        stream.write("# edited\n")
    _, problem = invoke("departure", "run", "--trials", 2)
    assert "is not the one that they were trained with" in problem
    assert " ".join(NAMED) in problem
    assert "own_plant" not in sys.modules
    invoke("resume", "run", *NAMED)
    sys.modules.pop("own_plant")
    _, problem = invoke("departure", "run", "--trials", 2)
    assert not problem


# In Python ------------------------------------------------------------------------------------

MISSING = r"around the controller own_plant:mine, which is code.*around=\.\.\."


def test_a_missing_controller_is_named(place):
    file = "run/model.safetensors"
    learner = CrossLearner.load(file)
    machines = learner.tasks
    assert "missing" in repr(learner.controller(0))
    with pytest.raises(InputError, match=MISSING):
        learner.controller(0).act([0.1, 0.0])
    import own_plant

    plain = own_plant.machines()
    with pytest.raises(InputError, match=MISSING):
        evaluate(learner.controller(0), plain, trials=1)
    with pytest.raises(InputError, match=MISSING):
        learner.adapt(plain[0], 1)
    for tasks in (plain, iter(plain), {one.name: one for one in plain}, "own_plant:machines"):
        with pytest.raises(InputError, match=MISSING):
            CrossLearner.load(file, tasks=tasks)
    with pytest.raises(InputError, match=r"without its tasks, own_plant:machines; pass them"):
        CrossLearner.load(file, around=own_plant.mine)
    with pytest.raises(InputError, match=r"was learned on height.*memory 0 of the controller"):
        CrossLearner.load(file, tasks=plain, around=own_plant.forgetful)
    loaded = CrossLearner.load(file, tasks=plain, around=own_plant.mine)
    assert [one.name for one in loaded.tasks] == [one.name for one in machines]
    assert loaded.tasks[0].observation_names == machines[0].observation_names


def test_a_controller_with_another_memory_is_refused(place):
    CrossLearner.load("run/model.safetensors").controller(0).save("some.json")
    import own_plant

    other = LearnedController.load("some.json", own_plant.forgetful)
    with pytest.raises(InputError, match="reads 3 numbers, but its loop shows 2: the controller"):
        other.act([0.1, 0.0])
    assert LearnedController.load("some.json", own_plant.mine).act([0.1, 0.0]).shape == (1,)


def test_an_export_says_that_its_controller_is_missing(place):
    text, problem = invoke("export", "run", "--to", "c", "--out", "some.c", *NAMED)
    assert not problem
    assert "Remembering, is code and not inside: the C is incomplete" in text
    assert "the numbers that it remembers (1)" in text
    text, problem = invoke("export", "run", "--to", "c", "--out", "some.c")
    assert "How often it acts is not known" not in text  # the file knows it without the tasks


def test_a_list_of_runs_shows_the_bound_around_a_controller(place):
    invoke("resume", "run", *NAMED)
    steps = ("--steps", 30, "--max-knots", 20)
    _, problem = invoke("adapt", "run", "--tasks", NAMED[1], "--out", "adapted", *steps)
    assert not problem
    text, _ = invoke("runs", ".")
    assert "∞, ε₀ 0.3" in text
