"""The benchmark of faults: a tiny one, in a process of its own because it forks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="limits on file sizes need a Unix system")


def test_every_fault_is_survived_and_nothing_lost():
    command = [sys.executable, "-m", "benchmarks.faults", "--times", "1"]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    rows = [line.split()[-3:] for line in ended.stdout.splitlines()[3:]]
    assert rows == [["1", "1", "0"]] * 11
