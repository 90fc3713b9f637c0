"""The listing of a folder of runs, whose files may hold anything."""

import json
import math
import os
import shlex
import shutil
import threading

import pytest

from crosslearning.errors import FileFormatError, InputError
from crosslearning.runs import RunFolder, make_config, train
from crosslearning.runs.config import config_text
from crosslearning.runs.listing import summarise_runs
from crosslearning.runs.lock import folder_lock, lock_owner
from crosslearning.runs.metrics import MetricsLine, last_line, read_lines

ASKED = {
    "tasks": "linear-quadratic",
    "method": "policy-gradient",
    "iterations": 4,
    "max_knots": 20,
    "checkpoint_every": 2,
    "log_every": 2,
    "evaluate_every": 2,
    "evaluation_trials": 3,
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that has finished, with evaluations on the way."""
    path = tmp_path_factory.mktemp("listing") / "run"
    assert train(path, make_config(ASKED)).finished
    return path


def only(folder):
    (summary,) = summarise_runs(folder)
    return summary


def copied(finished, tmp_path, name="it's here"):
    return RunFolder(shutil.copytree(finished, tmp_path / "deep" / name))


def test_a_finished_run_is_told_from_its_files(finished):
    summary, folder = only(finished.parent), RunFolder(finished)
    record, evaluations = json.loads(folder.record.read_text()), folder.read_evaluations()
    assert (summary.state, summary.problem) == ("finished", "")
    assert (summary.method, summary.tasks, summary.length) == (
        *list(ASKED.values())[1::-1],
        "4 iterations",
    )
    assert summary.task_count == len(record["tasks"])
    assert [summary.iteration, summary.steps] == [record["iteration"], record["steps"]]
    assert [summary.knots, summary.epsilon] == [record["knots"], record["epsilon"]]
    assert summary.best_return == max(line["mean_return"] for line in evaluations)
    returns = folder.read_metrics()[-1]["return"].values()
    assert summary.recent_return == pytest.approx(sum(returns) / len(returns))
    assert summary.next == f"crosslearning evaluate {shlex.quote(str(finished))} --best-evaluated"
    assert only(finished) == summary  # the folder of the run itself will do


def test_an_interrupted_run_is_to_be_resumed(finished, tmp_path):
    folder = copied(finished, tmp_path)
    folder.model.unlink()
    with folder.metrics.open("a") as stream, folder.evaluations.open("a") as other:
        stream.write('{"iteration": 5, "st')  # as if killed while it wrote
        other.write('{"iterat')
    summary = only(tmp_path)
    assert (summary.state, summary.iteration, summary.task_count) == ("interrupted", 2, 3)
    assert shlex.split(summary.next) == ["crosslearning", "resume", str(folder.path)]
    # One whole checkpoint is enough to go on from; before the first there is none to be damaged.
    folder.save_checkpoint(folder.load())
    (folder.path / "checkpoints" / "iteration-00000009.safetensors").write_bytes(b"cut")
    assert only(tmp_path).state == "interrupted"
    shutil.rmtree(folder.path / "checkpoints")
    assert only(tmp_path).state == "interrupted"


def test_a_run_that_somebody_trains_in_is_running(finished, tmp_path):
    folder = copied(finished, tmp_path)
    folder.model.unlink()
    assert only(tmp_path).writer is None
    with folder_lock(folder.path):
        summary = only(tmp_path)
        assert (summary.state, summary.iteration) == ("running", 2)
        assert f"process {os.getpid()}, since " in summary.writer
        assert shlex.split(summary.next) == ["crosslearning", "info", str(folder.path)]
    assert only(tmp_path).state == "interrupted"
    # A lock that was left by one who was killed locks nobody out.
    (folder.path / ".lock").write_text("{")
    assert only(tmp_path).state == "interrupted"


def test_looking_keeps_nobody_from_a_folder(finished, tmp_path):
    folder = copied(finished, tmp_path).path
    (folder / ".lock").write_text("{")
    over = threading.Event()

    def look():
        while not over.is_set():
            lock_owner(folder)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for _ in range(30):
            with folder_lock(folder):
                assert lock_owner(folder) is not None
    finally:
        over.set()
        looker.join()


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda folder: cut(folder.model), "model.safetensors is damaged or cut short"),
        (lambda folder: folder.model.write_bytes(b""), "model.safetensors is damaged"),
        (lambda folder: folder.metrics.write_text("[\n"), "the last line of"),
        (lambda folder: folder.metrics.write_text('{"return": 3}\n'), "the last line of"),
        (lambda folder: folder.metrics.write_text("{}\n"), "the last line of"),
        (lambda folder: (folder.path / "config.toml").unlink(), "there is no config.toml"),
        (lambda folder: (folder.path / "config.toml").write_text("epsilon = ["), "not a TOML"),
        (lambda folder: (folder.path / "config.toml").write_text("epsilom = 3"), "epsilom"),
        (lambda folder: (folder.path / "run.json").write_text("{}"), "run.json is missing"),
        (lambda folder: (folder.path / "run.json").write_text('{"version": 99}'), "newer"),
    ],
)
def test_a_damaged_run_is_listed_with_a_word(damage, word, finished, tmp_path):
    folder = copied(finished, tmp_path)
    copied(finished, tmp_path, "whole")
    damage(folder)
    summary, whole = summarise_runs(tmp_path)
    assert (summary.state, whole.state) == ("damaged", "finished")
    assert word in summary.problem
    assert "\n" not in summary.problem
    assert shlex.split(summary.next) == ["crosslearning", "certify", str(folder.path)]


def test_what_is_no_run_is_not_listed(tmp_path):
    (tmp_path / "config.toml").write_text("theme = 'dark'")  # of somebody else
    hidden = tmp_path / ".trash" / "run"
    hidden.mkdir(parents=True)
    (hidden / "run.json").write_text("{}")
    assert summarise_runs(tmp_path) == []


@pytest.mark.parametrize(("name", "word"), [("none", "is not there"), ("file", "is a file")])
def test_a_folder_that_is_none_is_refused(name, word, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=f"{word}; give a folder that holds runs"):
        summarise_runs(tmp_path / name)


def test_json_has_a_word_for_infinity(finished, tmp_path):
    folder = copied(finished, tmp_path)
    config = folder.config().replace(epsilon=math.inf)
    (folder.path / "config.toml").write_text(config_text(config))
    summary = only(tmp_path)
    assert summary.epsilon == math.inf
    assert summary.to_dict()["epsilon"] == "inf"


@pytest.mark.parametrize("size", [1, 5_000, 70_000])
def test_the_last_line_is_found_however_long_it_is(size, tmp_path):
    numbers = {"steps": 1, "knots": 1, "return": {}, "distance": {}, "multiplier": {}}
    lines = [{"iteration": n, **numbers, "a": [7] * size} for n in range(3)]
    file = tmp_path / "lines"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert last_line(file) == lines[-1]
    with file.open("a") as stream:
        stream.write('{"a": "xx')
    assert last_line(file) == lines[-1]
    assert read_lines(file, MetricsLine) == lines
    file.write_text(json.dumps(lines[0]) + "\n")
    assert last_line(file) == lines[0]


def test_a_file_without_a_last_line(tmp_path):
    file = tmp_path / "lines"
    assert last_line(file) is None
    file.write_text('{"half')
    assert last_line(file) is None
    file.write_text("{\n")
    with pytest.raises(FileFormatError, match="last line"):
        last_line(file)


def test_a_damaged_evaluation_is_left_out_with_a_warning(finished, tmp_path):
    folder = copied(finished, tmp_path)
    folder.evaluations.write_text("{}\n")
    with pytest.warns(UserWarning, match="line 1 of 1 cannot be read"):
        summary = only(tmp_path)
    assert (summary.state, summary.best_return) == ("finished", None)
