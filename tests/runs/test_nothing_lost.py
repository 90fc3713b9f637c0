"""What is done to a run's folder from outside: two owners, damage, edits, removal, leftovers."""

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress

import pytest

from crosslearning.errors import FileFormatError, InputError, StorageError
from crosslearning.learner import CrossLearner
from crosslearning.runs import RunFolder, lock, make_config, resume, train
from crosslearning.runs.lock import folder_lock

FIELDS = {
    "tasks": "linear-quadratic",
    "iterations": 40,
    "checkpoint_every": 10,
    "log_every": 2,
    "max_knots": 12,
    "batch_size": 2,
    "seed": 5,
}


def files_of(path):
    folder = RunFolder(path)
    return folder.model.read_bytes(), folder.metrics.read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "whole"
    assert train(path, make_config(FIELDS)).finished
    return path


@pytest.fixture
def run(whole, tmp_path):
    """A run that was stopped before its end: checkpoints at 20 and 30, metrics beyond."""
    path = tmp_path / "run"
    shutil.copytree(whole, path)
    RunFolder(path).model.unlink()
    return path


# One owner ---------------------------------------------------------------------------------

TRAIN = (
    "import json, sys; from crosslearning.runs import make_config, train;"
    "train(sys.argv[1], make_config(json.loads(sys.argv[2])))"
)


def start(path, **fields):
    arguments = [sys.executable, "-c", TRAIN, str(path), json.dumps({**FIELDS, **fields})]
    return subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)


