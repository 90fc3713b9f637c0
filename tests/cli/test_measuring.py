"""What evaluate and compare print: whole intervals in narrow windows, both returns, JSON."""

import json
import re
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from crosslearning import cli
from crosslearning._base.statistics import Interval
from crosslearning.cli import output
from crosslearning.learner.evaluation import Evaluation
from crosslearning.runs import make_config, train

runner = CliRunner()
SMALL = {"tasks": "paper", "iterations": 8, "max_knots": 20}
INTERVAL = re.compile(r"-?[\d.e+-]+ \[-?[\d.e+-]+, -?[\d.e+-]+\]")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("measuring") / "run"
    train(path, make_config({**SMALL, "epsilon": float("inf")}))
    return path


@pytest.mark.parametrize("width", [80, 40])
def test_intervals_stay_on_one_line(run, monkeypatch, width):
    monkeypatch.setattr(output, "console", Console(width=width))
    shown = runner.invoke(cli.app, ["evaluate", str(run), "--trials", "20", "--all"]).output
    rows = [line for line in shown.splitlines() if line.startswith("r=")]
    assert len(rows) == 12
    for row in rows:
        # The discounted return, crashed, arrived; the total return stands below the first.
        assert len(INTERVAL.findall(row)) == 3
    assert len(INTERVAL.findall(shown)) == 12 * 4
    if width == 80:
        table = shown[shown.index("task ") :]
        assert max(map(len, table.splitlines())) <= 80
    shown = runner.invoke(cli.app, ["compare", str(run), str(run), "--trials", "20"]).output
    assert len(INTERVAL.findall(shown)) == 3 * 4


def test_each_policy_is_shown_on_its_own_task_and_the_central_one_on_all(run):
    def pairs(*more):
        arguments = ["evaluate", str(run), "--trials", "2", "--horizon", "3", *more]
        shown = runner.invoke(cli.app, arguments).output
        rows = [line.split() for line in shown.splitlines() if line.startswith("r=")]
        return {(task, policy): numbers for task, policy, *numbers in rows}

    tasks = ("r=0.5", "r=1", "r=2")
    shown, every = pairs(), pairs("--all")
    assert list(shown) == [(task, policy) for task in tasks for policy in ("central", task)]
    assert list(every) == [(task, policy) for task in tasks for policy in ("central", *tasks)]
    assert shown.items() <= every.items()  # the same starts
    other = runner.invoke(
        cli.app,
        ["evaluate", str(run), "--tasks", "paper-ellipse", "--trials", "2", "--horizon", "3"],
    ).output
    assert "central" in other
    assert "r=1" not in other
    arguments = ["evaluate", str(run), "--trials", "2", "--horizon", "3", "--json"]
    assert len(json.loads(runner.invoke(cli.app, arguments).output)) == 12


def test_without_a_radius_the_table_says_what_is_central(run, tmp_path):
    line = "it is the mean of the task policies"
    for arguments in (["evaluate", str(run)], ["compare", str(run), str(run)]):
        arguments += ["--trials", "2", "--horizon", "3"]
        assert line in runner.invoke(cli.app, arguments).output
    train(tmp_path / "other", make_config({**SMALL, "epsilon": 1.0}))
    bounded = ["evaluate", str(tmp_path / "other"), "--trials", "2", "--horizon", "3"]
    assert line not in runner.invoke(cli.app, bounded).output


def test_json_has_the_old_names_and_the_new(run):
    arguments = ["evaluate", str(run), "--trials", "3", "--horizon", "7", "--json"]
    row = json.loads(runner.invoke(cli.app, arguments).output)[0]
    assert row["horizon"] == row["steps"] == 7
    old = {"policy", "task", "trials", "steps", "discounted_return", "mean_cost", "rates", "means"}
    assert set(row) == old | {"horizon", "total_return"}
    assert row["total_return"]["low"] <= row["total_return"]["value"]
    arguments[1:2] = [str(run), str(run)]
    pair = json.loads(runner.invoke(cli.app, ["compare", *arguments[1:]]).output)[0]
    assert pair["total_return"]["value"] == 0.0
    assert pair["verdict"] == "undecided"


def test_another_seed_measures_other_starts(run):
    def returns(seed):
        arguments = ["evaluate", str(run), "--trials", "3", "--horizon", "7", "--json"]
        rows = json.loads(runner.invoke(cli.app, [*arguments, "--seed", seed]).output)
        return [row["discounted_return"]["value"] for row in rows]

    assert returns("0") == returns("0")
    assert returns("0") != returns("1")


def test_the_table_shows_listed_outcomes_and_what_only_some_tasks_tell(capsys, monkeypatch):
    def numbers(task, rates, means):
        known = Interval(0.5, 0.25, 0.75)
        returns = {"discounted_return": known, "total_return": known, "mean_cost": known}
        named = {"task": task, "policy": "central", "trials": 3, "horizon": 9, **returns}
        shares, others = dict.fromkeys(rates, known), dict.fromkeys(means, known)
        return Evaluation(rates=shares, means=others, **named)

    results = [numbers("a", ["crashed"], ["distance", "other"]), numbers("b", ["is_success"], [])]
    monkeypatch.setattr(output, "console", Console(width=200))
    output.show_numbers("title", results, [SimpleNamespace(listed_outcomes=("distance",))])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    headings = next(line for line in lines if "policy" in line)
    assert headings[-5:] == ["crashed,", "%", "is_success,", "%", "distance"]
    first, second = (next(line for line in lines if line[:1] == [task]) for task in "ab")
    assert first[-7:] == ["50.0", "[25.0,", "75.0]", "–", "0.5", "[0.25,", "0.75]"]
    assert second[-5:] == ["–", "50.0", "[25.0,", "75.0]", "–"]
