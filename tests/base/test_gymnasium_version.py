"""An old Gymnasium is refused by a sentence, also on the command line."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from crosslearning._base.gymnasium_version import LEAST, check_version
from crosslearning.errors import MissingExtraError


def test_the_oldest_version_is_that_of_the_package():
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    assert f"gymnasium>={LEAST}" in project["dependencies"]


@pytest.mark.parametrize("version", ["0.28.1", "0.29.1", "1.0.0", "1.0.0a2"])
def test_old_versions_are_refused(version):
    message = rf"Gymnasium {version} is installed, .*needs {LEAST} or later: pip install"
    with pytest.raises(MissingExtraError, match=message):
        check_version(version)


@pytest.mark.parametrize("version", ["1.1", "1.1.0", "1.2.3rc1", "2.0"])
def test_new_versions_pass(version):
    check_version(version)


def test_the_command_line_tells_the_versions(tmp_path):
    package = tmp_path / "gymnasium"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '0.29.1'\nclass Env: ...\n")
    variables = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "crosslearning", "train", "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [*command, "--tasks", "paper"], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Gymnasium 0.29.1 is installed" in done.stderr
    assert "Traceback" not in done.stderr
    assert "fault of crosslearning" not in done.stderr
