"""Nothing is read, written, locked or removed through a link in a run folder."""

import os
import shutil
import subprocess
import sys
import threading

import pytest
from typer.testing import CliRunner

from crosslearning._base.files import (
    guard,
    list_folder,
    open_file,
    read_file,
    remove_file,
    remove_parts,
    rename_file,
    write_atomically,
)
from crosslearning.cli import app
from crosslearning.errors import CrossLearningError, StorageError
from crosslearning.runs import RunFolder, make_config, resume, train
from crosslearning.runs.lock import folder_lock, lock_owner
from crosslearning.runs.study import claim
from tests.security.examples import TINY, contents

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")
FIELDS = {"tasks": "linear-quadratic", "iterations": 4, "snapshot_every": 2, **TINY}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a run that has ended."""
    path = tmp_path_factory.mktemp("links") / "run"
    train(path, make_config(FIELDS))
    return path


@pytest.fixture
def run(finished, tmp_path):
    """Return a run that was interrupted, in a folder of its own."""
    path = tmp_path / "mine" / "run"
    shutil.copytree(finished, path)
    (path / "model.safetensors").unlink()
    (path / "record.json").unlink()
    return path


@pytest.fixture
def outside(finished, tmp_path):
    """Return a folder of the user's that must stay as it is: another run, and a letter."""
    path = tmp_path / "outside"
    shutil.copytree(finished, path)
    (path / "letter.txt").write_text("dear diary")
    (path / ".left.part").write_text("of another writer")
    return path


FILES = [
    ".lock",
    "config.toml",
    "run.json",
    "signature.json",
    "metrics.jsonl",
    "evaluations.jsonl",
    "best.safetensors",
    "model.safetensors",
    "record.json",
    ".model.safetensors.part",
    "checkpoints/iteration-00000004.safetensors",
    "checkpoints/iteration-00000099.safetensors",
]
FOLDERS = ["checkpoints", "snapshots", "certificate", "figures", "report", "tensorboard", "theory"]


def replace_by_link(path, target):
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
@pytest.mark.parametrize("dangling", [False, True])
def test_no_link_is_followed(run, outside, name, dangling):
    target = outside if name in FOLDERS else outside / "letter.txt"
    if dangling:
        target = outside / "not there"
    replace_by_link(run / name, target)
    before, mine = contents(outside), contents(run)
    for opening in (
        resume,
        lambda path: resume(path, iterations=9),
        RunFolder.open,
        lambda path: train(path, make_config(FIELDS)),
    ):
        with pytest.raises(CrossLearningError, match=r"a link|already holds a run"):
            opening(run)
    assert lock_owner(run) is None
    assert contents(outside) == before
    assert contents(run) == mine


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_is_not_waited_for(run, name):
    (run / name).unlink(missing_ok=True)
    (run / name).parent.mkdir(exist_ok=True)
    os.mkfifo(run / name)
    done = []

    def opening():
        with pytest.raises(StorageError, match="neither a file nor a folder"):
            resume(run)
        done.append(True)

    thread = threading.Thread(target=opening, daemon=True)
    thread.start()
    thread.join(60)
    assert done == [True]


@pytest.mark.parametrize("name", ["checkpoints", ".lock", "figures", "snapshots"])
def test_no_run_begins_in_a_folder_with_links(tmp_path, outside, name):
    (tmp_path / "new").mkdir()
    target = outside / "letter.txt" if name == ".lock" else outside
    (tmp_path / "new" / name).symlink_to(target)
    before = contents(outside)
    with pytest.raises(StorageError, match="a link"):
        train(tmp_path / "new", make_config(FIELDS))
    assert contents(outside) == before
    assert [path.name for path in (tmp_path / "new").iterdir()] == [name]


def test_a_folder_that_the_user_names_may_be_a_link(run, tmp_path):
    (tmp_path / "latest").symlink_to(run)
    assert resume(tmp_path / "latest").finished
    assert RunFolder.open(tmp_path / "latest").model.exists()


def test_a_lock_that_is_another_name_of_a_file_is_not_written(run, outside):
    (run / ".lock").hardlink_to(outside / "letter.txt")
    with pytest.raises(StorageError, match="another name of some other file"):
        resume(run)
    assert (outside / "letter.txt").read_text() == "dear diary"


