"""What ``models`` prints and writes, and what it says of runs that have none."""

import json

import pytest
from typer.testing import CliRunner

from crosslearning import cli
from crosslearning.runs import make_config, train

runner = CliRunner()
TINY = {
    "tasks": "pendulums:2",
    "method": "models",
    "round_steps": 30,
    "updates_per_round": 2,
    "rollouts": 2,
}
FEW = ["--episodes", "2", "--horizon", "20", "--steps", "8"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("modelling") / "run"
    train(path, make_config({**TINY, "look_ahead": 4, "iterations": 2}))
    return path


def test_models_prints_tables_and_writes_figures(run):
    shown = runner.invoke(cli.app, ["models", str(run), *FEW])
    assert shown.exit_code == 0, shown.output
    words = ("cross-learned", "pooled", "separate", "likeness of tasks", "on 80 steps", "After 8")
    for word in (*words, "observation 2", "reward", "overall"):
        assert word in shown.output
    for name in ("errors", "paths", "radius"):
        assert (run / "figures" / f"models-{name}.png").stat().st_size > 5_000
    assert len(json.loads((run / "models.json").read_text())["kinds"]) == 3


@pytest.mark.usefixtures("undrawn")
def test_models_as_json_prints_nothing_else(run):
    shown = runner.invoke(cli.app, ["models", str(run), *FEW, "--json"])
    assert json.loads(shown.stdout) == json.loads((run / "models.json").read_text())


def test_a_run_of_another_method_is_told_apart(tmp_path):
    train(tmp_path / "run", make_config({"tasks": "paper", "iterations": 2, "max_knots": 10}))
    problem = str(runner.invoke(cli.app, ["models", str(tmp_path / "run")]).exception)
    assert "policy-gradient, which learns no models" in problem
    assert "--method models" in problem
    assert not (tmp_path / "run" / "models.json").exists()


def test_a_missing_folder_is_told(tmp_path):
    assert "there is no folder" in str(runner.invoke(cli.app, ["models", "nowhere"]).exception)
    assert "holds no run" in str(runner.invoke(cli.app, ["models", str(tmp_path)]).exception)