def wait_for(condition):
    for _ in range(30_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("nothing happened for five minutes")


def test_of_processes_that_start_at_once_one_trains_and_the_others_are_told(tmp_path, whole):
    path = tmp_path / "run"
    processes = [start(path, iterations=1_000_000) for _ in range(3)]
    folder = RunFolder(path)
    try:
        wait_for(lambda: sum(process.poll() is None for process in processes) == 1)
        wait_for(lambda: len(folder.checkpoints()) == 2)
        owner = next(process for process in processes if process.poll() is None)
        for process in processes:
            if process is not owner:
                said = process.stderr.read()
                # Who is late finds a run; who is early finds its lock.
                if "already holds a run" not in said:
                    assert f"is being written by process {owner.pid}, since 20" in said
                    assert "Nothing was changed" in said
        # Readers need no lock; a second writer is refused.
        assert folder.load().iteration >= 10
        assert folder.read_metrics()
        with pytest.raises(StorageError, match=f"process {owner.pid}"):
            resume(path)
        with pytest.raises(StorageError, match=f"process {owner.pid}"):
            resume(path, iterations=2_000_000)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stderr.close()
    # The owner is dead, and its lock with it.
    made = folder.load().iteration
    assert resume(path, iterations=made + 4).learner.iteration == made + 4
    assert not (path / ".lock").exists()


def test_a_lock_is_not_inherited_and_says_who_holds_it(tmp_path):
    with folder_lock(tmp_path / "new"):
        child = os.fork()
        if child == 0:  # a fork that outlives its parent must not keep the folder
            time.sleep(60)
            os._exit(0)
        with (
            pytest.raises(StorageError, match=f"process {os.getpid()}, since"),
            folder_lock(tmp_path / "new"),
        ):
            pass
    try:
        with folder_lock(tmp_path / "new") as mine:
            assert mine()
            shutil.rmtree(tmp_path / "new")
            assert not mine()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


OWN_AND_DIE = """
import os, signal, sys
from pathlib import Path
from crosslearning.runs.lock import folder_lock
with folder_lock(Path(sys.argv[1])):
    if os.fork():
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
    os._exit(0)
"""


def test_a_fork_does_not_keep_the_folder_of_one_who_was_killed(tmp_path):
    arguments = [sys.executable, "-c", OWN_AND_DIE, str(tmp_path)]
    # The fork lives until its input ends.
    with subprocess.Popen(arguments, stdin=subprocess.PIPE) as parent:
        assert parent.wait() == -signal.SIGKILL
        with folder_lock(tmp_path) as mine:
            assert mine()


def test_a_fork_that_ends_leaves_the_lock_to_its_parent(tmp_path):
    lock = folder_lock(tmp_path)
    mine = lock.__enter__()
    child = os.fork()
    if child == 0:
        lock.__exit__(None, None, None)
        os._exit(0)
    os.waitpid(child, 0)
    assert mine()
    lock.__exit__(None, None, None)
    assert not mine()


def test_who_has_waited_for_a_lock_keeps_others_out(tmp_path):
    """The file that was waited for may be gone: a lock on it would keep nobody out."""
    waiting, has_it, may_go = (threading.Event() for _ in range(3))

    def wait_and_own():
        waiting.set()
        while not has_it.is_set():
            with suppress(StorageError), folder_lock(tmp_path):
                has_it.set()
                may_go.wait(60.0)

    other = threading.Thread(target=wait_and_own)
    with folder_lock(tmp_path):
        other.start()
        waiting.wait(60.0)
        time.sleep(0.1)
    assert has_it.wait(60.0)
    try:
        with pytest.raises(StorageError, match="is being written by"), folder_lock(tmp_path):
            pass
    finally:
        may_go.set()
        other.join()


def test_a_lock_file_that_its_owner_removes_meanwhile_is_not_taken(tmp_path, monkeypatch):
    """Between opening and locking, the owner may remove the file: its lock keeps nobody out."""
    real, removed = fcntl.flock, []

    def late(handle, how):
        if not removed:
            removed.append((tmp_path / lock.NAME).unlink())
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with folder_lock(tmp_path) as mine:
        assert removed
        assert mine()
        with pytest.raises(StorageError, match="is being written by"), folder_lock(tmp_path):
            pass


def test_a_lock_whose_owner_has_written_nothing_yet(tmp_path):
    with folder_lock(tmp_path):
        (tmp_path / ".lock").write_text("[")
        with (
            pytest.raises(StorageError, match="another process, which has just"),
            folder_lock(tmp_path),
        ):
            pass


def test_where_there_are_no_locks_a_warning_says_so(tmp_path, monkeypatch):
    def refuse(handle, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(UserWarning, match="has no locks"), folder_lock(tmp_path) as mine:
        assert mine() and lock.lock_owner(tmp_path) is None  # noqa: PT018


# Damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage", [b'{"iteration": 8, \xff', b"no JSON", b"[1]", b"{}", b"[" * 100_000, b""]
)
def test_a_damaged_line_of_metrics_is_named_and_the_others_stay(run, whole, damage):
    metrics = RunFolder(run).metrics
    lines = metrics.read_bytes().split(b"\n")
    before = list(lines)
    lines[3] = damage
    metrics.write_bytes(b"\n".join(lines))
    with pytest.warns(UserWarning, match=r"metrics.jsonl: line 4 of 20 cannot be read"):
        read = RunFolder(run).read_metrics()
    assert [line["iteration"] for line in read] == [2, 4, 6, *range(10, 41, 2)]
    with pytest.warns(UserWarning, match=r"metrics.jsonl: line 4 of 20 cannot be read"):
        assert resume(run).finished
    after = metrics.read_bytes().split(b"\n")
    assert after[3] == damage
    assert after[:3] + after[4:] == before[:3] + before[4:]
    assert RunFolder(run).model.read_bytes() == RunFolder(whole).model.read_bytes()


def test_the_line_at_which_a_run_was_killed_is_nothing_to_speak_of(run, whole):
    with RunFolder(run).metrics.open("ab") as stream:
        stream.write(b'{"iteration": 42, "ste')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(RunFolder(run).read_metrics()) == 20
        resume(run)
    assert files_of(run) == files_of(whole)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def foreign(path):
    CrossLearner("linear-quadratic", seed=6, max_knots=12, batch_size=2).learn(30).save(path)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:1000]), "cut short"),
        (flip, "checksum|damaged|not a crosslearning file"),
        (foreign, "seed is 5 and was 6"),
        (lambda path: shutil.copy(path.with_name("iteration-00000020.safetensors"), path), "is of"),
        (lambda path: path.write_bytes(b""), "damaged"),
    ],
)
def test_a_bad_checkpoint_is_named_and_the_one_before_taken(run, whole, harm, words):
    harm(RunFolder(run).checkpoints()[-1][1])
    with pytest.warns(UserWarning, match=f"(?s)iteration-00000030.*({words}).*iteration 20 is"):
        assert resume(run).finished
    assert files_of(run) == files_of(whole)


def test_checkpoints_that_cannot_be_read_are_no_reason_to_begin_anew(run):
    before = RunFolder(run).metrics.read_bytes()
    shutil.move(run / "checkpoints", run / "elsewhere")
    (run / "checkpoints").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=r"cannot read .*checkpoints"):
        resume(run)
    assert RunFolder(run).metrics.read_bytes() == before


