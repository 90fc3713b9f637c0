"""Write the tables of docs/reference/options.md from the fields of a run's configuration.

Run it from the root of the repository after a field was added or its description changed::

    python scripts/write_options.py            # writes the page
    python scripts/write_options.py --check    # exit code 1 if the page is out of date

What stands between the two markers of a table is replaced; the rest of the page is prose.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from crosslearning.learner.settings import METHODS
from crosslearning.runs import describe_fields

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "options.md"
#: What all methods share, what each has of its own, and what a run adds.
TABLES = ("learner", *METHODS, "run")
_WORDS = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "`true` or `false`",
    "object": "table",
    "array": "list of numbers",
}
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}


def value_of(schema: dict[str, Any]) -> str:
    """Return in words which values a field takes, from its JSON schema."""
    if "anyOf" in schema:
        (schema,) = (part for part in schema["anyOf"] if part.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"] if word is not None)
    bounds = [f"{word} {schema[key]:g}" for key, word in _BOUNDS.items() if key in schema]
    return ", ".join([_WORDS[schema["type"]], *bounds])


def table_of(name: str) -> str:
    """Return a table in Markdown: the fields of one group."""
    lines = ["| field | value | default | meaning |", "|---|---|---|---|"]
    for field in describe_fields():
        if field.group != name:
            continue
        value = value_of(msgspec.json.schema(field.annotation))
        shown = "none" if field.default == "none" else f"`{_toml(field.default)}`"
        lines.append(f"| `{field.name}` | {value} | {shown} | {_escaped(field.description)} |")
    return "\n".join(lines)


def _toml(default: str) -> str:
    return {"True": "true", "False": "false", "NODEFAULT": "{}"}.get(default, default)


def _escaped(text: str) -> str:
    """Return text whose braces, bars and names of fields read well inside a table."""
    text = re.sub(r"\{[^}]*\}", lambda found: f"`{found[0]}`", text.replace("|", "\\|"))
    return re.sub(r"(?<![`\w])[a-z]+_[a-z_]+(?![`\w])", lambda found: f"`{found[0]}`", text)


def page_with_tables(text: str) -> str:
    """Return the page with what stands between its markers written afresh."""
    for name in TABLES:
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"{PAGE} must hold {begin!r} and {end!r}, each once")
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}\n\n{table_of(name)}\n\n{end}{after}"
    return text


def main() -> None:
    """Write the page, or only check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    check = parser.parse_args().check
    old = PAGE.read_text(encoding="utf-8")
    new = page_with_tables(old)
    if new == old:
        print(f"{PAGE} is up to date")
    elif check:
        sys.exit(f"{PAGE} is out of date; run: python scripts/write_options.py")
    else:
        PAGE.write_text(new, encoding="utf-8")
        print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
