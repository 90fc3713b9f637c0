"""Reports of very many tasks: a summary and the worst, never a line for each."""

import json

import pytest
from typer.testing import CliRunner

from crosslearning import runs
from crosslearning.cli.application import app

pytestmark = pytest.mark.usefixtures("undrawn")
TASKS = 28


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("many") / "run"
    fields = {"tasks": f"random:{TASKS}", "iterations": 3, "batch_size": 1, "max_knots": 10}
    runs.train(path, runs.make_config({**fields, "log_every": 1}))
    return path


def said(*words):
    ended = CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "200"})
    assert ended.exit_code == 0, ended.output
    return ended.output


def test_info_tells_the_mean_and_the_worst(run):
    text = " ".join(said("info", run).split())
    assert f"mean of {TASKS} tasks -" in text
    assert text.partition("the worst: ")[2].count("random-0-") == 5


def test_evaluate_tells_the_mean_and_the_worst(run):
    text = said("evaluate", run, "--trials", 1)
    assert text.count(f"{TASKS} tasks") == 2
    assert text.count("random-0-") == 10
    assert "The 5 tasks whose own policies do worst" in text
    rows = json.loads(said("evaluate", run, "--trials", 1, "--json"))
    assert len(rows) == 2 * TASKS
    assert [row["policy"] for row in rows[:4]] == ["own", "central"] * 2
    own = sorted((row for row in rows if row["policy"] == "own"), key=_value)
    assert text.index(own[0]["task"]) < text.index(own[4]["task"])


def _value(row):
    return row["discounted_return"]["value"]


def test_on_other_tasks_the_central_policy_is_evaluated(run):
    text = said("evaluate", run, "--tasks", "random:unseen:2", "--trials", 1)
    assert f"The central policy alone: there are {TASKS} task policies." in text


def test_a_certificate_tells_the_farthest_and_the_largest(run):
    text = said("certify", run, "--samples", 100)
    assert f"The 10 farthest; {TASKS - 10} tasks are nearer." in text
    assert f"The 10 largest; {TASKS - 10} tasks have smaller ones." in text
    assert len(text.splitlines()) < 120
    assert f"and {TASKS - 10} more" in text
    result = json.loads((run / "certificate" / "certificate.json").read_text())
    assert len(result["gaps"]) == len(result["constraint"]) == TASKS


def test_relate_names_those_that_stand_farthest_apart(run):
    text = said("relate", run)
    assert f"{TASKS - 13} more tasks stand less apart" in text
    assert len(text.splitlines()) < 40


def test_paths_are_of_the_worst(run):
    text = said("plot", run, "--trials", 1)
    assert "Paths are of the 24 tasks with the lowest recent returns." in text


def test_a_page_shows_the_worst(run):
    said("report", run, "--trials", 1, "--samples", 100, "--no-open")
    page = (run / "report.html").read_text()
    assert "The 24 tasks whose own policies do worst; 4 do better." in page
