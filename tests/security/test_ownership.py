"""Code that a folder names runs only if the user named it, or signed for it where it lies."""

import json
import os
import shutil
import stat
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from crosslearning import CrossLearner
from crosslearning.analysis.adaptation import adapt_run
from crosslearning.errors import CrossLearningError, InputError, StorageError
from crosslearning.runs import RunFolder, make_config, resume, train
from crosslearning.runs.listing import summarise_runs
from crosslearning.runs.signature import key_file
from tests.security.examples import TINY, contents, strangers_run, write_module


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder with a module of the user's, and a mark that its import leaves."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CANARY", str(tmp_path / "canary"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    write_module(tmp_path)
    sys.modules.pop("my_tasks", None)
    yield tmp_path
    sys.modules.pop("my_tasks", None)


def trained(path="run", **fields):
    """Train two iterations on the user's tasks, then forget that their module was imported."""
    train(path, make_config({"tasks": "my_tasks:carts", "iterations": 2, **TINY, **fields}))
    forget()


def forget():
    sys.modules.pop("my_tasks", None)
    Path(os.environ["CANARY"]).unlink(missing_ok=True)


def imported():
    return Path(os.environ["CANARY"]).exists()


# A configuration is data --------------------------------------------------------------------


@pytest.mark.parametrize("method", [{}, {"method": ""}, {"method": None}])
def test_a_configuration_builds_nothing(place, method):
    values = {"tasks": "os:system", "task_options": {"command": f"touch {place / 'canary'}"}}
    if method == {"method": ""}:
        with pytest.raises(InputError, match="no such method ''"):
            make_config({**values, **method})
    else:
        config = make_config({**values, **method})
        assert config.to_plain()["method"] is None
        assert config.replace(epsilon=1.0).settings.epsilon == 1.0
    assert not imported()


def test_a_method_is_chosen_when_a_learner_is_made():
    config = make_config({"tasks": "pendulums:2", "steps": 100})
    assert config.to_plain()["method"] is None
    assert config.chosen().settings.method == "models"
    many = make_config({"tasks": "pendulums:2"}).chosen()
    assert (many.settings.method, many.iterations, many.log_every) == ("trust-region", 100, 1)
    given = make_config({"tasks": "pendulums:2", "iterations": 2000}).chosen()
    assert given.iterations == 2000
    paper = make_config({}).chosen()
    assert paper == make_config({"method": "policy-gradient"})


@pytest.mark.parametrize("method", ["", "policy-gradient", None])
def test_a_strangers_configuration_is_only_shown(place, method):
    touch = {"command": f"touch {place / 'canary'}"}
    named = {} if method is None else {"method": method}
    strangers_run(place / "sent" / "run", tasks="os:system", task_options=touch, **named)
    if method is None:
        text = (place / "sent" / "run" / "config.toml").read_text()
        text = text.replace('method = "policy-gradient"\n', "")
        (place / "sent" / "run" / "config.toml").write_text(text)
    before = contents(place / "sent")
    (result,) = summarise_runs(place / "sent")
    assert result.state == ("damaged" if method == "" else "interrupted")
    for opening in (
        lambda folder: RunFolder.open(folder).config(),
        lambda folder: RunFolder.open(folder).load(),
        resume,
        lambda folder: resume(folder, iterations=9),
        lambda folder: adapt_run(folder, place / "new", "paper"),
    ):
        with suppress(CrossLearningError):
            opening(place / "sent" / "run")
        assert not imported()
    assert contents(place / "sent") == before


# The signature ------------------------------------------------------------------------------


def test_the_users_own_run_asks_nothing(place):
    trained()
    assert resume("run").finished
    assert resume("run", iterations=3).learner.iteration == 3  # which writes config.toml
    forget()
    assert resume("run", iterations=4).learner.iteration == 4
    assert imported()
    RunFolder.open("run").load().learn(1, progress=False)


def test_a_run_that_was_interrupted_goes_on(place):
    trained(iterations=3)
    folder = RunFolder.open("run")
    folder.model.unlink()
    assert resume("run").finished


def moved(place):
    shutil.move(place / "run", place / "elsewhere")
    return place / "elsewhere"


def copied(place):
    shutil.copytree(place / "run", place / "elsewhere")
    return place / "elsewhere"


def edited(place):
    path = place / "run" / "config.toml"
    path.write_text(path.read_text() + 'note = "rm -rf"\n')  # the options are its last table
    return place / "run"


def with_another_source(place):
    path = place / "run" / "run.json"
    about = json.loads(path.read_text())
    about["tasks"]["given"] = "my_tasks:others"
    path.write_text(json.dumps(about))
    return place / "run"


def with_another_place_of_the_module(place):
    path = place / "run" / "signature.json"
    content = json.loads(path.read_text())
    content["modules"] = {"my_tasks": str(place / "stranger" / "my_tasks.py")}
    path.write_text(json.dumps(content))
    return place / "run"


def without_signature(place):
    (place / "run" / "signature.json").unlink()
    return place / "run"


def with_strange_signature(place):
    (place / "run" / "signature.json").write_text('{"modules": {}, "signature": "\\ud800"}')
    return place / "run"


def of_another_user(place):
    shutil.rmtree(place / "state")
    return place / "run"


