"""Runs: killed and resumed, on one thread or two, the same file; damage is refused."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from crosslearning.errors import (
    CrossLearningError,
    FileFormatError,
    InputError,
    MissingExtraError,
    StorageError,
)
from crosslearning.learner import CrossLearner
from crosslearning.rkhs import Family
from crosslearning.runs import RunFolder, make_config, resume, train

FIELDS = {"iterations": 120, "checkpoint_every": 25, "log_every": 5, "max_knots": 40, "seed": 3}


def files_of(path):
    folder = RunFolder(path)
    return folder.model.read_bytes(), folder.metrics.read_bytes()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "whole"
    outcome = train(path, make_config(FIELDS))
    assert outcome.finished
    assert outcome.learner.iteration == 120
    return path


def start(path, **fields):
    """Start a run in a process of its own; a slow checkpoint gives time to kill it."""
    code = (
        "import sys, json; from crosslearning.runs import train, make_config;"
        "train(sys.argv[1], make_config(json.loads(sys.argv[2])))"
    )
    arguments = [sys.executable, "-c", code, str(path), json.dumps({**FIELDS, **fields})]
    return subprocess.Popen(arguments, stderr=subprocess.PIPE)


def wait_for(condition, process):
    for _ in range(30_000):
        if condition() or process.poll() is not None:
            return
        time.sleep(0.01)
    raise AssertionError("nothing happened for five minutes")


@pytest.mark.parametrize("moment", range(4))
def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path, uninterrupted, moment):
    path = tmp_path / "run"
    # A hundredfold longer run, so that the kill always comes in the middle of it.
    process = start(path, iterations=12_000)
    folder = RunFolder(path)
    if moment == 0:
        wait_for(lambda: folder.metrics.exists(), process)
    else:
        wait_for(lambda: len(folder.checkpoints()) >= min(moment, 2), process)
        time.sleep(0.013 * moment)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stderr.close()
    assert not folder.model.exists()
    # Go on to the length of the run that was not killed, if it is not beyond that already.
    target = max([120, *[iteration + 60 for iteration, _ in folder.checkpoints()]])
    text = (path / "config.toml").read_text()
    (path / "config.toml").write_text(text.replace("iterations = 12000", f"iterations = {target}"))
    assert resume(path).finished
    if target == 120:
        expected = uninterrupted
    else:
        expected = tmp_path / "whole"
        train(expected, make_config({**FIELDS, "iterations": target}))
    assert files_of(path) == files_of(expected)


def test_two_threads_give_the_same_file(tmp_path, uninterrupted):
    train(tmp_path / "run", make_config({**FIELDS, "workers": 2}))
    assert files_of(tmp_path / "run") == files_of(uninterrupted)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, uninterrupted):
    path = tmp_path / "run"
    command = [sys.executable, "-m", "crosslearning", "train", "--out", str(path)]
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in FIELDS.items()]
    process = subprocess.Popen(
        [*command, *flags, "--iterations=100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_for(lambda: len(RunFolder(path).checkpoints()) > 0, process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    assert f"crosslearning resume {shlex.quote(str(path))}" in output
    learner = RunFolder(path).load()
    assert f"saved at iteration {learner.iteration}" in output


def test_metrics_tell_the_iteration(uninterrupted):
    lines = RunFolder(uninterrupted).read_metrics()
    assert [line["iteration"] for line in lines] == list(range(5, 121, 5))
    last = lines[-1]
    assert set(last["return"]) == {"r=0.5", "r=1", "r=2"}
    assert last["knots"] == 40
    assert all(0 <= value <= 3.0 * (1 + 1e-9) for value in last["distance"].values())
    learner = RunFolder(uninterrupted).load()
    assert last["steps"] == learner.steps
    # The line's distances are those before pruning, the largest of its iterations.
    distances = np.array([last["distance"][task.name] for task in learner.tasks])
    assert np.all(learner.family.distances() <= distances * (1 + 1e-9))
    assert np.all(learner.family.distances() >= 0.8 * distances)


def test_the_last_two_checkpoints_are_kept(uninterrupted):
    assert [iteration for iteration, _ in RunFolder(uninterrupted).checkpoints()] == [75, 100]


def test_snapshots_are_the_policies_on_the_way(tmp_path):
    path = tmp_path / "run"
    train(path, make_config({**FIELDS, "snapshot_every": 40}))
    snapshots = RunFolder(path).snapshots()
    assert [iteration for iteration, _ in snapshots] == [40, 80, 120]
    settings = {name: FIELDS[name] for name in ("max_knots", "seed")}
    alone = CrossLearner("paper", **settings).learn(80)
    np.testing.assert_array_equal(Family.load(snapshots[1][1]).weights, alone.family.weights)


def test_tensorboard_events(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(tmp_path / "run", make_config({**FIELDS, "iterations": 20, "tensorboard": True}))
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    scalars = events.Scalars("return/r_1")  # tensorboardX allows no "=" in a tag
    lines = RunFolder(tmp_path / "run").read_metrics()
    assert [scalar.step for scalar in scalars] == [5, 10, 15, 20]
    np.testing.assert_allclose(
        [scalar.value for scalar in scalars], [line["return"]["r=1"] for line in lines], rtol=1e-5
    )


@pytest.mark.parametrize(
    ("stopping", "words"), [("checked", "check 1 bounds every gap"), ("batch", "the batch's gap")]
)
def test_the_stopping_rule_ends_a_run(tmp_path, stopping, words):
    # An alpha so large that the first look is enough.
    fields = {"alpha": 1e6, "stopping": stopping, "check_every": 15, "check_batch": 100}
    outcome = train(tmp_path / "run", make_config({**FIELDS, **fields}))
    assert outcome.finished
    assert outcome.learner.iteration == (15 if stopping == "checked" else 1)
    assert words in outcome.reason
    assert "alpha = 1e+06" in outcome.reason
    last = RunFolder(tmp_path / "run").read_metrics()[-1]
    assert last["iteration"] == outcome.learner.iteration
    assert ("gap_bound" in last) == (stopping == "checked")
    if stopping == "checked":
        assert all(0.0 < bound <= 1e6 for bound in last["gap_bound"].values())
    assert resume(tmp_path / "run").finished


def test_a_finished_run_stays_as_it_is(uninterrupted):
    before = files_of(uninterrupted)
    outcome = resume(uninterrupted)
    assert outcome.finished
    assert "had finished" in outcome.reason
    assert files_of(uninterrupted) == before
    with pytest.raises(InputError, match="already holds a run"):
        train(uninterrupted, make_config(FIELDS))


def interrupted_run(path):
    """Leave a run as one that was killed after its second checkpoint."""
    train(path, make_config(FIELDS))
    RunFolder(path).model.unlink()


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, uninterrupted):
    path = tmp_path / "run"
    interrupted_run(path)
    newest = RunFolder(path).checkpoints()[-1][1]
    newest.write_bytes(newest.read_bytes()[:1000])
    with pytest.warns(UserWarning, match="iteration 75 is taken"):
        assert resume(path).finished
    assert files_of(path) == files_of(uninterrupted)


def test_no_whole_checkpoint_is_an_error_that_says_so(tmp_path):
    path = tmp_path / "run"
    interrupted_run(path)
    for _, checkpoint in RunFolder(path).checkpoints():
        checkpoint.write_bytes(b"")
    with pytest.raises(FileFormatError, match="damaged or cut short"):
        resume(path)


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch, uninterrupted):
    path = tmp_path / "run"
    real = os.fsync
    state = {"full": False}

    def fsync(descriptor):
        if state["full"] and os.fstat(descriptor).st_size > 10_000:
            raise OSError(28, "No space left on device")
        real(descriptor)

    original = RunFolder.save_checkpoint

    def filling_up(folder, learner):
        state["full"] = learner.iteration >= 75
        return original(folder, learner)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(RunFolder, "save_checkpoint", filling_up)
    with pytest.raises(StorageError, match="No space left on device"):
        train(path, make_config(FIELDS))
    assert [iteration for iteration, _ in RunFolder(path).checkpoints()] == [25, 50]
    assert not list((path / "checkpoints").glob(".*"))
    monkeypatch.undo()
    assert resume(path).finished
    assert files_of(path) == files_of(uninterrupted)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda p: (p / "run.json").write_text('{"version": 9}'), FileFormatError, "newer"),
        (lambda p: (p / "run.json").unlink(), FileFormatError, "run.json"),
        (lambda p: (p / "config.toml").unlink(), InputError, "holds no run"),
        (
            lambda p: (p / "config.toml").write_text("epsilom = 3.0"),
            InputError,
            "did you mean 'epsilon'",
        ),
        (lambda p: (p / "config.toml").write_text("epsilon = ["), InputError, "not a TOML file"),
        (lambda p: (p / "config.toml").write_text("seed = 'a'"), InputError, "seed"),
    ],
)
def test_damaged_folders(tmp_path, change, error, message):
    path = tmp_path / "run"
    interrupted_run(path)
    saved = [p.read_bytes() for _, p in RunFolder(path).checkpoints()]
    change(path)
    with pytest.raises(error, match=message):
        resume(path)
    assert [p.read_bytes() for _, p in RunFolder(path).checkpoints()] == saved


def test_a_wrong_configuration_makes_no_folder(tmp_path):
    for fields in ({"tasks": "papr"}, {"action_variance": [1, 2, 3]}):
        with pytest.raises(CrossLearningError):
            train(tmp_path / "run", make_config({**FIELDS, **fields}))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epsilon": -1}, "epsilon"),
        ({"batch_size": 0}, "batch_size"),
        ({"discount": 1.0}, "discount"),
        ({"step_rule": "adm"}, "step_rule"),
        ({"max_knots": 1.5}, "max_knots"),
        ({"alpha": 1.0, "epsilon": float("inf")}, "epsilon between 0 and infinity"),
        ({"colour": "red"}, "no such field 'colour'"),
    ],
)
def test_wrong_fields_are_named(fields, message):
    with pytest.raises(InputError, match=message):
        make_config(fields)


def test_infinite_epsilon_survives_the_files(tmp_path):
    outcome = train(tmp_path / "run", make_config({**FIELDS, "iterations": 3, "epsilon": "inf"}))
    assert outcome.learner.settings.epsilon == float("inf")
    assert RunFolder(tmp_path / "run").config().settings.epsilon == float("inf")
    assert CrossLearner.load(RunFolder(tmp_path / "run").model).settings.epsilon == float("inf")
    line = RunFolder(tmp_path / "run").read_metrics()[-1]
    assert line["gap"]["r=1"] is None


def test_one_task_of_a_set_with_options(tmp_path):
    fields = {"tasks": "paper:r=1", "task_options": {"crash": "terminate"}, "iterations": 4}
    train(tmp_path / "run", make_config({**FIELDS, **fields}))
    learner = RunFolder(tmp_path / "run").load()
    assert [task.name for task in learner.tasks] == ["r=1"]
    assert learner.tasks[0].make().navigation.crash == "terminate"
    assert RunFolder(tmp_path / "run").config().task_options == {"crash": "terminate"}
    with pytest.raises(InputError, match="did you mean 'r=1'"):
        train(tmp_path / "other", make_config({**FIELDS, "tasks": "paper:r=11"}))


def test_tasks_with_redrawn_goals_are_learned_alike_by_every_executor(tmp_path):
    options = {"goals": "grid", "goal_choice": "redrawn"}
    fields = {"tasks": "paper", "task_options": options, "iterations": 4}
    weights = []
    for on in ("threads", "processes"):
        train(tmp_path / on, make_config({**FIELDS, **fields, "on": on}))
        weights.append(RunFolder(tmp_path / on).load().family.weights)
    np.testing.assert_array_equal(*weights)
    fixed = {**fields, "task_options": {}}
    train(tmp_path / "fixed", make_config({**FIELDS, **fixed}))
    assert not np.array_equal(weights[0], RunFolder(tmp_path / "fixed").load().family.weights)


def test_a_missing_extra_is_told_before_a_folder_is_begun(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(MissingExtraError, match="extra 'log'"):
        train(tmp_path / "run", make_config({"iterations": 2, "tensorboard": True}))
    assert not (tmp_path / "run").exists()
