"""What is imported when: help and completion wait for no compiler."""

import json
import subprocess
import sys

import pytest

HEAVY = ("numba", "scipy", "matplotlib")


def loaded(code, *names):
    """Return which of some modules a fresh interpreter has loaded after running code."""
    ask = f"import json, sys\n{code}\nprint(json.dumps([n for n in {names!r} if n in sys.modules]))"
    result = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["train", "--help"], ["export", "--help"], ["--version"], ["runs", "."]],
)
def test_help_imports_nothing_heavy(arguments):
    code = f"""
from crosslearning.cli import app
try:
    app({arguments!r})
except SystemExit as end:
    assert end.code == 0
"""
    assert loaded(code, *HEAVY) == []


def test_completion_imports_nothing_heavy():
    code = """
import os
os.environ.update({"_CROSSLEARNING_COMPLETE": "complete_bash", "COMP_WORDS": "crosslearning tr",
                   "COMP_CWORD": "1"})
from crosslearning.cli import app
try:
    app(prog_name="crosslearning")
except SystemExit:
    pass
"""
    assert loaded(code, *HEAVY) == []


def test_the_package_itself_is_light():
    assert loaded("import crosslearning", *HEAVY) == []


def test_learning_needs_neither_statistics_of_scipy_nor_pictures():
    code = "from crosslearning import CrossLearner, task_set"
    assert loaded(code, "scipy.stats", "matplotlib", "numba") == ["numba"]


@pytest.mark.parametrize(
    "name", ["CrossLearner", "EvaluationCallback", "Policy", "Task", "task_set"]
)
def test_names_are_there_when_asked_for(name):
    import crosslearning

    assert name in crosslearning.__all__
    assert getattr(crosslearning, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'CrossLearned'"):
        _ = crosslearning.CrossLearned
