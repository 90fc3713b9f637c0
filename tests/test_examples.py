"""The examples run as a user runs them."""

import runpy
import sys
from pathlib import Path


def test_unrelated_task_is_found_and_drawn(tmp_path, monkeypatch, capsys):
    figures = tmp_path / "figures"
    arguments = ["--iterations", "200", "--figures", str(figures)]
    monkeypatch.setattr(sys, "argv", ["unrelated_task", *arguments])
    runpy.run_module("examples.unrelated_task", run_name="__main__")
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("reversed stands apart")
    assert (figures / "unrelated_task.png").stat().st_size > 10_000


def test_the_function_space_is_drawn(tmp_path, capsys):
    space = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "function_space.py"))
    assert space["main"](["--out", str(tmp_path / "p"), "--formats", "png"]) == 0
    assert len(list((tmp_path / "p").glob("*.png"))) == 4
    assert "The claim was never below the truth" in " ".join(capsys.readouterr().out.split())
    (tmp_path / "file").write_text("")
    assert space["main"](["--out", str(tmp_path / "file")]) == 1
    assert "choose another folder" in capsys.readouterr().out
