"""What the commands that make runs say, and what ``info`` shows of them."""

import shlex
import signal

import pytest
from typer.testing import CliRunner

from crosslearning import CrossLearner, cli
from crosslearning.analysis.adaptation import adapt_run
from crosslearning.cli import options, training
from crosslearning.cli.output import describe_kernel
from crosslearning.errors import InputError
from crosslearning.learner.core import Core
from crosslearning.rkhs import (
    Gaussian,
    Laplacian,
    Linear,
    Matern32,
    PairKernel,
    Polynomial,
    Product,
)
from crosslearning.runs import RunConfig, make_config, train
from crosslearning.runs.system_info import in_words, system_info

runner = CliRunner()
TASKS = ["--tasks", "linear-quadratic", "--max-knots", "20"]


def invoke(*arguments):
    """Run a command, and return what it printed, as one line."""
    result = runner.invoke(cli.app, [str(one) for one in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (Gaussian(std=[1.0, 2.5]), "gaussian; widths (standard deviations) 1, 2.5"),
        (
            Gaussian(covariance=[[4.0, 0.5], [0.5, 2.0]]),
            "gaussian; widths (standard deviations) 2, 1.414; correlated",
        ),
        (
            Matern32(std=[1.0, 2.0], periodic=[0], logarithmic={1: 0.1}),
            "matern32; widths (standard deviations) 1, 2; coordinate 0 periodic, period 6.283; "
            "coordinate 1 logarithmic, size 0.1",
        ),
        (Polynomial([1.0, 2.0], 2), "polynomial; widths (standard deviations) 1, 2; degree 2; "),
        (
            Product((Laplacian(std=[1.0]), [0]), (Linear([2.0]), [1])),
            "laplacian; widths (standard deviations) 1 of coordinates [0] times linear; ",
        ),
        (PairKernel(lambda x, y: x[0] * y[0], 1, "mine"), "pair; label mine; dimension 1"),
    ],
)
def test_kernels_are_shown_by_their_widths(kernel, words):
    assert describe_kernel(kernel.to_dict()).startswith(words)


def test_info_shows_widths(tmp_path):
    invoke("train", "--out", tmp_path / "run", *TASKS, "--iterations", 2)
    shown = invoke("info", tmp_path / "run")
    assert "widths (standard" in shown
    assert "covariance" not in shown
    assert f"made on: {in_words(system_info())}" in " ".join(shown.split())


# Ctrl-C before the first iteration is whole, and folders that are in use. -------------------


def pressed(*_, **__):
    raise KeyboardInterrupt


def interrupted(*arguments):
    result = runner.invoke(cli.app, [str(one) for one in arguments])
    assert result.exit_code == 130
    return " ".join(result.output.split())


@pytest.mark.parametrize("command", ["train", "adapt"])
def test_ctrl_c_before_a_run_begins_says_that_nothing_is_kept(command, tmp_path, monkeypatch):
    start = ["--out", tmp_path / "run", *TASKS]
    if command == "adapt":
        invoke("train", "--out", tmp_path / "first", *TASKS, "--iterations", 2, "--epsilon", 0)
        start = [tmp_path / "first", *start]
    monkeypatch.setattr(RunConfig, "learner", pressed)
    assert "Interrupted before the run began; nothing is kept." in interrupted(command, *start)
    assert not (tmp_path / "run").exists()


def test_ctrl_c_in_the_first_iteration_says_how_to_begin_again(tmp_path, monkeypatch):
    run, asked = tmp_path / "run", [*TASKS, "--iterations", 4]
    with monkeypatch.context() as patch:
        patch.setattr(Core, "step", pressed)
        said = interrupted("train", "--out", run, *asked)
        again = f"crosslearning resume {shlex.quote(str(run))}"
        assert f"no iteration is kept yet. Begin again with: {again}" in said
    assert "Finished 4 iterations" in invoke("resume", run)
    monkeypatch.setattr(Core, "step", pressed)
    said = interrupted("resume", run, "--iterations", 5)
    assert f"iteration 4 is kept. Go on with: {again}" in said


def test_the_first_ctrl_c_is_answered_at_once(tmp_path, monkeypatch):
    step, answers = Core.step, []

    def pressing(core):
        signal.raise_signal(signal.SIGINT)
        answers.append(core.iterate.iteration)
        return step(core)

    monkeypatch.setattr(Core, "step", pressing)
    said = interrupted("train", "--out", tmp_path / "run", *TASKS)
    assert "Stopping after the first iteration" in said
    assert "saved at iteration 1" in said
    assert answers == [0]


