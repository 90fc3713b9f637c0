"""The examples run as a user runs them."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

#: Each with so few iterations or steps that it takes seconds, and what it must say.
SMALL = {
    "pendulums": (3000, "g=12.0: the policy g=8.0 returns"),
    "mujoco_family": (4400, "unseen: the central policy keeps the pole up for"),
    "own_environment": (3, "compiled: "),
    "choose_epsilon": (4, "How to read it."),
    "new_machine": (10, "After 1 iterations from the nearest task"),
    "around_controller": (25, "the thrust changes by up to"),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_example_runs(name, monkeypatch, capsys, tmp_path):
    length, said = SMALL[name]
    monkeypatch.chdir(tmp_path)
    if name == "mujoco_family":
        pytest.importorskip("mujoco")
    path = EXAMPLES / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(path), str(length)])
    runpy.run_path(str(path), run_name="__main__")
    assert said in capsys.readouterr().out


def test_every_example_is_listed():
    listed = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.py"):
        assert f"examples/{path.name}" in listed


def test_unrelated_task_is_found_and_drawn(tmp_path, monkeypatch, capsys):
    figures = tmp_path / "figures"
    arguments = ["--iterations", "200", "--figures", str(figures)]
    monkeypatch.setattr(sys, "argv", ["unrelated_task", *arguments])
    runpy.run_module("examples.unrelated_task", run_name="__main__")
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("reversed stands apart")
    assert (figures / "unrelated_task.png").stat().st_size > 10_000


def test_the_function_space_is_drawn(tmp_path, capsys):
    space = runpy.run_path(str(EXAMPLES / "function_space.py"))
    assert space["main"](["--out", str(tmp_path / "p"), "--formats", "png"]) == 0
    assert len(list((tmp_path / "p").glob("*.png"))) == 4
    assert "The claim was never below the truth" in " ".join(capsys.readouterr().out.split())
    (tmp_path / "file").write_text("")
    assert space["main"](["--out", str(tmp_path / "file")]) == 1
    assert "choose another folder" in capsys.readouterr().out