def test_a_link_that_is_put_there_later_is_not_followed(run, outside):
    """The folder is looked at when it is opened; what is exchanged afterwards is seen too."""
    folder = RunFolder.open(run)
    before = contents(outside)
    (run / "checkpoints").rename(run / "old")
    (run / "checkpoints").symlink_to(outside / "checkpoints")
    with pytest.raises(StorageError):
        folder.checkpoints()
    folder.tidy()
    with pytest.raises(StorageError):
        write_atomically(run / "checkpoints" / "iteration-00000009.safetensors", b"mine")
    with pytest.raises(OSError, match=r"directory|links"):
        remove_file(run / "checkpoints" / "iteration-00000004.safetensors")
    with pytest.raises(OSError, match=r"directory|links"):
        rename_file(run / "checkpoints" / "iteration-00000004.safetensors", "stolen")
    with pytest.raises(OSError, match=r"directory|links"):
        read_file(run / "checkpoints" / "iteration-00000004.safetensors")
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").symlink_to(outside / "letter.txt")
    with pytest.raises(StorageError, match="a link"):
        folder.read_metrics()
    with pytest.raises(StorageError, match="a link"):
        open_file(run / "metrics.jsonl", os.O_RDWR | os.O_APPEND)
    (run / ".lock").symlink_to(outside / "letter.txt")
    with pytest.raises(StorageError, match="a link"), folder_lock(run):
        pass
    assert contents(outside) == before


def test_a_link_is_replaced_and_not_written_through(run, outside):
    guard(run)
    (run / "record.json").symlink_to(outside / "letter.txt")
    write_atomically(run / "record.json", b"{}")
    assert (outside / "letter.txt").read_text() == "dear diary"
    assert not (run / "record.json").is_symlink()


def test_a_study_does_not_leave_its_folder(tmp_path, outside):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "seed-0").symlink_to(outside)
    before = contents(outside)
    with pytest.raises(StorageError, match="a link"):
        claim(tmp_path / "study", {"a": 1}, "a study")
    assert contents(outside) == before
    assert [path.name for path in (tmp_path / "study").iterdir()] == ["seed-0"]


def test_outside_of_runs_files_are_as_ever(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomically(tmp_path / "link" / "file", b"1")
    assert (tmp_path / "real" / "file").read_bytes() == b"1"
    assert read_file(tmp_path / "link" / "file") == b"1"
    assert list_folder(tmp_path / "link") == ["file"]
    (tmp_path / "link" / ".a.part").write_text("")
    remove_parts(tmp_path / "link")
    rename_file(tmp_path / "link" / "file", "other")
    assert list_folder(tmp_path / "real") == ["other"]
    remove_file(tmp_path / "link" / "other")
    remove_file(tmp_path / "link" / "other")
    assert list_folder(tmp_path / "real") == []
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="neither a file nor a folder"):
        read_file(tmp_path / "pipe")


def test_a_new_file_is_for_whom_the_user_allows_it(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from crosslearning._base.files import *;"
        "os.umask(0o027); write_atomically(Path(sys.argv[1]), b'1')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "file")], check=True)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


COMMANDS = [
    ["info"],
    ["plot", "--trials", "1"],
    ["certify", "--samples", "2"],
    ["report", "--no-open", "--trials", "1", "--samples", "2"],
    ["evaluate", "--trials", "1"],
    ["resume"],
]


@pytest.mark.parametrize("name", ["certificate", "figures", "report.html", "models.json"])
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_no_command_leaves_the_folder(finished, tmp_path, outside, name, words):
    path = tmp_path / "sent"
    shutil.copytree(finished, path)
    folder = name in ("certificate", "figures")
    (path / name).symlink_to(outside if folder else outside / "letter.txt")
    before = contents(outside)
    done = CliRunner().invoke(app, [words[0], str(path), *words[1:]])
    assert isinstance(done.exception, CrossLearningError), done.output
    assert "is a link" in str(done.exception) or (words[0], name) == ("report", "report.html")
    assert contents(outside) == before
