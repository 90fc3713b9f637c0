"""The page of options says what the configuration says."""

import importlib.util
from pathlib import Path

import pytest

from crosslearning.runs import describe_fields

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "write_options.py"


@pytest.fixture(scope="module")
def writer():
    specification = importlib.util.spec_from_file_location("write_options", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(writer):
    text = writer.PAGE.read_text(encoding="utf-8")
    assert writer.page_with_tables(text) == text, (
        "docs/reference/options.md is out of date; run: python scripts/write_options.py"
    )


def test_every_field_is_in_the_table_of_its_group_once(writer):
    for field in describe_fields():
        assert field.description, f"the field {field.name} has no description"
        rows = writer.table_of(field.group).splitlines()
        assert sum(line.startswith(f"| `{field.name}` |") for line in rows) == 1


def test_no_cell_breaks_its_table(writer):
    for name in writer.TABLES:
        for line in writer.table_of(name).splitlines():
            assert line.replace("\\|", "").count("|") == 5


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1}, "whole number, at least 1"),
        (
            {"type": "number", "exclusiveMinimum": 0.0, "exclusiveMaximum": 1.0},
            "number, above 0, below 1",
        ),
        ({"enum": ["one", "two"]}, "`one`, `two`"),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, "table"),
        ({"type": "array", "items": {"type": "number"}}, "list of numbers"),
    ],
)
def test_values_in_words(writer, schema, words):
    assert writer.value_of(schema) == words


def test_a_page_without_its_markers_is_refused(writer):
    with pytest.raises(SystemExit, match="each once"):
        writer.page_with_tables("no markers here")
