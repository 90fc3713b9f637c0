"""``python -m benchmarks.mutants``: whether tests notice wrong changes that are made on purpose.

The changes are listed in ``mutants.toml``. Each is made in a copy of the tree, the tests that are
named beside it are run there, and it is caught if they fail. All are first run without any change.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
_SUFFIXES = {".py", ".js"}
#: What tests need of the tree beside its plain files.
_FOLDERS = ("src", "tests", "benchmarks", "examples", "scripts", "docs")
#: What pytest returns if all passed, and if some failed.
_PASSED, _FAILED = 0, 1
_MOST_SECONDS = 900


class Mutant(NamedTuple):
    """A wrong change: ``old`` stands once in the sources, and ``new`` in its place is the fault."""

    name: str
    old: str
    new: str
    why: str
    tests: list[str]

    def place(self, sources: Path) -> Path:
        """Return the file that holds the text; raise ValueError unless it stands there once."""
        result = [
            path
            for path in sorted(sources.rglob("*"))
            if path.suffix in _SUFFIXES
            for _ in range(path.read_text(encoding="utf-8").count(self.old))
        ]
        if len(result) != 1:
            raise ValueError(f"{self.name}: {self.old!r} stands {len(result)} times in {sources}")
        return result[0]


def mutants() -> list[Mutant]:
    """Return those of the list."""
    listed = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text(encoding="utf-8"))
    return [Mutant(name, **fields) for name, fields in listed.items()]


def run_tests(root: Path, tests: list[str]) -> tuple[int, str]:
    """Run tests in a tree; return pytest's code, and the line of the first failure or the last."""
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return _FAILED, f"no end after {_MOST_SECONDS} s"
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return done.returncode, (failed or lines[-1:])[0]


def copied(to: Path) -> Path:
    """Return a copy of the tree, machine code and all, so that only what changes is compiled."""
    for folder in _FOLDERS:
        shutil.copytree(ROOT / folder, to / folder)
    for path in filter(Path.is_file, ROOT.iterdir()):
        shutil.copy2(path, to)
    return to


def tried(mutant: Mutant | None, tests: list[str]) -> tuple[int, str, float]:
    """Make a change in a copy and run tests; return what they say, and after how many seconds."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        root = copied(Path(folder) / "tree")
        if mutant is not None:
            path = mutant.place(root / "src")
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        since = time.perf_counter()
        code, line = run_tests(root, tests)
        return code, line, time.perf_counter() - since


def main() -> None:
    """Try the mutants that are asked for, and print which were caught."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="which to try (default: all)")
    parser.add_argument("--tests", nargs="+", help="other tests than those of the list")
    parser.add_argument("--trust", action="store_true", help="that tests pass without a change")
    given = parser.parse_args()
    listed = mutants()
    unknown = set(given.names) - {one.name for one in listed}
    if unknown:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    chosen = [one for one in listed if not given.names or one.name in given.names]
    try:
        for one in chosen:
            one.place(ROOT / "src")
    except ValueError as problem:
        parser.error(str(problem))
    every = sorted({test for one in chosen for test in given.tests or one.tests})
    console = Console(width=None if Console().is_terminal else 160)
    if not given.trust:
        code, line, seconds = tried(None, every)
        console.print(f"unchanged: {line} ({seconds:.0f} s)")
        if code != _PASSED:
            sys.exit("the tests fail without any change: no mutant can be judged by them")
    table = Table("mutant", "fault", "tests say", "caught")
    caught = 0
    for one in chosen:
        code, line, seconds = tried(one, given.tests or one.tests)
        verdict = {_PASSED: "[red]no", _FAILED: "[green]yes"}.get(code, "[red]tests cannot run")
        caught += code == _FAILED
        table.add_row(one.name, one.why, f"{line} ({seconds:.0f} s)", verdict)
        console.print(f"{one.name}: {verdict}[/] ({seconds:.0f} s)", style="dim")
    console.print(table)
    console.print(f"{caught} of {len(chosen)} caught")
    sys.exit(caught < len(chosen))


if __name__ == "__main__":
    main()
