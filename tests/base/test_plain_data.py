"""Plain data of a folder: of a known form, from ordinary files, and shown without being obeyed."""

import json
import os
from typing import TypedDict

import pytest

from crosslearning._base.ordinary_files import read_bytes
from crosslearning._base.plain_data import decode, expecting, json_text, read_json
from crosslearning.errors import FileFormatError, StorageError, visible
from crosslearning.tasks import task_set
from crosslearning.tasks.task import MOST_TASKS, Task


class Form(TypedDict):
    version: int
    names: list[str]


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "[]", "{", '{"version": 1}', '{"version": "1", "names": []}'),
        *('{"version": 1, "names": [1]}', "[" * 100_000, '{"version": ' + "9" * 5000 + "}"),
        b'{"version": 1, "names": ["\xff"]}',
    ],
)
def test_what_is_of_another_form_is_a_sentence(text, tmp_path):
    with pytest.raises(FileFormatError, match=r"x.json is damaged, or no JSON of its kind"):
        decode(text, Form, "x.json")


def test_what_is_of_the_form_is_read(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"version": 1, "names": ["a"]}')
    assert read_json(path, Form) == {"version": 1, "names": ["a"]}
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "nothing", Form)


def test_pipes_devices_and_giants_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    with (tmp_path / "giant").open("wb") as stream:
        stream.truncate(1 << 40)
    for name, words in (("pipe", "ordinary"), ("device", "ordinary"), ("giant", "bytes")):
        with pytest.raises(StorageError, match=words):
            read_bytes(tmp_path / name)
    with pytest.raises(StorageError, match=r"Is a directory|ordinary"):
        read_bytes(tmp_path)


def test_what_does_not_fit_names_its_source():
    with (
        pytest.raises(FileFormatError, match=r"sweep.json does not hold .*KeyError: 'rows'"),
        expecting("sweep.json"),
    ):
        {}["rows"]


def test_json_has_null_for_what_is_not_finite():
    data = {"a": [float("nan"), float("inf"), 1.5], "b": "\udc80"}
    assert json.loads(json_text(data)) == {"a": [None, None, 1.5], "b": "\udc80"}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("r=0.5 ε é 漢 👩‍🚀", "r=0.5 ε é 漢 👩‍🚀"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("a\nb\r", "a\\nb\\r"),
        ("\x9b2J", "\\x9b2J"),
        ("\udcff", "\\udcff"),
        ("\u202egnp", "\\u202egnp"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(given, shown):
    assert visible(given) == shown


def test_names_of_tasks_are_visible():
    (task,) = task_set("paper:r=1")
    for name in ("", "a\nb", "\x1b[2J", "n" * 501, "\ud800"):
        with pytest.raises(ValueError, match="a task is called"):
            Task(name, task.make)


def test_there_is_a_most_of_tasks():
    for name in (f"random:{10 * MOST_TASKS}", "pendulums:" + "9" * 5000):
        with pytest.raises(ValueError, match=f"give at most {MOST_TASKS}"):
            task_set(name)
    for options in ({"count": "x"}, {"seed": []}, {"spread": "wide"}):
        with pytest.raises(ValueError, match="pendulums"):
            task_set("pendulums", **options)
