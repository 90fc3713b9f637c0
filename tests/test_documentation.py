"""Every page of the documentation runs as it reads, and prints what it shows.

The Python blocks of a page run one after the other in one namespace, in an empty folder. A text
block right after one is its output; without one it must print nothing. A block that takes long
is left out by a comment in the page, on the line before its fence: ``<!-- not run: reason -->``.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")])
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

BLOCK = re.compile(
    r"^(?P<skip><!-- not run: [^\n]*\S[^\n]* -->\n)?"
    r"```python[^\n]*\n(?P<code>.*?)^```\n"
    r"(?:\n*```text\n(?P<output>.*?)^```\n?)?",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?(?!\w)")


class Block(NamedTuple):
    """A Python block: its line in the page, its code, and what the page says it prints."""

    line: int
    code: str
    output: str


def blocks(page: str) -> list[Block]:
    """Return the Python blocks of a page that are to be run."""
    return [
        Block(page.count("\n", 0, result.start("code")) + 1, result["code"], result["output"] or "")
        for result in BLOCK.finditer(page)
        if not result["skip"]
    ]


def same(printed: str, shown: str) -> bool:
    """Tell whether two texts are the same, up to one unit in the last digit of a number.

    Other processors round otherwise, and spaces follow the width of the numbers.
    """
    words = [NUMBER.sub("#", text).split() for text in (printed, shown)]
    if words[0] != words[1]:
        return False
    numbers = [[Decimal(number) for number in NUMBER.findall(text)] for text in (printed, shown)]
    for one, other in zip(*numbers, strict=True):
        exponent = int(other.as_tuple().exponent)
        unit = Decimal(10) ** exponent if exponent < 0 else 0
        if abs(one - other) > unit:
            return False
    return True


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_page_runs_and_prints_what_it_shows(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace = {"__name__": "__main__"}
    for block in blocks(path.read_text(encoding="utf-8")):
        # A file, because compiled formulas are kept beside the one that they come from.
        script = tmp_path / f"{path.stem}_{block.line}.py"
        script.write_text(block.code, encoding="utf-8")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.code, str(script), "exec"), namespace)
        assert same(printed.getvalue(), block.output), (
            f"{path.name}, the block at line {block.line} printed\n{printed.getvalue()}\n"
            f"but the page shows\n{block.output}"
        )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_runs_and_prints_where_it_shows_output(path, tmp_path, monkeypatch):
    # Its numbers are those of one processor: only whether a cell prints is compared.
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 3
    for cell in code:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), path.name, "exec"), namespace)
        lines = [line for output in cell["outputs"] for line in output["text"]]
        assert printed.getvalue().count("\n") == len(lines), "run scripts/run_notebooks.py"


def test_every_fence_is_found():
    # A fence that the pattern misses would never be run.
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        assert len(re.findall(r"^\s*```\s*python", page, re.MULTILINE)) == len(
            list(BLOCK.finditer(page))
        ), f"{path.name} has an indented or unclosed Python block"


def test_this_runner_notices_what_is_wrong():
    shown = "text\n```python\nprint(1)\n```\n\n```text\n1\n```\n"
    slow = "\n<!-- not run: it is slow -->\n```python\nslow()\n```\n"
    assert blocks(shown + slow) == [Block(3, "print(1)\n", "1\n")]
    assert blocks("```python\nprint(1)\n```\nwords\n```text\n1\n```\n")[0].output == ""
    assert same("a 1.2346 [2  3]\n", "a 1.2345 [2 3]\n")
    assert same("1.3e-05", "1.2e-05")
    assert not same("a 1.2348\n", "a 1.2345\n")
    assert not same("1.4e-05", "1.2e-05")
    assert not same("3 knots", "4 knots")
    assert not same("-0.5", "0.5")
    assert not same("a 1.5\n", "b 1.5\n")
    assert not same("1 2", "1 2 3")
    assert not same("", "1")


def test_the_files_that_contributors_are_sent_to_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "crosslearning"
    named = re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|toml|sh|yml))`", text)
    assert len(named) > 10
    places = (ROOT, package, package / "playground", ROOT / ".github" / "workflows")
    for name in named:
        assert any((place / name).exists() for place in places), name


def exists(name: str) -> bool:
    """Tell whether a dotted name below the package is a module or something in one."""
    module, *rest = name.split(".")
    place = importlib.import_module(f"crosslearning.{module}")
    for part in rest:
        if hasattr(place, part):
            place = getattr(place, part)
            continue
        try:
            place = importlib.import_module(f"{place.__name__}.{part}")
        except (AttributeError, ImportError):
            return part in getattr(place, "__annotations__", ())
    return True


def test_names_in_the_package_exist():
    package = ROOT / "src" / "crosslearning"
    inside = "|".join(path.stem for path in package.iterdir() if path.stem[0] not in "._")
    pattern = re.compile(rf"`(?:crosslearning\.)?((?:{inside})(?:\.\w+){{2,}})(?:\([^`]*\))?`")
    names = {name for page in PAGES for name in pattern.findall(page.read_text(encoding="utf-8"))}
    assert len(names) > 10
    assert not exists("learner.core.Nothing")
    assert [name for name in sorted(names) if not exists(name)] == []
