"""Processes that are started do not run what lies in the working folder."""

import json

import pytest

from tests.security.examples import TINY, command, strangers_run, write_module

#: Modules that a process of Python imports when it starts, or soon.
NAMES = [
    "runpy",
    "selectors",
    "multiprocessing",
    "signal",
    "threading",
    "tempfile",
    "pickle",
    "numpy",
    "crosslearning",
    "sitecustomize",
    "encodings",
]
FLAGS = [flag for k, v in TINY.items() for flag in (f"--{k.replace('_', '-')}", str(v))]


@pytest.fixture
def place(tmp_path):
    """A working folder full of modules that leave a mark when they are run."""
    folder = tmp_path / "working"
    folder.mkdir()
    for name in NAMES:
        text = f"open({str(tmp_path / 'canary')!r}, 'a').write({name + chr(10)!r})\n"
        (folder / f"{name}.py").write_text(text)
    return folder


def test_workers_do_not_run_the_working_folder(place, tmp_path):
    path = place / "run"
    train = ["train", "--tasks", "pendulums:2", "--iterations", "2", "--out", path, *FLAGS]
    done = command(*train, "--on", "processes", "--workers", "1", folder=place, home=tmp_path)
    assert done.returncode == 0, done.stderr
    resume = ["resume", path, "--iterations", "3", "--on", "processes", "--workers", "1"]
    done = command(*resume, folder=place, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "canary").exists(), (tmp_path / "canary").read_text()


def test_a_sweep_does_not_run_the_working_folder(place, tmp_path):
    flags = ["--epsilons", "1", "--seeds", "2", "--trials", "2", "--workers", "2", *FLAGS]
    asked = ["sweep", "--tasks", "linear-quadratic", "--iterations", "2", *flags]
    done = command(*asked, "--out", place / "sweep", folder=place, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "canary").exists(), (tmp_path / "canary").read_text()


def test_tasks_of_the_working_folder_are_found_by_workers(tmp_path):
    folder = tmp_path / "working"
    folder.mkdir()
    write_module(folder)
    train = ["train", "--tasks", "my_tasks:carts", "--iterations", "2", "--out", "run", *FLAGS]
    where = {"folder": folder, "home": tmp_path, "CANARY": str(tmp_path / "imported")}
    one = ["--on", "processes", "--workers", "1"]
    done = command(*train, *one, **where)
    assert done.returncode == 0, done.stderr
    done = command("resume", "run", "--iterations", "3", *one, **where)
    assert done.returncode == 0, done.stderr
    flags = ["--epsilons", "1", "--seeds", "2", "--trials", "2", "--workers", "2", *FLAGS]
    asked = ["sweep", "--tasks", "my_tasks:carts", "--iterations", "2", "--horizon", "5", *flags]
    done = command(*asked, "--out", "sweep", **where)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("method", ["", "policy-gradient"])
@pytest.mark.parametrize("words", [["runs", "."], ["info", "run"], ["resume", "run"]])
def test_the_command_line_runs_nothing_that_a_folder_names(tmp_path, listener, method, words):
    canary = tmp_path / "canary"
    options = {"command": f"touch {canary}"}
    fields = {"method": method, "tasks": "os:system", "task_options": options}
    fields["on"] = f"ray://{listener.address}"
    strangers_run(tmp_path / "sent" / "run", **fields)
    done = command(*words, folder=tmp_path / "sent", home=tmp_path)
    assert "Traceback" not in done.stderr
    assert "a fault of crosslearning" not in done.stderr
    assert not canary.exists()
    assert not listener.connected()


@pytest.mark.parametrize("word", ["train", "sweep"])
def test_a_file_of_fields_runs_nothing_by_itself(tmp_path, listener, word):
    canary = tmp_path / "canary"
    code = {"tasks": "os:system", "task_options": {"command": f"touch {canary}"}}
    for name, fields, said in (
        ("code", code, "say so: --tasks os:system"),
        ("file", {"tasks": "tasks.toml"}, "say so: --tasks tasks.toml"),
        ("cluster", {"on": f"ray://{listener.address}"}, "on"),
    ):
        strangers_run(tmp_path / name, **fields)
        asked = [word, "--config", tmp_path / name / "config.toml", "--out", tmp_path / "new"]
        done = command(*asked, folder=tmp_path, home=tmp_path)
        assert done.returncode != 0
        assert said in " ".join(done.stderr.split()), done.stderr
        assert "Traceback" not in done.stderr
    assert not canary.exists()
    assert not listener.connected()
    assert not (tmp_path / "new").exists()


def test_a_file_of_fields_may_name_a_set_that_ships(tmp_path):
    fields = {"tasks": "linear-quadratic", "iterations": 1, "on": "threads", **TINY}
    strangers_run(tmp_path / "fields", **fields)
    asked = ["train", "--config", tmp_path / "fields" / "config.toml", "--out", "new"]
    done = command(*asked, folder=tmp_path, home=tmp_path)
    assert done.returncode == 0, done.stderr


def test_files_of_the_working_folder_do_not_configure(tmp_path):
    """Numba would unpickle compiled code from where such a file says, matplotlib run LaTeX."""
    folder = tmp_path / "working"
    folder.mkdir()
    cache = folder / "cache"
    (folder / ".numba_config.yaml").write_text(json.dumps({"cache_dir": str(cache)}))
    (folder / "matplotlibrc").write_text("text.usetex: True\nbackend: module://hostile\n")
    (folder / "hostile.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')\n")
    (folder / "bin").mkdir()
    latex = folder / "bin" / "latex"
    latex.write_text(f"#!/bin/sh\ntouch {tmp_path / 'canary'}\nexit 1\n")
    latex.chmod(0o755)
    train = ["train", "--tasks", "linear-quadratic", "--iterations", "2", "--out", "run", *FLAGS]
    assert command(*train, folder=folder, home=tmp_path).returncode == 0
    path = f"{folder / 'bin'}:/usr/bin:/bin"
    done = command("plot", "run", folder=folder, home=tmp_path, PATH=path)
    assert done.returncode == 0, done.stderr
    assert not cache.exists()
    assert not (tmp_path / "canary").exists()
