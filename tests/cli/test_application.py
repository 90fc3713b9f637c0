"""What commands share."""

import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer

from crosslearning import cli, runs
from crosslearning.cli import application


def test_compiling_is_announced_until_something_was_compiled(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(application, "__file__", str(tmp_path / "package" / "cli" / "here.py"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    application.announce_compilation()
    assert "First use" in capsys.readouterr().out
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "slots._insert_knots-30.py311.nbi").touch()
    application.announce_compilation()
    assert capsys.readouterr().out == ""


def test_a_warning_is_one_clear_line(monkeypatch, capsys):
    before = warnings.showwarning
    monkeypatch.setattr(
        application, "app", lambda: warnings.warn("the tank is nearly empty", stacklevel=1)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        cli.main()
        assert capsys.readouterr().err == "warning: the tank is nearly empty\n"
    assert warnings.showwarning is before


def run(monkeypatch, capsys, *arguments):
    """Return the exit code of a command, and what it said."""
    monkeypatch.setattr("sys.argv", ["crosslearning", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, " ".join("".join(capsys.readouterr()).split())


WIDE = '{"kernel": "gaussian", "std": [1e200, 1.0]}'
SMALL = ["--tasks", "linear-quadratic", "--iterations", "2", "--max-knots", "5"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["train", "--out", "x" * 300, *SMALL], 1, "xxx… (312 characters): File name too long"),
        (["evaluate", "x" * 300], 1, "File name too long"),
        (["train", "--out", "", *SMALL], 2, "it is empty; name a folder"),
        (["sweep", "--out", " "], 2, "it is empty; name a folder"),
        (["train", "--out", "/", *SMALL], 1, "root of all folders"),
        (["train", "--out", "r", *SMALL, "--task-options", '{"a":' + "[" * 9000], 1, "a table"),
        (["train", "--out", "r", *SMALL, "--task-options", "[]"], 1, "must be a table"),
        (["train", "--out", "r", *SMALL, "--task-options", '{"name": "x"}'], 1, "no such linear-"),
        (["train", "--out", "r", *SMALL, "--task-options", '{"self": 1}'], 1, "parameter 'self'"),
        (["train", "--out", "r", *SMALL, "--check-delta", "1e-320", "--alpha", "1"], 1, "delta"),
        (["train", "--out", "r", *SMALL, "--kernel", WIDE], 1, "std must be from 1e-150"),
        (["train", "--out", "r", *SMALL, "--max-knots", str(2**64)], 1, "max_knots is 184467"),
        (["train", "--out", "r", *SMALL, "--batch-size", str(2**63)], 1, "batch_size is 92233"),
        (["train", "--out", "r", *SMALL, "--discount", "0.99999999999"], 1, "1e+11 steps on av"),
        (["train", "--out", "r", *SMALL, "--budget", "1e308"], 1, "budget is 1e+308, and float64"),
        (["train", "--out", "r", *SMALL, "--epsilon", "1e200"], 1, "or inf for no bound"),
        (["train", "--out", "r", *SMALL, "--alpha", "inf"], 1, "alpha must be finite"),
        (
            ["train", "--out", "r", *SMALL, "--action-variance", "1e-320"],
            1,
            "expected float >= 1e-70",
        ),
        (["train", "--out", "r", *SMALL, "--config", "deep.toml"], 1, "is not a TOML file"),
        (["train", "--out", "r", *SMALL, "--config", "."], 1, "Is a directory"),
    ],
)
def test_what_cannot_be_done_is_one_line(monkeypatch, capsys, tmp_path, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep.toml").write_text("a = " + "[" * 9000)
    ended, said = run(monkeypatch, capsys, *arguments)
    assert ended == code
    assert words in said
    assert [path.name for path in tmp_path.iterdir()] == ["deep.toml"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "a run"
    fields = {"tasks": "linear-quadratic", "iterations": 2, "max_knots": 5}
    runs.train(path, runs.make_config(fields))
    return path


def spoil(path, what):
    """Put a folder where a file was, which not even root can read as one."""
    (path / what).unlink(missing_ok=True)
    (path / what).mkdir()


@pytest.mark.parametrize(
    ("arguments", "spoilt", "words"),
    [
        (["certify", "--alpha", "1e308"], None, "alpha must be positive and finite"),
        (["theory", "--delta", "1e-320"], None, "delta must be"),
        (["evaluate", "--trials", "1000000000"], None, "GiB of memory; ask for fewer trials"),
        (["plot"], "figures/learning.png", "cannot write"),
        (["evaluate"], "model.safetensors", "is a folder"),
        (["info"], "metrics.jsonl", "cannot read"),
        (["plot"], "metrics.jsonl", "cannot read"),
        (["info"], "config.toml", "holds no run"),
        (["runs"], "run.json", ""),
    ],
)
def test_extremes_and_spoilt_files_are_one_line(
    monkeypatch, capsys, tmp_path, finished, arguments, spoilt, words
):
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    if spoilt:
        (path / spoilt).parent.mkdir(exist_ok=True)
        spoil(path, spoilt)
    command, *flags = arguments
    ended, said = run(monkeypatch, capsys, command, str(path), *flags)
    assert ended == (0 if command == "runs" else 1)
    assert words in said
    assert "Traceback" not in said


def test_the_command_to_go_on_is_quoted(finished):
    assert runs.RunFolder(finished).resume_command == f"crosslearning resume '{finished}'"


def test_a_fault_of_the_library_is_owned_up_to(monkeypatch, capsys):
    def broken():
        raise KeyError("nobody expected this")

    monkeypatch.setattr(application, "app", broken)
    code, said = run(monkeypatch, capsys)
    assert code == 1
    assert "KeyError: 'nobody expected this'" in said
    assert "error: this is a fault of crosslearning itself" in said


def test_no_memory_is_told(monkeypatch, capsys):
    def greedy():
        raise MemoryError("42 TiB")

    monkeypatch.setattr(application, "app", greedy)
    assert run(monkeypatch, capsys) == (
        1,
        "error: there is not enough memory (42 TiB); ask for fewer samples, steps or trials",
    )


def test_ctrl_c_while_python_imports_is_a_sentence():
    code = (
        "import runpy, sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, *others):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "runpy.run_module('crosslearning', run_name='__main__')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 130
    assert ended.stderr == "Interrupted before anything was begun.\n"


def leaves(command, name=()):
    """Yield every command with its words."""
    within = getattr(command, "commands", {})
    for word, one in within.items():
        yield from leaves(one, (*name, word))
    if not within:
        yield name, command


def test_commands_take_the_folders_that_they_write_to_by_default():
    defaults = {}
    for words, command in leaves(typer.main.get_command(cli.app)):
        (out,) = [one for one in command.params if one.metavar == "FOLDER"] or [None]
        if out is not None and out.default is not None:
            needed = ["log.csv" for one in command.params if one.required]
            with command.make_context(words[-1], needed) as context:
                defaults[" ".join(words)] = context.params[out.name]
    assert defaults == {
        "quickstart": Path("runs/quickstart"),
        "reproduce": Path("runs/reproduce"),
        "demo fleet": Path("fleet"),
        "logs": Path("runs/logs"),
    }
