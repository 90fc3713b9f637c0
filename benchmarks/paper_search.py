"""The measurements of the search over readings, kept with the code so that it need not begin anew.

``python -m benchmarks.paper_search unfold`` writes what was measured into the folder of
``crosslearning reproduce --search``, which then trains only what is missing;
``python -m benchmarks.paper_search fold`` puts what that has measured into the table. ``--folder``
names another folder.

A line of the table, ``paper_search.jsonl.gz``, is a measurement: its ``place`` in that folder, what
was ``asked`` and the answer, without the course of training.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

from crosslearning._base.files import write_atomically

FOLDER = Path("runs/reproduce/search/full")
TABLE = Path(__file__).with_suffix(".jsonl.gz")
#: What no verdict needs.
_LEFT_OUT = ("training",)


def read(table: Path = TABLE) -> dict[str, str]:
    """Return the measurements of a table by their place; none if it is not there."""
    if not table.exists():
        return {}
    lines = [json.loads(line) for line in gzip.decompress(table.read_bytes()).splitlines()]
    return {line.pop("place"): json.dumps(line) for line in lines}


def fold(folder: Path = FOLDER, table: Path = TABLE) -> int:
    """Put a search's measurements into the table; return how many the table has."""
    found = read(table)
    for path in folder.glob("*/*/seed-*/*/measurements*.json"):
        answer = json.loads(path.read_text())
        kept = {name: value for name, value in answer.items() if name not in _LEFT_OUT}
        found[path.relative_to(folder).as_posix()] = json.dumps(kept)
    lines = [json.dumps({"place": place, **json.loads(found[place])}) for place in sorted(found)]
    write_atomically(table, gzip.compress("".join(f"{x}\n" for x in lines).encode(), mtime=0))
    return len(lines)


def unfold(folder: Path = FOLDER, table: Path = TABLE) -> int:
    """Write the table's measurements into a search's folder, where it has none; return how many."""
    found = read(table)
    for place, text in found.items():
        if not (path := folder / place).exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text.encode())
    return len(found)


def main() -> None:
    """Fold or unfold, and say how much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("fold", "unfold"))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    count = (fold if given.what == "fold" else unfold)(given.folder)
    print(f"{count} measurements: {given.folder if given.what == 'unfold' else TABLE}")


if __name__ == "__main__":
    main()