@pytest.mark.parametrize(
    "change",
    [
        moved,
        copied,
        edited,
        with_another_source,
        with_another_place_of_the_module,
        without_signature,
        with_strange_signature,
        of_another_user,
    ],
)
def test_a_folder_that_is_not_as_it_was_signed_asks(place, change):
    trained()
    path = change(place)
    before = contents(path)
    learner = RunFolder.open(path).load()  # its policies can be used
    assert learner.predict([1.0, 0.0, 0.0])[0].shape == (1,)
    with pytest.raises(InputError, match=r"are not a run of yours.*--tasks"):
        learner.learn(1, progress=False)
    with pytest.raises(InputError, match=r"are not a run of yours.*--tasks"):
        resume(path, iterations=9)
    (path / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"are not a run of yours.*--tasks"):
        resume(path)
    assert not imported()
    assert contents(path) == {k: v for k, v in before.items() if k.name != "model.safetensors"}


@pytest.mark.parametrize("change", [moved, copied, of_another_user, without_signature])
def test_who_names_the_tasks_is_not_asked_again(place, change):
    trained()
    path = change(place)
    assert resume(path, tasks="my_tasks:carts").finished
    forget()
    assert resume(path, iterations=3).learner.iteration == 3


def test_code_at_another_place_is_not_run(place, monkeypatch):
    trained()
    (place / "stranger").mkdir()
    shutil.copy(place / "my_tasks.py", place / "stranger")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(place)])
    monkeypatch.chdir(place / "stranger")
    with pytest.raises(InputError, match=r"stranger/my_tasks.py, is not the one"):
        resume(place / "run", iterations=9)
    assert not imported()


def test_code_that_was_edited_is_not_run(place):
    trained()
    with (place / "my_tasks.py").open("a") as stream:
        stream.write("# edited\n")
    with pytest.raises(InputError, match="is not the one that they were trained with"):
        resume("run", iterations=9)
    assert not imported()
    assert resume("run", iterations=3, tasks="my_tasks:carts").finished


def test_a_checkpoint_cannot_name_options_for_the_users_code(place):
    trained()
    trained("other", task_options={"note": "another"})
    shutil.copy(place / "other" / "model.safetensors", place / "run" / "model.safetensors")
    learner = RunFolder.open("run").load()
    with pytest.raises(InputError, match=r"task_options {'note': 'another'}, but its run asks"):
        learner.learn(1, progress=False)
    assert not imported()


def test_a_learners_file_imports_nothing(place):
    trained()
    shutil.copy(place / "run" / "model.safetensors", place / "alone.safetensors")
    learner = CrossLearner.load("alone.safetensors")
    assert learner.predict([1.0, 0.0, 0.0])[0].shape == (1,)
    with pytest.raises(InputError, match="are not a run of yours"):
        learner.learn(1, progress=False)
    assert not imported()
    CrossLearner.load("alone.safetensors", tasks="my_tasks:carts").learn(1, progress=False)


def test_a_set_that_ships_needs_no_signature(place):
    train("run", make_config({"tasks": "linear-quadratic", "iterations": 2, **TINY}))
    assert not (place / "run" / "signature.json").exists()
    shutil.move(place / "run", place / "moved")
    assert resume("moved", iterations=3).learner.iteration == 3
    assert CrossLearner.load("moved/model.safetensors").learn(1, progress=False).iteration == 4


# The key ------------------------------------------------------------------------------------


def test_the_key_is_the_users_alone(place):
    trained()
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(key_file().parent.stat().st_mode) == 0o700
    assert [path.name for path in key_file().parent.iterdir()] == ["signing-key"]
    first = key_file().read_bytes()
    trained("second")
    assert (len(first), key_file().read_bytes()) == (32, first)


def linked(path):
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def short(path):
    path.write_bytes(b"short")


def a_pipe(path):
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (linked, "is a link"),
        (short, "does not hold 32 bytes"),
        (a_pipe, "is no plain file"),
        (lambda path: path.chmod(0o640), "can be read or written by others"),
        (lambda path: path.parent.chmod(0o777), "can be read or written by others"),
    ],
)
def test_a_key_that_others_could_have_is_refused(place, spoil, message):
    trained()
    spoil(key_file())
    with pytest.raises(StorageError, match=message):
        resume("run", iterations=9)
    with pytest.raises(StorageError, match=message):
        trained("second")
    assert not (place / "second" / "config.toml").exists()


def test_without_a_place_for_the_key_the_user_is_asked(place, monkeypatch):
    (place / "a file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "a file"))
    trained()
    assert not (place / "run" / "signature.json").exists()
    with pytest.raises(InputError, match="are not a run of yours"):
        resume("run", iterations=3)
    assert resume("run", iterations=3, tasks="my_tasks:carts").finished


# Where rollouts run -------------------------------------------------------------------------


def test_a_folder_cannot_name_a_cluster(place, listener):
    train("run", make_config({"tasks": "linear-quadratic", "iterations": 2, **TINY}))
    path = place / "run" / "config.toml"
    fields = f'on = "ray://{listener.address}"\nworkers = 7\nstep_seconds = 1.0\n'
    path.write_text(fields + path.read_text())
    config = RunFolder.open("run").config()
    assert (config.on, config.workers, config.step_seconds) == ("auto", None, None)
    assert resume("run", iterations=4).finished
    assert resume("run").finished
    adapt_run("run", "adapted", "linear-quadratic", iterations=1)
    assert not listener.connected()


def test_a_run_does_not_keep_how_rollouts_are_run(place):
    config = make_config({"tasks": "linear-quadratic", "iterations": 1, "workers": 2, **TINY})
    train("run", config)
    text = (place / "run" / "config.toml").read_text()
    assert "workers" not in text
    assert not any(line.startswith("on ") for line in text.splitlines())
