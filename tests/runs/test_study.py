"""The study engine: what is done when a study is started, stopped and started again."""

import io
import json
import os
import signal
import threading

import numpy as np
import pytest
from rich.console import Console

from crosslearning._base.progress import progress_bar
from crosslearning.errors import FileFormatError, InputError
from crosslearning.runs import RunFolder, make_config, study, train
from crosslearning.runs import driver as runs_driver
from crosslearning.runs.study import (
    Measurement,
    Run,
    claim,
    go_through,
    in_processes,
    markdown,
    run_study,
)
from tests.runs.examples import one_after_another

SMALL = {"tasks": "linear-quadratic", "max_knots": 10, "batch_size": 2, "step_size": 0.1}


def config(**changes):
    return make_config({**SMALL, "iterations": 6, "log_every": 1, **changes})


def quiet():
    return Console(file=io.StringIO(), force_terminal=False)


calls = []


def count_knots(path):
    """Measure a run, and remember that it was done."""
    calls.append(path)
    return {"knots": len(RunFolder(path).load().family.knots)}


def chain(folder, version=1):
    first, second = folder / "first", folder / "second"
    return [
        Run(first, config(epsilon=0.1)),
        Measurement(first / "m.json", {"version": version}, count_knots, (first,)),
        Run(second, config(epsilon=0.3, seed=4), start=first),
        Measurement(second / "m.json", {"version": version}, count_knots, (second,)),
    ]


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    calls.clear()
    monkeypatch.setattr(study, "in_processes", one_after_another)


def test_a_chain_learns_and_measures_in_order(tmp_path):
    assert run_study([[chain(tmp_path)]], 1, quiet())
    assert calls == [tmp_path / "first", tmp_path / "second"]
    start = RunFolder(tmp_path / "first").load().family
    asked = config(epsilon=0.3, seed=4)
    expected = train(tmp_path / "by-hand", asked, start=start).learner.family
    result = RunFolder(tmp_path / "second").load().family
    np.testing.assert_array_equal(result.weights, expected.weights)


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    go_through(chain(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    monkeypatch.setattr(study, "train", None)
    monkeypatch.setattr(study, "resume", None)
    assert go_through(chain(tmp_path))
    assert len(calls) == 2
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_another_version_is_measured_anew_and_trained_no_more(tmp_path, monkeypatch):
    go_through(chain(tmp_path))
    monkeypatch.setattr(study, "train", None)
    assert go_through(chain(tmp_path, version=2))
    assert len(calls) == 4
    stored = json.loads((tmp_path / "first" / "m.json").read_text())
    assert stored["asked"] == {"version": 2}
    (tmp_path / "first" / "m.json").write_text("{half")
    assert chain(tmp_path, version=2)[1].answer() == stored


def test_an_interrupted_run_ends_its_chain_and_is_resumed(tmp_path, monkeypatch):
    from contextlib import contextmanager

    @contextmanager
    def at_once(signals, notice):
        pressed = threading.Event()
        pressed.set()
        yield pressed

    with monkeypatch.context() as patch:
        patch.setattr(runs_driver, "deferred", at_once)
        assert not go_through(chain(tmp_path))
    assert calls == []
    steps = chain(tmp_path)
    assert 0 < steps[0].done() < 6
    assert not RunFolder(tmp_path / "second").exists()
    assert go_through(steps)
    assert steps[0].done() == 6
    whole = train(tmp_path / "whole", config(epsilon=0.1)).learner.family
    np.testing.assert_array_equal(
        RunFolder(tmp_path / "first").load().family.weights, whole.weights
    )


def test_a_folder_with_another_run_is_refused(tmp_path):
    train(tmp_path / "r", config())
    with pytest.raises(InputError, match="another choice of epsilon, max_knots; choose another"):
        Run(tmp_path / "r", config(epsilon=0.5, max_knots=12)).go()
    # How many threads a run had does not matter.
    assert Run(tmp_path / "r", config(workers=2)).go()


def test_rounds_follow_one_another_and_the_bar_counts_all_of_it(tmp_path, monkeypatch):
    seen = []

    def bar(*columns, **options):
        seen.append(progress_bar(*columns, **options))
        return seen[0]

    def watching(function, rounds, workers, look):
        (task,) = seen[0].tasks
        look()
        assert task.completed == 0.0
        finished = one_after_another(function, rounds, workers, look)
        look()
        # Twice six iterations, and two measurements of a tenth of a run.
        assert task.completed == task.total == pytest.approx(13.2)
        return finished

    monkeypatch.setattr(study, "progress_bar", bar)
    monkeypatch.setattr(study, "in_processes", watching)
    steps = chain(tmp_path)
    assert run_study([[steps[:1], steps[1:2]], [steps[2:]]], 1, quiet())
    assert len(seen) == 1


def test_a_folder_is_claimed_for_one_thing(tmp_path):
    asked = {"epsilons": [0.0, 1.0], "config": {"tasks": "paper", "seed": 0}}
    claim(tmp_path / "s", asked, "a sweep")
    claim(tmp_path / "s", asked, "a sweep")
    other = {"epsilons": [0.0], "config": {"tasks": "paper", "seed": 1}}
    with pytest.raises(InputError, match="holds a sweep with another choice of epsilons, seed"):
        claim(tmp_path / "s", other, "a sweep")
    (tmp_path / "s" / "request.json").write_text("[1]")
    with pytest.raises(FileFormatError, match="damaged"):
        claim(tmp_path / "s", asked, "a sweep")
    train(tmp_path / "r", config(iterations=1))
    with pytest.raises(InputError, match="holds a run"):
        claim(tmp_path / "r", asked, "a sweep")


def test_what_a_measurement_stored_is_read_and_nothing_is_made(tmp_path):
    one = Measurement(tmp_path / "m.json", {"version": 1}, dict, ({"found": 3},))
    assert one.stored() is None
    assert one.answer() == one.stored() == {"asked": {"version": 1}, "found": 3}
    assert Measurement(one.path, {"version": 2}, dict, ()).stored() is None
    one.path.write_text("{")
    assert one.stored() is None


def test_tables_are_markdown():
    assert markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |\n"


# In processes ---------------------------------------------------------------------------------


def write(path, after):
    """Write a file, once another one is there."""
    if after is not None and not after.exists():
        return False
    path.write_text(str(os.getpid()))
    return True


def press_and_ask(path):
    """Press Ctrl-C in this worker, as a terminal does in all processes at once."""
    os.kill(os.getpid(), signal.SIGINT)
    path.write_text(str(go_through([Measurement(path.with_suffix(".json"), {}, dict, ())])))


def look():
    """See nothing."""


def test_a_round_begins_when_the_one_before_has_ended(tmp_path):
    a, b, c = (tmp_path / name for name in "abc")
    assert in_processes(write, [[(a, None), (b, None)], [(c, b)]], 2, look)
    assert str(os.getpid()) not in {a.read_text(), b.read_text(), c.read_text()}
    assert not in_processes(write, [[(a, tmp_path / "missing")], [(tmp_path / "d", None)]], 1, look)
    assert not (tmp_path / "d").exists()


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows")
def test_after_ctrl_c_a_worker_begins_nothing_new(tmp_path):
    in_processes(press_and_ask, [[(tmp_path / "said",)]], 1, look)
    assert (tmp_path / "said").read_text() == "False"
    assert not (tmp_path / "said.json").exists()
