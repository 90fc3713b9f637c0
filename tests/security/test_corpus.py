"""Every hostile thing, given to the commands that meet it.

Nothing of it is executed, nothing outside of what the command may write to is changed, nothing is
connected to, and every command answers with a sentence.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
import typer

from crosslearning.cli import application
from tests.security import cases, corpus, watch
from tests.security.cases import SWEEP, Case, Site

CASES = list(corpus.cases())
#: A module that says that it was imported.
TRAP = "import pathlib\npathlib.Path(__file__).with_name('canary').touch()\n"
HONEST = {
    "method": "policy-gradient",
    "tasks": "paper",
    "epsilon": 1.0,
    "max_knots": 8,
    "batch_size": 2,
    "iterations": 3,
    "log_every": 1,
    "checkpoint_every": 1,
    "snapshot_every": 2,
    "evaluate_every": 1,
    "evaluation_trials": 1,
}


def in_one_process(go, rounds, *_, **__):
    """Go through a study here: processes would cost more than all of its runs."""
    return all(go(*call) for calls in rounds for call in calls)


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with pytest.MonkeyPatch.context() as patch:
        # Made once: a command line is built of hundreds of flags.
        patch.setattr(application, "app", typer.main.get_command(application.app))
        patch.setattr("crosslearning.runs.study.in_processes", in_one_process)
        yield


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Return a working folder with all that is honest: a run, a sweep, a policy, the traps."""
    work = tmp_path_factory.mktemp("honest") / "work"
    state = work.parent / "state"
    work.mkdir()
    (work / "config.toml").write_text(
        "".join(f"{k} = {json.dumps(v)}\n" for k, v in HONEST.items())
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(state))
        # Libraries that keep something at home find their place now, and keep it.
        patch.setenv("HOME", str(work.parent))
        for command in (
            ("train", "--config", "config.toml", "--out", "run"),
            *cases.CERTIFY,
            *cases.REPORT,
            cases.DRAW[2],
            SWEEP,
            ("export", "run", "--to", "onnx", "--out", "policy.onnx"),
            ("export", "run", "--to", "json", "--out", "policy.json"),
        ):
            # On a first use much is compiled and imported: nobody is hurried or watched yet.
            answer = watch.run(command, work, [work, state], seconds=600)
            assert answer.code == 0, answer.text
    (work / "config.toml").unlink()
    (work / "trap.py").write_text(TRAP)
    (work / "trap.toml").write_text('[[task]]\nid = "trap:Env-v0"\n')
    for place in (work, work / "run"):
        (place / "sitecustomize.py").write_text(TRAP)
        (place / "usercustomize.py").write_text(TRAP)
    shutil.copy(work / "trap.py", work / "run" / "trap.py")
    return work


@pytest.fixture
def site(honest, tmp_path, monkeypatch, request):
    """Return a fresh copy of what a case needs, and a home that somebody has put things into."""
    home, work = tmp_path / "home", tmp_path / "work"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("PRIVATE KEY of nobody")
    (home / "notes.txt").write_text("mine")
    (home / "folder").mkdir()
    (home / "folder" / "certificate.txt").write_text("mine too")
    case = request.node.callspec.params["case"].name
    without = shutil.ignore_patterns(*(() if "sweep" in case else ("sweep",)))
    shutil.copytree(honest, work, symlinks=True, ignore=without)
    if "others" in case:
        shutil.copytree(honest / "run", home / "other")
    for name in ("out", "tmp"):
        (work / name).mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(work / "tmp"))
    monkeypatch.syspath_prepend(str(work))
    return Site(work, home)


def names_in(folder: Path) -> set[str]:
    """Return the names of what a folder holds."""
    return {path.name for path in folder.iterdir()}


def cheap_figures(monkeypatch, built):
    """Draw nothing in certificates and reports: others try that."""
    monkeypatch.setattr("crosslearning.figures.style.figure_bytes", lambda *_: b"")
    monkeypatch.setattr("crosslearning.figures.report.figure_bytes", lambda *_: b"")
    if built:
        return
    monkeypatch.setattr("crosslearning.figures.certificate.certificate_figure", lambda *_: None)
    for name in ("certificate", "evaluation", "learning", "progress", "returns", "trajectory"):
        monkeypatch.setattr(f"crosslearning.figures.report.{name}_figure", lambda *_: None)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_hostile_thing_is_answered(case: Case, site: Site, monkeypatch):
    if not case.drawn:
        cheap_figures(monkeypatch, built=case.name.startswith(("lines", "model")))
    case.build(site)
    writable = [
        site.run,
        site.work / "policy.json",
        site.work / "out",
        site.work / "tmp",
        site.work.parent / "state",
    ]
    writable += [path for path in site.work.iterdir() if path.is_dir() and not path.is_symlink()]
    before = watch.snapshot(site.home), names_in(site.work)
    problems = []
    for command in case.commands:
        answer = watch.run(command, site.work, writable)
        if wrong := answer.problem():
            problems.append(f"{' '.join(command)[:120]!r}: {wrong}\n{answer.text[-1500:]}")
    assert not problems, "\n".join(problems)
    assert watch.snapshot(site.home) == before[0]
    assert not list(site.work.parent.rglob("canary"))
    # What a command made of itself stands where it was told to write.
    new = names_in(site.work) - before[1]
    assert new <= {"run", "sweep"}
    assert (site.home / "notes.txt").read_text() == "mine"


def test_there_are_many():
    assert len(CASES) == len({case.name for case in CASES})
    assert len(CASES) >= 200
    tried = {command[0] for case in CASES for command in case.commands}
    assert tried >= {
        *("runs", "info", "resume", "evaluate", "compare", "identify", "models", "plot", "report"),
        *("render", "sweep", "relate", "reproduce", "export", "certify", "theory", "adapt"),
        *("train", "play", "quickstart", "demo"),
    }


def test_the_watch_sees_what_it_must(tmp_path, monkeypatch):
    """The watch itself: each thing that no command may do is seen when one does it."""
    import socket
    import subprocess
    import sys

    (tmp_path / "trap.py").write_text(TRAP)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("trap", None)

    def connect() -> None:
        with socket.socket() as opened:
            opened.connect(("127.0.0.1", 9))

    deeds = {
        "import": lambda: __import__("trap"),
        "open": lambda: (tmp_path / "new").write_text("x"),
        "subprocess.Popen": lambda: subprocess.run(["true"], check=False),
        "socket.connect": connect,
        "os.rename": lambda: (tmp_path / "new").rename(tmp_path / "newer"),
    }
    for event, deed in deeds.items():

        def act(deed=deed):
            try:
                deed()
            except OSError:
                raise SystemExit(1) from None

        monkeypatch.setattr(watch.cli, "main", act)
        answer = watch.run(("deed",), tmp_path, [])
        assert any(line.startswith(event) for line in answer.seen), event
        assert answer.problem()
    assert Path(tmp_path / "canary").exists()