def test_what_killed_writers_left_is_removed(run, whole):
    left = [run / ".metrics.jsonl.abcd1234.part", run / ".model.safetensors.part"]
    left.append(run / "checkpoints" / ".iteration-00000040.safetensors.x_y.part")
    for path in left:
        path.write_text("half")
    (run / ".notes").write_text("a user's own")
    resume(run)
    assert not any(path.exists() for path in left)
    assert (run / ".notes").exists()
    hidden = {path.name for path in run.rglob(".*")}
    assert hidden == {".notes"}


# Edits -------------------------------------------------------------------------------------


def edit(run, before, after):
    config = run / "config.toml"
    text = config.read_text()
    assert before in text
    config.write_text(text.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("epsilon = 3.0", "epsilon = 2.0", "epsilon is 2.0 and was 3.0"),
        ("epsilon = 3.0", "epsilon = inf", "epsilon is 'inf' and was 3.0"),
        ("seed = 5\n", "", "seed is 0 and was 5"),
        ('estimator = "antithetic"', 'estimator = "geometric"', "estimator is 'geometric' and was"),
        ('tasks = "linear-quadratic"', 'tasks = "paper"', "tasks is 'paper' and was 'linear-q"),
        ("epsilon = 3.0", "epsilon = 3.0\nalpha = 2.0", "alpha is 2.0 and was None"),
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_an_edited_configuration_is_refused(run, whole, before, after, words, finished):
    if finished:
        shutil.copy(whole / "model.safetensors", run)
    edit(run, before, after)
    saved = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for longer in (None, 50):
        with pytest.raises(InputError, match=words):
            resume(run, iterations=longer)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == saved


def test_what_may_change_is_taken(run, whole):
    # What old runs say of how rollouts are run is read, and is not for them to say.
    edit(run, "log_every = 2", 'log_every = 2\non = "ray://127.0.0.1:1"\nworkers = 2')
    edit(run, "checkpoint_every = 10", "checkpoint_every = 7")
    assert resume(run).finished
    assert RunFolder(run).model.read_bytes() == RunFolder(whole).model.read_bytes()


def test_fewer_iterations_than_were_made_is_a_sentence(run):
    edit(run, "iterations = 40", "iterations = 25")
    with pytest.raises(InputError, match=r"asks for 25 iterations.* made 30 .*iterations 31"):
        resume(run)


def test_a_finished_run_says_that_more_was_asked_for_since(run, whole):
    shutil.copy(whole / "model.safetensors", run)
    edit(run, "iterations = 40", "iterations = 60")
    assert "config.toml asks for 60 iterations; go on with" in resume(run).reason


# Removal -----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["config.toml", "metrics.jsonl", "run.json", "."])
def test_what_is_removed_under_way_is_said_and_written_again(tmp_path, monkeypatch, whole, what):
    path = tmp_path / "run"
    original = RunFolder.save_checkpoint
    lost = []

    def losing(folder, learner):
        saved = original(folder, learner)
        if learner.iteration == 20 and not lost:
            lost.append(what)
            shutil.rmtree(path) if what == "." else (path / what).unlink()
        return saved

    monkeypatch.setattr(RunFolder, "save_checkpoint", losing)
    with pytest.raises(StorageError, match=r"removed while the run went on.*go on with: cross"):
        train(path, make_config({**FIELDS, "evaluate_every": 10, "evaluation_trials": 2}))
    monkeypatch.undo()
    assert [line["iteration"] for line in RunFolder(path).read_metrics()] == [*range(2, 21, 2)]
    assert len(RunFolder(path).read_evaluations()) == 2
    assert resume(path).finished
    assert files_of(path) == files_of(whole)


def test_a_run_whose_name_another_has_taken_leaves_it_alone(tmp_path, monkeypatch):
    path = tmp_path / "run"
    original = RunFolder.save_checkpoint
    other = []

    def losing(folder, learner):
        saved = original(folder, learner)
        if not other:
            shutil.rmtree(path)
            other.append(start(path, iterations=1_000_000))
            wait_for(lambda: len(RunFolder(path).checkpoints()) == 2)
        return saved

    monkeypatch.setattr(RunFolder, "save_checkpoint", losing)
    try:
        with pytest.raises(StorageError, match="is being written by process"):
            train(path, make_config({**FIELDS, "seed": 9}))
        assert other[0].poll() is None
        assert RunFolder(path).config().settings.seed == 5
    finally:
        other[0].kill()
        other[0].wait()
        other[0].stderr.close()


def test_no_whole_checkpoint_names_them(run):
    for _, path in RunFolder(run).checkpoints():
        path.write_bytes(b"")
    with pytest.raises(FileFormatError, match="move its folder 'checkpoints' away"):
        resume(run)
