"""The commands that show runs, as a user calls them."""

import json
import shlex

import pytest
from typer.testing import CliRunner

from crosslearning import cli
from crosslearning.runs import make_config, train

SMALL = {"tasks": "linear-quadratic", "method": "policy-gradient", "max_knots": 20, "iterations": 2}


def called(*arguments):
    return CliRunner().invoke(cli.app, [str(one) for one in arguments])


def test_runs_lists_what_is_there_and_what_to_do(tmp_path):
    train(tmp_path / "first", make_config(SMALL))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    result = called("runs", tmp_path)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines[0] == f"{tmp_path}: 2 runs"
    assert lines[3].startswith("broken damaged – –")
    assert lines[4].startswith("first finished policy-gradient linear-quadratic (3) ")
    assert "Returns with ~ are discounted, of the last iterations" in result.output
    assert f"crosslearning evaluate {shlex.quote(str(tmp_path / 'first'))}" in lines
    assert lines[-2].startswith(f"crosslearning certify {shlex.quote(str(tmp_path / 'broken'))} # ")
    rows = json.loads(called("runs", tmp_path, "--json").output)
    assert [(row["state"], row["task_count"]) for row in rows] == [
        ("damaged", None),
        ("finished", 3),
    ]
    # What is proposed for a damaged run says what is wrong, and more.
    assert called("certify", tmp_path / "broken").exit_code == 1


def test_an_empty_folder_says_how_to_begin(tmp_path):
    result = called("runs", tmp_path)
    assert result.exit_code == 0
    assert f"There are no runs in {tmp_path}. Begin one: crosslearning train" in result.output
    assert called("runs", tmp_path, "--json").output.strip() == "[]"


def test_render_films_a_policy_in_a_task(tmp_path):
    asked = {**SMALL, "tasks": "paper"}
    run = tmp_path / "run"
    train(run, make_config(asked))
    result = called("render", run, "--horizon", 3, "--task", "1")
    assert result.exit_code == 0, (result.output, result.exception)
    assert "The central policy in task r=1: 3 steps, total return " in result.output
    assert (run / "figures" / "film.gif").exists()
    own = called("render", run, "--policy", "2", "--horizon", 2, "--out", tmp_path / "x.png")
    assert "The r=2 policy in task r=2: 2 steps" in own.output
    assert (tmp_path / "x.png").exists()
    assert "did you mean 'r=2'?" in str(called("render", run, "--task", "r=3").exception)
    assert "does not end with" in str(called("render", run, "--out", "x.avi").exception)


@pytest.mark.usefixtures("undrawn")
def test_report_writes_a_page_beside_the_run(tmp_path):
    run = tmp_path / "run"
    train(run, make_config(SMALL))
    result = called("report", run, "--trials", 3, "--samples", 10)
    assert result.exit_code == 0, (result.output, result.exception)
    assert (run / "report.html").read_text().startswith("<!DOCTYPE html>")
    notes = tmp_path / "notes.html"
    notes.write_text("mine")
    assert "is no report; choose" in str(called("report", run, "--out", notes).exception)
    assert notes.read_text() == "mine"
    assert called("report", run, "--trials", 3, "--samples", 10).exit_code == 0  # over its own
    assert "is a folder; give the name" in str(called("report", run, "--out", tmp_path).exception)
    assert "there is no folder" in str(called("report", run, tmp_path / "none").exception)
