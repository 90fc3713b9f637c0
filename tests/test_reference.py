"""The reference has an entry for every public name, and every entry an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

from crosslearning import errors

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
ENTRY = re.compile(r"^::: (crosslearning[\w.]*)$", re.MULTILINE)
PUBLIC = [
    (module, name)
    for module in ("crosslearning", "crosslearning.rkhs", "crosslearning.tasks")
    for name in importlib.import_module(module).__all__
] + [
    ("crosslearning.errors", name)
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.CrossLearningError)
]


def value_of(module, name):
    return getattr(importlib.import_module(module), name)


#: Two modules may export one object: an entry for either is enough.
OBJECTS = {id(value_of(*public)): public for public in reversed(PUBLIC)}
#: Constants have no docstring; their entries stand beside a block that the page's test runs. So do
#: those of the errors, which have one example at their base class.
DOCUMENTED = [
    public
    for public in OBJECTS.values()
    if callable(value_of(*public))
    and public[1] != "Obstacle"
    and (public[0] != "crosslearning.errors" or public[1] == "CrossLearningError")
]


def entries():
    return [entry for page in PAGES for entry in ENTRY.findall(page.read_text(encoding="utf-8"))]


def test_every_public_name_has_one_entry():
    listed = entries()
    assert len(listed) == len(set(listed))
    shown = {id(value_of(*entry.rsplit(".", 1))) for entry in listed}
    missing = [".".join(public) for key, public in OBJECTS.items() if key not in shown]
    assert missing == [], "add them to a page of docs/reference/"


@pytest.mark.parametrize("public", DOCUMENTED, ids=".".join)
def test_its_example_runs(public, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    value = value_of(*public)
    text = inspect.getdoc(value)
    assert ">>>" in text, "its docstring needs an Examples section"
    test = doctest.DocTestParser().get_doctest(text, {}, public[1], None, None)
    report = []
    doctest.DocTestRunner().run(test, out=report.append)
    assert not report, "".join(report)


def test_a_constant_is_shown_in_a_block():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", pages, re.MULTILINE | re.DOTALL))
    constants = [name for key, (_, name) in OBJECTS.items() if (_, name) not in DOCUMENTED]
    assert [name for name in constants if not re.search(rf"\b{name}\b", code)] == []
