"""The page on exports: its commands and its program run as they stand."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crosslearning.export.c_compiler import FLAGS, find_compiler
from crosslearning.export.c_loop import c_loop_files
from tests.export.examples import CONTROLLERS, controller_of

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "export.md"
FENCE = re.compile(r"^```(bash|c|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("cc") is None, reason="this machine has no C compiler")
def test_from_training_to_a_running_program(tmp_path):
    commands = tmp_path / "bin"
    commands.mkdir()
    command = commands / "crosslearning"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m crosslearning "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}
    said = ""
    program = PAGE.read_text(encoding="utf-8").split("## Train and export")[1].split("## ONNX")[0]
    for kind, text in FENCE.findall(program):
        if kind == "c":
            (tmp_path / "main.c").write_text(text)
        elif kind == "bash":
            result = subprocess.run(
                ["sh", "-e"],
                cwd=tmp_path,
                env=environment,
                input=text,
                text=True,
                capture_output=True,
                check=False,
            )
            assert result.returncode == 0, result.stderr
            said = result.stdout
        else:
            # Digits differ between machines; words do not.
            words = [re.sub(r"[-+\d.,e]+", "#", line) for line in text.splitlines()]
            last = said.splitlines()[-len(words) :]
            assert [re.sub(r"[-+\d.,e]+", "#", line) for line in last] == words
    upright = re.fullmatch(r"upright: (\S+), speed: (\S+)", said.strip())
    assert float(upright[1]) > 0.98
    assert abs(float(upright[2])) < 0.5


@pytest.mark.skipif(find_compiler() is None, reason="this machine has no C compiler")
def test_the_use_of_a_whole_controller_compiles(tmp_path):
    section = PAGE.read_text(encoding="utf-8").split("## The whole controller")[1]
    (use,) = (text for kind, text in FENCE.findall(section) if kind == "c")
    files = c_loop_files(controller_of(CONTROLLERS["pid"]), "balance", "double", "double")
    for name, text in {**files, "use.c": use}.items():
        (tmp_path / name).write_text(text)
    subprocess.run([find_compiler(), *FLAGS, "-c", "use.c"], cwd=tmp_path, check=True)
