"""Logs on the command line: shown first, then learned from, in a run folder like any other."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from crosslearning.cli import app
from crosslearning.errors import InputError
from crosslearning.runs import RunFolder

FLAGS = ["--observations", "level", "--actions", "valve", "--setpoint", "level=0.5"]
QUICK = ["--iterations", "2", "--rollouts", "4", "--look-ahead", "5"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw, lines = np.random.default_rng(0), ["pump,time [s],level [m],valve [%]"]
    for pump, gain in (("one", 0.2), ("two", 0.4)):
        x = 1.0
        for k in range(30):
            u = draw.uniform(-1.0, 1.0)
            lines.append(f"{pump},{0.5 * k + (9.0 if k > 20 else 0.0)},{x},{u}")
            x = 0.9 * x + gain * u
    (tmp_path / "pumps.csv").write_text("\n".join(lines))
    return "pumps.csv"


def run(*arguments):
    outcome = CliRunner().invoke(app, list(arguments))
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    return outcome.output


def test_logs_are_shown_before_anything_is_learned(table, tmp_path):
    text = run("logs", table)
    assert "Nothing can be learned yet" in text
    assert "--observations" in text
    text = run("logs", table, *FLAGS, "--machine", "pump", "--out", "shown")
    for part in ("2 Hz", "1 (≤ 9.5 s)", "observation", "2 machines", "valve"):
        assert part in text
    found = json.loads((tmp_path / "shown" / "logs.json").read_text())
    assert [one["steps"] for one in found["machines"]] == [[20, 8], [20, 8]]
    assert (tmp_path / "shown" / "logs.png").stat().st_size > 10_000


@pytest.mark.filterwarnings("ignore:there are gaps in time", "ignore:policies leave the data")
def test_a_run_from_logs_is_a_run(table, tmp_path):
    text = run("train", "--from", table, *FLAGS, "--machine", "pump", *QUICK, "--out", "r")
    assert "Finished 2 iterations" in text
    assert "evaluate it with --tasks" in text
    folder = RunFolder.open("r")
    learner = folder.load()
    assert [task.name for task in learner.tasks] == ["one", "two"]
    assert learner.settings.range_penalty == 1.0
    assert "had finished at iteration 2" in run("resume", "r")
    assert "Checked against Python" in run("export", "r", "--to", "json", "--out", "p.json")
    assert "learned from logs alone" in run("certify", "r")
    assert "what 30 more steps" in run("plan", "r", "--steps", "30", "--samples", "4")
    with pytest.raises(InputError, match="the tasks of this learner are not here"):
        run("evaluate", "r")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--from", "pumps.csv", "--tasks", "paper"], "--tasks does not go with --from"),
        (["--from", "pumps.csv", "--steps", "5"], "--steps does not go with --from"),
        (["--from", "pumps.csv", "--method", "trust-region"], "learned from by models"),
        (["--from", "pumps.csv"], "no column for the observations"),
        (["--observations", "level"], "need --from FILE"),
        (["--from", "pumps.csv", "--setpoint", "level"], "such as temperature=350"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(table, flags, message):
    with pytest.raises(InputError, match=message):
        run("train", "--out", "r", *flags)