def test_a_second_ctrl_c_stops_at_once_and_says_what_is_kept(tmp_path, monkeypatch):
    run, step = tmp_path / "run", Core.step

    def pressing(core):
        if core.iterate.iteration == 3:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return step(core)

    monkeypatch.setattr(Core, "step", pressing)
    length = ["--iterations", 5, "--checkpoint-every", 2]
    said = interrupted("train", "--out", run, *TASKS, *length)
    assert f"iteration 2 is kept. Go on with: crosslearning resume {shlex.quote(str(run))}" in said
    monkeypatch.setattr(Core, "step", step)
    assert "Finished 5 iterations" in invoke("resume", run)


@pytest.mark.parametrize("command", ["train", "adapt"])
def test_a_folder_in_use_is_refused_before_anything_is_compiled(command, tmp_path, monkeypatch):
    invoke("train", "--out", tmp_path / "run", *TASKS, "--iterations", 2)
    (tmp_path / "file").touch()
    monkeypatch.setattr(training, "announce_compilation", pressed)
    monkeypatch.setattr(options, "config_from", pressed)
    arguments = [command] if command == "train" else [command, str(tmp_path / "run")]
    for name, words in (("run", "already holds a run"), ("file", "is a file")):
        out = [*arguments, "--out", str(tmp_path / name), *TASKS]
        assert words in str(runner.invoke(cli.app, out).exception)
    monkeypatch.setattr(RunConfig, "learner", pressed)
    with pytest.raises(InputError, match="already holds a run"):
        train(tmp_path / "run", make_config({"tasks": "linear-quadratic"}))
    monkeypatch.setattr(CrossLearner, "load", pressed)
    with pytest.raises(InputError, match="already holds a run"):
        adapt_run(tmp_path / "run", tmp_path / "run", "linear-quadratic")


def test_a_run_that_becomes_shorter_is_told(tmp_path):
    run = tmp_path / "run"
    invoke("train", "--out", run, *TASKS, "--iterations", 9, "--checkpoint-every", 3)
    (run / "model.safetensors").unlink()  # as if killed after the checkpoint of iteration 6
    too_few = runner.invoke(cli.app, ["resume", str(run), "--iterations", "5"])
    assert "has made 6 iterations already; ask for more than that" in str(too_few.exception)
    said = invoke("resume", run, "--iterations", 8)
    assert "The run was to have 9 iterations; it now ends at 8." in said
    assert "Finished 8 iterations" in said
    assert "was to have" not in invoke(
        "resume", run, "--iterations", 10, "--on", "threads", "--workers", 2
    )


TASK_MODULE = """
from pathlib import Path

from crosslearning.tasks import task_set


def counted(count=2):
    with Path({calls!r}).open("a") as file:
        file.write("built\\n")
    return task_set("linear-quadratic")
"""


def test_every_command_builds_the_tasks_once(tmp_path, monkeypatch):
    calls, run = tmp_path / "calls", tmp_path / "run"
    (tmp_path / "counted_tasks.py").write_text(TASK_MODULE.format(calls=str(calls)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def built(*arguments):
        calls.write_text("")
        invoke(*arguments)
        return len(calls.read_text().splitlines())

    begin = ["--tasks", "counted_tasks:counted", "--max-knots", 20, "--iterations", 3]
    assert built("train", "--out", run, *begin) == 1
    assert built("resume", run) == 1
    assert built("resume", run, "--iterations", 4) == 1
    assert built("evaluate", run, "--trials", 2) == 1
    (run / "model.safetensors").unlink()
    assert built("resume", run) == 1


def test_the_method_that_is_chosen_is_printed(tmp_path):
    short = [*TASKS, "--iterations", 1]
    chosen = invoke("train", "--out", tmp_path / "chosen", *short)
    assert "Method: policy-gradient, as in the paper, for tasks that state" in chosen
    implied = invoke("train", "--out", tmp_path / "implied", *short, "--batch-size", 2)
    assert "Method: policy-gradient, for a setting that it alone has. Another" in implied
    named = invoke("train", "--out", tmp_path / "named", *short, "--method", "policy-gradient")
    assert "Method" not in named


@pytest.mark.parametrize("command", ["train", "adapt", "sweep", "evaluate"])
def test_help_shows_plain_types(command):
    shown = invoke(command, "--help")
    assert "Annotated" not in shown
    assert "typing." not in shown
