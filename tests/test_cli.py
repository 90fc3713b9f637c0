"""The command line, as a user types it."""

import json

import pytest
from typer.testing import CliRunner

from crosslearning import cli

runner = CliRunner()
SMALL = ["--iterations", "30", "--max-knots", "30", "--checkpoint-every", "10"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "run"
    result = runner.invoke(cli.app, ["train", "--out", str(path), *SMALL, "--epsilon", "2.5"])
    assert result.exit_code == 0, result.output
    assert "Finished 30 iterations" in result.output
    return path


def test_train_writes_what_was_asked(run):
    text = (run / "config.toml").read_text()
    assert "epsilon = 2.5" in text
    assert "max_knots = 30" in text


def test_flags_go_before_the_file(tmp_path):
    (tmp_path / "c.toml").write_text("iterations = 3\nmax_knots = 20\nepsilon = 1.0\n")
    arguments = ["train", "--out", str(tmp_path / "r"), "--config", str(tmp_path / "c.toml")]
    extra = ["--epsilon", "inf", "--action-variance", "0.05,0.1"]
    extra += ["--kernel", '{"kernel": "matern32", "covariance": [1,1,1,1,1], "periodic": []}']
    result = runner.invoke(cli.app, [*arguments, *extra])
    assert result.exit_code == 0, result.output
    text = (tmp_path / "r" / "config.toml").read_text()
    assert "epsilon = inf" in text
    assert "max_knots = 20" in text
    assert "matern32" in text


def test_evaluate_prints_json(run):
    result = runner.invoke(cli.app, ["evaluate", str(run), "--trials", "20", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.output)
    assert [(row["task"], row["policy"]) for row in rows][:2] == [
        ("r=0.5", "central"),
        ("r=0.5", "r=0.5"),
    ]
    assert len(rows) == 12
    for row in rows:
        estimate = row["discounted_return"]
        assert estimate["low"] <= estimate["value"] <= estimate["high"]
        assert 0 <= row["rates"]["arrived"]["value"] <= 1
    again = runner.invoke(cli.app, ["evaluate", str(run), "--trials", "20", "--json"])
    assert json.loads(again.output) == rows


def test_evaluate_on_other_tasks(run):
    result = runner.invoke(
        cli.app, ["evaluate", str(run), "--trials", "5", "--tasks", "mission", "--json"]
    )
    assert result.exit_code == 0, result.output
    assert {row["task"] for row in json.loads(result.output)} == {"mission"}


def test_adapt_makes_a_run_of_its_own(run, tmp_path):
    arguments = ["adapt", str(run), "--tasks", "random:unseen:2", "--out", str(tmp_path / "a")]
    result = runner.invoke(cli.app, [*arguments, "--iterations", "3", "--step-size", "0.3"])
    assert result.exit_code == 0, result.output
    assert "Finished 3 iterations" in result.output
    text = (tmp_path / "a" / "config.toml").read_text()
    assert 'tasks = "random:unseen:2"' in text
    assert "epsilon = inf" in text
    assert "step_size = 0.3" in text
    assert "max_knots = 30" in text  # as it was
    result = runner.invoke(cli.app, ["resume", str(tmp_path / "a"), "--iterations", "4"])
    assert "Finished 4 iterations" in result.output


def test_info(run):
    result = runner.invoke(cli.app, ["info", str(run)])
    assert result.exit_code == 0
    assert "finished" in result.output
    assert "iteration 30 of 30" in result.output


def test_plot_draws_both_pictures(run):
    result = runner.invoke(cli.app, ["plot", str(run), "--trials", "3"])
    assert result.exit_code == 0, result.output
    for name in ("learning", "trajectories"):
        png = (run / "figures" / f"{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert len(png) > 10_000
        assert (run / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_quickstart_learns_evaluates_and_draws(tmp_path):
    arguments = ["quickstart", "--out", str(tmp_path / "q"), "--iterations", "20"]
    for _ in range(2):  # the second time it finds the run and draws it again
        result = runner.invoke(cli.app, arguments)
        assert result.exit_code == 0, result.output
        assert "trajectories.png" in result.output.replace("\n", "")
        assert "central" in result.output


def test_relate_ranks_tasks_and_draws_them(run):
    result = runner.invoke(cli.app, ["relate", str(run)])
    assert result.exit_code == 0, result.output
    assert "share of pull" in result.output.replace("\n", " ")
    assert "does not stand apart" in result.output
    content = json.loads((run / "relatedness.json").read_text())
    assert {task["task"] for task in content["tasks"]} == {"r=0.5", "r=1", "r=2"}
    assert (run / "figures" / "relatedness.png").read_bytes().startswith(b"\x89PNG")
    printed = runner.invoke(cli.app, ["relate", str(run), "--json"])
    assert json.loads(printed.output) == content


def test_sweep_learns_measures_and_recommends(tmp_path):
    # In processes of its own, as a user runs it.
    out = tmp_path / "s"
    arguments = ["sweep", "--out", str(out), "--tasks", "linear-quadratic", "--workers", "1"]
    arguments += ["--epsilons", "0,0.3", "--seeds", "1", "--iterations", "6", "--trials", "3"]
    result = runner.invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    assert "Recommended: ε = " in result.output
    assert "from one seed" in result.output
    content = json.loads((out / "sweep.json").read_text())
    assert content["config"]["iterations"] == 6
    assert content["stage_iterations"] == 3
    assert content["held_out"] is None


def test_sweep_sets_epsilon_itself(tmp_path):
    (tmp_path / "c.toml").write_text("epsilon = 1.0\n")
    arguments = ["sweep", "--out", str(tmp_path / "s"), "--config", str(tmp_path / "c.toml")]
    result = runner.invoke(cli.app, arguments)
    assert "a sweep sets epsilon itself" in str(result.exception)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--out", "x", "--tasks", "papr"], "did you mean 'paper'"),
        (["train", "--out", "x", "--epsilon", "-1"], "epsilon"),
        (
            ["train", "--out", "x", "--kernel", "{"],
            "such as {kernel = 'gaussian', …}",
        ),
        (["train", "--out", "x", "--action-variance", "a,b"], "numbers with commas"),
        (["train", "--out", "x", "--config", "missing.toml"], "cannot read missing.toml"),
        (["resume", "nowhere"], "there is no folder"),
        (["evaluate", "nowhere"], "there is no folder"),
        (["info", "nowhere"], "there is no folder"),
        (["plot", "nowhere"], "there is no folder"),
        (["relate", "nowhere"], "there is no folder"),
        (["sweep", "--out", "x", "--epsilons", "1,0"], "must ascend"),
        (["sweep", "--out", "x", "--held-out", "random:none"], "such as random:50"),
        (["sweep", "--out", "x", "--tasks", "papr"], "did you mean 'paper'"),
        (["sweep", "--out", "x", "--config", "missing.toml"], "cannot read missing.toml"),
    ],
)
def test_errors_are_one_clear_line(arguments, message, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["crosslearning", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    output = capsys.readouterr()
    assert message in output.err
    assert "Traceback" not in output.err
    assert not (tmp_path / "x").exists()


def test_evaluate_over_many_maps_makes_the_maps_the_sample(run):
    arguments = ["evaluate", str(run), "--tasks", "random:14", "--horizon", "10", "--json"]
    result = runner.invoke(cli.app, [*arguments, "--task-options", '{"seed": 3}'])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.output)
    assert [row["policy"] for row in rows] == ["central", "r=0.5", "r=1", "r=2"]
    assert {(row["task"], row["trials"]) for row in rows} == {("14 tasks", 70)}
    other = json.loads(runner.invoke(cli.app, arguments).output)
    assert other != rows  # the seed of the maps matters


def test_compare_two_runs(run, tmp_path):
    other = tmp_path / "other"
    made = runner.invoke(cli.app, ["train", "--out", str(other), *SMALL, "--seed", "5"])
    assert made.exit_code == 0, made.output
    arguments = ["compare", str(run), str(other), "--trials", "15", "--horizon", "12", "--json"]
    forth = json.loads(runner.invoke(cli.app, arguments).output)
    arguments[1:3] = [str(other), str(run)]
    back = json.loads(runner.invoke(cli.app, arguments).output)
    assert [row["task"] for row in forth] == ["r=0.5", "r=1", "r=2"]
    for one, two in zip(forth, back, strict=True):
        assert one["discounted_return"]["value"] == pytest.approx(
            -two["discounted_return"]["value"]
        )
        assert one["verdict"] in ("better", "worse", "undecided")
    shown = runner.invoke(cli.app, ["compare", str(run), str(other), "--trials", "15"])
    assert shown.exit_code == 0
    assert "verdict" in shown.output
    assert sum(shown.output.count(word) for word in ("better", "worse", "undecided")) == 3
    unknown = runner.invoke(cli.app, ["compare", str(run), str(other), "--policy", "r=3"])
    assert unknown.exit_code == 1
    assert "no such policy" in str(unknown.exception)


def test_options_of_no_task_set_are_refused(run):
    result = runner.invoke(cli.app, ["evaluate", str(run), "--task-options", '{"seed": 3}'])
    assert result.exit_code == 1
    assert "--task-options needs --tasks" in str(result.exception)


def test_tables_are_read_as_in_a_file_and_as_json(tmp_path):
    for number, text in enumerate(("{crash = 'terminate'}", '{"crash": "terminate"}')):
        out = tmp_path / str(number)
        arguments = ["train", "--out", str(out), "--iterations", "2", "--max-knots", "20"]
        result = runner.invoke(cli.app, [*arguments, "--task-options", text])
        assert result.exit_code == 0, result.output
        assert 'crash = "terminate"' in (out / "config.toml").read_text()
    wrong = runner.invoke(cli.app, ["train", "--out", "x", "--task-options", "terminate"])
    assert "such as {crash = 'terminate', …}" in str(wrong.exception)


def test_maps_are_asked_for_by_their_number(run):
    for text in ("random:0", "random:-3", "random:many"):
        result = runner.invoke(cli.app, ["evaluate", str(run), "--tasks", text])
        assert result.exit_code == 1
        assert "such as random:50" in str(result.exception)


def test_a_sweep_does_not_begin_in_a_run(run):
    before = sorted(path.name for path in run.iterdir())
    result = runner.invoke(cli.app, ["sweep", "--out", str(run), "--seeds", "1"])
    assert "holds a run" in str(result.exception)
    assert sorted(path.name for path in run.iterdir()) == before


def test_a_folder_that_is_not_there_is_named(tmp_path):
    result = runner.invoke(cli.app, ["evaluate", str(tmp_path / "nowhere")])
    assert "there is no folder" in str(result.exception)


def test_no_summary_of_a_command_is_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = runner.invoke(cli.app, ["--help"]).output
    commands = shown[shown.index("Commands:") :]
    assert "sweep" in commands
    assert "..." not in commands
