"""Progress bars: seen on a terminal, and nowhere else."""

import io
import multiprocessing
import re

import pytest
from rich.console import Console

from crosslearning import CrossLearner
from crosslearning._base.progress import learning_bar, progress_bar
from crosslearning.learner.internals import worker_status
from crosslearning.tasks import task_set
from tests.contracts.test_executors import in_shards

SMALL = {"max_knots": 10, "batch_size": 2, "step_size": 0.1}


def terminal(**options):
    plain = {"force_terminal": True, "color_system": None, "width": 120}
    return Console(file=io.StringIO(), **plain, **options)


def shown(console):
    return console.file.getvalue()


def test_learning_is_seen_on_a_terminal():
    # What is imported for a first iteration is not to meet the streams that a bar takes over.
    learner, console = CrossLearner("linear-quadratic", **SMALL).learn(1), terminal()
    learner.learn(4, progress=console)
    for words in ("learning", "5/5 iterations", "100%", "10 knots"):
        assert words in shown(console)
    assert re.search(r"return -\d", shown(console))


def test_workers_that_are_alive_are_counted():
    tasks = task_set("linear-quadratic")
    learner = CrossLearner(tasks, executor=in_shards(2)(tasks), **SMALL)
    console = terminal()
    assert worker_status(learner) == ""  # nobody was started yet
    learner.learn(2, progress=console)
    assert re.search(r"knots [12] of 2 workers", shown(console))
    learner.close()


def test_steps_are_counted_from_the_beginning_and_never_beyond_the_end():
    learner = CrossLearner("linear-quadratic", **SMALL).learn(3)
    console, before = terminal(), learner.steps
    learner.learn(steps=500, progress=console)
    assert f"{learner.steps}/{before + 500} steps" in shown(console)


@pytest.mark.parametrize("progress", [True, False])
def test_what_is_piped_stays_clean(progress, capfd):
    # Neither stream of a test is a terminal.
    CrossLearner("linear-quadratic", **SMALL).learn(2, progress=progress)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


@pytest.mark.parametrize(
    "console", [None, terminal(quiet=True), Console(file=io.StringIO())], ids=str
)
def test_hidden_where_nobody_sees_it(console):
    with progress_bar(console) as progress:
        assert progress.disable


def test_workers_leave_the_bar_to_their_parent(monkeypatch):
    console = terminal()
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: object())
    with learning_bar(console, "iterations", 0, 10) as show:
        show(10, 3, -1.0)
    assert shown(console) == ""
