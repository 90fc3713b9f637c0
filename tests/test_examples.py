"""The examples run as a user runs them."""

import runpy
import sys


def test_unrelated_task_is_found_and_drawn(tmp_path, monkeypatch, capsys):
    figures = tmp_path / "figures"
    arguments = ["--iterations", "200", "--figures", str(figures)]
    monkeypatch.setattr(sys, "argv", ["unrelated_task", *arguments])
    runpy.run_module("examples.unrelated_task", run_name="__main__")
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("reversed stands apart")
    assert (figures / "unrelated_task.png").stat().st_size > 10_000
