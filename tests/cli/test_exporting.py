"""``crosslearning export``, as a user calls it."""

import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from crosslearning import Policy
from crosslearning.cli import app
from tests.export.examples import policy_of


def called(*arguments):
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def test_a_policy_file_becomes_json_with_names(tmp_path):
    file, out = tmp_path / "policy.json", tmp_path / "named.json"
    policy_of().save(file)
    names = ["--observations", "height [m], speed [m/s], charge", "--rate", 50]
    result = called(file, "--to", "json", "--out", out, *names)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "The some policy, 20 knots, double precision, as json:"
    assert lines[1:3] == [f"  {out}", f"  {out}.contract.json"]
    assert "Checked against Python: largest difference" in lines[3]
    assert len(lines) == 4
    named = Policy.load(out)
    assert named.observations.names == ("height [m]", "speed [m/s]", "charge")
    assert named.rate == 50.0


@pytest.mark.skipif(shutil.which("cc") is None, reason="this machine has no C compiler")
def test_c_tells_its_size_and_time(tmp_path):
    policy_of().save(tmp_path / "policy.json")
    arguments = ("--to", "c", "--precision", "float", "--out", tmp_path / "drive")
    result = called(tmp_path / "policy.json", *arguments)
    assert result.exit_code == 0, result.output
    assert "bytes of code and constants" in result.output
    assert "µs an action" in result.output
    assert "say it for the contract: --rate 20" in result.output
    assert "drive_act" in (tmp_path / "drive.h").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "rust", "--out", "x"], "'rust' is not one of 'onnx', 'c', 'json', 'fmu', 'st'"),
        (["--to", "c"], "Missing option '--out'"),
        (["--to", "c", "--out", "x", "--precision", "half"], "'half' is not one of"),
    ],
)
def test_wrong_arguments_are_told(arguments, message, tmp_path):
    policy_of().save(tmp_path / "policy.json")
    result = called(tmp_path / "policy.json", *arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_a_policy_file_needs_no_compiler_to_be_exported(tmp_path):
    policy_of().save(tmp_path / "policy.json")
    arguments = ["export", str(tmp_path / "policy.json"), "--to", "json", "--out"]
    code = f"""
import sys
from crosslearning.cli import app
try:
    app({[*arguments, str(tmp_path / "again")]!r})
except SystemExit as end:
    assert end.code == 0
print([name for name in ("numba", "gymnasium", "scipy", "onnx") if name in sys.modules])
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"
    again = (tmp_path / "again.json").read_bytes()
    assert again == (tmp_path / "policy.json").read_bytes()
