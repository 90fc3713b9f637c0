"""The command line with any words: an exit code, a sentence, and no file that was not asked for."""

import hashlib
import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from crosslearning import CrossLearner, cli, runs
from crosslearning.cli import application
from crosslearning.runs.config import describe_fields
from crosslearning.runs.driver import Outcome
from tests.fuzz.examples import cases

FIELDS = sorted({f"--{field.name.replace('_', '-')}" for field in describe_fields()})
MEASURING = ["--trials", "--horizon", "--tasks", "--task-options", "--best", "--seed", "--json"]
#: No number between: a million trials would be taken, and run.
WORDS = st.one_of(
    st.sampled_from(["", " ", "-1", "0", "1", "2", "nan", "inf", "-inf", "1e308", "1e-320", "0.5"]),
    st.sampled_from([str(10**30), str(2**63), "true", "none", "[]", "{}", "{", '{"a": 1}', "é"]),
    st.sampled_from(["linear-quadratic", "paper:r=1", "paper:", "trap:tasks", "no.toml", "."]),
    st.sampled_from(["policy-gradient", "trust-region", "random:-1", "x" * 300, "[" * 3000, "/"]),
    st.sampled_from(["run", "../run", "run/model.safetensors", '{"kernel": "gaussian"}', "\udc80"]),
    st.just('{"kernel": "gaussian", "std": [1, 0]}'),
    st.text(max_size=6),
)
COMMANDS = {
    "train": ["--out", "--config", *FIELDS],
    "adapt": ["--out", "--start", *FIELDS],
    "resume": ["--workers", "--iterations", "--steps", "--tasks"],
    "evaluate": MEASURING,
    "compare": ["--policy", *MEASURING],
    "identify": ["--tasks", "--episodes", "--horizon", "--seed", "--json"],
    "info": [],
    "runs": ["--json"],
    "export": ["--to", "--out", "--policy"],
    "render": ["--out", "--policy", "--task", "--episodes", "--horizon"],
    "nonsense": [],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a run, in which nothing is learned for long."""
    folder = tmp_path_factory.mktemp("command-line")

    def begun(*given, **named):
        # Up to where learning begins, all is as it would be.
        config = next((one for one in given if isinstance(one, runs.RunConfig)), None)
        if config is not None and config.tasks == "linear-quadratic":
            config.learner().close()
        return Outcome(CrossLearner("linear-quadratic"), True, "Finished.")

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        fields = {"tasks": "linear-quadratic", "iterations": 2, "max_knots": 5, "batch_size": 2}
        runs.train("run", runs.make_config(fields))
        (folder / "trap.py").write_text("raise SystemExit('the trap was sprung')\n")
        # First where it is imported from the other, or that would keep the patched one.
        patch.setattr("crosslearning.analysis.adaptation.train", begun)
        patch.setattr(runs, "train", begun)
        # Made once: a command line is built of hundreds of flags.
        patch.setattr(application, "app", typer.main.get_command(application.app))
        yield folder


@st.composite
def command_lines(draw):
    command = draw(st.sampled_from(sorted(COMMANDS)))
    words = [command]
    if command != "train" and draw(st.integers(0, 9)):
        words += ["run"] * (2 if command == "compare" else 1)
    for _ in range(draw(st.integers(0, 4))):
        flag = draw(st.sampled_from(COMMANDS[command] or ["--json"]))
        words += [flag, draw(WORDS)] if draw(st.integers(0, 9)) else [flag]
    if command in ("evaluate", "compare") and "--trials" not in words:
        words += ["--trials", "1"]
    if draw(st.booleans()):
        words.insert(draw(st.integers(0, len(words))), draw(WORDS))
    return words


def answer():
    """Return the code with which the command ends."""
    try:
        cli.main()
    except SystemExit as ended:
        return ended.code
    return 0


def terminal():
    """Return what takes only what a terminal would."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in (folder / "run").rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@cases(share=0.04, few=15)
@given(words=command_lines())
def test_any_words_are_answered(place, words):
    before, said = digests(place), terminal()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(terminal()), redirect_stderr(said):
        patch.setattr(sys, "argv", ["crosslearning", *words])
        code = answer()
    assert code in (0, 1, 2), words
    said.flush()
    text = said.buffer.getvalue()
    assert code == 0 or len(text) > 10, words
    assert b"Traceback" not in text, words
    after = digests(place)
    assert {name: after.get(name) for name in before} == before, words
